"""Small programs that together use the whole tensor expression language."""

from __future__ import annotations

from tilewright.kernels import nn, te
from tilewright.kernels.expression.program import Monoid as _Monoid
from tilewright.kernels.expression.program import Program, left, right
from tilewright.testing.catalogue import Build, enter


def _program(*outputs: te.TensorRef) -> Program:
    return te.program(outputs)[0]


def matmul(m: int = 13, n: int = 37, k: int = 19) -> Program:
    x, y = te.input("x", (m, k)), te.input("y", (k, n))
    return _program(te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * y[r, j])))


def matmul_epilogue(m: int = 18, n: int = 33, k: int = 7) -> Program:
    x, y, b = te.input("x", (m, k)), te.input("y", (n, k)), te.input("b", (n,))
    z = te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * y[j, r]))
    h = te.compute((m, n), lambda i, j: z[i, j] + b[j])
    return _program(te.compute((m, n), lambda i, j: h[i, j] * 0.5 * (1.0 + te.erf(h[i, j] * 0.70710678))))


def conv2d(n: int = 2, c: int = 3, h: int = 9, w: int = 21, o: int = 5, k: int = 3, stride: int = 1) -> Program:
    x, f = te.input("x", (n, c, h, w)), te.input("f", (o, c, k, k))
    pad = k // 2
    oh, ow = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1

    def at(b: te.Expr, q: te.Expr, y: te.Expr, z: te.Expr) -> te.Expr:
        inside = (y >= 0) & (y < h) & (z >= 0) & (z < w)
        return te.select(inside, x[b, q, y, z], 0.0)

    return _program(te.compute((n, o, oh, ow), lambda b, p, y, z: te.sum((c, k, k), lambda q, r, s: at(
        b, q, y * stride + r - pad, z * stride + s - pad) * f[p, q, r, s])))  # fmt: skip


def conv2d_strided() -> Program:
    return conv2d(1, 2, 8, 19, 3, 3, 2)


def softmax(m: int = 7, n: int = 45) -> Program:
    return _program(nn.softmax(te.input("x", (m, n)), 1))


def layernorm(m: int = 6, n: int = 35) -> Program:
    x, g = te.input("x", (m, n)), te.input("g", (n,))
    eps = te.scalar("eps")
    mean = te.compute((m,), lambda i: te.sum(n, lambda r: x[i, r] * (1.0 / n)))
    var = te.compute((m,), lambda i: te.sum(n, lambda r: (x[i, r] - mean[i]) ** 2 * (1.0 / n)))
    return _program(te.compute((m, n), lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(var[i] + te.abs(eps[()])) * g[j]))


def chebyshev(m: int = 11, n: int = 18, k: int = 21) -> Program:
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return _program(te.compute((m, n), lambda i, j: te.max(k, lambda r: te.abs(x[i, r] - y[j, r]))))


def argmax(m: int = 9, n: int = 50) -> Program:
    x = te.input("x", (m, n))
    return _program(te.compute((m,), lambda i: te.argmax(n, lambda r: x[i, r])))


def argmin_columns(m: int = 23, n: int = 20) -> Program:
    x = te.input("x", (m, n), "int32")
    return _program(te.compute((n,), lambda j: te.argmin(m, lambda r: x[r, j])))


def welford(m: int = 17, n: int = 5) -> Program:
    x = te.input("x", (n, m))
    f = "float32"
    n0, m0, s0, n1, m1, s1 = (fn(c, f) for fn in (left, right) for c in range(3))
    count = n0 + n1
    delta = m1 - m0
    safe = te.maximum(count, 1.0)
    monoid = _Monoid(
        "variance",
        (te.Expr("const", f, (), 0.0),) * 3,
        (count, m0 + delta * n1 / safe, s0 + s1 + delta * delta * n0 * n1 / safe),
        s0 / te.maximum(n0, 1.0),
    )
    return _program(te.compute((m,), lambda i: te.reduce(monoid, n, lambda r: (1.0, x[r, i], 0.0))))


def gather(m: int = 21, n: int = 6, v: int = 11) -> Program:
    table, index = te.input("table", (v, n)), te.input("index", (m,), "int32")
    return _program(te.compute((m, n), lambda i, j: table[index[i], j] * 2.0))


def gather_lanes(m: int = 21, v: int = 11) -> Program:
    table, index = te.input("table", (v,)), te.input("index", (m,), "int64")
    return _program(te.compute((m,), lambda i: te.select(index[i] > 3, table[index[i]], 1.5)))


