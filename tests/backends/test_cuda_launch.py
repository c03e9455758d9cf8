"""Launching through CuPy and PyCUDA, by stand-ins of what they call: what CUDA is told, and what it says."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.backends.arguments import Arguments
from tilewright.backends.cuda import cupy_driver, early
from tilewright.backends.cuda import driver as cuda_driver
from tilewright.backends.cuda.cupy_driver import CupyContext, CupyDriver, CupyFunction
from tilewright.backends.cuda.driver import CudaFunction
from tilewright.backends.cuda.pycuda_driver import PycudaContext, PycudaDriver, PycudaFunction
from tilewright.backends.driver import DeviceError, LaunchError
from tilewright.core import UsageError

OURS, THEIRS = 11, 22  # contexts
ARGUMENTS = (("pointer", 0x7F0000001000), ("int32", -3))
SHAPE = ((4, 2, 1), (64, 1, 1))


class Failed(RuntimeError):
    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Cuda:
    """What happened, and what the next launch raises."""

    def __init__(self) -> None:
        self.context = THEIRS
        self.launches: list[tuple[Any, ...]] = []
        self.allowed: list[int] = []
        self.failure: Exception | None = None

    def launched(self, *told: Any) -> None:
        assert self.context == OURS
        if self.failure is not None:
            raise self.failure
        self.launches.append(told)

    def to(self, context: int) -> None:
        self.context = context


def cupys(cuda: Cuda) -> CudaFunction:
    def launch(handle: int, *rest: Any) -> None:
        *shape, shared, stream, pointers, extra = rest
        first, second = (ctypes.c_void_p * 2).from_address(pointers)
        values = ctypes.c_void_p.from_address(first or 0).value, ctypes.c_int32.from_address(second or 0).value
        assert (handle, extra) == (5, 0)
        cuda.launched(tuple(shape[:3]), tuple(shape[3:]), values, shared, stream)

    d = SimpleNamespace(
        ctxGetCurrent=lambda: cuda.context, ctxSetCurrent=cuda.to, launchKernel=launch,
        funcSetAttribute=lambda handle, attribute, value: cuda.allowed.append(value), CUDADriverError=Failed,
    )  # fmt: skip
    driver = object.__new__(CupyDriver)
    driver.version, driver.errors = "14", (RuntimeError,)
    driver.driver, driver.runtime = d, SimpleNamespace(CUDARuntimeError=Failed)
    context = object.__new__(CupyContext)
    super(CupyContext, context).__init__(driver, 0)
    context._d, context._handle = d, OURS
    context._cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=0)))
    return CupyFunction(context, 5, "tw_x")


def pycudas(cuda: Cuda) -> CudaFunction:
    class Handle:
        def set_attribute(self, attribute: int, value: int) -> None:
            cuda.allowed.append(value)

        def _launch_kernel(self, grid: Any, block: Any, packed: Any, shared: int, stream: Any) -> None:
            cuda.launched(grid, block, struct.unpack("@Pi", packed), shared, stream or 0)

    attributes = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    driver = object.__new__(PycudaDriver)
    driver.version, driver.errors = "2025", (Failed,)
    driver.cuda = SimpleNamespace(MemoryError=type("MemoryError", (Failed,), {}))
    context = object.__new__(PycudaContext)
    super(PycudaContext, context).__init__(driver, 0)
    context._cuda = SimpleNamespace(function_attribute=attributes, Context=SimpleNamespace(pop=lambda: cuda.to(THEIRS)))
    context._handle = SimpleNamespace(push=lambda: cuda.to(OURS))
    return PycudaFunction(context, Handle(), "tw_x")


@pytest.mark.parametrize("made", [cupys, pycudas])
def test_a_kernel_is_launched(made: Any) -> None:
    cuda = Cuda()
    function = made(cuda)
    arguments = Arguments(ARGUMENTS)
    for shared in (0, 100_000, 100_000, 50_000):
        function.launch(*SHAPE, shared, arguments)
        arguments.values[0] += 16
    values = [(ARGUMENTS[0][1] + 16 * n, -3) for n in range(4)]
    shares = (0, 100_000, 100_000, 50_000)
    assert cuda.launches == [(*SHAPE, v, s, 0) for v, s in zip(values, shares, strict=True)]
    assert cuda.allowed == [100_000]
    assert cuda.context == THEIRS


@pytest.mark.parametrize("made", [cupys, pycudas])
@pytest.mark.parametrize(
    ("text", "status", "error"),
    [
        ("cuLaunchKernel failed: invalid argument: CUDA_ERROR_INVALID_VALUE", 1, LaunchError),
        (
            "cuLaunchKernel failed: an illegal memory access was encountered: CUDA_ERROR_ILLEGAL_ADDRESS",
            700,
            DeviceError,
        ),
    ],
)
def test_a_launch_that_fails(made: Any, text: str, status: int, error: type[Exception]) -> None:
    cuda = Cuda()
    function = made(cuda)
    cuda.failure = Failed(text, status)
    with pytest.raises(error, match="launching tw_x"):
        function.launch(*SHAPE, 0, Arguments(ARGUMENTS))
    assert cuda.context == THEIRS
    cuda.failure = None
    function.launch(*SHAPE, 0, Arguments(ARGUMENTS))
    assert len(cuda.launches) == 1


def test_kernels_are_launched_on_streams() -> None:
    cuda = Cuda()
    cupys(cuda).launch(*SHAPE, 0, Arguments(ARGUMENTS), 7)
    assert cuda.launches[0][-1] == 7
    with pytest.raises(UsageError, match="another library's stream"):
        pycudas(cuda).launch(*SHAPE, 0, Arguments(ARGUMENTS), 7)
    assert cuda.context == THEIRS


def test_code_in_c_is_told_the_drivers_own_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    function = cupys(Cuda())
    context: Any = function._context
    context.overlaps = True
    libc = ctypes.CDLL(None)
    asked: list[str] = []
    monkeypatch.setattr(cupy_driver, "library_function", lambda name: (asked.append(name), libc.memset)[1])
    found = function.native()
    assert found is not None
    assert asked == [
        "cuLaunchKernelEx", "cuMemsetD8Async", "cuTensorMapReplaceAddress", "cuCtxGetCurrent", "cuCtxSetCurrent",
    ]  # fmt: skip
    assert found.launch == ctypes.cast(libc.memset, ctypes.c_void_p).value
    assert (found.function, found.context, found.early) == (5, OURS, True)

    def missing(name: str) -> Any:
        raise LaunchError(f"the driver has no {name}")

    monkeypatch.setattr(cupy_driver, "library_function", missing)
    assert function.native() is None
    assert pycudas(Cuda()).native() is None


def test_code_is_loaded_whatever_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA exchanges the thread's mode of capture: relaxed while code is loaded, and back."""
    mode = [0]

    def exchange(given: Any) -> None:
        given._obj.value, mode[0] = mode[0], given._obj.value

    monkeypatch.setattr(cuda_driver, "library_function", lambda name: exchange)
    with cuda_driver.relaxed():
        assert mode == [2]
    assert mode == [0]


