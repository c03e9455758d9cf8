"""The acceptance's timed part with PyTorch, on the emulator's driver: PyTorch computes on the processor what it would on
a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.caches import with_runtime
from spoilt_kernels import spoil
from tilewright.building.prepared import CACHE
from tilewright.cli.app import run as tilewright
from tilewright.kernels.operators import get_operator

pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from acceptance import reference  # noqa: E402
from acceptance.light import slug  # noqa: E402
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
    "dequant_matmul m=8 n=24 k=32 group_size=16 trans_b=True dtype=bfloat16": set(),
}  # fmt: skip
TOO_LARGE = "light/grouped_matmul m=8192 n=2048 k=7168 groups=256 dtype=bfloat16"


def rent(folder: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, str(BENCHMARKS / "gpu_acceptance.py"), "rent", "--out", str(folder)]
    done = subprocess.run(
        [*command, "--driver", "emulator", *words], capture_output=True, text=True, check=False, timeout=300
    )
    print(done.stdout, done.stderr)
    return done.returncode, read(folder / "rent.jsonl")


def test_every_kind_of_shape_is_checked_and_compared(tmp_path: Path) -> None:
    for label in SHAPES:
        with_runtime(tmp_path / "scratch" / "prepared" / slug(label) / CACHE, shared_library=True)
    code, rows = rent(tmp_path, "--schedules", "1", "--only", "light/")
    assert code == 0
    for label, rivals in SHAPES.items():
        mine = [r for r in rows if r["id"].startswith(f"light/{label}/")]
        kernels = [r for r in mine if "us" in r]
        assert len(kernels) == 2, label
        assert all(r["checked"] == "PyTorch" and r["error"] < 0.01 for r in kernels)
        assert {r["rival"] for r in mine if "/rival/" in r["id"]} == rivals
        # All libraries are tried, and the fastest runs in turns with the default, and with the neighbour if it is faster.
        tried = {r["rival"]: r["their_us"] for r in mine if "their_us" in r and "ratio" not in r}
        beside = [r for r in mine if "ratio" in r]
        assert {r["rival"] for r in beside} == ({min(tried, key=tried.__getitem__)} if tried else set())
        assert [r["choice"] for r in beside] == ["default", "best"][: len(beside)]
        assert all(0 < r["low"] <= r["ratio"] <= r["high"] for r in beside)
    # What a library does not compute on this device is no failure, nor what the language does not take.
    refused = {r.get("rival", r["id"]) for r in rows if r["state"] == "refused" and r.get("op") != "scaled_mm"}
    assert TOO_LARGE in refused
    assert refused - {TOO_LARGE} <= {"sdpa cudnn", "sdpa efficient"}


def test_a_kernel_that_ends_the_process_costs_its_own_row(tmp_path: Path) -> None:
    folder = slug(next(iter(SHAPES)))
    with_runtime(tmp_path / "right" / folder / CACHE, shared_library=True)
    words = ["prepare", "matmul", "m=64", "n=48", "k=40", "--dtype", "bfloat16", "--device", "emulator", "--keep", "3"]
    assert tilewright([*words, "--pool", "6", "--verify", "0", "--out", str(tmp_path / "right" / folder)]) == 0
    spoilt = spoil(tmp_path / "right", tmp_path / "spoilt")
    code, rows = rent(tmp_path / "out", "--prepared", str(spoilt), "--only", "light/matmul", "--schedules", "3")
    assert code == 1
    kernels = {r["state"]: r for r in rows if "us" in r or r["state"] in ("crash", "wrong_result")}
    assert set(kernels) == {"crash", "wrong_result", "measured"}
    assert "PyTorch's" in kernels["wrong_result"]["message"]
    assert any("ratio" in r for r in rows)


@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("scaled_mm", {"m": 5, "n": 40, "k": 48, "block": 16, "trans_b": True, "bias": True}),
        ("scaled_mm", {"m": 5, "n": 40, "k": 40, "block": 16, "by_column": True}),
        ("grouped_matmul", {"m": 9, "n": 5, "k": 4, "groups": 3}),
        ("dequant_matmul", {"m": 4, "n": 5, "k": 8, "group_size": 4, "trans_b": True}),
        ("dequant_matmul", {"m": 4, "n": 5, "k": 8}),
        ("attention", {"b": 2, "h": 4, "hk": 2, "lq": 7, "lk": 7, "d": 8, "is_causal": True}),
        ("attention", {"b": 2, "h": 4, "hk": 2, "lq": 3, "lk": 12, "d": 8, "dv": 6, "page": 4, "lengths": True}),
        ("attention", {"b": 3, "h": 2, "lq": 3, "lk": 12, "d": 8, "lengths": True, "is_causal": True, "scale": 0.3}),
    ],
)
def test_the_reference_on_the_device_is_the_operators(
    op: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Whatever is computed at once."""
    import torch

    from tilewright.kernels.expression.numerics import decode
    from tilewright.kernels.expression.program import Program
    from tilewright.kernels.reference import index_bounds
    from tilewright.verifying.inputs import Recipe, make_inputs

    monkeypatch.setattr(reference, "SCORES", 50)
    operator = get_operator(op)
    workload = operator.workload(**params)
    program = Program.loads(workload.program)
    arrays = make_inputs(program, Recipe("normal", 0, "heap"), index_bounds(program))
    assert operator.numpy is not None
    assert reference.known(workload)
    tensors = [torch.from_numpy(np.array(decode(x, s.dtype))) for x, s in zip(arrays, workload.inputs, strict=True)]
    got = reference.result(workload, tensors).numpy()
    want = decode(operator.numpy(*arrays, **dict(workload.params)), workload.output.dtype)
    rough = 2.0**-7 if workload.output.dtype == "bfloat16" else 1e-5
    np.testing.assert_allclose(got, want, rtol=rough, atol=rough * np.abs(want).max())
