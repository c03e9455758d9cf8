"""Block barrier and warp barrier."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Conformance, Primitive, words

_PTX = """
TW_DEVICE void sync() { __syncthreads(); }
TW_DEVICE void sync_warp() { __syncwarp(); }
"""

_EMULATED = """
TW_DEVICE void sync(int line = __builtin_LINE()) { emu::block_barrier(line); }
TW_DEVICE void sync_warp(int line = __builtin_LINE()) { emu::warp_collective("sync_warp", line, nullptr, nullptr); }
"""

# Each round hands every thread another thread's word through shared memory.
_BLOCK = """
    TW_SHARED(smem);
    tw::u32 *s = (tw::u32 *)smem;
    int t = threadIdx.x;
    tw::u32 v = x0[blockIdx.x * 96 + t];
    for (int i = 0; i < 5; i++) {
        s[t] = v;
        tw::sync();
        v = s[(t + 37) % 96] + i;
        tw::sync();
    }
    out[blockIdx.x * 96 + t] = v;
"""

_WARP = """
    TW_SHARED(smem);
    tw::u32 *s = (tw::u32 *)smem + threadIdx.x / 32 * 32;
    int t = threadIdx.x % 32;
    s[t] = x0[threadIdx.x];
    tw::sync_warp();
    out[threadIdx.x] = s[31 - t];
"""

PRIMITIVE = Primitive(
    "sync",
    "barriers of a block and of a warp; memory written before is seen after",
    80,
    _PTX,
    _EMULATED,
    ("sync", "sync_warp"),
    (
        Conformance(
            "block", _BLOCK, lambda: (words(192, 1),), "uint32", 192, threads=96, blocks=2, shared=384,
            expected=lambda x: (np.roll(x.reshape(2, 96), -185, axis=1) + np.uint32(10)).reshape(-1),
        ),
        Conformance(
            "warp", _WARP, lambda: (words(64, 2),), "uint32", 64, threads=64, shared=256,
            expected=lambda x: x.reshape(2, 32)[:, ::-1].reshape(-1),
        ),
    ),
)  # fmt: skip
