"""Loads and stores of global and shared memory, 1 to 16 bytes a thread, and programmatic dependent launches.

``load_global`` takes the read-only path. ``load_written`` reads results of the previous launch, which may still run
when this launch begins: no compiler moves the load across ``grid_wait``.
"""

from __future__ import annotations

from string import Template

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

# Loads take the read-only path: no thread of the launch may write the memory that they read. Their asm is not volatile,
# so that the compiler may move and merge them.
_GLOBAL_MEMORY_PTX = """
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

_GLOBAL_MEMORY_EMULATED = """
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

# Each thread copies one value of every size, from the mirrored position.
_EVERY_SIZE = """
    unsigned char *o = (unsigned char *)out;
    tw::store_global(o + t, tw::$load<tw::pack<signed char, 1>>($base + 31 - t));
    tw::store_global(o + 32 + 2 * t, tw::$load<tw::f16>($base + 32 + 2 * (31 - t)));
    tw::store_global(o + 96 + 4 * t, tw::$load<float>($base + 96 + 4 * (31 - t)));
    tw::store_global(o + 224 + 8 * t, tw::$load<double>($base + 224 + 8 * (31 - t)));
    tw::store_global(o + 480 + 16 * t, tw::$load<tw::pack<float, 4>>($base + 480 + 16 * (31 - t)));
"""

_GLOBAL_MEMORY_SIZES = """
    int t = threadIdx.x;
    const unsigned char *a = (const unsigned char *)x0;""" + Template(_EVERY_SIZE).substitute(
    load="load_global", base="a"
)

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


# Values that the block itself wrote before, in 4, 8 and 16 bytes.
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


_GLOBAL_MEMORY = Primitive(
    "global_memory",
    "read-only loads and stores of global memory in 1, 2, 4, 8 or 16 bytes",
    80,
    _GLOBAL_MEMORY_PTX,
    _GLOBAL_MEMORY_EMULATED,
    ("load_global", "load_written", "store_global"),
    (
        Conformance("sizes", _GLOBAL_MEMORY_SIZES, lambda: (words(248, 3),), "uint32", 248, sizes),
        Conformance("written", _WRITTEN, lambda: (words(224, 82),), "uint32", 448, _written),
        Conformance("packs", _PACKS, lambda: (words(128, 4),), "uint32", 256, packs),
    ),
)


# --------------------------------------------------------------------------- grid

# Launches that begin before the previous launch has ended, and a wait for its results.
#
# Programmatic dependent launch: blocks of the next launch may start once every block of this launch has called
# ``grid_launch`` or ended. ``grid_wait`` returns when the previous launches have ended and their writes are visible.
# Before Hopper, and where the launch may not begin early, both do nothing.

_GRID_PTX = """
#if __CUDA_ARCH__ >= 900
TW_DEVICE void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
TW_DEVICE void grid_launch() { asm volatile("griddepcontrol.launch_dependents;"); }
#else
TW_DEVICE void grid_wait() {}
TW_DEVICE void grid_launch() {}
#endif
"""

_GRID_EMULATED = """
TW_DEVICE void grid_wait(int line = __builtin_LINE()) { emu::grid_wait(line); }
TW_DEVICE void grid_launch(int = __builtin_LINE()) {}
"""

_BODY = """
    tw::grid_launch();
    tw::grid_wait();
    out[threadIdx.x] = x0[threadIdx.x] + 1;
"""

_GRID = Primitive(
    "grid",
    "programmatic dependent launch: waits for the previous launches, and lets the next launch begin",
    80,
    _GRID_PTX,
    _GRID_EMULATED,
    ("grid_wait", "grid_launch"),
    (Conformance("alone", _BODY, lambda: (words(32, 81),), "uint32", 32, lambda x: x + 1),),
)


# --------------------------------------------------------------------------- shared memory

# Loads, stores and addresses of shared memory.

# Plain accesses: the compiler knows that they are to shared memory, and orders them around barriers.
_SHARED_MEMORY_PTX = """
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

_SHARED_MEMORY_EMULATED = """
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

_SHARED_MEMORY_SIZES = """
    TW_SHARED(smem);
    int t = threadIdx.x;
    for (int i = t; i < 248; i += 32) tw::store_shared(smem + 4 * i, x0[i]);
    tw::sync();""" + Template(_EVERY_SIZE).substitute(load="load_shared", base="smem")

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

_SHARED_MEMORY = Primitive(
    "shared_memory",
    "loads and stores of shared memory in 1, 2, 4, 8 or 16 bytes; 32-bit shared addresses",
    80,
    _SHARED_MEMORY_PTX,
    _SHARED_MEMORY_EMULATED,
    ("shared_address", "load_shared", "store_shared"),
    (
        Conformance("loads", _SHARED_MEMORY_SIZES, lambda: (words(248, 5),), "uint32", 248, sizes, shared=992),
        Conformance("stores", _STORES, lambda: (words(192, 6),), "uint32", 192, lambda x: x, shared=768),
        Conformance(
            "address", _ADDRESS, lambda: (words(1, 7),), "uint32", 32, shared=640,
            expected=lambda x: np.arange(32, dtype=np.uint32) * np.uint32(20) + x,
        ),
    ),
)  # fmt: skip

PRIMITIVES = (_GLOBAL_MEMORY, _GRID, _SHARED_MEMORY)
