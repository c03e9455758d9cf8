"""Plans on a device, and calls by name after the first: what they refuse, launch, allocate and wait for."""

from __future__ import annotations

import gc
import logging
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from watched_device import Watched

import tilewright
from harness.emulated_gpu import Array, DeviceArray, OneContext, fill_other, random, store
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.emulator.driver import EmulatorContext, EmulatorFunction
from tilewright.core import UsageError
from tilewright.kernels.operators import get_operator
from tilewright.runtime.gpu import GpuRuntime

Call = Callable[..., Any]


@pytest.fixture
def driver() -> OneContext:
    made = OneContext()
    made.context = Watched()
    return made


@pytest.fixture
def device(driver: OneContext) -> Watched:
    assert isinstance(driver.context, Watched)
    return driver.context


@pytest.fixture
def library(tmp_path: Path, gpu_kernels: Path, driver: OneContext) -> Iterator[tilewright.Library]:
    with tilewright.Library(shutil.copy(gpu_kernels, tmp_path / "t.db"), watch=False) as made:
        made.resolver.gpu = GpuRuntime(made._store, made._counters, driver.open)
        yield made


def arrays(device: EmulatorContext, k: int = 24, **face: Any) -> list[DeviceArray]:
    values = (random(33, k), random(k, 40, seed=1), np.full((33, 40), np.nan, np.float32))
    return [DeviceArray(device, x, **face) for x in values]


def right(a: DeviceArray, b: DeviceArray, out: DeviceArray) -> None:
    np.testing.assert_allclose(out.get(), a.get() @ b.get(), rtol=1e-4, atol=1e-4)


def count(library: tilewright.Library) -> int:
    return library.stats().tiers["exact"]


@pytest.fixture(params=["plan", "by name"])
def call(request: pytest.FixtureRequest, library: tilewright.Library, device: Watched) -> Call:
    a, b, _ = arrays(device)
    return library.plan_gpu("matmul", a, b) if request.param == "plan" else library.matmul


# --------------------------------------------------------------------------- plans


def test_a_plan_answers(library: tilewright.Library, device: Watched) -> None:
    a, b, out = arrays(device)
    plan = library.plan_gpu("matmul", a, b)
    assert repr(plan) == "<plan matmul(a, b, out=None) on cuda>"
    assert plan(a, b, out=out) is out
    right(a, b, out)
    device.fill(out.address, 0xFF, 33 * 40 * 4)
    assert plan(a, b, out) is out  # by position
    right(a, b, out)
    assert count(library) == 2
    library.close()
    assert plan(a, b, out=out) is out  # plans go on


def test_what_no_plan_is_made_for(library: tilewright.Library, device: Watched) -> None:
    a, b, out = arrays(device)
    with pytest.raises(UsageError, match=r"not tuned for this GPU.*\(40, 33\)"):
        library.plan_gpu("matmul", DeviceArray(device, random(40, 33)), DeviceArray(device, random(33, 2)))
    with pytest.raises(TypeError, match="ndarray is not an array on a GPU"):
        library.plan_gpu("matmul", random(33, 24), b)
    with pytest.raises(TypeError, match="nothing is not an array on a GPU"):
        library.plan_gpu("matmul")
    plan = library.plan_gpu("matmul", a, b)
    for given in ((a,), (a, b, out, out)):
        with pytest.raises(TypeError, match=r"takes 2 arrays, got \d. Call matmul\(a, b, out=None\)"):
            plan(*given)
    with pytest.raises(TypeError, match="Pass out="):
        plan(a, b)
    library.close()
    with pytest.raises(UsageError, match="closed"):
        library.plan_gpu("matmul", a, b)


def test_rows_that_choose_their_matrix(
    tmp_path: Path, emulators_cache: ArtifactCache, driver: OneContext, device: Watched
) -> None:
    """Two launches, the first of which leaves tables in the workspace."""
    workload = get_operator("grouped_matmul").workload(m=33, n=40, k=24, groups=3)
    store(tmp_path / "t.db", emulators_cache, workload, "cuda_grouped")
    with tilewright.Library(tmp_path / "t.db", watch=False) as library:
        library.resolver.gpu = GpuRuntime(library._store, library._counters, driver.open)
        x, w = random(33, 24), random(3, 24, 40, seed=1)
        for group in (np.arange(33) % 3, np.full(33, 7), -np.arange(33)):
            given = [DeviceArray(device, a) for a in (x, w, group.astype(np.int32))]
            out = DeviceArray(device, np.full((33, 40), np.nan, np.float32))
            library.plan_gpu("grouped_matmul", *given)(*given, out=out)
            right = np.einsum("mk,mkn->mn", x, w[np.clip(group, 0, 2)])
            np.testing.assert_allclose(out.get(), right, rtol=1e-4, atol=1e-4)


