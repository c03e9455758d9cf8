"""Shared parts of the ``mma.sync`` primitives: fragment layouts, and tolerances for sums of undefined order.

All are ``mma.sync.m16n8kK.row.col``: a warp computes ``c[16][8] += a[16][K] b[K][8]``. With ``g = lane / 4`` and ``t =
lane % 4``, and ``w = K / 8`` elements in a 32-bit register or, at ``K = 8``, one:

- ``a``: register ``i`` holds row ``g + 8 (i % 2)``, columns ``(t + 4 (i / 2)) w`` to ``... + w - 1``;
- ``b``: register ``i`` holds column ``g``, rows ``(t + 4 i) w`` to ``... + w - 1``;
- ``c``: value ``i`` is row ``g + 8 (i / 2)``, column ``2 t + i % 2``.

Low elements lie in low bits. PTX leaves the order and the rounding open in which hardware adds the products of one
instruction and ``c``. The emulation adds in double precision and rounds once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import DTYPES
from tilewright.kernels.primitives.primitive import Array, Conformance, words

# ``E::get(register, element)`` reads an element in the type of the sums. ``E`` derives from one of three kinds of sums,
# which define how a product is added and how a sum is rounded to its register.
_EMULATED = """
#ifndef TW_MMA_
#define TW_MMA_
template <class T, class R> struct mma_ { T *c; const R *a, *b; };
template <class T, class R, class E> TW_DEVICE void mma_all_(void *const *lanes, int) {
    typedef typename E::sum S;
    constexpr int W = E::width, K = 8 * W;
    S a[16][K], b[K][8];
    for (int l = 0; l < 32; l++) {
        const mma_<T, R> *m = (const mma_<T, R> *)lanes[l];
        int g = l / 4, t = l % 4;
        for (int i = 0; i < 4; i++)
            for (int e = 0; e < W; e++) a[g + 8 * (i % 2)][(t + 4 * (i / 2)) * W + e] = E::get(m->a[i], e);
        for (int i = 0; i < 2; i++)
            for (int e = 0; e < W; e++) b[(t + 4 * i) * W + e][g] = E::get(m->b[i], e);
    }
    for (int l = 0; l < 32; l++) {
        const mma_<T, R> *m = (const mma_<T, R> *)lanes[l];
        for (int i = 0; i < 4; i++) {
            int row = l / 4 + 8 * (i / 2), column = l % 4 * 2 + i % 2;
            S sum = (S)m->c[i];
            for (int k = 0; k < K; k++) sum = E::add(sum, a[row][k], b[k][column]);
            m->c[i] = E::round(sum);
        }
    }
}
struct mma_float_ {
    typedef double sum;
    static double add(double s, double a, double b) { return s + a * b; }
    static float round(double x) { return x != x ? bits_float(0x7fffffffu) : (float)x; }
};
struct mma_double_ {
    typedef double sum;
    static double add(double s, double a, double b) { return __builtin_fma(a, b, s); }
    static double round(double x) { return x; }
};
struct mma_int_ {
    typedef long long sum;
    static long long add(long long s, long long a, long long b) { return s + a * b; }
    static int round(long long x) { return (int)(u32)x; }
};
#endif
"""


def ptx(name: str, shape: str, types: str, c: str = "float") -> str:
    """The PTX wrapper of one instruction, whose accumulators have C type ``c``."""
    letter = "f" if c == "float" else "r"
    outs = ", ".join(f'"+{letter}"(c[{i}])' for i in range(4))
    return f"""
