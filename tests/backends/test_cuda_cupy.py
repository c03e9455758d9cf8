"""CuPy itself, where it is installed: the functions used exist with the arguments given, and errors are clear."""

from __future__ import annotations

import importlib
import re

import pytest

from tilewright.backends.cuda.archs import limits_of
from tilewright.backends.cuda.cupy_driver import CupyDriver, installed_packages
from tilewright.backends.cuda.targets import gpus_or_none
from tilewright.backends.driver import NoDriver

pytestmark = pytest.mark.skipif(not installed_packages(), reason="CuPy is not installed")

# Function -> how many arguments it is given.
RUNTIME = {
    "getDeviceCount": 0, "setDevice": 1, "free": 1, "malloc": 1, "memGetInfo": 0, "getDeviceProperties": 1,
    "deviceGetAttribute": 2, "deviceGetPCIBusId": 1, "runtimeGetVersion": 0, "driverGetVersion": 0, "memcpy": 4,
    "memcpyAsync": 5, "memsetAsync": 4, "streamSynchronize": 1, "deviceSynchronize": 0, "eventCreate": 0,
    "eventDestroy": 1, "eventRecord": 2, "eventElapsedTime": 2, "streamBeginCapture": 2, "streamEndCapture": 1,
    "graphInstantiate": 1, "graphLaunch": 2, "graphDestroy": 1, "graphExecDestroy": 1,
}  # fmt: skip
DRIVER = {
    "ctxGetCurrent": 0, "ctxSetCurrent": 1, "moduleLoadData": 1, "moduleUnload": 1, "moduleGetFunction": 2,
    "funcSetAttribute": 3, "launchKernel": 11,
}  # fmt: skip
NUMBERS = {
    "MaxThreadsPerBlock": 1, "ClockRate": 13, "MultiProcessorCount": 16, "MemoryClockRate": 36,
    "GlobalMemoryBusWidth": 37, "L2CacheSize": 38, "MaxThreadsPerMultiProcessor": 39,
    "MaxSharedMemoryPerMultiprocessor": 81, "MaxRegistersPerMultiprocessor": 82, "MaxSharedMemoryPerBlockOptin": 97,
    "MaxBlocksPerMultiprocessor": 106, "ReservedSharedMemoryPerBlock": 111,
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name", "count"),
    [("runtime", n, c) for n, c in RUNTIME.items()] + [("driver", n, c) for n, c in DRIVER.items()],
)
def test_functions_take_what_they_are_given(module: str, name: str, count: int) -> None:
    function = getattr(getattr(importlib.import_module("cupy").cuda, module), name)
    signature = re.match(rf"{name}\(([^)]*)\)", function.__doc__ or "")
    assert signature is not None
    assert len([a for a in signature[1].split(",") if a.strip()]) == count


def test_numbers_of_attributes() -> None:
    runtime = importlib.import_module("cupy").cuda.runtime
    assert {n: getattr(runtime, f"cudaDevAttr{n}") for n in NUMBERS} == NUMBERS
    asked: list[int] = []
    limits_of(lambda number: asked.append(number) or 1, 0)  # type: ignore[func-returns-value]
    assert set(asked) - {75, 76} == set(NUMBERS.values())


def test_kinds_of_copies_and_errors() -> None:
    cuda = importlib.import_module("cupy").cuda
    assert (cuda.runtime.memcpyHostToDevice, cuda.runtime.memcpyDeviceToHost) == (1, 2)
    assert cuda.runtime.memcpyDeviceToDevice == 3
    assert cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES == 8
    assert cuda.runtime.CUDARuntimeError(700).status == 700


@pytest.mark.skipif(bool(gpus_or_none()), reason="this machine has a GPU")
def test_without_a_driver() -> None:
    with pytest.raises(NoDriver) as e:
        CupyDriver()
    assert e.value.hint
