"""The estimate behind defaults of warp groups, beside times of random schedules that were measured on an H200."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Schedule
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_wgmma.default import seconds
from tilewright.kernels.templates.cuda_wgmma.match import views
from tilewright.kernels.templates.cuda_wgmma.template import CUDA_WGMMA

TARGET = cuda_target("sm_90a")
MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu_h200" / "first-light.jsonl"


def _product(op: str, **params: object) -> Product:
    found = CUDA_WGMMA.found(Program.loads(get_operator(op).workload(**params).program))
    assert isinstance(found, Product)
    return found


def _times() -> dict[str, list[tuple[float, float]]]:
    """By shape, measured times of schedules and their estimates, in microseconds."""
    found = defaultdict(list)
    for row in map(json.loads, MEASURED.read_text(encoding="utf-8").splitlines()):
        if row["state"] == "measured" and row.get("template") == "cuda_wgmma" and "us" in row:
            shape = row["id"].split("/")[1]
            op, *pairs = shape.split()
            params = {
                k: json.loads(v.lower()) if v[0] in "TF0123456789" else v for k, v in (p.split("=") for p in pairs)
            }
            values = Schedule.from_json(row["schedule"]).values
            product = views(_product(op, **params))[bool(values["SWAP"])]
            found[shape].append((float(row["us"]), 1e6 * seconds(product, TARGET, values)))
    return found


def _ranks(values: np.ndarray) -> np.ndarray:
    return values.argsort().argsort()


def test_the_estimate_orders_schedules_as_measured_times_do() -> None:
    alike = []
    for shape, times in _times().items():
        measured, estimated = np.array(times).T
        assert len(times) >= 7, shape
        assert measured[estimated.argmin()] <= 1.02 * measured.min(), shape
        alike.append(np.corrcoef(_ranks(measured), _ranks(estimated))[0, 1])
    assert len(alike) == 7
    assert np.mean(alike) > 0.8


def _seconds(product: Product, ragged: bool = False, **change: object) -> float:
    values = dict.fromkeys(("SWAP", "ping_pong", "split_k", "tail", "store_boxes"), False) | {
        "BM": 128, "GROUPS": 2, "BN": 128, "BK": 64, "STAGES": 4, "CLUSTER": "1x1", "persistent": True, "SPLIT": 1,
        "GROUP": 4,
    }  # fmt: skip
    return seconds(product, TARGET, {**values, **change}, ragged)


def test_each_slot_more_of_the_ring_hides_more_of_the_latency() -> None:
    p = views(_product("matmul", m=16, n=4096, k=16384, dtype="bfloat16", trans_b=True))[True]
    times = [_seconds(p, SWAP=True, BM=64, BN=16, GROUPS=1, STAGES=n) for n in (2, 3, 4, 6)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.5 * times[1]


@pytest.mark.parametrize(("bm", "more"), [(256, 1.5), (128, 1.25)])
def test_rows_of_a_group_end_within_a_tile(bm: int, more: float) -> None:
    """256 rows a group on average: one tile of 256 for half of the groups, and two for the others."""
    p = _product("batch_matmul", b=128, m=256, n=1536, k=2048, dtype="bfloat16")
    assert _seconds(p, ragged=True, BM=bm) / _seconds(p, BM=bm) == pytest.approx(more, rel=0.1)
