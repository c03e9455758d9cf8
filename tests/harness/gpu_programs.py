"""Small programs other than contractions, for the GPU templates: row reductions, elementwise programs, windows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter

Ref = te.TensorRef


def _program(output: Ref) -> Program:
    return te.program(output)[0]


def _in(x: Ref, *at: te.Expr) -> te.Expr:
    """An element of ``x``, converted to float32 if it has 16 bits."""
    return te.cast(x[at], "float32") if x.dtype in ("float16", "bfloat16") else x[at]


# --------------------------------------------------------------------------- rows


def softmax(m: int = 9, n: int = 52, dtype: str = "float32") -> Program:
    x = te.input("x", (m, n), dtype)
    top = te.compute((m,), lambda i: te.max(n, lambda k: _in(x, i, k)))
    power = te.compute((m, n), lambda i, j: te.exp(_in(x, i, j) - top[i]))
    total = te.compute((m,), lambda i: te.sum(n, lambda k: power[i, k]))
    return _program(te.compute((m, n), lambda i, j: power[i, j] / total[i], dtype if dtype != "float32" else None))


def softmax_half() -> Program:
    """16-bit elements; the row length is a multiple of the vector length."""
    return softmax(5, 136, "float16")


def softmax_odd() -> Program:
    """The row length is a multiple of no vector length."""
    return softmax(7, 67, "bfloat16")


def softmax_long() -> Program:
    """One long row, for which a block needs several iterations."""
    return softmax(1, 1300)


def softmax_double() -> Program:
    return softmax(6, 34, "float64")


def softmax_channels(b: int = 2, c: int = 5, h: int = 6, w: int = 7) -> Program:
    """Along the second of four axes: adjacent rows are adjacent in memory."""
    x = te.input("x", (b, c, h, w))
    top = te.compute((b, h, w), lambda i, y, z: te.max(c, lambda k: x[i, k, y, z]))
    power = te.compute((b, h, w, c), lambda i, y, z, k: te.exp(x[i, k, y, z] - top[i, y, z]))
    total = te.compute((b, h, w), lambda i, y, z: te.sum(c, lambda k: power[i, y, z, k]))
    return _program(te.compute((b, c, h, w), lambda i, k, y, z: power[i, y, z, k] / total[i, y, z]))


def softmax_middle(b: int = 3, c: int = 9, h: int = 8) -> Program:
    """Along the second of three axes, all stages in the input's axis order, with an elementwise stage first."""
    x = te.input("x", (b, c, h))
    scaled = te.compute((b, c, h), lambda i, k, y: x[i, k, y] * 0.5)
    top = te.compute((b, h), lambda i, y: te.max(c, lambda k: scaled[i, k, y]))
    power = te.compute((b, c, h), lambda i, k, y: te.exp(scaled[i, k, y] - top[i, y]))
    total = te.compute((b, h), lambda i, y: te.sum(c, lambda k: power[i, k, y]))
    return _program(te.compute((b, c, h), lambda i, k, y: power[i, k, y] / total[i, y]))


def log_softmax(m: int = 6, n: int = 40) -> Program:
    x = te.input("x", (m, n))
    top = te.compute((m,), lambda i: te.max(n, lambda k: x[i, k]))
    total = te.compute((m,), lambda i: te.sum(n, lambda k: te.exp(x[i, k] - top[i])))
    return _program(te.compute((m, n), lambda i, j: (x[i, j] - top[i]) - te.log(total[i])))


def masked_softmax(n: int = 37) -> Program:
    """Causal rows: reads under a condition."""
    x = te.input("x", (n, n))
    score = te.compute((n, n), lambda i, j: te.select(j <= i, x[i, j] * 0.125, -math.inf))
    top = te.compute((n,), lambda i: te.max(n, lambda k: score[i, k]))
    power = te.compute((n, n), lambda i, j: te.exp(score[i, j] - top[i]))
    total = te.compute((n,), lambda i: te.sum(n, lambda k: power[i, k]))
    return _program(te.compute((n, n), lambda i, j: power[i, j] / total[i]))