TW_DEVICE void {name}({c} (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {{
    asm volatile("mma.sync.aligned.{shape}.row.col.{types} "
        "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        : {outs}
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}
"""


def emulated(name: str, width: int, value: str, c: str = "float", register: str = "u32") -> str:
    """The emulation of one instruction. ``value``: C++ of element ``e`` of the ``width`` elements in register ``r``."""
    return f"""{_EMULATED}
struct {name}_ : mma_{c}_ {{
    static constexpr int width = {width};
    static sum get({register} r, int e) {{ return {value}; }}
}};
TW_DEVICE void {name}({c} (&c)[4], const {register} (&a)[4], const {register} (&b)[2], int line = __builtin_LINE()) {{
    mma_<{c}, {register}> mine = {{c, a, b}};
    emu::warp_collective("{name}", line, &mine, mma_all_<{c}, {register}, {name}_>);
}}
"""


BODY = """
    int t = threadIdx.x;
    {c} c[4];
    {word} a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = x0[4 * t + i], c[i] = x2[4 * t + i];
    for (int i = 0; i < 2; i++) b[i] = x1[2 * t + i];
    tw::{name}(c, a, b);
    for (int i = 0; i < 4; i++) out[4 * t + i] = c[i];
"""


def body(name: str, dtype: str) -> str:
    """The kernel that runs an instruction once. ``dtype``: type of the sums."""
    word = "double" if dtype == "float64" else "tw::u32"
    return BODY.format(name=name, c=DTYPES[dtype].gpu, word=word)


@dataclass(frozen=True)
class Format:
    """An operand format: conversions between float64 values and bits, which are packed into words.

    A register is a ``word``, of 32 bits unless elements are wider.
    """

    per_word: int
    encode: Callable[[Array], Array]  # values -> bits
    decode: Callable[[Array], Array]  # bits -> values
    word: str = "uint32"


# (row, column) of element i of a lane's fragment, as the PTX documentation states them.
def a_positions(w: int) -> tuple[Array, Array]:
    lane, i = np.arange(32)[:, None], np.arange(4 * w)[None, :]
    row = lane // 4 + np.where((i < w) | ((i >= 2 * w) & (i < 3 * w)), 0, 8)
    column = lane % 4 * w + i % w + np.where(i < 2 * w, 0, 4 * w)
    return row, column


def b_positions(w: int) -> tuple[Array, Array]:
    lane, i = np.arange(32)[:, None], np.arange(2 * w)[None, :]
    return lane % 4 * w + i % w + np.where(i < w, 0, 4 * w), lane // 4 + 0 * i


def c_positions() -> tuple[Array, Array]:
    lane, i = np.arange(32)[:, None], np.arange(4)[None, :]
    return lane // 4 + np.where(i < 2, 0, 8), lane % 4 * 2 + i % 2


def fragments(a: Array, b: Array, c: Array, fmt: Format) -> tuple[Array, Array, Array]:
    """The registers of all lanes for matrices of values: words of a and b, and c as it is."""
    w = fmt.per_word
    flat = [
        np.ascontiguousarray(fmt.encode(x)[p]).view(fmt.word).reshape(-1)
        for x, p in ((a, a_positions(w)), (b, b_positions(w)))
    ]
    return flat[0], flat[1], np.ascontiguousarray(c[c_positions()]).reshape(-1)


def matrices(x0: Array, x1: Array, x2: Array, fmt: Format) -> tuple[Array, Array, Array]:
    """The matrices of values that registers hold, as float64: the inverse of :func:`fragments`."""
    w = fmt.per_word
    bits = fmt.encode(np.zeros(1)).dtype
    a, b, c = np.zeros((16, 8 * w)), np.zeros((8 * w, 8)), np.zeros((16, 8))
    with np.errstate(all="ignore"):  # signalling NaNs
        a[a_positions(w)] = fmt.decode(x0.view(bits)).reshape(32, -1)
        b[b_positions(w)] = fmt.decode(x1.view(bits)).reshape(32, -1)
        c[c_positions()] = x2.reshape(32, 4)
    return a, b, c


def _total(a: Array, b: Array, c: Array) -> Array:
    """The registers of ``a b + c``, unrounded."""
    with np.errstate(all="ignore"):
        total = (a[:, :, None] * b[None, :, :]).astype(np.longdouble).sum(axis=1) + c
    return np.asarray(total[c_positions()].reshape(-1))


def product(fmt: Format, dtype: str) -> Callable[..., Array]:
    """The expected registers of ``c``: a matrix product in extended precision, rounded once."""

    def expected(x0: Array, x1: Array, x2: Array) -> Array:
        with np.errstate(all="ignore"):
            return _total(*matrices(x0, x1, x2, fmt)).astype(dtype)

    return expected


def magnitude(fmt: Format) -> Callable[..., Array]:
    """The sum of the terms' absolute values, to which rounding errors are relative."""
    return lambda x0, x1, x2: _total(*map(np.abs, matrices(x0, x1, x2, fmt)))


TOLERANCE = 2.0**-19
"""Largest relative error of any order and rounding: 17 terms, each truncated to 24 bits below the largest."""


def integers(count: int, seed: int, limit: int) -> Array:
    """Whole numbers from ``-limit`` to ``limit``."""
    return words(count, seed).astype(np.int64) % (2 * limit + 1) - limit


ADDED = np.array(
    [0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 1, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF] * 2, np.uint32
).view(np.float32)  # fmt: skip
"""Special values of ``c``, one a row."""


def float_cases(
    name: str, fmt: Format, values: Callable[[int, int], Array], special: Array, tolerance: float = TOLERANCE,
    limits: tuple[int, int] = (8, 1000), added: Array = ADDED, huge: float = 3.0e38,
) -> tuple[Conformance, ...]:  # fmt: skip
    """Cases of exact whole numbers (which show the layout), random values, and ``special`` values (16 bit patterns).

    Whole operands and sums are within ``limits``. Special operands are added to the sums ``added`` and ``huge``.
    """
    k, dtype = 8 * fmt.per_word, added.dtype.name

    def exact() -> tuple[Array, ...]:
        a, b = integers(16 * k, 20, limits[0]).reshape(16, k), integers(k * 8, 21, limits[0]).reshape(k, 8)
        return fragments(a, b, integers(128, 22, limits[1]).reshape(16, 8).astype(dtype), fmt)

    def random() -> tuple[Array, ...]:
        a, b = values(16 * k, 23).reshape(16, k), values(k * 8, 24).reshape(k, 8)
        return fragments(a, b, values(128, 25).reshape(16, 8).astype(dtype), fmt)

    def extreme() -> tuple[Array, ...]:
        # Each row has one special value, at its own column, which meets 1, -1, 0, 2, ... in the columns of b.
        a = np.zeros((16, k))
        with np.errstate(all="ignore"):
            a[np.arange(16), np.arange(16) % k] = fmt.decode(special)
        b = np.tile(np.array([1.0, -1.0, 0.0, 2.0, 0.5, 1.0, 1.0, 1.0]), (k, 1))
        c = np.zeros((16, 8), dtype)
        c[:, 5], c[:, 6], c[:, 7] = added, huge, -0.0
        return fragments(a, b, c, fmt)

    text = body(name, dtype)
    right, scale = product(fmt, dtype), magnitude(fmt)
    return (
        Conformance("exact", text, exact, dtype, 128, right),
        Conformance("random", text, random, dtype, 128, right, scale, tolerance),
        Conformance("special", text, extreme, dtype, 128, right, scale, tolerance),
    )
