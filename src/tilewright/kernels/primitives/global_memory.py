"""Loads and stores of global memory, 1 to 16 bytes a thread.

``load_global`` takes the read-only path; ``load_written`` reads what a launch before this one wrote, which may have
gone on while this one began: no compiler moves it across ``grid_wait``.
"""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

# Loads take the read-only path: nothing in the same launch may write what they read. They are no
# volatile asm, so that the compiler may move and merge them.
_PTX = """
template <class P> union wide_ { P value; u8 b; u16 h; u32 w; uint2 d; uint4 q; __device__ wide_() {} };
template <class P> TW_DEVICE P load_global(const void *p) {
    wide_<P> u;
    u64 g = __cvta_generic_to_global(p);
    if constexpr (sizeof(P) == 1) { u32 v; asm("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"(g)); u.b = (u8)v; }
    else if constexpr (sizeof(P) == 2) asm("ld.global.nc.u16 %0, [%1];" : "=h"(u.h) : "l"(g));
    else if constexpr (sizeof(P) == 4) asm("ld.global.nc.u32 %0, [%1];" : "=r"(u.w) : "l"(g));
    else if constexpr (sizeof(P) == 8)
        asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(u.d.x), "=r"(u.d.y) : "l"(g));
    else {
        static_assert(sizeof(P) == 16, "1, 2, 4, 8 or 16 bytes");
        asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(u.q.x), "=r"(u.q.y), "=r"(u.q.z), "=r"(u.q.w) : "l"(g));
    }
    return u.value;
}
template <class P> TW_DEVICE P load_written(const void *p) {
    wide_<P> u;
    u64 g = __cvta_generic_to_global(p);
    if constexpr (sizeof(P) == 4) asm volatile("ld.global.u32 %0, [%1];" : "=r"(u.w) : "l"(g) : "memory");
    else if constexpr (sizeof(P) == 8)
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(u.d.x), "=r"(u.d.y) : "l"(g) : "memory");
    else {
        static_assert(sizeof(P) == 16, "4, 8 or 16 bytes");
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(u.q.x), "=r"(u.q.y), "=r"(u.q.z), "=r"(u.q.w) : "l"(g) : "memory");
    }
    return u.value;
}
template <class P> TW_DEVICE void store_global(void *p, P v) {
    wide_<P> u;
    u.value = v;
    if constexpr (sizeof(P) == 1) *(u8 *)p = u.b;
    else if constexpr (sizeof(P) == 2) *(u16 *)p = u.h;
    else if constexpr (sizeof(P) == 4) *(u32 *)p = u.w;
    else if constexpr (sizeof(P) == 8) *(uint2 *)p = u.d;
    else {
        static_assert(sizeof(P) == 16, "1, 2, 4, 8 or 16 bytes");
        *(uint4 *)p = u.q;
    }
}
"""

_EMULATED = """
template <class P> TW_DEVICE P load_global(const void *p, int line = __builtin_LINE()) {
    static_assert(sizeof(P) <= 16 && (sizeof(P) & (sizeof(P) - 1)) == 0, "1, 2, 4, 8 or 16 bytes");
    emu::note_global(p, sizeof(P), false, line);
    P v;
    __builtin_memcpy(&v, p, sizeof(P));
    return v;
}
template <class P> TW_DEVICE P load_written(const void *p, int line = __builtin_LINE()) {
    static_assert(sizeof(P) == 4 || sizeof(P) == 8 || sizeof(P) == 16, "4, 8 or 16 bytes");
    return load_global<P>(p, line);
}
template <class P> TW_DEVICE void store_global(void *p, P v, int line = __builtin_LINE()) {
    static_assert(sizeof(P) <= 16 && (sizeof(P) & (sizeof(P) - 1)) == 0, "1, 2, 4, 8 or 16 bytes");
    emu::note_global(p, sizeof(P), true, line);
    __builtin_memcpy(p, &v, sizeof(P));
}
"""

# Each thread moves one piece of every size, from the other end of its row.
_SIZES = """
    int t = threadIdx.x;
    const unsigned char *a = (const unsigned char *)x0;
    unsigned char *o = (unsigned char *)out;
    tw::store_global(o + t, tw::load_global<tw::pack<signed char, 1>>(a + 31 - t));
    tw::store_global(o + 32 + 2 * t, tw::load_global<tw::f16>(a + 32 + 2 * (31 - t)));
    tw::store_global(o + 96 + 4 * t, tw::load_global<float>(a + 96 + 4 * (31 - t)));
    tw::store_global(o + 224 + 8 * t, tw::load_global<double>(a + 224 + 8 * (31 - t)));
    tw::store_global(o + 480 + 16 * t, tw::load_global<tw::pack<float, 4>>(a + 480 + 16 * (31 - t)));
"""

_PACKS = """
    int t = threadIdx.x;
    tw::pack<tw::f16, 8> h = tw::load_global<tw::pack<tw::f16, 8>>(x0 + 4 * t), r;
    for (int i = 0; i < 8; i++) r.v[i] = h.v[7 - i];
    tw::store_global(out + 4 * t, r);
    tw::pack<signed char, 4> b = tw::load_global<tw::pack<signed char, 4>>(x0 + t);
    tw::pack<int, 4> w;
    for (int i = 0; i < 4; i++) w.v[i] = b.v[i];
    tw::store_global(out + 128 + 4 * t, w);
"""


# What the block itself wrote before, in 4, 8 and 16 bytes.
_WRITTEN = """
    int t = threadIdx.x;
    for (int i = t; i < 224; i += 32) tw::store_global(out + 224 + i, x0[i]);
    tw::sync();
    tw::store_global(out + t, tw::load_written<float>(out + 224 + 31 - t));
    tw::store_global(out + 32 + 2 * t, tw::load_written<double>(out + 256 + 2 * (31 - t)));
    tw::store_global(out + 96 + 4 * t, tw::load_written<tw::pack<float, 4>>(out + 320 + 4 * (31 - t)));
"""


def _written(x: Array) -> Array:
    pieces = ((0, 1), (32, 2), (96, 4))
    turned = [x[at : at + 32 * n].reshape(32, n)[::-1].reshape(-1) for at, n in pieces]
    return np.concatenate([*turned, x])


def sizes(x: Array) -> Array:
    raw, parts, at = x.view(np.uint8), [], 0
    for size in (1, 2, 4, 8, 16):
        parts.append(raw[at : at + 32 * size].reshape(32, size)[::-1].reshape(-1))
        at += 32 * size
    return np.concatenate(parts).view(np.uint32)


def packs(x: Array) -> Array:
    halves = x.view(np.uint16).reshape(32, 8)[:, ::-1].reshape(-1).view(np.uint32)
    return np.concatenate([halves, x[:32].view(np.int8).astype(np.int32).view(np.uint32)])


PRIMITIVE = Primitive(
    "global_memory",
    "read-only loads and stores of global memory in 1, 2, 4, 8 or 16 bytes",
    80,
    _PTX,
    _EMULATED,
    ("load_global", "load_written", "store_global"),
    (
        Conformance("sizes", _SIZES, lambda: (words(248, 3),), "uint32", 248, sizes),
        Conformance("written", _WRITTEN, lambda: (words(224, 82),), "uint32", 448, _written),
        Conformance("packs", _PACKS, lambda: (words(128, 4),), "uint32", 256, packs),
    ),
)