def layer_norm(m: int = 7, n: int = 64, dtype: str = "bfloat16") -> Program:
    x, w, b = te.input("x", (m, n), dtype), te.input("w", (n,), dtype), te.input("b", (n,))
    mean = te.compute((m,), lambda i: te.sum(n, lambda k: _in(x, i, k)))
    center = te.compute((m,), lambda i: mean[i] * (1.0 / n))
    var = te.compute((m,), lambda i: te.sum(n, lambda k: (_in(x, i, k) - center[i]) ** 2))
    scale = te.compute((m,), lambda i: te.rsqrt(var[i] * (1.0 / n) + 1e-5))
    return _program(te.compute((m, n), lambda i, j: (_in(x, i, j) - center[i]) * scale[i] * _in(w, j) + b[j], dtype))


def rms_norm(m: int = 33, n: int = 24) -> Program:
    """With a residual before the norm and, after it, a gate whose memory order differs."""
    x, y, w = te.input("x", (m, n)), te.input("y", (m, n)), te.input("w", (n,))
    gate = te.input("gate", (n, m))
    s = te.compute((m, n), lambda i, j: x[i, j] + y[i, j])
    ms = te.compute((m,), lambda i: te.sum(n, lambda k: s[i, k] * s[i, k]))
    return _program(te.compute(
        (m, n), lambda i, j: s[i, j] * te.rsqrt(ms[i] * (1.0 / n) + 1e-6) * w[j] + gate[j, i]))  # fmt: skip


def group_norm(b: int = 2, g: int = 3, c: int = 4, h: int = 5) -> Program:
    """Rows of two axes, columns of two; the weight is broadcast."""
    x, w, n = te.input("x", (b, g, c, h)), te.input("w", (g, c)), c * h
    mean = te.compute((b, g), lambda i, j: te.sum((c, h), lambda k, r: x[i, j, k, r]))
    var = te.compute((b, g), lambda i, j: te.sum((c, h), lambda k, r: (x[i, j, k, r] - mean[i, j] * (1.0 / n)) ** 2))
    return _program(te.compute((b, g, c, h), lambda i, j, k, r: (x[i, j, k, r] - mean[i, j] * (1.0 / n)) * te.rsqrt(
        var[i, j] * (1.0 / n) + 1e-5) * w[j, k]))  # fmt: skip


def row_argmax(m: int = 11, n: int = 130, dtype: str = "float16") -> Program:
    x = te.input("x", (m, n), dtype)
    return _program(te.compute((m,), lambda i: te.argmax(n, lambda r: _in(x, i, r))))


def row_sums(m: int = 40, n: int = 96) -> Program:
    """8-bit elements, integer sums."""
    x = te.input("x", (m, n), "int8")
    return _program(te.compute((m,), lambda i: te.sum(n, lambda r: te.cast(x[i, r], "int32"))))


def column_sums(m: int = 70, n: int = 45) -> Program:
    """Sums along the first axis: adjacent reductions are adjacent in memory."""
    x = te.input("x", (m, n))
    return _program(te.compute((n,), lambda j: te.sum(m, lambda r: x[r, j])))


def whole_sum(n: int = 2100) -> Program:
    x = te.input("x", (n,), "float64")
    return _program(te.compute((), lambda: te.sum(n, lambda r: te.abs(x[r]))))


