"""Tuned CUDA kernels on arrays with ``__cuda_array_interface__``, launched on the emulated device."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from harness.emulated_gpu import Array, DeviceArray, OneContext, random
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.targets import runs_on
from tilewright.bundles.build import build
from tilewright.core import UsageError
from tilewright.database import Database
from tilewright.runtime.gpu import GpuRuntime


@pytest.fixture(params=["database"])
def library(
    tmp_path: Path, gpu_kernels: Path, driver: OneContext, request: pytest.FixtureRequest
) -> Iterator[tilewright.Library]:
    path = Path(shutil.copy(gpu_kernels, tmp_path / "t.db"))
    if request.param == "bundle":
        with Database.open(path, create=False, readonly=True) as database:
            build(database, tmp_path / "t.twb", None)
        path = tmp_path / "t.twb"
    with tilewright.Library(path, trust="unsigned") as made:
        made.resolver.gpu = GpuRuntime(made._store, made._counters, driver.open)
        yield made


@pytest.mark.parametrize("library", ["database", "bundle"], indirect=True)
@pytest.mark.parametrize("k", [24, 128])
def test_a_kernel_answers_arrays_on_the_device(library: tilewright.Library, driver: OneContext, k: int) -> None:
    a, b = random(33, k), random(k, 40, seed=1)
    on = [DeviceArray(driver.context, x) for x in (a, b)]
    out = DeviceArray(driver.context, np.full((33, 40), np.nan, np.float32))
    for _ in range(2):
        assert library.matmul(*on, out=out) is out
    np.testing.assert_allclose(out.get(), a @ b, rtol=1e-4, atol=1e-4)
    assert library.matmul(*on, out) is out  # the output by position
    assert library.stats().tiers["exact"] == 3
    assert library.explain_gpu("matmul", *on)["target"] == "cuda:sm_90a"  # type: ignore[index]


def test_bfloat16_travels_as_bits(library: tilewright.Library, driver: OneContext) -> None:
    from tilewright.kernels.expression.numerics import from_bfloat16, to_bfloat16

    a, b, bias = (to_bfloat16(random(*s, seed=i)) for i, s in enumerate([(32, 64), (64, 48), (48,)]))
    on = [DeviceArray(driver.context, x) for x in (a, b, bias)]
    out = DeviceArray(driver.context, np.zeros((32, 48), np.uint16))
    library.matmul(*on, out=out, bias=True)
    want = from_bfloat16(a) @ from_bfloat16(b) + from_bfloat16(bias)
    np.testing.assert_allclose(from_bfloat16(out.get()), want, rtol=2.0**-7, atol=1e-2)


@pytest.mark.parametrize("library", ["database", "bundle"], indirect=True)
def test_tensor_maps_follow_the_arrays_of_each_call(library: tilewright.Library, driver: OneContext) -> None:
    from tilewright.kernels.expression.numerics import from_bfloat16, to_bfloat16

    for seed in (0, 1, 0):
        a, b = (to_bfloat16(random(*s, seed=seed + i)) for i, s in enumerate([(40, 72), (72, 48)]))
        on = [DeviceArray(driver.context, x) for x in (a, b)]
        out = DeviceArray(driver.context, np.zeros((40, 48), np.uint16))
        for _ in range(2):
            library.matmul(*on, out=out)
            want = from_bfloat16(a) @ from_bfloat16(b)
            np.testing.assert_allclose(from_bfloat16(out.get()), want, rtol=2.0**-7, atol=1e-2)
    assert library.stats().tiers["exact"] == 6
    odd = DeviceArray(driver.context, to_bfloat16(random(40, 72)), offset=8)
    with pytest.raises(ValueError, match="16"):
        library.matmul(odd, on[1], out=out)


def test_what_does_not_fit_is_named(library: tilewright.Library, driver: OneContext) -> None:
    def put(values: Array, **how: Any) -> DeviceArray:
        return DeviceArray(driver.context, values, **how)

    a, b, out = put(random(33, 24)), put(random(24, 40)), put(random(33, 40))
    host = random(24, 40)
    with pytest.raises(TypeError, match="ndarray is not an array on a GPU"):
        library.matmul(a, host, out=out)
    with pytest.raises(TypeError, match="out is not an array on a GPU"):
        library.matmul(a, b, out=host)
    with pytest.raises(TypeError, match="Pass out="):
        library.matmul(a, b)
    with pytest.raises(ValueError, match="dense and row-major"):
        library.matmul(a, put(random(24, 40), strides=(4, 96)), out=out)
    with pytest.raises(ValueError, match="shares memory with a"):
        library.matmul(a, b, out=DeviceArray(driver.context, random(33, 40), data=(a.address, False)))
    with pytest.raises(ValueError, match="read-only"):
        library.matmul(a, b, out=put(random(33, 40), data=(out.address, True)))
    with pytest.raises(ValueError, match=r"shape \(33, 41\), not \(33, 40\)"):
        library.matmul(a, b, out=put(random(33, 41)))
    with pytest.raises(TypeError, match="dtype float64, not float32"):
        library.matmul(a, b, out=put(random(33, 40).astype(np.float64)))
    align = {e.program.align for e in library._store.entries("matmul")}
    if max(align) > 4:
        with pytest.raises(ValueError, match="multiple of"):
            library.matmul(put(random(33, 24), offset=4), b, out=out)
    with pytest.raises(UsageError, match=r"not tuned for this GPU.*(5, 6)"):
        library.matmul(put(random(5, 6)), put(random(6, 7)), out=put(random(5, 7)))
    assert library.explain_gpu("matmul", put(random(5, 6)), put(random(6, 7))) is None
    np.testing.assert_allclose(library.matmul(a, b, out=out).get(), a.get() @ b.get(), rtol=1e-4, atol=1e-4)


def test_numpy_arrays_never_get_a_gpu_kernel(library: tilewright.Library) -> None:
    a, b = random(33, 24), random(24, 40)
    np.testing.assert_array_equal(library.matmul(a, b), a @ b)
    assert library.explain("matmul", m=33, n=40, k=24).tier == "fallback"


def test_what_the_emulator_tuned_is_served_on_no_device(gpu_kernels: Path, tmp_path: Path, driver: OneContext) -> None:
    driver.context.model = "NVIDIA H200"  # type: ignore[misc]
    with tilewright.Library(shutil.copy(gpu_kernels, tmp_path / "t.db")) as library:
        library.resolver.gpu = GpuRuntime(library._store, library._counters, driver.open)
        arrays = [DeviceArray(driver.context, x) for x in (random(33, 24), random(24, 40))]
        with pytest.raises(UsageError, match="not tuned for this GPU"):
            library.matmul(*arrays, out=DeviceArray(driver.context, random(33, 40)))


def test_a_damaged_kernel_is_an_error(gpu_kernels: Path, tmp_path: Path, driver: OneContext) -> None:
    import sqlite3

    path = shutil.copy(gpu_kernels, tmp_path / "t.db")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE artifact SET data = zeroblob(64)")
    connection.close()
    with tilewright.Library(path) as library:
        library.resolver.gpu = GpuRuntime(library._store, library._counters, driver.open)
        arrays = [DeviceArray(driver.context, x) for x in (random(33, 24), random(24, 40))]
        with pytest.raises(tilewright.DatabaseError, match="damaged"):
            library.matmul(*arrays, out=DeviceArray(driver.context, random(33, 40)))


@pytest.mark.parametrize(
    ("variant", "capability", "runs"),
    [("sm_80", 80, True), ("sm_80", 86, True), ("sm_86", 80, False), ("sm_80", 90, False), ("sm_90a", 90, True),
     ("sm_90a", 100, False), ("sm_120", 120, True)],
)  # fmt: skip
def test_machine_code_runs_on_its_own_major_version(variant: str, capability: int, runs: bool) -> None:
    assert runs_on(archs.target(variant), capability) is runs
