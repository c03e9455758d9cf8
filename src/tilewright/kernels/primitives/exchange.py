"""Exchange of 32-bit and 64-bit values with the lane whose number differs in some bits."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

_PTX = """
template <class T> TW_DEVICE T exchange(T v, int mask) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "32-bit or 64-bit values");
    if constexpr (sizeof(T) == 4) return shuffle_xor(v, mask);
    else {
        union { T value; u32 half[2]; } w;
        w.value = v;
        w.half[0] = shuffle_xor(w.half[0], mask);
        w.half[1] = shuffle_xor(w.half[1], mask);
        return w.value;
    }
}
"""

_EMULATED = """
struct exchange_ { u64 bits, result; u32 from; };
TW_DEVICE void exchange_all_(void *const *lanes, int) {
    for (int l = 0; l < 32; l++) {
        exchange_ *mine = (exchange_ *)lanes[l];
        mine->result = ((const exchange_ *)lanes[mine->from])->bits;
    }
}
template <class T> TW_DEVICE T exchange(T v, int mask, int line = __builtin_LINE()) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "32-bit or 64-bit values");
    exchange_ mine = {0, 0, (emu::lane() ^ (u32)mask) & 31u};
    __builtin_memcpy(&mine.bits, &v, sizeof(T));
    emu::warp_collective("exchange", line, &mine, exchange_all_);
    __builtin_memcpy(&v, &mine.result, sizeof(T));
    return v;
}
"""

_NARROW = """
    int t = threadIdx.x;
    for (int i = 0; i < 5; i++) out[32 * i + t] = tw::exchange(x0[t], 1 << i);
    out[160 + t] = tw::float_bits(tw::exchange(tw::bits_float(x0[t] & 0x3fffffffu), 21));
"""

_WIDE = """
    int t = threadIdx.x;
    const tw::u64 v = (tw::u64)x0[t] << 32 | x0[32 + t];
    for (int i = 0; i < 6; i++) {
        const int mask = i < 5 ? 1 << i : 21;
        const tw::u64 w = i % 2 ? (tw::u64)tw::exchange((long)v, mask) : tw::exchange(v, mask);
        out[64 * i + t] = (tw::u32)(w >> 32);
        out[64 * i + 32 + t] = (tw::u32)w;
    }
"""

_LANE = np.arange(32)
_MASKS = (1, 2, 4, 8, 16, 21)


def _narrow(x: Array) -> Array:
    return np.concatenate([*(x[_LANE ^ m] for m in _MASKS[:5]), (x & np.uint32(0x3FFFFFFF))[_LANE ^ 21]])


PRIMITIVE = Primitive(
    "exchange",
    "a 32-bit or 64-bit value of the lane with some bits of its number flipped",
    80,
    _PTX,
    _EMULATED,
    ("exchange",),
    (
        Conformance("narrow", _NARROW, lambda: (words(32, 63),), "uint32", 192, _narrow),
        Conformance(
            "wide", _WIDE, lambda: (words(64, 64),), "uint32", 384,
            lambda x: np.concatenate([h[_LANE ^ m] for m in _MASKS for h in (x[:32], x[32:])]),
        ),
    ),
)  # fmt: skip