def variances(m: int = 6, n: int = 75) -> Program:
    """Welford's recurrence as a monoid of three components."""

    def merge(a: tuple[te.Expr, ...], b: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
        count, delta = a[0] + b[0], b[1] - a[1]
        share = te.select(count > 0.0, b[0] / count, 0.0)
        return count, a[1] + delta * share, a[2] + b[2] + delta * delta * a[0] * share

    x = te.input("x", (m, n))
    welford = te.monoid("welford", (0.0, 0.0, 0.0), merge, lambda count, mean, m2: m2 / count)
    return _program(te.compute((m,), lambda i: te.reduce(welford, n, lambda r: (1.0, x[i, r], 0.0))))


def any_true(m: int = 34, n: int = 19) -> Program:
    """A boolean accumulator."""
    x = te.input("x", (m, n))
    false = te.Expr("const", "bool", (), False)
    either = te.Monoid("any", (false,), (te.left(0, "bool") | te.right(0, "bool"),), te.left(0, "bool"))
    return _program(te.compute((m,), lambda i: te.reduce(either, n, lambda r: (x[i, r] > 2.0,))))


def gathered_rows(m: int = 13, n: int = 32, v: int = 9) -> Program:
    """Rows gathered by an index tensor, then divided by their norm."""
    table, index = te.input("table", (v, n)), te.input("index", (m,), "int32")
    norm = te.compute((m,), lambda i: te.sum(n, lambda k: table[index[i], k] ** 2))
    return _program(te.compute((m, n), lambda i, j: table[index[i], j] / te.sqrt(norm[i])))


ROWS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        softmax, softmax_half, softmax_odd, softmax_long, softmax_double, softmax_channels, softmax_middle, log_softmax,
        masked_softmax,
        layer_norm, rms_norm, group_norm, row_argmax, row_sums, column_sums, whole_sum, variances, any_true,
        gathered_rows,
    )
}  # fmt: skip
"""Builders of row programs by name."""
enter("rows on GPUs", ROWS)


# --------------------------------------------------------------------------- maps


def chain(m: int = 12, n: int = 40) -> Program:
    """A bias along rows, a scale along columns, an activation; every size is a multiple of the vector length."""
    x, b, s = te.input("x", (m, n)), te.input("b", (n,)), te.input("s", (m,))
    y = te.compute((m, n), lambda i, j: x[i, j] * s[i] + b[j])
    return _program(te.compute((m, n), lambda i, j: te.maximum(y[i, j], 0.0) + te.tanh(y[i, j])))


def residual_half(m: int = 6, n: int = 48) -> Program:
    """float16 and bfloat16 elements, and a scalar argument."""
    x, y, a = te.input("x", (m, n), "float16"), te.input("y", (m, n), "bfloat16"), te.scalar("a")
    return _program(te.compute((m, n), lambda i, j: _in(x, i, j) * a[()] + _in(y, i, j), "bfloat16"))


def whole_tail(n: int = 1023) -> Program:
    """One axis, whose length is a multiple of no vector length."""
    x, y = te.input("x", (n,)), te.input("y", (n,))
    return _program(te.compute((n,), lambda i: x[i] / (1.0 + te.abs(y[i]))))


def quantise(m: int = 9, n: int = 64) -> Program:
    x, s = te.input("x", (m, n)), te.input("s", (n,))
    scaled = te.compute((m, n), lambda i, j: te.floor(x[i, j] / s[j] + 0.5))
    return _program(te.compute((m, n), lambda i, j: te.cast(
        te.minimum(te.maximum(scaled[i, j], -128.0), 127.0), "int8")))  # fmt: skip


def padded(m: int = 5, n: int = 14) -> Program:
    """Reads under a condition that differs within a vector."""
    x = te.input("x", (m, n))
    return _program(te.compute((m + 2, n + 2), lambda i, j: te.select(
        (i >= 1) & (i < m + 1) & (j >= 1) & (j < n + 1), x[i - 1, j - 1], 0.5)))  # fmt: skip


def pixels(b: int = 2, h: int = 6, w: int = 8, c: int = 3) -> Program:
    """Converts uint8 NHWC pixels to float NCHW, shifted and scaled for each channel."""
    x, mean = te.input("x", (b, h, w, c), "uint8"), te.input("mean", (c,))
    return _program(te.compute((b, c, h, w), lambda i, k, y, z: te.cast(x[i, y, z, k], "float32") - mean[k]))


def transposed(m: int = 72, n: int = 100) -> Program:
    x = te.input("x", (m, n))
    return _program(te.compute((n, m), lambda i, j: x[j, i]))


