"""Exchange of 32-bit and 64-bit values between the lanes of a full warp, and a warp vote."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

_SHUFFLE_PTX = """
template <class T> union word_ { T value; u32 bits; __device__ word_() {} };
template <class T> TW_DEVICE T shuffle_xor(T v, int mask) {
    static_assert(sizeof(T) == 4, "32-bit values");
    word_<T> w; w.value = v; w.bits = __shfl_xor_sync(0xffffffffu, w.bits, mask); return w.value;
}
template <class T> TW_DEVICE T shuffle_down(T v, int delta) {
    static_assert(sizeof(T) == 4, "32-bit values");
    word_<T> w; w.value = v; w.bits = __shfl_down_sync(0xffffffffu, w.bits, delta); return w.value;
}
template <class T> TW_DEVICE T shuffle(T v, int lane) {
    static_assert(sizeof(T) == 4, "32-bit values");
    word_<T> w; w.value = v; w.bits = __shfl_sync(0xffffffffu, w.bits, lane); return w.value;
}
TW_DEVICE bool any_lane(bool holds) { return __any_sync(0xffffffffu, holds); }
"""

_SHUFFLE_EMULATED = """
struct shuffle_ { u64 bits, result; u32 from; };
TW_DEVICE void shuffle_all_(void *const *lanes, int) {
    for (int l = 0; l < 32; l++) {
        shuffle_ *mine = (shuffle_ *)lanes[l];
        mine->result = ((const shuffle_ *)lanes[mine->from])->bits;
    }
}
template <int MOST, class T> TW_DEVICE T shuffle_any_(T v, u32 from, const char *name, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == MOST, "32-bit values, or 64-bit ones where they are exchanged");
    shuffle_ mine = {0, 0, from};
    __builtin_memcpy(&mine.bits, &v, sizeof(T));
    emu::warp_collective(name, line, &mine, shuffle_all_);
    __builtin_memcpy(&v, &mine.result, sizeof(T));
    return v;
}
template <class T> TW_DEVICE T shuffle_xor(T v, int mask, int line = __builtin_LINE()) {
    return shuffle_any_<4>(v, (emu::lane() ^ (u32)mask) & 31u, "shuffle_xor", line);
}
template <class T> TW_DEVICE T shuffle_down(T v, int delta, int line = __builtin_LINE()) {
    u32 from = emu::lane() + (u32)delta;
    return shuffle_any_<4>(v, from < 32u ? from : emu::lane(), "shuffle_down", line);
}
template <class T> TW_DEVICE T shuffle(T v, int lane, int line = __builtin_LINE()) {
    return shuffle_any_<4>(v, (u32)lane & 31u, "shuffle", line);
}
struct vote_ { bool mine, any; };
TW_DEVICE void vote_all_(void *const *lanes, int) {
    bool any = false;
    for (int l = 0; l < 32; l++) any |= ((const vote_ *)lanes[l])->mine;
    for (int l = 0; l < 32; l++) ((vote_ *)lanes[l])->any = any;
}
TW_DEVICE bool any_lane(bool holds, int line = __builtin_LINE()) {
    vote_ mine = {holds, false};
    emu::warp_collective("any_lane", line, &mine, vote_all_);
    return mine.any;
}
"""

_XOR = """
    int t = threadIdx.x;
    for (int i = 0; i < 5; i++) out[32 * i + t] = tw::shuffle_xor(x0[t], 1 << i);
    out[160 + t] = (tw::u32)tw::shuffle_xor((int)x0[t], 21);
"""

_DOWN = """
    int t = threadIdx.x;
    for (int i = 0; i < 5; i++) out[32 * i + t] = tw::float_bits(tw::shuffle_down(tw::bits_float(x0[t]), 1 << i));
"""

_ANY = """
    int t = threadIdx.x;
    out[t] = tw::shuffle(x0[t], 31 - t);
    out[32 + t] = tw::shuffle(x0[t], 7);
    out[64 + t] = tw::shuffle(x0[t], t * 5 % 32);
"""

# The vote holds in no lane, one lane or all lanes.
_VOTE = """
    int t = threadIdx.x;
    for (int i = 0; i < 34; i++) out[32 * i + t] = tw::any_lane(i == 33 || t == i - 1) ? x0[t] : 0u;
"""

_LANE = np.arange(32)

_SHUFFLE = Primitive(
    "shuffle",
    "warp shuffles of 32-bit values (xor, down, any lane), and a warp vote",
    80,
    _SHUFFLE_PTX,
    _SHUFFLE_EMULATED,
    ("shuffle_xor", "shuffle_down", "shuffle", "any_lane"),
    (
        Conformance(
            "xor", _XOR, lambda: (words(32, 60),), "uint32", 192,
            lambda x: np.concatenate([x[_LANE ^ m] for m in (1, 2, 4, 8, 16, 21)]),
        ),
        Conformance(
            "down", _DOWN, lambda: (words(32, 61) & np.uint32(0x3FFFFFFF),), "uint32", 160,
            lambda x: np.concatenate([x[np.where(_LANE + d < 32, _LANE + d, _LANE)] for d in (1, 2, 4, 8, 16)]),
        ),
        Conformance(
            "any", _ANY, lambda: (words(32, 62),), "uint32", 96,
            lambda x: np.concatenate([x[::-1], np.full(32, x[7]), x[_LANE * 5 % 32]]),
        ),
        Conformance(
            "vote", _VOTE, lambda: (words(32, 65),), "uint32", 1088,
            lambda x: np.concatenate([np.zeros_like(x), np.tile(x, 33)]),
        ),
    ),
)  # fmt: skip


# --------------------------------------------------------------------------- exchange

# Exchange of 32-bit and 64-bit values with the lane whose number differs in the bits of a mask.

_EXCHANGE_PTX = """
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

_EXCHANGE_EMULATED = """
template <class T> TW_DEVICE T exchange(T v, int mask, int line = __builtin_LINE()) {
    return shuffle_any_<8>(v, (emu::lane() ^ (u32)mask) & 31u, "exchange", line);
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

_MASKS = (1, 2, 4, 8, 16, 21)


def _narrow(x: Array) -> Array:
    return np.concatenate(
        [
            *(x[_LANE ^ m] for m in _MASKS[:5]),
            (x & np.uint32(0x3FFFFFFF))[_LANE ^ 21],
        ]
    )


_EXCHANGE = Primitive(
    "exchange",
    "xor shuffle of a 32-bit or 64-bit value",
    80,
    _EXCHANGE_PTX,
    _EXCHANGE_EMULATED,
    ("exchange",),
    (
        Conformance("narrow", _NARROW, lambda: (words(32, 63),), "uint32", 192, _narrow),
        Conformance(
            "wide", _WIDE, lambda: (words(64, 64),), "uint32", 384,
            lambda x: np.concatenate([h[_LANE ^ m] for m in _MASKS for h in (x[:32], x[32:])]),
        ),
    ),
)  # fmt: skip

PRIMITIVES = (_SHUFFLE, _EXCHANGE)