# --------------------------------------------------------------------------- several outputs


def test_a_plan_of_several_outputs_fills_each(
    tmp_path: Path, emulators_cache: ArtifactCache, driver: OneContext, device: Watched
) -> None:
    workload = get_operator("var_mean").workload(shape="9,40", dim=1)
    store(tmp_path / "t.db", emulators_cache, workload, "cuda_partition")
    with tilewright.Library(tmp_path / "t.db", watch=False) as library:
        library.resolver.gpu = GpuRuntime(library._store, library._counters, driver.open)
        x = DeviceArray(device, random(9, 40))
        outs = tuple(DeviceArray(device, np.full(9, np.nan, np.float32)) for _ in range(2))
        plan = library.plan_gpu("var_mean", x, dim=1)
        for call in (plan, plan, lambda *a, **k: library.var_mean(*a, dim=1, **k)):
            for out in outs:
                device.fill(out.address, 0xFF, 9 * 4)
            got = call(x, out=outs)
            assert isinstance(got, tuple)
            assert [a is b for a, b in zip(got, outs, strict=True)] == [True, True]
            np.testing.assert_allclose(outs[0].get(), x.get().var(1, ddof=1), rtol=1e-4)
            np.testing.assert_allclose(outs[1].get(), x.get().mean(1), rtol=1e-4, atol=1e-5)
        for wrong, error, message in (
            ((outs[0],), TypeError, "has 2 outputs, and out has 1. Pass a tuple of 2"),
            (outs[0], TypeError, "has 2 outputs, and out has 1. Pass a tuple of 2"),
            ((outs[0], outs[0]), ValueError, r"out\[1\] shares memory with out\[0\]"),
            ((outs[0], x), ValueError, r"out\[1\] has shape \(9, 40\), not \(9,\)"),
        ):
            with pytest.raises(error, match=message):
                plan(x, out=wrong)


# --------------------------------------------------------------------------- after a good call


class Broken(DeviceArray):
    """An array that fails when it is looked at."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise RuntimeError("the array was deleted")


class Elsewhere(DeviceArray):
    """An array whose type has the interface, and which lies in the processor's memory, as JAX's may."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise AttributeError("not on a GPU")


def test_what_changes_after_good_calls_is_refused(
    call: Call, library: tilewright.Library, driver: OneContext, device: Watched
) -> None:
    a, b, out = arrays(device)
    for _ in range(2):
        call(a, b, out=out)

    def put(values: Array, kind: type[DeviceArray] = DeviceArray, **how: Any) -> DeviceArray:
        return kind(device, values, **how)

    product, factor = np.zeros((33, 40), np.float32), random(24, 40)
    wrong: list[tuple[tuple[Any, Any, Any], type[Exception], str]] = [
        ((a, factor, out), TypeError, "not an array on a GPU"),
        ((factor, b, out), TypeError, "not an array on a GPU"),
        ((a, b, product), TypeError, "out is not an array on a GPU"),
        ((a, put(factor, Elsewhere), out), TypeError, "not an array on a GPU"),
        ((a, put(factor, Broken), out), RuntimeError, "was deleted"),
        ((a, put(factor, strides=(4, 96)), out), ValueError, "b is not dense and row-major"),
        ((a, b, put(product, strides=(4, 132))), ValueError, "out is not dense and row-major"),
        ((a, b, put(product, data=(out.address, True))), ValueError, "out is read-only"),
        ((a, b, put(product, data=(a.address, False))), ValueError, "out shares memory with a"),
        ((a, b, put(product, data=(b.address + 16, False))), ValueError, "out shares memory with b"),
        ((a, b, put(np.zeros((33, 41), np.float32))), ValueError, r"out has shape \(33, 41\), not \(33, 40\)"),
        ((a, b, put(np.zeros((33, 40)))), TypeError, "out has dtype float64, not float32"),
        ((put(random(33, 24), data=(0, False)), b, out), ValueError, "a: its memory was freed"),
        ((a, b, put(product, data=(0, False))), ValueError, "out: its memory was freed"),
        ((a, put(factor.astype(np.float64)), out), (TypeError, UsageError), "float64"),  # type: ignore[list-item]
        ((a, put(random(23, 40)), out), (ValueError, UsageError), r"\(23, 40\)"),  # type: ignore[list-item]
    ]
    launched, counted = len(device.launches), count(library)
    for given, kind, message in wrong:
        for _ in range(2):  # nothing of a refused call is remembered
            with pytest.raises(kind, match=message):
                call(*given[:2], out=given[2])
    assert (len(device.launches), count(library)) == (launched, counted)
    device.fill(out.address, 0xFF, product.nbytes)
    call(a, b, out=out)
    right(a, b, out)