def transposed_half(b: int = 2, m: int = 40, n: int = 68) -> Program:
    """A batch of 16-bit transposes, plus a tensor in the output's order."""
    x, y = te.input("x", (b, m, n), "float16"), te.input("y", (n, m), "float16")
    return _program(te.compute((b, n, m), lambda i, j, k: _in(x, i, k, j) + _in(y, j, k), "float16"))


def transposed_bytes(m: int = 52, n: int = 36) -> Program:
    x = te.input("x", (m, n), "int8")
    return _program(te.compute((n, m), lambda i, j: x[j, i]))


def transposed_doubles(m: int = 33, n: int = 35) -> Program:
    x, y = te.input("x", (m, n), "float64"), te.input("y", (m, n), "float64")
    return _program(te.compute((n, m), lambda i, j: x[j, i] * y[j, i]))


def permuted(a: int = 3, b: int = 17, c: int = 4, d: int = 20) -> Program:
    """A permutation of four axes that simplifies to one of three."""
    x = te.input("x", (a, b, c, d))
    return _program(te.compute((c, d, a, b), lambda k, m, i, j: x[i, j, k, m]))


def table_rows(m: int = 21, n: int = 24, v: int = 11) -> Program:
    """Rows of a table, gathered by an index tensor."""
    table, index = te.input("table", (v, n), "float16"), te.input("index", (m,), "int64")
    return _program(te.compute((m, n), lambda i, j: table[index[i], j]))


def flags(m: int = 8, n: int = 21) -> Program:
    x, y = te.input("x", (m, n)), te.input("y", (m, n), "bool")
    return _program(te.compute((m, n), lambda i, j: (x[i, j] > 0.0) & ~y[i, j]))


def short_softmax(n: int = 300) -> Program:
    """Softmax over three neighbours, with its reductions unrolled."""
    x = te.input("x", (n, 3))
    top = te.compute((n,), lambda i: te.max(3, lambda c: x[i, c]))
    e = te.compute((n, 3), lambda i, c: te.exp(x[i, c] - top[i]))
    total = te.compute((n,), lambda i: te.sum(3, lambda c: e[i, c]))
    return te.program(te.compute((n, 3), lambda i, c: e[i, c] / total[i]))[0]


def wrapping(dtype: str = "int32") -> Program:
    """Integer arithmetic that overflows: results wrap around before they are compared and divided."""
    bits = np.iinfo(dtype).bits
    x, y = te.input("x", (13, 37), dtype), te.input("y", (13, 37), dtype)

    def point(i: te.Expr, j: te.Expr) -> te.Expr:
        product = x[i, j] * (3 << bits - 4) + (y[i, j] - (1 << bits - 2))
        return te.select(product < 0, -(product - x[i, j]) // 5, (product + product) % 7 - abs(-product - 1))

    return _program(te.compute((13, 37), point))


def wrapping_long() -> Program:
    return wrapping("int64")


MAPS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        chain, residual_half, whole_tail, quantise, padded, pixels, transposed, transposed_half, transposed_bytes,
        transposed_doubles, permuted, table_rows, flags, short_softmax, wrapping,
        wrapping_long,
    )
}  # fmt: skip
"""Builders of elementwise programs by name."""
enter("map on GPUs", MAPS)


# --------------------------------------------------------------------------- windows


def _at(x: Ref, inside: te.Expr, *at: te.Expr, other: float = 0.0) -> te.Expr:
    return te.select(inside, _in(x, *at), other)


def depthwise(n: int = 2, c: int = 5, h: int = 9, w: int = 11, dtype: str = "float32") -> Program:
    """NCHW, padded, with a bias and an activation."""
    x, f, b = te.input("x", (n, c, h, w), dtype), te.input("f", (c, 1, 3, 3), dtype), te.input("b", (c,), dtype)

    def term(i: te.Expr, o: te.Expr, y: te.Expr, z: te.Expr, q: te.Expr, r: te.Expr, s: te.Expr) -> te.Expr:
        p, t = y + r - 1, z + s - 1
        return _at(x, (p >= 0) & (p < h) & (t >= 0) & (t < w), i, o + q, p, t) * _in(f, o, q, r, s)

    z = te.compute((n, c, h, w), lambda i, o, y, z: te.sum((1, 3, 3), lambda q, r, s: term(i, o, y, z, q, r, s)))
    a = te.compute((n, c, h, w), lambda i, o, y, t: z[i, o, y, t] + _in(b, o))
    return _program(te.compute((n, c, h, w), lambda i, o, y, t: te.maximum(a[i, o, y, t], 0.0), dtype))


