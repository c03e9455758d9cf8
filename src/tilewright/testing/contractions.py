"""Small contractions of every kind that GPU templates support: layouts, dtypes, bodies, edges, epilogues."""

from __future__ import annotations

from tilewright.kernels import te
from tilewright.kernels.expression.program import Monoid, Program, left, right
from tilewright.testing import programs
from tilewright.testing.catalogue import Build, enter


def _program(output: te.TensorRef) -> Program:
    return te.program(output)[0]


def multiply(
    m: int, n: int, k: int, dtype: str = "float32", acc: str = "float32", rows: str = "mk", columns: str = "kn",
    out: str = "",
) -> Program:  # fmt: skip
    """A matrix product. ``rows`` and ``columns`` name the operands' axes, the outer axis first."""
    size = {"m": m, "n": n, "k": k}
    x = te.input("x", (size[rows[0]], size[rows[1]]), dtype)
    y = te.input("y", (size[columns[0]], size[columns[1]]), dtype)

    def term(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        at = {"m": i, "n": j, "k": r}
        return te.cast(x[at[rows[0]], at[rows[1]]], acc) * te.cast(y[at[columns[0]], at[columns[1]]], acc)

    z = te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r)))
    if out and out != acc:
        return _program(te.compute((m, n), lambda i, j: te.cast(z[i, j], out)))
    return _program(z)


def aligned() -> Program:
    """Every size is a multiple of 16, so that all reads are vector loads."""
    return multiply(48, 64, 32)


def transposed() -> Program:
    """Both operands are transposed."""
    return multiply(20, 24, 36, rows="km", columns="nk")


def vector_matrix() -> Program:
    return multiply(1, 40, 70)


def matrix_vector() -> Program:
    return multiply(50, 1, 33)


def dot() -> Program:
    return multiply(1, 1, 100)


def tiny() -> Program:
    return multiply(2, 3, 1)


def doubles() -> Program:
    return multiply(10, 34, 18, "float64", "float64")


def halves() -> Program:
    """16-bit operands, float32 sums, a 16-bit result."""
    return multiply(16, 40, 24, "float16", out="float16")


def halves_odd() -> Program:
    return multiply(9, 17, 31, "bfloat16", rows="km", out="bfloat16")


def bytes_() -> Program:
    return multiply(16, 48, 64, "int8", "int32")


def bytes_odd() -> Program:
    """Neither operand is contiguous along K, and K is not a multiple of 4: bytes must be packed into words."""
    return multiply(18, 22, 35, "int8", "int32", rows="km", columns="nk")


def long_integers() -> Program:
    return multiply(6, 10, 12, "int64", "int64")


def batch() -> Program:
    """A batch axis between the other axes, and an axis that only the epilogue reads."""
    x, y, s = te.input("x", (7, 3, 12)), te.input("y", (3, 12, 18)), te.input("s", (3, 2))
    z = te.compute((7, 3, 2, 18), lambda i, b, c, j: te.sum(12, lambda r: x[i, b, r] * y[b, r, j]))
    return _program(te.compute((7, 3, 2, 18), lambda i, b, c, j: z[i, b, c, j] * s[b, c]))


def grouped_conv() -> Program:
    """A grouped convolution with stride, dilation and padding, channels last."""
    g, c, o, h, w = 2, 8, 4, 9, 8
    x, f = te.input("x", (2, h, w, g * c)), te.input("f", (g, 3, 3, c, o))

    def at(b: te.Expr, y: te.Expr, z: te.Expr, q: te.Expr) -> te.Expr:
        return te.select((y >= 0) & (y < h) & (z >= 0) & (z < w), x[b, y, z, q], 0.0)

    def value(b: te.Expr, y: te.Expr, z: te.Expr, p: te.Expr) -> te.Reduction:
        k = p // o
        return te.sum((3, 3, c), lambda r, s, q: at(
            b, y * 2 + r * 2 - 2, z + s - 1, k * c + q) * f[k, r, s, q, p % o])  # fmt: skip

    return _program(te.compute((2, 5, 8, g * o), value))


def depthwise() -> Program:
    """A depthwise convolution: no axis is read by one operand only."""
    x, f = te.input("x", (3, 10, 11)), te.input("f", (3, 3, 3))
    return _program(te.compute((3, 8, 9), lambda c, i, j: te.sum(
        (3, 3), lambda r, s: x[c, i + r, j + s] * f[c, r, s])))  # fmt: skip


def squared_distance() -> Program:
    x, y = te.input("x", (20, 13)), te.input("y", (35, 13))
    return _program(te.compute((20, 35), lambda i, j: te.sum(13, lambda r: (x[i, r] - y[j, r]) ** 2)))


def products() -> Program:
    """A product over K, for which zeros are not neutral, so that padding with zeros is wrong."""
    x, y = te.input("x", (12, 9)), te.input("y", (9, 21))
    return _program(te.compute((12, 21), lambda i, j: te.prod(9, lambda r: 1.0 + x[i, r] * y[r, j] * 0.25)))