def test_an_address_that_a_kernel_cannot_take(library: tilewright.Library, device: Watched) -> None:
    from tilewright.kernels.expression.numerics import to_bfloat16

    shapes = ((32, 64), (64, 48), (48,))
    on = [DeviceArray(device, to_bfloat16(random(*s))) for s in shapes]
    out = DeviceArray(device, np.zeros((32, 48), np.uint16))
    odd = DeviceArray(device, to_bfloat16(random(64, 48)), offset=2)
    plan = library.plan_gpu("matmul", *on, bias=True)
    align = plan.kernel.entry.program.align
    assert align > 2
    for call in (plan, lambda *given, **how: library.matmul(*given, **how, bias=True)):
        for _ in range(2):
            call(*on, out=out)
            with pytest.raises(ValueError, match=f"not a multiple of {align} bytes"):
                call(on[0], odd, on[2], out=out)


def test_an_output_by_position_and_by_name_do_not_mix(library: tilewright.Library, device: Watched) -> None:
    a, b, out = arrays(device)
    other = arrays(device)[2]
    for _ in range(2):
        assert library.matmul(a, b, out) is out
        assert library.matmul(a, b, out=other) is other
        assert library.matmul(a, b, out=other, bias=False) is other
    for _ in range(2):
        with pytest.raises(UsageError, match="not tuned"):
            library.matmul(a, b, out, out=other)
    right(a, b, other)


def test_calls_by_name_stop_with_the_library(library: tilewright.Library, device: Watched) -> None:
    a, b, out = arrays(device)
    method = library.matmul
    method(a, b, out=out)
    library.close()
    with pytest.raises(UsageError, match="closed"):
        method(a, b, out=out)


# --------------------------------------------------------------------------- kernels replaced


def test_a_replaced_kernel_serves_the_next_call(
    library: tilewright.Library, driver: OneContext, device: Watched, emulators_cache: ArtifactCache
) -> None:
    a, b, out = arrays(device, 128)
    plan = library.plan_gpu("matmul", a, b)
    before = library.explain_gpu("matmul", a, b)
    library.matmul(a, b, out=out)
    fill_other(Path(library.path), emulators_cache)
    library.matmul(a, b, out=out)
    assert device.launches[-1][0] is device.launches[0][0]  # until it looks
    library.refresh()
    device.fill(out.address, 0xFF, 33 * 40 * 4)
    for _ in range(2):
        library.matmul(a, b, out=out)
        right(a, b, out)
        assert device.launches[-1][0] is not device.launches[0][0]
    after = library.explain_gpu("matmul", a, b)
    assert before is not None
    assert after is not None
    assert before["sha256"] != after["sha256"]
    module = plan.kernel.queue.__self__.loaded.functions[0]._module  # type: ignore[attr-defined]
    plan(a, b, out=out)
    assert device.launches[-1][0] is module  # plans keep theirs
    right(a, b, out)


