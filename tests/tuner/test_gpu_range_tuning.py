"""Tuning GPU kernels for a range of sizes, end to end on the emulator: searched, compared, stored, verified, served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.backends.emulator.driver import EmulatorDriver
from tilewright.cli.app import run
from tilewright.database import Database
from tilewright.runtime.gpu import GpuRuntime
from tilewright.tuner import RangeResult, tune_range

SIZES = {"m": "1..16", "n": 40, "k": 24}
DEVICE = {"target": "cuda:sm_90a", "device": "emulator"}


class OnDevice:
    """A dense array in the emulated device's memory."""

    def __init__(self, context: Any, values: np.ndarray[Any, Any]) -> None:
        self.context, self.values = context, values
        self.address = context.allocate(values.nbytes)
        context.upload(self.address, values)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        v = self.values
        return {"shape": v.shape, "typestr": v.dtype.str, "data": (self.address, False), "version": 3, "strides": None}

    def get(self) -> np.ndarray[Any, Any]:
        out = np.empty_like(self.values)
        self.context.download(self.address, out)
        return out


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RangeResult]:
    db = tmp_path_factory.mktemp("ranges") / "ranges.db"
    return db, tune_range("matmul", params=SIZES, trials=2, kernels=2, cost_model="random", db=db, **DEVICE)


def test_intervals_cover_the_range(tuned: tuple[Path, RangeResult]) -> None:
    db, result = tuned
    assert (result.kernels[0].low, result.kernels[-1].high) == (1, 16)
    with Database.open(db) as database:
        stored = {k.task.workload.label for k in database.kernels("matmul") if k.task.workload.ranges}
    assert stored == {f"matmul m={k.low}..{k.high} n=40 k=24" for k in result.kernels if k.low < k.high}


def test_every_size_is_served_on_the_device(tuned: tuple[Path, RangeResult]) -> None:
    """The driver takes all from one load of each kernel's code, and ``explain_gpu`` names the tier."""
    db, result = tuned
    context = EmulatorDriver().open(0)
    loads: list[int] = []
    load = context.load

    def counted(code: bytes) -> Any:
        loads.append(len(code))
        return load(code)

    context.load = counted  # type: ignore[method-assign]
    rng = np.random.default_rng(0)
    sizes = [1, 2, 4, 5, 11, 15, 16]
    with tilewright.Library(db) as library:
        library.resolver.gpu = GpuRuntime(library._store, library._counters, lambda index: context)
        for m in sizes:
            a, b = rng.standard_normal((m, 24), np.float32), rng.standard_normal((24, 40), np.float32)
            given = OnDevice(context, a), OnDevice(context, b)
            out = OnDevice(context, np.full((m, 40), np.nan, np.float32))
            assert library.matmul(*given, out=out) is out
            np.testing.assert_allclose(out.get(), a @ b, rtol=1e-4, atol=1e-4)
            explained = library.explain_gpu("matmul", *given)
            assert explained is not None
            assert explained["tier"] == ("exact" if m in result.tuned else "range")
        exact = sum(m in result.tuned for m in sizes)
        assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": exact, "range": len(sizes) - exact}
    assert len(loads) <= exact + len(result.kernels)


def test_verify_looks_at_several_sizes(tuned: tuple[Path, RangeResult], capsys: pytest.CaptureFixture[str]) -> None:
    db, result = tuned
    assert run(["verify", "--db", str(db), "--device", "emulator", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert all(k["problem"] is None for k in listed["kernels"])
    assert len(listed["kernels"]) >= sum(k.low < k.high for k in result.kernels)


def test_what_no_template_takes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["attention", "b=1..4", "h=2", "lq=33", "lk=40", "d=16", "--target", "cuda:sm_90a", "--device", "emulator"]
    assert run(["tune", *asked]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "no template for cuda:sm_90a takes b=1..4 in attention. Tune it for each size" in said
