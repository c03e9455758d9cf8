"""``Library.find`` for a device: which kernel it gives for a workload, whatever that is called, and why it gives none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from watched_device import Watched

import tilewright
from harness.emulated_gpu import DeviceArray, random, store
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.driver import NoDriver
from tilewright.backends.emulator.backend import EmulatorBackend
from tilewright.core import Workload
from tilewright.database import Database
from tilewright.kernels.anonymous import program_workload
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.runtime.gpu import GpuRuntime
from tilewright.tuner.from_misses import missed

PLACE = ("cuda", 0)


def product(**params: object) -> Workload:
    return get_operator("matmul").workload(**{"m": 33, "n": 40, "k": 24, **params})


def unnamed(workload: Workload) -> Workload:
    """The same program as a graph's part: under an anonymous operator."""
    return program_workload("some_group", Program.loads(workload.program))


@pytest.fixture
def device() -> Watched:
    return Watched()


@pytest.fixture
def library(tmp_path: Path, gpu_kernels: Path, device: Watched) -> Iterator[tilewright.Library]:
    with tilewright.Library(shutil.copy(gpu_kernels, tmp_path / "t.db"), watch=False) as made:
        made.resolver.gpu = GpuRuntime(made._store, made._counters, lambda _: device)
        yield made


@pytest.mark.parametrize("named", [True, False], ids=["by its name", "as a part of a graph"])
def test_a_workload_finds_its_kernel(library: tilewright.Library, device: Watched, named: bool) -> None:
    found = library.resolver.find(product() if named else unnamed(product()), PLACE).served
    assert found is not None
    assert (found.explanation.tier, found.explanation.target) == ("exact", "cuda:sm_90a")
    assert [s.shape for s in (*found.checked.inputs, *found.checked.outputs)] == [(33, 24), (24, 40), (33, 40)]
    assert found.kernel is None
    assert found.on_device is not None
    a, b, out = (DeviceArray(device, random(*s)) for s in ((33, 24), (24, 40), (33, 40)))
    for _ in range(2):
        assert found.call(a, b, out=out) is out
        np.testing.assert_allclose(out.get(), a.get() @ b.get(), rtol=1e-4, atol=1e-4)
    assert library.stats().tiers["exact"] == 2
    first, second = (library.resolver.find(product(), PLACE).served for _ in range(2))
    assert first is second


def test_the_processor_has_no_part_of_a_devices_kernels(library: tilewright.Library) -> None:
    found = library.resolver.find(product())
    assert found.served is None
    assert "tuned only for cuda:sm_90a" in found.why


def test_what_was_not_tuned_is_counted_by_its_reason(library: tilewright.Library, device: Watched) -> None:
    device.limits = tuple({**dict(device.limits), "cc": 80}.items())
    for workload, why in ((product(), "tuned only for cuda:sm_90a, which emulator lacks"), (product(m=7), "")):
        found = library.resolver.find(workload, PLACE)
        assert found.served is None
        assert found.why == why
        found.tally.add()
    assert library.stats().reasons == {"device": 1, "untuned": 1}


def test_what_was_missed_is_stored_for_the_devices_target(tmp_path: Path, gpu_kernels: Path, device: Watched) -> None:
    path = Path(shutil.copy(gpu_kernels, tmp_path / "t.db"))
    with tilewright.Library(path, watch=False) as library:
        library.resolver.gpu = GpuRuntime(library._store, library._counters, lambda _: device)
        for place in (("emulator", 0), None):
            found = library.resolver.find(product(m=7), place)
            assert found.served is None
            for _ in range(3):
                found.tally.add()
    with Database.open(path) as database:
        target = EmulatorBackend().targets()[0]
        (miss,) = missed(database, target)
        assert miss.command == "tilewright tune matmul k=24 m=7 n=40"
        assert (miss.miss.count, len(database.misses())) == (3, 2)


def test_what_the_emulator_tuned_is_no_devices(library: tilewright.Library, device: Watched) -> None:
    device.model = "NVIDIA H200"  # type: ignore[misc]
    found = library.resolver.find(product(), PLACE)
    assert found.served is None
    assert "NVIDIA H200 lacks" in found.why


def test_a_device_that_is_not_there_is_named(gpu_kernels: Path) -> None:
    with tilewright.Library(gpu_kernels) as library:
        with pytest.raises(NoDriver, match="no emulated device 3"):
            library.resolver.find(product(), ("emulator", 3))
        assert library.resolver.find(product(), ("emulator", 0)).served is not None


def test_a_size_of_a_range_finds_the_kernel_of_the_range(
    tmp_path: Path, emulators_cache: ArtifactCache, device: Watched
) -> None:
    store(tmp_path / "t.db", emulators_cache, product(m="1..40"), "cuda_simt")
    with tilewright.Library(tmp_path / "t.db", watch=False) as library:
        library.resolver.gpu = GpuRuntime(library._store, library._counters, lambda _: device)
        for m in (5, 33):
            found = library.resolver.find(unnamed(product(m=m)), PLACE).served
            assert found is not None
            assert found.explanation.tier == "range"
            a, b, out = (DeviceArray(device, random(*s)) for s in ((m, 24), (24, 40), (m, 40)))
            found.call(a, b, out=out)
            np.testing.assert_allclose(out.get(), a.get() @ b.get(), rtol=1e-4, atol=1e-4)
        assert library.resolver.find(unnamed(product(m=41)), PLACE).served is None


def test_constant_inputs_are_kept_as_the_kernel_reads_them(
    tmp_path: Path, emulators_cache: ArtifactCache, device: Watched
) -> None:
    how = {"n": 1, "ci": 16, "h": 5, "w": 6, "co": 24, "kh": 3, "kw": 3, "padding": 1, "dtype": "float16"}
    workload = unnamed(get_operator("conv2d").workload(**how, constant="weight"))
    store(tmp_path / "t.db", emulators_cache, workload, "cuda_relaid")
    store(tmp_path / "t.db", emulators_cache, unnamed(product(constant="b")), "cuda_simt")
    with tilewright.Library(tmp_path / "t.db", watch=False) as library:
        library.resolver.gpu = GpuRuntime(library._store, library._counters, lambda _: device)
        for asked, rearranged in ((workload, (1,)), (unnamed(product(constant="b")), ())):
            found = library.resolver.find(asked, PLACE).served
            assert found is not None
            assert found.on_device is not None
            assert found.on_device.rearranges == rearranged
            x, w, out = (
                DeviceArray(device, random(*s.shape, seed=n).astype(s.dtype))
                for n, s in enumerate((*asked.inputs, asked.output))
            )
            found.call(x, w, out=out)
            wanted = out.get()
            device.fill(out.address, 0xFF, wanted.nbytes)
            plan = found.call.keeping({1: w})
            assert (plan.held[1] == w.address) is (not rearranged)
            plan(x, out=out)
            np.testing.assert_array_equal(out.get(), wanted)