def test_a_replaced_kernel_that_is_damaged_is_not_served(
    library: tilewright.Library, device: Watched, emulators_cache: ArtifactCache, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, out = arrays(device, 128)
    library.matmul(a, b, out=out)
    fill_other(Path(library.path), emulators_cache)
    with sqlite3.connect(library.path) as connection:
        connection.execute("UPDATE artifact SET data = zeroblob(64)")
    connection.close()
    with caplog.at_level(logging.WARNING, "tilewright.runtime"):
        library.refresh()
    assert "damaged" in caplog.text
    device.fill(out.address, 0xFF, 33 * 40 * 4)
    library.matmul(a, b, out=out)
    right(a, b, out)


# --------------------------------------------------------------------------- scratch memory, streams, threads


def test_scratch_memory_of_a_plan_stays(library: tilewright.Library, device: Watched) -> None:
    a, b, out = arrays(device, 128)
    plan = library.plan_gpu("matmul", a, b)
    assert plan.kernel.workspace > 0
    plan(a, b, out=out)
    assert device.asked.count("synchronize") == 0
    device.asked.clear()
    device.launches.clear()
    for _ in range(3):
        plan(a, b, out=out)
    right(a, b, out)
    assert set(device.asked) == {"launch"}
    assert len(device.launches) == 6
    assert device.launches[:2] == device.launches[2:4] == device.launches[4:]
    before = len(device.memory_table())
    del plan
    gc.collect()
    assert len(device.memory_table()) == before - 1


def test_scratch_memory_of_calls_by_name_is_given_back(library: tilewright.Library, device: Watched) -> None:
    a, b, out = arrays(device, 128)
    library.matmul(a, b, out=out)
    for _ in range(2):
        device.asked.clear()
        library.matmul(a, b, out=out)
        assert device.asked == ["allocate", "launch", "launch", "synchronize", "free"]
    right(a, b, out)


def test_streams_have_scratch_memory_of_their_own(
    library: tilewright.Library, device: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[Any] = []
    launch = EmulatorFunction.launch

    def told(self: EmulatorFunction, *given: Any) -> None:
        streams.append(given[-2])
        launch(self, *given)

    monkeypatch.setattr(EmulatorFunction, "launch", told)
    on = {stream: arrays(device, 128, stream=stream) for stream in (1, 7, 9)}
    plan = library.plan_gpu("matmul", *on[1][:2])
    places: dict[int, set[Any]] = {stream: set() for stream in on}
    for _ in range(2):
        for stream, (a, b, out) in on.items():
            device.launches.clear()
            streams.clear()
            plan(a, b, out=out)
            right(a, b, out)
            assert streams == [0 if stream == 1 else stream] * 2
            places[stream].add(device.launches[0][3][3])  # the workspace, after three tensors
    assert all(len(p) == 1 for p in places.values())
    assert len(set.union(*places.values())) == 3


@pytest.mark.parametrize("k", [24, 128])
def test_threads_share_a_plan(call: Call, library: tilewright.Library, device: Watched, k: int) -> None:
    a, b, _ = arrays(device, k)
    shared = library.plan_gpu("matmul", a, b) if not hasattr(call, "__self__") else library.matmul
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        try:
            x, y = DeviceArray(device, random(33, k, seed=seed)), DeviceArray(device, random(k, 40, seed=seed + 9))
            out = DeviceArray(device, np.zeros((33, 40), np.float32))
            start.wait(30)
            for _ in range(20):
                device.fill(out.address, 0xFF, 33 * 40 * 4)
                shared(x, y, out=out)
                right(x, y, out)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    finally:
        sys.setswitchinterval(switch)
    assert not failures
    assert count(library) == 80


# --------------------------------------------------------------------------- capture


@pytest.mark.parametrize("k", [24, 128])
def test_what_a_graph_captures_can_be_replayed(library: tilewright.Library, device: Watched, k: int) -> None:
    a, b, out = arrays(device, k)
    plan = library.plan_gpu("matmul", a, b)
    plan(a, b, out=out)  # the warm-up
    device.asked.clear()
    device.launches.clear()
    plan(a, b, out=out)
    assert set(device.asked) == {"launch"}  # nothing that a capture forbids
    captured = list(device.launches)
    for seed in (5, 6):
        device.upload(a.address, random(33, k, seed=seed))
        device.fill(out.address, 0xFF, 33 * 40 * 4)
        device.replay(captured)
        right(a, b, out)
    other = arrays(device, k)
    plan(*other[:2], out=other[2])  # a call with other arrays in between does not touch what was captured
    device.upload(b.address, random(k, 40, seed=7))
    device.replay(captured)
    right(a, b, out)


# --------------------------------------------------------------------------- frameworks, by stand-ins


class CupyArray(DeviceArray):
    """What is read of a ``cupy.ndarray``."""

    index = 0

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=self.address, device_id=self.index)

    @property
    def device(self) -> SimpleNamespace:
        return SimpleNamespace(id=self.index)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(np.empty(self.shape, self.dtype).strides)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise AssertionError("its own attributes are quicker")


class Near:
    def __init__(self, index: int) -> None:
        assert index == 0

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def cupy(device: Watched, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    stream = SimpleNamespace(ptr=0)

    class ndarray(CupyArray):
        __module__ = "cupy._core.core"

        def __init__(self, values: Array) -> None:
            super().__init__(device, values)

    def empty(shape: tuple[int, ...], dtype: str) -> CupyArray:
        return ndarray(np.zeros(shape, dtype))

    cuda = SimpleNamespace(get_current_stream=lambda: stream, Device=Near)
    made = SimpleNamespace(ndarray=ndarray, cuda=cuda, empty=empty, stream=stream)
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


def test_arrays_of_cupy_are_taken(
    call: Call, cupy: SimpleNamespace, library: tilewright.Library, device: Watched
) -> None:
    a, b = cupy.ndarray(random(33, 24)), cupy.ndarray(random(24, 40))
    for _ in range(2):
        out = call(a, b)
        assert type(out) is cupy.ndarray
        right(a, b, out)
        assert call(a, b, out=out) is out
    mixed = DeviceArray(device, b.get())
    assert call(a, mixed, out=out) is out  # whoever made them
    far = cupy.ndarray(random(24, 40))
    far.index = 1
    for _ in range(2):
        with pytest.raises(ValueError, match=r"on several GPUs \(0, 1\)"):
            call(a, far, out=out)


def test_a_plan_stays_on_its_device(cupy: SimpleNamespace, library: tilewright.Library, device: Watched) -> None:
    on = [cupy.ndarray(x) for x in (random(33, 24), random(24, 40), random(33, 40))]
    plan = library.plan_gpu("matmul", *on[:2])
    plan(*on[:2], out=on[2])
    for x in on:
        x.index = 1
    launched = len(device.launches)
    with pytest.raises(ValueError, match="arrays are on GPU 1, the plan on 0"):
        plan(*on[:2], out=on[2])
    assert len(device.launches) == launched


def test_cupys_current_stream_and_memory(cupy: SimpleNamespace, library: tilewright.Library, device: Watched) -> None:
    a, b = cupy.ndarray(random(33, 128)), cupy.ndarray(random(128, 40))
    plan = library.plan_gpu("matmul", a, b)
    out = plan(a, b)
    device.asked.clear()
    plan(a, b, out=out)
    assert set(device.asked) == {"launch"}
    cupy.stream.ptr = 5
    device.asked.clear()
    plan(a, b, out=out)
    assert device.asked.count("allocate") == 1  # by CuPy, for the new stream
    library.matmul(a, b, out=out)
    assert "synchronize" not in device.asked
    right(a, b, out)


class Tensor(DeviceArray):
    """What is read of a ``torch.Tensor``."""

    requires_grad = lazy = False
    is_cuda = True
    freed = False

    def __init__(self, context: EmulatorContext, values: Array) -> None:
        super().__init__(context, values)
        self._like = values
        self.dtype = f"torch.{values.dtype}"  # type: ignore[assignment]
        self.device = SimpleNamespace(index=0, type="cpu")

    def data_ptr(self) -> int:
        return 0 if self.freed else self.address

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self._like.itemsize for s in self._like.strides)

    def get_device(self) -> int:
        return 0

    def is_neg(self) -> bool:
        return self.lazy

    def get(self) -> Array:
        out = np.empty_like(self._like)
        self.context.download(self.address, out)
        return out


@pytest.fixture(params=["raw stream", "stream"])
def torch(request: pytest.FixtureRequest, device: Watched, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    raw = {"_cuda_getCurrentRawStream": lambda index: 3} if request.param == "raw stream" else {}
    made = SimpleNamespace(
        Tensor=type("Tensor", (Tensor,), {"__module__": "torch"}),
        _C=SimpleNamespace(**raw),
        cuda=SimpleNamespace(
            current_stream=lambda index: SimpleNamespace(cuda_stream=3),
            device_of=lambda tensor: nullcontext(), is_current_stream_capturing=lambda: False,
        ),
        is_grad_enabled=lambda: True, float32="float32",
        empty=lambda shape, dtype, device: made.Tensor(context, np.zeros(shape, dtype)),
    )  # fmt: skip
    context = device
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


def test_tensors_are_taken_and_unfit_tensors_refused(
    call: Call, torch: SimpleNamespace, library: tilewright.Library, device: Watched
) -> None:
    a, b = torch.Tensor(device, random(33, 24)), torch.Tensor(device, random(24, 40))
    for _ in range(2):
        out = call(a, b)
        right(a, b, out)
        assert call(a, b, out=out) is out
    launched = len(device.launches)
    for attribute, value, error, message in (
        ("requires_grad", True, TypeError, "requires a gradient"),
        ("lazy", True, TypeError, "resolve_neg"),
        ("freed", True, ValueError, "b: its memory was freed"),
        ("is_cuda", False, TypeError, "not an array on a GPU"),
        ("dtype", "torch.complex64", TypeError, "no kernel takes arrays of torch.complex64"),
    ):
        before = getattr(b, attribute)
        setattr(b, attribute, value)
        for _ in range(2):
            with pytest.raises(error, match=message):
                call(a, b, out=out)
        setattr(b, attribute, before)
    assert len(device.launches) == launched
    call(a, b, out=out)
    right(a, b, out)