def test_an_early_launch_tells_the_driver_so_where_the_device_has_such() -> None:
    """The driver's library gets CUDA's own structures; devices before Hopper are launched on as ever."""
    cuda, told = Cuda(), []
    function = cupys(cuda)
    context: Any = function._context

    def launch(config: Any, handle: int, parameters: int, extra: None) -> int:
        c = config._obj
        [attribute] = c.attributes[: c.count]
        told.append((tuple(c.grid), tuple(c.block), c.shared, c.stream, attribute.id, attribute.value, handle))
        return 0 if len(told) == 1 else 719

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(early, "_launcher", lambda: launch)
        context.overlaps = False
        function.launch(*SHAPE, 0, Arguments(ARGUMENTS), 7, True)
        assert (len(cuda.launches), told) == (1, [])
        context.overlaps = True
        function.launch(*SHAPE, 1000, Arguments(ARGUMENTS), 7, True)
        with pytest.raises(DeviceError, match="launching tw_x"):
            function.launch(*SHAPE, 1000, Arguments(ARGUMENTS), 7, True)
    assert told[0] == (*SHAPE, 1000, 7, 6, 1, 5)
    assert len(cuda.launches) == 1
    assert (ctypes.sizeof(early._Attribute), ctypes.sizeof(early._Config)) == (72, 56)
