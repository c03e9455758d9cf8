"""Programs of several contractions and normalisations, for tests of partitions."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter


def product(x: te.TensorRef, w: te.TensorRef) -> te.TensorRef:
    (m, k), n = x.shape, w.shape[1]
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * w[r, j]))


def softmax_of(s: te.TensorRef) -> te.TensorRef:
    *rest, n = s.shape
    top = te.compute(tuple(rest), lambda *i: te.max(n, lambda r: s[(*i, r)]))
    e = te.compute(s.shape, lambda *i: te.exp(s[i] - top[i[:-1]]))
    total = te.compute(tuple(rest), lambda *i: te.sum(n, lambda r: e[(*i, r)]))
    return te.compute(s.shape, lambda *i: e[i] / total[i[:-1]])


def layer_norm_of(x: te.TensorRef) -> te.TensorRef:
    m, n = x.shape
    mean = te.compute((m,), lambda i: te.sum(n, lambda r: x[i, r] * (1.0 / n)))
    var = te.compute((m,), lambda i: te.sum(n, lambda r: (x[i, r] - mean[i]) ** 2 * (1.0 / n)))
    return te.compute((m, n), lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(var[i] + 1e-5))


def mlp(m: int = 20, n: int = 33, k: int = 17, o: int = 9, constant: bool = False) -> Program:
    x, b = te.input("x", (m, k)), te.input("b", (n,))
    w, v = (te.input(name, shape, constant=constant) for name, shape in (("w", (k, n)), ("v", (n, o))))
    h = product(x, w)
    return te.program(product(te.compute((m, n), lambda i, j: te.maximum(h[i, j] + b[j], 0.0)), v))[0]


def transposed_scores(rows: int = 16, heads: int = 3, d: int = 8) -> Program:
    q, k = te.input("q", (rows, heads, d)), te.input("k", (rows, heads, d))
    return te.program(
        softmax_of(
            te.compute((heads, rows, rows), lambda g, i, j: te.sum(d, lambda r: q[i, g, r] * k[j, g, r]))
        )
    )[0]  # fmt: skip


def residual_norm(m: int = 14, n: int = 24) -> Program:
    """The first input and the product's result are read by later segments too."""
    x, w = te.input("x", (m, n)), te.input("w", (n, n))
    h = product(x, w)
    y = layer_norm_of(te.compute((m, n), lambda i, j: x[i, j] + h[i, j]))
    z = product(y, w)
    return te.program(te.compute((m, n), lambda i, j: z[i, j] + y[i, j] * x[i, j]))[0]


def convolved(h: int = 9, w: int = 12, c: int = 3, o: int = 5) -> Program:
    x, f = te.input("x", (c, h + 2, w + 2)), te.input("f", (o, c, 3, 3))
    y = te.compute(
        (h, w, o), lambda i, j, p: te.sum((c, 3, 3), lambda q, r, s: x[q, i + r, j + s] * f[p, q, r, s])
    )  # fmt: skip
    return te.program(softmax_of(y))[0]


def chain(n: int = 12, length: int = 4) -> Program:
    """Products one after the other: intermediate results can use the same memory in turn."""
    x = te.input("x", (n, n))
    ws = [te.input(f"w{k}", (n, n)) for k in range(length)]
    for w in ws:
        x = product(x, w)
    return te.program(x)[0]


def product_and_norm(m: int = 14, n: int = 24) -> Program:
    """Three results: a norm, the product that it reads, and the largest values of the product's rows."""
    h = product(te.input("x", (m, n)), te.input("w", (n, n)))
    return te.program((layer_norm_of(h), h, te.compute((m,), lambda i: te.max(n, lambda r: h[i, r]))))[0]


def weighted(m: int = 24, k: int = 40, n: int = 48) -> Program:
    """A product with the softmax of constant scores."""
    x, w = te.input("x", (m, k)), te.input("w", (k, n), constant=True)
    return te.program(product(x, softmax_of(w)))[0]


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f for f in (mlp, transposed_scores, residual_norm, convolved, chain, product_and_norm, weighted)
}
enter("partition", PROGRAMS)
