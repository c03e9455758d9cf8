"""Registers handed from warp groups that need few to those that hold accumulators."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Conformance, Primitive, words

_PTX = """
template <int N> TW_DEVICE void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
template <int N> TW_DEVICE void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }
"""

_EMULATED = """
template <int N> TW_DEVICE void fewer_registers(int line = __builtin_LINE()) { emu::group_registers(N, false, line); }
template <int N> TW_DEVICE void more_registers(int line = __builtin_LINE()) { emu::group_registers(N, true, line); }
"""

_BODY = """
    if (threadIdx.x < 128) {
        tw::fewer_registers<40>();
        out[threadIdx.x] = x0[threadIdx.x];
    } else {
        tw::more_registers<232>();
        out[threadIdx.x] = x0[threadIdx.x] + 1;
    }
"""

PRIMITIVE = Primitive(
    "setmaxnreg",
    "registers that the threads of a warp group may use, fewer or more than at the launch",
    90,
    _PTX,
    _EMULATED,
    ("fewer_registers", "more_registers"),
    (
        Conformance(
            "handed", _BODY, lambda: (words(384, 53),), "uint32", 384, threads=384,
            expected=lambda x: x + (np.arange(384) >= 128).astype(np.uint32),
        ),
    ),
    most_cc=90,
)  # fmt: skip
