"""What all drivers share: launches resolved, CUDA's errors sorted, a driver chosen, nothing imported early."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tilewright.backends.arguments import Arguments
from tilewright.backends.cuda import cubin, cupy_driver, driver, status
from tilewright.backends.cuda.archs import VARIANTS
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.driver import (
    DeviceError,
    LaunchError,
    LoadError,
    NoDriver,
    NotInstalled,
    OutOfMemory,
    Prepared,
    prepare,
)
from tilewright.core import Launch, UsageError

TENSORS = (0x1000, 0x2000, 0x3000)


def prepared(launch: Launch, workspace: int, values: dict[str, int]) -> Prepared:
    """A launch on three tensors."""
    made = prepare(launch, len(TENSORS), values)
    made.point(TENSORS, workspace)
    return made


def test_a_kernel_is_launched_with_plain_arguments() -> None:
    launch = Launch("k", ("n", "m"), grid=(["ceildiv", "n", 128], "m"), block=(32, 4), shared=["*", "m", 1024])
    made = prepared(launch, 0x9000, {"n": 1000, "m": 3, "unused": 1})
    assert (made.grid, made.block, made.shared) == ((8, 3, 1), (32, 4, 1), 3072)
    assert made.arguments.parameters == (
        ("pointer", 0x1000), ("pointer", 0x2000), ("pointer", 0x3000), ("pointer", 0x9000), ("int32", 1000), ("int32", 3),
    )  # fmt: skip


def test_a_kernel_is_launched_with_listed_parameters() -> None:
    given = (
        ("tensor", 2), ("int64", ["*", "n", 1 << 30]), ("float32", 0.5), ("float64", "n"), ("workspace", ["+", "n", 6]),
        ("int32", -5), ("tensor", 0),
    )  # fmt: skip
    launch = Launch("k", (), grid=(1,), block=(64,), parameters=given)
    assert prepared(launch, 0x100, {"n": 10}).arguments.parameters == (
        ("pointer", 0x3000), ("int64", 10 << 30), ("float32", 0.5), ("float64", 10.0), ("pointer", 0x110),
        ("int32", -5), ("pointer", 0x1000),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (Launch("k", ("absent",), grid=(1,), block=(1,)), "'absent' has no value"),
        (Launch("k", ("n",), grid=(1,), block=(1,)), "1099511627776 does not fit in 32 bits"),
        (Launch("k", (), grid=("absent",), block=(1,)), "'absent' has no value"),
        (Launch("k", ()), "no grid and block"),
        (Launch("k", (), grid=(1,), block=(1,), parameters=(("tensor", 3),)), "more tensors than the 3"),
        (Launch("k", (), grid=(1,), block=(1,), parameters=(("matrix", 3),)), "no parameter of kind 'matrix'"),
    ],
)
def test_launches_that_do_not_resolve(launch: Launch, words: str) -> None:
    with pytest.raises(LaunchError) as e:
        prepared(launch, 0, {"n": 1 << 40})
    assert words in e.value.message


# --------------------------------------------------------------------------- argument blocks

ARGUMENTS = (
    ("pointer", 0x7F0000001000),
    ("int32", -7),
    ("int64", 1 << 40),
    ("float32", 1.5),
    ("pointer", 0),
    ("float64", 0.1),
)


class Block(ctypes.Structure):
    _fields_ = (
        ("a", ctypes.c_void_p), ("b", ctypes.c_int32), ("c", ctypes.c_int64), ("d", ctypes.c_float),
        ("e", ctypes.c_void_p), ("f", ctypes.c_double),
    )  # fmt: skip


C_TYPES: dict[str, Any] = {
    "pointer": ctypes.c_void_p, "int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}  # fmt: skip


def test_pointers_to_arguments() -> None:
    kept = Arguments(ARGUMENTS)
    for first in (ARGUMENTS[0][1], 0x7F0000002000):
        kept.values[0] = first
        pointers = (ctypes.c_void_p * len(ARGUMENTS)).from_address(kept.pointers())
        got = [C_TYPES[kind].from_address(p).value for (kind, _), p in zip(ARGUMENTS, pointers, strict=True)]
        assert got == [first, *(v if v != 0 else None for _, v in ARGUMENTS[1:])]
    assert kept.pointers() == kept.pointers()
    assert Arguments(()).pointers()


def test_an_argument_block_is_laid_out_as_c_does() -> None:
    kept = Arguments(ARGUMENTS)
    packed = kept.packed()
    expected = bytes(Block(*(v for _, v in ARGUMENTS)))
    # Padding is not compared: struct writes zeros there, ctypes what was in memory.
    assert len(packed) == len(expected)
    assert bytes(Block.from_buffer_copy(packed)) == packed
    assert struct.unpack_from("@Piqf", packed) == tuple(v for _, v in ARGUMENTS[:4])
    for block in (Block.from_buffer_copy(packed), Block.from_address(_first(kept))):
        assert (block.a, block.b, block.c, block.d, block.e, block.f) == (0x7F0000001000, -7, 1 << 40, 1.5, None, 0.1)


def _first(arguments: Arguments) -> int:
    """Where the memory behind the pointers begins."""
    return ctypes.c_void_p.from_address(arguments.pointers()).value or 0


# --------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("code", "kind", "sticky"),
    [
        (2, OutOfMemory, None), (700, DeviceError, True), (715, DeviceError, True), (716, DeviceError, True),
        (719, DeviceError, True), (702, DeviceError, True), (999, DeviceError, True), (600, DeviceError, False),
        (1, LaunchError, None), (9, LaunchError, None), (400, LaunchError, None), (701, LaunchError, None),
        (200, LoadError, None), (209, LoadError, None), (222, LoadError, None), (500, LoadError, None),
        (35, NoDriver, None), (100, NoDriver, None), (101, NoDriver, None), (803, NoDriver, None),
        (None, DeviceError, False),
    ],
)  # fmt: skip
def test_error_codes_become_errors(code: int | None, kind: type[Exception], sticky: bool | None) -> None:
    error = status.error_of(code, "cudaErrorX: it broke\nbadly", "launching tw_k")
    assert type(error) is kind
    assert "\n" not in error.message
    if kind not in (NoDriver,):
        assert "launching tw_k" in error.message
    if isinstance(error, DeviceError):
        assert error.sticky is sticky


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cuMemAlloc failed: out of memory", 2),
        ("cuCtxSynchronize failed: an illegal memory access was encountered", 700),
        ("cuLaunchKernel failed: invalid argument", 1),
        ("cuModuleLoadDataEx failed: device kernel image is invalid - ", 200),
        ("cuEventRecord failed: invalid resource handle", 400),
        ("something new", None),
    ],
)
def test_texts_without_a_code(text: str, code: int | None) -> None:
    assert status.code_of(text) == code


# --------------------------------------------------------------------------- choosing


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(UsageError, match="no CUDA driver 'opencl'") as e:
        get_driver("opencl")
    assert "cupy, pycuda" in e.value.hint


def test_what_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_driver, "installed_packages", dict)
    with pytest.raises(NotInstalled) as e:
        get_driver("cupy")
    assert "tilewright[cuda13]" in e.value.hint
    try:
        import pycuda  # noqa: F401
    except ImportError:
        with pytest.raises(NotInstalled) as e:
            get_driver("pycuda")
        assert "docs/cuda.md" in e.value.hint
        with pytest.raises(NotInstalled, match="CuPy is not installed"):
            get_driver()


def test_a_broken_cupy_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise NotInstalled("no pycuda") if name == "pycuda" else NoDriver("cupy-cuda13x is for CUDA 13")

    monkeypatch.setattr(driver, "_make", broken)
    with pytest.raises(NoDriver, match="is for CUDA 13"):
        get_driver()


def test_two_cupys_hide_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_driver, "installed_packages", lambda: {"cupy-cuda13x": "14", "cupy-cuda12x": "13.6"})
    with pytest.raises(NoDriver, match="both installed") as e:
        get_driver("cupy")
    assert "pip uninstall cupy-cuda13x cupy-cuda12x" in e.value.hint


@pytest.mark.parametrize(
    ("runtime", "found", "message", "hint"),
    [
        (13020, 12040, "cupy-cuda13x is for CUDA 13, and this driver supports CUDA 12.4", "tilewright[cuda12]"),
        (12090, 11040, "cupy-cuda13x is for CUDA 12, and this driver supports CUDA 11.4", "Update the driver"),
        (13020, 0, "there is no NVIDIA driver on this machine", "--target cpu"),
    ],
)
def test_cupy_for_the_wrong_cuda(runtime: int, found: int, message: str, hint: str) -> None:
    with pytest.raises(NoDriver) as e:
        cupy_driver.check_releases("cupy-cuda13x", runtime, found)
    assert e.value.message == message
    assert hint in e.value.hint


def test_cupy_that_fits() -> None:
    cupy_driver.check_releases("cupy-cuda12x", 12090, 12020)  # minor versions are compatible
    cupy_driver.check_releases("cupy-cuda12x", 12090, 13000)


def test_bindings_are_imported_when_a_driver_is_made() -> None:
    code = (
        "import sys\n"
        "import tilewright.backends, tilewright.backends.cuda.backend, tilewright.backends.cuda.device\n"
        "import tilewright.backends.cuda.cupy_driver, tilewright.backends.cuda.pycuda_driver\n"
        "from tilewright.backends.cuda.driver import get_driver\n"
        "assert not {'cupy', 'pycuda'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --------------------------------------------------------------------------- blocker


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_blocking_kernel_compiles(variant: str) -> None:
    from cuda_kernels import nvrtc

    if not nvrtc().supports(variant):
        pytest.skip(f"{nvrtc().name} does not know {variant}")
    assert list(cubin.parse(driver.blocker(variant)).kernels) == [driver.BLOCKER]


def test_blocker_is_bounded() -> None:
    assert driver.blocker_parameters(2e-3) == (("int64", 2_000_000), ("int64", 1_000_000))
    for seconds in (-1.0, 11.0, float(np.nan)):
        with pytest.raises(UsageError, match="a blocker of"):
            driver.blocker_parameters(seconds)
