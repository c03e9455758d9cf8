"""Tensor Core product of float64: m16n8k8, of which compute capability 8.0 has the pieces m8n8k4.

With ``g = lane / 4`` and ``t = lane % 4``, registers lie as those of TF32 in :mod:`~.mma`, a double each (PTX ISA,
"Matrix Fragments for mma.m16n8k8" and "for mma.m8n8k4", type ``.f64``):

- ``a``: register ``i`` holds row ``g + 8 (i % 2)``, column ``t + 4 (i / 2)``;
- ``b``: register ``i`` holds column ``g``, row ``t + 4 i``;
- ``c``: value ``i`` is row ``g + 8 (i / 2)``, column ``2 t + i % 2``.

Each multiply-add is rounded once, to nearest; their order is open.
"""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives import mma
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

_PTX = """
TW_DEVICE void mma_f64(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
    TW_UNROLL
    for (int i = 0; i < 4; i++)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(c[i % 2 * 2]), "+d"(c[i % 2 * 2 + 1]) : "d"(a[i]), "d"(b[i / 2]));
#endif
}
"""

_EMULATED = """
struct mma_f64_ { double *c; const double *a, *b; };
TW_DEVICE void mma_f64_all_(void *const *lanes, int) {
    double a[16][8], b[8][8];
    for (int l = 0; l < 32; l++) {
        const mma_f64_ *m = (const mma_f64_ *)lanes[l];
        int g = l / 4, t = l % 4;
        for (int i = 0; i < 4; i++) a[g + 8 * (i % 2)][t + 4 * (i / 2)] = m->a[i];
        for (int i = 0; i < 2; i++) b[t + 4 * i][g] = m->b[i];
    }
    for (int l = 0; l < 32; l++) {
        const mma_f64_ *m = (const mma_f64_ *)lanes[l];
        for (int i = 0; i < 4; i++) {
            int row = l / 4 + 8 * (i / 2), column = l % 4 * 2 + i % 2;
            for (int k = 0; k < 8; k++) m->c[i] = __builtin_fma(a[row][k], b[k][column], m->c[i]);
        }
    }
}
TW_DEVICE void mma_f64(double (&c)[4], const double (&a)[4], const double (&b)[2], int line = __builtin_LINE()) {
    mma_f64_ mine = {c, a, b};
    emu::warp_collective("mma_f64", line, &mine, mma_f64_all_);
}
"""

_BODY = """
    int t = threadIdx.x;
    double c[4], a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = x0[4 * t + i], c[i] = x2[4 * t + i];
    for (int i = 0; i < 2; i++) b[i] = x1[2 * t + i];
    tw::mma_f64(c, a, b);
    for (int i = 0; i < 4; i++) out[4 * t + i] = c[i];
"""
_TOLERANCE = 2.0**-49
"""Eight multiply-adds, each rounded to 53 bits: the most that any order can lose, with room."""
_SPECIAL = np.array(
    [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x8000000000000000, 1, 0x8000000000000001,
     0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3FF0000000000000,
     0x3FF0000000000001, 0xBFEFFFFFFFFFFFFF, 0, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], np.uint64,
).view(np.float64)  # fmt: skip


def _registers(a: Array, b: Array, c: Array) -> tuple[Array, ...]:
    """The registers of all lanes for whole matrices."""
    places = (mma.a_positions(1), mma.b_positions(1), mma.c_positions())
    return tuple(np.ascontiguousarray(x[p]).reshape(-1) for x, p in zip((a, b, c), places, strict=True))


def _matrices(x0: Array, x1: Array, x2: Array) -> tuple[Array, Array, Array]:
    """The matrices that registers hold."""
    a, b, c = np.zeros((16, 8)), np.zeros((8, 8)), np.zeros((16, 8))
    a[mma.a_positions(1)], b[mma.b_positions(1)], c[mma.c_positions()] = (
        x.reshape(32, -1) for x in (x0, x1, x2)
    )  # fmt: skip
    return a, b, c


def _expected(x0: Array, x1: Array, x2: Array) -> Array:
    a, b, c = _matrices(x0, x1, x2)
    with np.errstate(all="ignore"):
        total = (a[:, :, None] * b[None, :, :]).astype(np.longdouble).sum(axis=1) + c
        return np.asarray(total.astype(np.float64)[mma.c_positions()].reshape(-1))


def _magnitude(x0: Array, x1: Array, x2: Array) -> Array:
    with np.errstate(all="ignore"):
        return _expected(np.abs(x0), np.abs(x1), np.abs(x2))


def _exact() -> tuple[Array, ...]:
    sizes = (16, 8), (8, 8), (16, 8)
    a, b, c = (mma.integers(m * n, 20 + i, 1 << 20).reshape(m, n) for i, (m, n) in enumerate(sizes))
    return _registers(a.astype(np.float64), b.astype(np.float64), c.astype(np.float64))


def _values(count: int, seed: int) -> Array:
    """Values between -2 and 2 with all of their bits."""
    high, low = words(count, seed), words(count, seed + 100)
    return np.asarray((high + low / 2.0**32) / 2.0**30 - 2.0)


def _random() -> tuple[Array, ...]:
    return _registers(*(_values(m * 8, 23 + i).reshape(m, 8) for i, m in enumerate((16, 8, 16))))


def _extreme() -> tuple[Array, ...]:
    # A special value in each row, at a column of its own, meets 1, -1, 0, 2, ... in the columns of b.
    a = np.zeros((16, 8))
    a[np.arange(16), np.arange(16) % 8] = _SPECIAL
    b = np.tile(np.array([1.0, -1.0, 0.0, 2.0, 0.5, 1.0, 1.0, 1.0]), (8, 1))
    c = np.zeros((16, 8))
    c[:, 5], c[:, 6], c[:, 7] = _SPECIAL[::-1], 1e308, -0.0
    return _registers(a, b, c)


PRIMITIVE = Primitive(
    "mma_f64",
    "Tensor Core product, 16x8x8, float64 operands and sums",
    80,
    _PTX,
    _EMULATED,
    ("mma_f64",),
    (
        Conformance("exact", _BODY, _exact, "float64", 128, _expected),
        Conformance("random", _BODY, _random, "float64", 128, _expected, _magnitude, _TOLERANCE),
        Conformance("special", _BODY, _extreme, "float64", 128, _expected, _magnitude, _TOLERANCE),
    ),
)