def depthwise_last(n: int = 1, h: int = 9, w: int = 10, c: int = 16, dtype: str = "float16") -> Program:
    """NHWC, stride 2, dilated along one axis, 16-bit elements."""
    x, f = te.input("x", (n, h, w, c), dtype), te.input("f", (3, 3, 1, c), dtype)
    oh, ow = (h + 2 - 3) // 2 + 1, w + 4 - 4

    def term(i: te.Expr, y: te.Expr, z: te.Expr, o: te.Expr, r: te.Expr, s: te.Expr, q: te.Expr) -> te.Expr:
        p, t = y * 2 + r - 1, z + s * 2 - 2
        return _at(x, (p >= 0) & (p < h) & (t >= 0) & (t < w), i, p, t, o + q) * _in(f, r, s, q, o)

    z = te.compute((n, oh, ow, c), lambda i, y, z, o: te.sum((3, 3, 1), lambda r, s, q: term(i, y, z, o, r, s, q)))
    return _program(te.compute((n, oh, ow, c), lambda i, y, t, o: te.cast(z[i, y, t, o], dtype)))


def multiplied(c: int = 3, h: int = 8, w: int = 7) -> Program:
    """Channel multiplier 2, no padding."""
    x, f = te.input("x", (c, h, w)), te.input("f", (2 * c, 2, 3))
    return _program(te.compute((2 * c, h - 1, w - 2), lambda o, y, z: te.sum(
        (2, 3), lambda r, s: x[o // 2, y + r, z + s] * f[o, r, s])))  # fmt: skip


def max_pool(n: int = 2, c: int = 3, h: int = 13, w: int = 12) -> Program:
    x = te.input("x", (n, c, h, w))

    def value(i: te.Expr, k: te.Expr, y: te.Expr, z: te.Expr, r: te.Expr, s: te.Expr) -> te.Expr:
        p, t = y * 2 + r - 1, z * 2 + s - 1
        return _at(x, (p >= 0) & (p < h) & (t >= 0) & (t < w), i, k, p, t, other=-math.inf)

    return _program(te.compute((n, c, 7, 6), lambda i, k, y, z: te.max((3, 3), lambda r, s: value(i, k, y, z, r, s))))


def average_pool_last(n: int = 2, h: int = 10, w: int = 7, c: int = 8) -> Program:
    """NHWC; the sum of each window, divided by its size."""
    x = te.input("x", (n, h, w, c))
    z = te.compute((n, h - 2, w - 1, c), lambda i, y, t, k: te.sum((3, 2), lambda r, s: x[i, y + r, t + s, k]))
    return _program(te.compute((n, h - 2, w - 1, c), lambda i, y, t, k: z[i, y, t, k] * (1.0 / 6.0)))


def running_mean(m: int = 5, n: int = 77) -> Program:
    """One axis, a long window."""
    x = te.input("x", (m, n), "float64")
    return _program(te.compute((m, n - 15), lambda i, j: te.sum(16, lambda r: x[i, j + r] * 0.0625)))


def pool_index(h: int = 9, w: int = 14) -> Program:
    """Position of the largest value in each window's row: a reduction with two components."""
    x = te.input("x", (h, w))
    return _program(te.compute((h, w - 4), lambda i, j: te.argmax(5, lambda r: x[i, j + r])))


WINDOWS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (depthwise, depthwise_last, multiplied, max_pool, average_pool_last, running_mean, pool_index)
}
"""Builders of windowed reductions by name."""
enter("window on GPUs", WINDOWS)
