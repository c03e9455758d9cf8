"""Resources read from cubins: they agree with what the assembler says, and damage is always a clear error."""

from __future__ import annotations

import random
import struct
from functools import lru_cache

import pytest
from cuda_kernels import SAXPY, SHARED, SPILLING, STACK, TWO, nvrtc

from tilewright.backends.cuda import cubin, ptxas
from tilewright.backends.cuda.archs import VARIANTS
from tilewright.backends.cuda.build import FLAGS


@lru_cache(maxsize=32)
def compiled(source: str, variant: str = "sm_90a") -> tuple[bytes, ptxas.Report]:
    code, log = nvrtc().compile(source, (f"--gpu-architecture={variant}", *FLAGS))
    return code, ptxas.parse_log(log)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("source", [TWO + STACK, SPILLING], ids=["three", "spilling"])
def test_agrees_with_the_assemblers_log(source: str, variant: str) -> None:
    code, report = compiled(source, variant)
    parsed = cubin.parse(code)
    assert set(parsed.kernels) == set(report.kernels)
    for name, info in parsed.kernels.items():
        said = report.kernels[name]
        assert info.registers == said.registers
        assert info.shared_bytes == said.shared_bytes
        assert info.stack_bytes == said.frame_bytes
        assert info.code_bytes > 0
        assert info.constant_bytes > 0


def test_launch_bounds_shared_memory_and_stack() -> None:
    kernels = cubin.parse(compiled(TWO + STACK)[0]).kernels
    assert kernels["tw_contract_saxpy"].max_threads == 256
    assert kernels["tw_shared"].max_threads == 128
    assert kernels["tw_shared"].shared_bytes == 800
    assert kernels["tw_stack"].max_threads == 0
    assert kernels["tw_stack"].stack_bytes == 160


def test_spills_are_in_the_log_alone() -> None:
    _, report = compiled(SPILLING)
    usage = report.kernels["tw_spill"]
    assert usage.spill_stores > 0
    assert usage.spill_loads > 0
    assert usage.registers == 64  # two blocks of 512 threads on 65,536


def test_log_with_a_called_function() -> None:
    report = ptxas.parse_log(
        "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
        "ptxas info    : Function properties for helper\n"
        "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 800 bytes smem, 400 bytes cmem[0]\n"
        "ptxas warning : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x "
        "in the function 'k'\n"
        "kernel(3): warning #177-D: nobody uses it\n"
    )
    assert report.kernels == {"k": ptxas.Usage(40, 16, 4, 12, 800)}
    assert [(w.code, w.function, w.serial) for w in report.warnings] == [("C7510", "k", True)]


# --------------------------------------------------------------------------- hostile input


@pytest.mark.parametrize(
    "data",
    [b"", b"\x7fELF", b"not a cubin" * 20, b"\x7fELF\x02\x01" + bytes(200), b"\x7fELF\x01\x01" + bytes(200)],
    ids=["empty", "short", "text", "zeros", "32 bits"],
)
def test_bytes_that_are_no_cubin_are_refused(data: bytes) -> None:
    with pytest.raises(cubin.CubinError):
        cubin.parse(data)


def test_another_machines_library() -> None:
    with open("/proc/self/exe", "rb") as f, pytest.raises(cubin.CubinError, match="no cubin"):
        cubin.parse(f.read())


def test_every_truncation_is_an_error() -> None:
    code = compiled(SAXPY)[0]
    for size in range(0, len(code) - 1, 7):
        with pytest.raises(cubin.CubinError):
            cubin.parse(code[:size])


def test_random_damage_gives_a_result_or_an_error() -> None:
    code = compiled(SHARED)[0]
    rng = random.Random(0)
    refused = 0
    for _ in range(2000):
        data = bytearray(code)
        for _ in range(rng.choice((1, 1, 4, 32))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            cubin.parse(bytes(data))
        except cubin.CubinError:
            refused += 1
    assert refused > 20


def test_tables_that_point_outside() -> None:
    code = compiled(SAXPY)[0]
    for at, form in ((0x28, "<Q"), (0x3C, "<H"), (0x3E, "<H"), (0x3A, "<H")):
        data = bytearray(code)
        struct.pack_into(form, data, at, 0xFFF0)
        with pytest.raises(cubin.CubinError):
            cubin.parse(bytes(data))
    data = bytearray(code)
    struct.pack_into("<Q", data, 0x28, (1 << 64) - 64)
    with pytest.raises(cubin.CubinError):
        cubin.parse(bytes(data))
