"""First-light with PyTorch, on the emulator's driver: PyTorch computes on the processor what it would on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.caches import with_runtime
from spoilt_kernels import spoil
from tilewright.building.prepared import CACHE
from tilewright.cli.app import run as tilewright

pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from acceptance.first_light import slug  # noqa: E402
from acceptance.rows import read  # noqa: E402

SHAPES = {
    "matmul m=64 n=48 k=40 dtype=bfloat16": {"cublas", "cublaslt"},
    "conv2d n=1 ci=16 h=8 w=8 co=16 kh=3 kw=3 padding=1 layout=NHWC dtype=bfloat16": {
        "cudnn contiguous", "cudnn channels last"
    },
    "attention b=1 h=2 lq=48 lk=48 d=32 is_causal=True dtype=bfloat16": {
        "sdpa flash", "sdpa cudnn", "sdpa efficient", "sdpa math"
    },
    "softmax shape=12,40": {"torch eager"},
    "scaled_mm m=24 n=256 k=256 trans_b=True": {"cublaslt"},
}  # fmt: skip
RANKED_FIRST = "scaled_mm m=24 n=256 k=256 trans_b=True"
"""Whose default is also the best ranked schedule, the only one that was asked for."""


def first_light(folder: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, str(BENCHMARKS / "gpu_acceptance.py"), "first-light", "--out", str(folder)]
    done = subprocess.run(
        [*command, "--driver", "emulator", *words], capture_output=True, text=True, check=False, timeout=300
    )
    print(done.stdout, done.stderr)
    return done.returncode, read(folder / "first-light.jsonl")


def test_every_kind_of_shape_is_checked_and_compared(tmp_path: Path) -> None:
    for label in SHAPES:
        with_runtime(tmp_path / "prepared" / slug(label) / CACHE, shared_library=True)
    code, rows = first_light(tmp_path, "--schedules", "1", "--only", "light/")
    assert code == 0
    for label, rivals in SHAPES.items():
        mine = [r for r in rows if r["id"].startswith(f"light/{label}/")]
        kernels = [r for r in mine if "us" in r]
        assert len(kernels) == (1 if label == RANKED_FIRST else 2), label
        assert all(r["checked"] == "PyTorch" and r["error"] < 0.01 for r in kernels)
        beside = [r for r in mine if "rival" in r]
        assert {r["rival"] for r in beside} == rivals
        # The default's ratios come before the other kernels.
        assert [*(k for k, r in enumerate(mine) if "us" in r), len(mine)][1] > mine.index(beside[0])
        assert {r["choice"] for r in beside} <= {"default", "best"}
        assert all(0 < r["low"] <= r["ratio"] <= r["high"] for r in beside if r["state"] == "measured")
    # What a library does not compute on this device is no failure.
    refused = {r["rival"] for r in rows if r["state"] == "refused" and r["op"] != "scaled_mm"}
    assert refused <= {"sdpa cudnn", "sdpa efficient"}


def test_a_kernel_that_ends_the_process_costs_its_own_row(tmp_path: Path) -> None:
    with_runtime(tmp_path / "right" / "m" / CACHE, shared_library=True)
    words = ["prepare", "matmul", "m=64", "n=48", "k=40", "--dtype", "bfloat16", "--device", "emulator", "--keep", "3"]
    assert tilewright([*words, "--pool", "6", "--verify", "0", "--out", str(tmp_path / "right" / "m")]) == 0
    spoilt = spoil(tmp_path / "right", tmp_path / "spoilt")
    code, rows = first_light(tmp_path / "out", "--prepared", str(spoilt), "--only", "light/matmul")
    assert code == 1
    kernels = {r["state"]: r for r in rows if "schedule" in r and "rival" not in r}
    assert set(kernels) == {"crash", "wrong_result", "measured"}
    assert "PyTorch's" in kernels["wrong_result"]["message"]
    assert {r["choice"] for r in rows if "rival" in r} == {"best"}