def transpose(m: int = 19, n: int = 22) -> Program:
    x = te.input("x", (m, n))
    return _program(te.compute((n, m), lambda i, j: x[j, i]))


def reshape(m: int = 6, n: int = 20) -> Program:
    x = te.input("x", (m, n))
    return _program(te.compute((m * n // 8, 8), lambda i, j: x[(i * 8 + j) // n, (i * 8 + j) % n]))


def roll(n: int = 37, by: int = 5) -> Program:
    x = te.input("x", (n,))
    return _program(te.compute((n,), lambda i: x[(i - by) % n] + x[te.maximum(i - by, 0)]))


def total(n: int = 100) -> Program:
    x = te.input("x", (n,))
    return _program(te.compute((), lambda: te.sum(n, lambda r: x[r])))


def double_sum(m: int = 5, n: int = 43) -> Program:
    x = te.input("x", (m, n), "float64")
    return _program(te.compute((m,), lambda i: te.sum(n, lambda r: te.exp(x[i, r]) + te.sqrt(te.abs(x[i, r])))))


def int8_dot(m: int = 9, n: int = 25, k: int = 12) -> Program:
    x, y = te.input("x", (m, k), "int8"), te.input("y", (k, n), "uint8")

    def term(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        return te.cast(x[i, r], "int32") * te.cast(y[r, j], "int32")

    return _program(te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r))))


def saturate(n: int = 71) -> Program:
    x = te.input("x", (n,))
    scaled = te.compute((n,), lambda i: te.floor(x[i] * 100.0 + 0.5))
    return _program(te.compute((n,), lambda i: te.cast(te.minimum(te.maximum(scaled[i], -128.0), 127.0), "int8")))


def masks(m: int = 4, n: int = 35) -> Program:
    x, keep = te.input("x", (m, n)), te.input("keep", (m, n), "bool")

    def body(i: te.Expr, j: te.Expr) -> te.Expr:
        return keep[i, j] & ((x[i, j] > 0.25) | ~(te.cast(x[i, j], "float64") < -0.5))

    return _program(te.compute((m, n), body))


def causal(n: int = 27) -> Program:
    x = te.input("x", (n, n))
    return _program(te.compute((n, n), lambda i, j: te.select(j <= i, te.tanh(x[i, j]), -1e9)))


def floats(n: int = 50) -> Program:
    x = te.input("x", (n,))

    def body(i: te.Expr) -> te.Expr:
        smooth = te.log(te.exp(x[i]) + 1.0) + te.tanh(x[i]) * te.erf(x[i])
        return smooth - te.floor(x[i] * 3.0) / te.sqrt(1.0 + x[i] ** 2)

    return _program(te.compute((n,), body))


def rotary(n: int = 12, d: int = 20) -> Program:
    x = te.input("x", (n, d))

    def body(i: te.Expr, j: te.Expr) -> te.Expr:
        angle = te.cast(i * 3, "float32") * te.pow(10000.0, te.cast(j // 2, "float32") * (-2.0 / d))
        return x[i, j] * te.cos(angle) + x[i, j - j % 2 + (j + 1) % 2] * te.sin(angle)

    return _program(te.compute((n, d), body))


def growth(n: int = 50) -> Program:
    x, rate = te.input("x", (n,), "float64"), te.input("rate", (n,), "float64")

    def body(i: te.Expr) -> te.Expr:
        return te.log1p(te.abs(x[i])) * te.pow(te.abs(x[i]) + 0.5, rate[i]) - te.sin(x[i] * 1e7) * te.cos(rate[i])

    return _program(te.compute((n,), body))


def histogram(bins: int = 7, n: int = 60) -> Program:
    at, x = te.input("at", (n,), "int32"), te.input("x", (n,))
    return _program(te.compute((bins,), lambda b: te.scatter("sum", b, n, lambda r: (at[r], x[r] * 0.5))))


def largest_of_rows(rows: int = 5, n: int = 33, d: int = 18) -> Program:
    at, x = te.input("at", (n,), "int32"), te.input("x", (n, d))
    return _program(te.compute((rows, d), lambda b, j: te.scatter("max", b, n, lambda r: (at[r] // 2, x[r, j]))))


def whole_numbers(n: int = 40) -> Program:
    a, b = te.input("a", (n,), "int64"), te.input("b", (n,), "int8")

    def body(i: te.Expr) -> te.Expr:
        return te.maximum(a[i] // 3 + a[i] % 4, te.cast(b[i], "int64")) * 7 - (-a[i]) // 8

    return _program(te.compute((n,), body))


def divisions(n: int = 40) -> Program:
    """Quotients and remainders of integers of every sign, also by 0, and of floats."""
    a, b = te.input("a", (n,), "int64"), te.input("b", (n,), "int64")
    c, d = te.input("c", (n,), "int32"), te.input("d", (n,), "int32")
    x, y = te.input("x", (n,)), te.input("y", (n,))

    def body(i: te.Expr) -> te.Expr:
        whole = a[i] // b[i] * 3 + a[i] % b[i] + te.cast(c[i] // d[i] * 5 + c[i] % d[i] + c[i] // -3, "int64")
        return te.cast(whole, "float32") + te.fmod(x[i] * 8.0, y[i])

    return _program(te.compute((n,), body))


def short_numbers(m: int = 5, n: int = 37) -> Program:
    """16-bit integers, read by rows and by columns, that wrap when they are stored."""
    x, y = te.input("x", (m, n), "int16"), te.input("y", (n, m), "int16")
    wide = te.compute((m, n), lambda i, j: te.cast(x[i, j], "int32") * 9001 + te.cast(y[j, i], "int32"))
    return _program(te.compute((m, n), lambda i, j: wide[i, j], dtype="int16"))


def mean_of_halves(n: int = 30) -> Program:
    x = te.input("x", (n,), "float16")

    def body(i: te.Expr) -> te.Expr:
        return (te.cast(x[2 * i], "float32") + te.cast(x[2 * i + 1], "float32")) * 0.5

    return _program(te.compute((n // 2,), body))


def running_sums(m: int = 6, n: int = 33) -> Program:
    x = te.input("x", (m, n))
    sums = te.compute((m, n), lambda i, j: te.scan("sum", j, te.exp(x[i, j])))
    return _program(te.compute((m, n), lambda i, j: sums[i, j] * 0.5 + x[i, j]))


def running_maxima(m: int = 13, n: int = 21) -> Program:
    x = te.input("x", (m, n), "int32")
    return _program(te.compute((m, n), lambda i, j: te.scan("max", i, x[i, j])))


def recurrence(m: int = 9, n: int = 18) -> Program:
    a, b = te.input("a", (m, n)), te.input("b", (m, n))
    linear = te.monoid("linear", (1.0, 0.0), lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), lambda slope, at: at)
    h = te.compute((m, n), lambda i, j: te.scan(linear, i, (te.tanh(a[i, j]), b[i, j])))
    return _program(te.compute((n,), lambda j: te.sum(m, lambda r: h[r, j])))


def eight_bit_floats(m: int = 5, n: int = 14, k: int = 11) -> Program:
    x, y = te.input("x", (m, k), "float8_e4m3fn"), te.input("y", (k, n), "float8_e5m2")

    def term(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        return te.cast(x[i, r], "float32") * te.cast(y[r, j], "float32")

    c = te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r)))
    return _program(te.compute((m, n), lambda i, j: c[i, j] * 0.5, dtype="float8_e4m3fn"))


def standardised(m: int = 7, n: int = 37) -> Program:
    """Three outputs: standardised rows, their mean, which other stages read, and the argmax of each row."""
    x = te.input("x", (m, n))
    mean = te.compute((m,), lambda i: te.sum(n, lambda r: x[i, r] * (1.0 / n)))
    var = te.compute((m,), lambda i: te.sum(n, lambda r: (x[i, r] - mean[i]) ** 2 * (1.0 / n)))
    y = te.compute((m, n), lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(var[i] + 1e-3))
    return _program(y, mean, te.compute((m,), lambda i: te.argmax(n, lambda r: x[i, r])))


def halves(m: int = 5, n: int = 26) -> Program:
    """Two independent outputs."""
    x = te.input("x", (m, n))
    left, right = (te.compute((m, n // 2), lambda i, j, k=k: te.exp(x[i, j + k * (n // 2)])) for k in (0, 1))
    return _program(left, right)


PROGRAMS: dict[str, Build] = {
    f.__name__: f
    for f in (
        matmul, matmul_epilogue, conv2d, conv2d_strided, softmax, layernorm, chebyshev, argmax, argmin_columns,
        welford, gather, gather_lanes, transpose, reshape, roll, total, double_sum, int8_dot, saturate, masks,
        causal, floats, rotary, growth, histogram, largest_of_rows,
        whole_numbers, divisions, short_numbers, mean_of_halves, running_sums, running_maxima, recurrence,
        eight_bit_floats, standardised, halves,
    )
}  # fmt: skip
"""Builders of small programs by name; together the programs use the whole language."""
enter("language", PROGRAMS)