def least() -> Program:
    x, y = te.input("x", (14, 11)), te.input("y", (11, 19))
    return _program(te.compute((14, 19), lambda i, j: te.min(11, lambda r: x[i, r] + y[r, j])))


def scaled() -> Program:
    """Dequantised weights: a scale for each column and group of K, and a scale for each row, both inside the sum."""
    x, w = te.input("x", (10, 32)), te.input("w", (32, 20), "int8")
    s, t = te.input("s", (4, 20)), te.input("t", (10,))
    return _program(te.compute((10, 20), lambda i, j: te.sum(
        32, lambda r: x[i, r] * t[i] * te.cast(w[r, j], "float32") * s[r // 8, j])))  # fmt: skip


def gathered() -> Program:
    """Rows of A are gathered by an index tensor."""
    x, index, y = te.input("x", (9, 16)), te.input("index", (22,), "int32"), te.input("y", (16, 12))
    return _program(te.compute((22, 12), lambda i, j: te.sum(16, lambda r: x[index[i], r] * y[r, j])))


def fused() -> Program:
    """An epilogue with bias, activation, residual and a saturating conversion."""
    x, y = te.input("x", (17, 22)), te.input("y", (22, 36))
    bias, more = te.input("bias", (36,)), te.input("more", (17, 36))
    z = te.compute((17, 36), lambda i, j: te.sum(22, lambda r: x[i, r] * y[r, j]))
    h = te.compute((17, 36), lambda i, j: te.maximum(z[i, j] + bias[j], 0.0) + more[i, j])
    q = te.compute((17, 36), lambda i, j: te.floor(h[i, j] * 8.0 + 0.5))
    return _program(te.compute((17, 36), lambda i, j: te.cast(te.minimum(te.maximum(q[i, j], -128.0), 127.0), "int8")))


def activated() -> Program:
    """A stage before the sum, which the sum and a residual after it both read."""
    x, y = te.input("x", (14, 10)), te.input("y", (10, 14))
    h = te.compute((14, 10), lambda i, r: te.maximum(x[i, r], 0.0) + 0.5)
    z = te.compute((14, 14), lambda i, j: te.sum(10, lambda r: h[i, r] * y[r, j]))
    return _program(te.compute((14, 14), lambda i, j: z[i, j] + h[i, te.minimum(j, 9)]))


def tf32() -> Program:
    """Operands rounded to TF32 in the expression."""
    x, y = te.input("x", (18, 24)), te.input("y", (24, 20))
    return _program(te.compute((18, 20), lambda i, j: te.sum(
        24, lambda r: te.round_tf32(x[i, r]) * te.round_tf32(y[r, j]))))  # fmt: skip


def tf32_truncated() -> Program:
    """Operands truncated to TF32 in the expression."""
    x, y = te.input("x", (18, 24)), te.input("y", (24, 20))
    return _program(te.compute((18, 20), lambda i, j: te.sum(
        24, lambda r: te.truncate_tf32(x[i, r]) * te.truncate_tf32(y[r, j]))))  # fmt: skip


def masked() -> Program:
    """Two tensors with the axes of one side, so that the body has no two sides."""
    x, y, keep = te.input("x", (8, 13)), te.input("y", (13, 9)), te.input("keep", (8, 13), "bool")
    return _program(te.compute((8, 9), lambda i, j: te.sum(
        13, lambda r: te.select(keep[i, r], x[i, r] * y[r, j], 0.0))))  # fmt: skip


def distance() -> Program:
    """A reduction whose monoid has a final expression (a square root)."""
    x, y = te.input("x", (11, 15)), te.input("y", (15, 26))
    zero = te.Expr("const", "float32", (), 0.0)
    norm = Monoid("norm", (zero,), (left(0, "float32") + right(0, "float32"),), te.sqrt(left(0, "float32")))
    return _program(te.compute((11, 26), lambda i, j: te.reduce(norm, 15, lambda r: ((x[i, r] - y[r, j]) ** 2,))))


def rows() -> Program:
    """A reduction with one operand only."""
    x = te.input("x", (30, 41))
    return _program(te.compute((30,), lambda i: te.sum(41, lambda r: te.exp(x[i, r]))))


CONTRACTIONS: dict[str, Build] = {
    f.__name__.strip("_"): f
    for f in (
        programs.matmul, programs.matmul_epilogue, programs.conv2d, programs.conv2d_strided, programs.chebyshev,
        programs.int8_dot, aligned, transposed, vector_matrix, matrix_vector, dot, tiny, doubles, halves, halves_odd,
        bytes_, bytes_odd, long_integers, batch, grouped_conv, depthwise, squared_distance, products, least, scaled,
        gathered, fused, activated, tf32, tf32_truncated, masked, distance, rows,
    )
}  # fmt: skip
"""Builders of small contractions by name."""
enter("contraction", CONTRACTIONS)
