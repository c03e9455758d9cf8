"""Plans on a device whose constant inputs are bound: what is rearranged when, what calls launch, and what is freed."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from watched_device import Watched

import tilewright
from harness.emulated_gpu import Array, DeviceArray, store
from tilewright.backends.cache import ArtifactCache
from tilewright.core import UsageError, Workload
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.runtime.gpu import GpuRuntime

SIZES = {"n": 1, "ci": 16, "h": 5, "w": 6, "co": 24, "kh": 3, "kw": 3, "padding": 1, "dtype": "float16"}
HOW = {"padding": 1, "constant": "weight"}
"""Attributes that calls state: those that are no defaults."""
PRODUCT = {"m": 33, "n": 40, "k": 24, "constant": "b"}


def workload() -> Workload:
    return get_operator("conv2d").workload(**SIZES, constant="weight")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, emulators_cache: ArtifactCache) -> Path:
    """A convolution that rearranges its weights, and a product that reads constant ones as they are."""
    path = tmp_path_factory.mktemp("bound") / "t.db"
    store(path, emulators_cache, workload(), "cuda_relaid")
    for product in (PRODUCT, {**PRODUCT, "n": 32, "constant": "a,b"}):
        store(path, emulators_cache, get_operator("matmul").workload(**product), "cuda_simt")
    return path


@pytest.fixture
def device() -> Watched:
    return Watched()


@pytest.fixture
def library(kernels: Path, device: Watched) -> Iterator[tilewright.Library]:
    with tilewright.Library(kernels, watch=False) as made:
        made.resolver.gpu = GpuRuntime(made._store, made._counters, lambda _: device)
        yield made


@pytest.fixture
def drawn(device: Watched) -> Callable[[int], DeviceArray]:
    """New images, weights and results: input number 0 or 1, or the output."""
    shapes = [s.shape for s in (*workload().inputs, workload().output)]

    def draw(which: int, seed: int = 0) -> DeviceArray:
        values = np.random.default_rng([which, seed]).standard_normal(shapes[which]).astype(np.float16)
        return DeviceArray(device, values)

    return draw


Draw = Callable[..., DeviceArray]


def right(x: DeviceArray, weight: Array, out: DeviceArray) -> None:
    want = evaluate(Program.loads(workload().program), [x.get(), weight])
    np.testing.assert_allclose(out.get(), want, rtol=1e-2, atol=2e-2)


def test_bound_weights_are_rearranged_once(library: tilewright.Library, device: Watched, drawn: Draw) -> None:
    x, weight, out = (drawn(n) for n in range(3))
    plan = library.plan_gpu("conv2d", x, weight, **HOW)
    assert repr(plan) == "<plan conv2d(input, weight, out=None) on cuda>"
    call = plan.bind(weight=weight)
    assert repr(call) == "<plan conv2d(input, out=None) on cuda>"
    assert len(device.launches) == 1  # of the weights
    given = weight.get()
    device.fill(weight.address, 0xFF, given.nbytes)
    device.free(weight.address)  # what was bound may be changed, and dropped
    device.launches.clear()
    for seed in range(3):
        other = drawn(0, seed)
        device.fill(out.address, 0xFF, out.get().nbytes)
        assert call(other, out=out) is out
        right(other, given, out)
    assert len(device.launches) == 6  # of the image, and the product
    assert library.stats().tiers["exact"] == 3


def test_a_plan_whose_weights_are_not_bound_rearranges_them_in_every_call(
    library: tilewright.Library, device: Watched, drawn: Draw
) -> None:
    x, weight, out = (drawn(n) for n in range(3))
    plan = library.plan_gpu("conv2d", x, weight, **HOW)
    with pytest.warns(
        tilewright.MissedKernelWarning, match=r"rearranges weight in every call. Call bind\(weight=...\)"
    ):
        plan(x, weight, out=out)
    right(x, weight.get(), out)
    device.upload(weight.address, drawn(1, 1).get())
    with warnings.catch_warnings(action="error"):  # once is enough
        plan(x, weight, out=out)
    right(x, weight.get(), out)
    assert len(device.launches) == 6
    with pytest.warns(tilewright.MissedKernelWarning):
        library.conv2d(x, weight, out=out, **HOW)
    right(x, weight.get(), out)


def test_calls_by_name_without_the_attribute_take_no_kernel_of_constant_weights(
    library: tilewright.Library, drawn: Draw
) -> None:
    with pytest.raises(UsageError, match=r"conv2d was not tuned for this GPU"):
        library.conv2d(drawn(0), drawn(1), out=drawn(2), padding=1)


def test_a_graph_captures_calls_of_bound_weights(library: tilewright.Library, device: Watched, drawn: Draw) -> None:
    x, weight, out = (drawn(n) for n in range(3))
    call = library.plan_gpu("conv2d", x, weight, **HOW).bind(weight=weight)
    call(x, out=out)  # the warm-up
    device.asked.clear()
    device.launches.clear()
    call(x, out=out)
    assert device.asked == ["launch", "launch"]  # nothing that a capture forbids
    captured = list(device.launches)
    device.upload(x.address, drawn(0, 5).get())
    device.fill(out.address, 0xFF, out.get().nbytes)
    device.replay(captured)
    right(x, weight.get(), out)


def test_memory_of_bound_weights_is_freed_with_the_plan(
    library: tilewright.Library, device: Watched, drawn: Draw
) -> None:
    x, weight, out = (drawn(n) for n in range(3))
    plan = library.plan_gpu("conv2d", x, weight, **HOW)
    before = len(device.memory_table())
    first, second = plan.bind(weight=weight), plan.bind(weight=drawn(1, 1))
    first(x, out=out)
    second(x, out=out)
    assert (
        len(device.memory_table()) == before + 5
    )  # the other weights; of each plan, the rearranged and scratch memory
    right(x, drawn(1, 1).get(), out)
    del plan, first
    gc.collect()
    assert len(device.memory_table()) == before + 4  # with the weights that were just drawn
    second(x, out=out)
    right(x, drawn(1, 1).get(), out)


def test_constant_inputs_that_a_kernel_reads_as_they_are_are_copied(
    library: tilewright.Library, device: Watched
) -> None:
    rng = np.random.default_rng(0)
    a, b = (DeviceArray(device, rng.standard_normal(s).astype(np.float32)) for s in ((33, 24), (24, 40)))
    out = DeviceArray(device, np.zeros((33, 40), np.float32))
    call = library.plan_gpu("matmul", a, b, constant="b").bind(b=b)
    given = b.get()
    device.fill(b.address, 0, given.nbytes)
    call(a, out=out)
    np.testing.assert_allclose(out.get(), a.get() @ given, rtol=1e-4, atol=1e-4)


def test_an_input_is_left_to_the_calls(library: tilewright.Library, device: Watched) -> None:
    a, b = (DeviceArray(device, np.zeros(s, np.float32)) for s in ((33, 24), (24, 32)))
    plan = library.plan_gpu("matmul", a, b, constant="a,b")
    with pytest.raises(UsageError, match="matmul: every input is constant"):
        plan.bind(a=a, b=b)


def test_what_does_not_fit_is_not_bound(library: tilewright.Library, device: Watched, drawn: Draw) -> None:
    x, weight, out = (drawn(n) for n in range(3))
    plan = library.plan_gpu("conv2d", x, weight, **HOW)
    before = len(device.memory_table())
    with pytest.raises(UsageError, match="bind needs weight"):
        plan.bind()
    with pytest.raises(UsageError, match="x is not constant"):
        plan.bind(weight=weight, x=x)
    with pytest.raises(TypeError, match="conv2d: weight is not an array on a GPU"):
        plan.bind(weight=weight.get())
    with pytest.raises(ValueError, match="weight has shape"):
        plan.bind(weight=x)
    assert len(device.memory_table()) == before
    call = plan.bind(weight=weight)
    with pytest.raises(UsageError, match="conv2d: no input is constant"):
        call.bind(weight=weight)
    with pytest.raises(TypeError, match=r"takes 1 arrays, got 3. Call conv2d\(input, out=None\)"):
        call(x, weight, out)
    with pytest.raises(ValueError, match="out has shape"):
        call(x, out=x)
