"""Order of a thread's global memory accesses, as other blocks see them."""

from __future__ import annotations

from tilewright.kernels.primitives.primitive import Conformance, Primitive, words

_PTX = """
TW_DEVICE void threadfence() { __threadfence(); }
"""

_EMULATED = """
TW_DEVICE void threadfence(int line = __builtin_LINE()) { emu::memory_fence(line); }
"""

_BODY = """
    out[threadIdx.x] = x0[threadIdx.x];
    tw::threadfence();
    out[threadIdx.x] += 1;
"""

PRIMITIVE = Primitive(
    "threadfence",
    "what this thread wrote to global memory before is seen before what it writes after",
    80,
    _PTX,
    _EMULATED,
    ("threadfence",),
    (Conformance("plain", _BODY, lambda: (words(32, 80),), "uint32", 32, lambda x: x + 1),),
)
