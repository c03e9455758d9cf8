"""Handwritten CUDA kernels for the emulator, right and wrong. Each has 64 threads a block and 4 blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.backends.cuda import archs
from tilewright.backends.emulator import EmulatedKernel, Report, build, run
from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.codegen.prelude import prelude

Floats = NDArray[np.float32]

THREADS, BLOCKS = 64, 4
SIZE = THREADS * BLOCKS
SHARED = 512


def unit(bodies: Mapping[str, str]) -> str:
    """A translation unit: the prelude, then a kernel of each body.

    ``t``: the thread, ``b``: the block, ``i``: the element, ``s``: shared floats, ``n``: 256.
    """
    kernels = "".join(
        f"TW_KERNEL({THREADS}, 1) void {name}(const float *__restrict__ x0, float *__restrict__ out, "
        "unsigned char *ws, int n) { TW_SHARED(smem); float *s = (float *)smem; "
        f"const int t = threadIdx.x, b = blockIdx.x, i = b * {THREADS} + t; "
        f"(void)s; (void)t; (void)b; (void)i; (void)ws; (void)n;\n{body}\n}}\n"
        for name, body in bodies.items()
    )
    return prelude(archs.target("sm_80"), emulated=True) + '#line 1 "kernel"\n' + kernels


def line_of(bodies: Mapping[str, str], name: str, mark: str = "// HERE") -> int:
    """The kernel line that bears a mark."""
    text = unit(bodies).partition('#line 1 "kernel"\n')[2]
    lines = text.splitlines()
    first = next(n for n, x in enumerate(lines) if f"void {name}(" in x)
    return next(n for n in range(first, len(lines)) if mark in lines[n]) + 1


def compiled(
    bodies: Mapping[str, str], cache: Path, sanitize: Sequence[str] = (), profile: bool = False
) -> EmulatedKernel:
    return build(unit(bodies), list(bodies), sanitize=sanitize, profile=profile, cache=cache)


def program(name: str, blocks: int = BLOCKS, threads: int = THREADS, workspace: int = 1024) -> LaunchProgram:
    return LaunchProgram((Launch(name, ("n",), (blocks,), (threads,), SHARED),), workspace=workspace)


def numbers(size: int = SIZE) -> Floats:
    return np.arange(1, size + 1, dtype=np.float32)


def perform(
    kernel: EmulatedKernel,
    name: str,
    order: str = "fifo",
    copies: str = "lazy",
    timeout: float = 30.0,
    blocks: int = BLOCKS,
) -> tuple[Report, Floats]:
    size = blocks * THREADS
    output = np.empty(size, np.float32)
    inputs = [numbers(size)]
    report = run(
        kernel, program(name, blocks), {"n": size}, inputs, output, order=order, copies=copies, timeout=timeout
    )
    return report, output


def reversed_blocks(x: Floats) -> Floats:
    """What the right kernels compute: each block's elements backwards."""
    return x.reshape(-1, THREADS)[:, ::-1].reshape(-1)
