"""Loads, stores and addresses of shared memory."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.global_memory import sizes
from tilewright.kernels.primitives.primitive import Conformance, Primitive, words

# Plain accesses: the compiler knows that they are shared memory, and orders them around barriers.
_PTX = """
TW_DEVICE u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
template <class P> TW_DEVICE P load_shared(const void *p) {
    static_assert(sizeof(P) <= 16 && alignof(P) == sizeof(P), "1, 2, 4, 8 or 16 bytes");
    return *(const P *)p;
}
template <class P> TW_DEVICE void store_shared(void *p, P v) {
    static_assert(sizeof(P) <= 16 && alignof(P) == sizeof(P), "1, 2, 4, 8 or 16 bytes");
    *(P *)p = v;
}
"""

_EMULATED = """
TW_DEVICE u32 shared_address(const void *p, int line = __builtin_LINE()) { return emu::shared_address(p, line); }
template <class P> TW_DEVICE P load_shared(const void *p, int line = __builtin_LINE()) {
    static_assert(sizeof(P) <= 16 && alignof(P) == sizeof(P), "1, 2, 4, 8 or 16 bytes");
    emu::note_shared(p, sizeof(P), false, line);
    P v;
    __builtin_memcpy(&v, p, sizeof(P));
    return v;
}
template <class P> TW_DEVICE void store_shared(void *p, P v, int line = __builtin_LINE()) {
    static_assert(sizeof(P) <= 16 && alignof(P) == sizeof(P), "1, 2, 4, 8 or 16 bytes");
    emu::note_shared(p, sizeof(P), true, line);
    __builtin_memcpy(p, &v, sizeof(P));
}
"""

_SIZES = """
    TW_SHARED(smem);
    int t = threadIdx.x;
    for (int i = t; i < 248; i += 32) tw::store_shared(smem + 4 * i, x0[i]);
    tw::sync();
    unsigned char *o = (unsigned char *)out;
    tw::store_global(o + t, tw::load_shared<tw::pack<signed char, 1>>(smem + 31 - t));
    tw::store_global(o + 32 + 2 * t, tw::load_shared<tw::f16>(smem + 32 + 2 * (31 - t)));
    tw::store_global(o + 96 + 4 * t, tw::load_shared<float>(smem + 96 + 4 * (31 - t)));
    tw::store_global(o + 224 + 8 * t, tw::load_shared<double>(smem + 224 + 8 * (31 - t)));
    tw::store_global(o + 480 + 16 * t, tw::load_shared<tw::pack<float, 4>>(smem + 480 + 16 * (31 - t)));
"""

# Wide stores, read back a byte at a time.
_STORES = """
    TW_SHARED(smem);
    int t = threadIdx.x;
    tw::store_shared(smem + 16 * t, tw::load_global<tw::pack<tw::u32, 4>>(x0 + 4 * t));
    tw::store_shared(smem + 512 + 8 * t, tw::load_global<tw::pack<tw::f16, 4>>(x0 + 128 + 2 * t));
    tw::sync();
    for (int i = t; i < 192; i += 32) {
        tw::u32 w = 0;
        for (int b = 0; b < 4; b++) w |= (tw::u32)tw::load_shared<unsigned char>(smem + 4 * i + b) << (8 * b);
        out[i] = w;
    }
"""

# Addresses are compared with the first one, which the hardware chooses.
_ADDRESS = """
    TW_SHARED(smem);
    tw::u32 base = tw::shared_address(smem);
    out[threadIdx.x] = tw::shared_address(smem + 20 * threadIdx.x) - base + (base & 127) * 1000 + x0[0];
"""

PRIMITIVE = Primitive(
    "shared_memory",
    "loads and stores of shared memory in 1, 2, 4, 8 or 16 bytes; 32-bit shared addresses",
    80,
    _PTX,
    _EMULATED,
    ("shared_address", "load_shared", "store_shared"),
    (
        Conformance("loads", _SIZES, lambda: (words(248, 5),), "uint32", 248, sizes, shared=992),
        Conformance("stores", _STORES, lambda: (words(192, 6),), "uint32", 192, lambda x: x, shared=768),
        Conformance(
            "address", _ADDRESS, lambda: (words(1, 7),), "uint32", 32, shared=640,
            expected=lambda x: np.arange(32, dtype=np.uint32) * np.uint32(20) + x,
        ),
    ),
)  # fmt: skip
