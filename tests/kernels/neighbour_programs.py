"""Chains of stages that read their neighbours, of every form that the template tells apart."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter


def _program(out: te.TensorRef) -> Program:
    return te.program(out)[0]


def heat_step(x: te.TensorRef) -> te.TensorRef:
    """A 5-point stencil; the border stays as it is."""
    m, n = x.shape

    def value(i: te.Expr, j: te.Expr) -> te.Expr:
        inside = (i > 0) & (i < m - 1) & (j > 0) & (j < n - 1)
        around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
        return te.select(inside, 0.5 * x[i, j] + 0.125 * around, x[i, j])

    return te.compute((m, n), value)


def heat(m: int = 21, n: int = 83, steps: int = 4) -> Program:
    """Several time steps."""
    x = te.input("x", (m, n))
    for _ in range(steps):
        x = heat_step(x)
    return _program(x)


def clamped(m: int = 19, n: int = 70, steps: int = 3, wide: int = 3) -> Program:
    """The nearest element stands for those outside."""
    x = te.input("x", (m, n))
    for _ in range(steps):
        x = te.compute(
            x.shape, lambda i, j, x=x: te.max((3, wide), lambda r, s: x[_near(i + r - 1, m), _near(j + s - 1, n)])
        )
    return _program(x)


def _near(i: te.Expr, n: int) -> te.Expr:
    return te.minimum(te.maximum(i, 0), n - 1)


def _zero(x: te.TensorRef, *at: te.Expr) -> te.Expr:
    inside = None
    for i, n in zip(at, x.shape, strict=True):
        mine = (i >= 0) & (i < n)
        inside = mine if inside is None else inside & mine
    return te.select(inside, x[at], 0.0)


def blur(m: int = 33, n: int = 77, taps: int = 5) -> Program:
    """A separable filter with zeros outside: along rows, then along columns."""
    x, w = te.input("x", (m, n)), te.input("w", (taps,))
    half = taps // 2
    rows = te.compute((m, n), lambda i, j: te.sum(taps, lambda r: w[r] * _zero(x, i, j + r - half)))
    return _program(te.compute((m, n), lambda i, j: te.sum(taps, lambda r: w[r] * _zero(rows, i + r - half, j))))


def pooled(h: int = 22, w: int = 41, c: int = 3, o: int = 5, k: int = 3) -> Program:
    """Overlapping pooling of a small convolution."""
    x, f = te.input("x", (c, h + k - 1, w + k - 1)), te.input("f", (o, c, k, k))
    y = te.compute((o, h, w), lambda p, i, j: te.sum((c, k, k), lambda q, r, s: x[q, i + r, j + s] * f[p, q, r, s]))
    return _program(
        te.compute(
            (o, (h - 3) // 2 + 1, (w - 3) // 2 + 1),
            lambda p, i, j: te.max((3, 3), lambda r, s: y[p, 2 * i + r, 2 * j + s]),
        )
    )


def line(n: int = 1001, steps: int = 6) -> Program:
    """One axis alone, in float64."""
    x = te.input("x", (n,), "float64")
    for _ in range(steps):
        x = te.compute((n,), lambda i, x=x: 0.25 * _zero(x, i - 1) + 0.5 * x[i] + 0.25 * _zero(x, i + 1))
    return _program(x)


def volume(k: int = 7, m: int = 9, n: int = 37, steps: int = 2) -> Program:
    """Three axes, 7 points, the nearest element outside."""
    x = te.input("x", (k, m, n))

    def step(x: te.TensorRef) -> te.TensorRef:
        return te.compute(
            x.shape,
            lambda h, i, j: (
                0.4 * x[h, i, j]
                + 0.1 * (x[_near(h - 1, k), i, j] + x[_near(h + 1, k), i, j] + x[h, _near(i - 1, m), j])
                + 0.1 * (x[h, _near(i + 1, m), j] + x[h, i, _near(j - 1, n)] + x[h, i, _near(j + 1, n)])
            ),
        )

    for _ in range(steps):
        x = step(x)
    return _program(x)


def unsharp(m: int = 18, n: int = 90) -> Program:
    """A stage that two later ones read, 16-bit inputs and an elementwise end."""
    x = te.input("x", (m, n), "bfloat16")
    y = te.compute((m, n), lambda i, j: te.exp(te.cast(x[i, j], "float32") * 0.25))
    rows = te.compute((m, n), lambda i, j: y[i, _near(j - 1, n)] + y[i, j] + y[i, _near(j + 1, n)])
    both = te.compute((m, n), lambda i, j: rows[_near(i - 1, m), j] + rows[i, j] + rows[_near(i + 1, m), j])
    return _program(te.compute((m, n), lambda i, j: te.cast(2.0 * y[i, j] - both[i, j] / 9.0, "bfloat16")))


def shrinking(m: int = 29, n: int = 75, wide: int = 3) -> Program:
    """No border at all: every stage is smaller than what it reads."""
    x = te.input("x", (m, n))
    for _ in range(3):
        x = te.compute(
            (x.shape[0] - 2, x.shape[1] - wide + 1),
            lambda i, j, x=x: te.sum((3, wide), lambda r, s: 0.125 * x[i + r, j + s]),
        )
    return _program(x)


def weighted(m: int = 23, n: int = 66) -> Program:
    """A stage of one axis, which every row of the next reads at neighbours."""
    w, x = te.input("w", (n,)), te.input("x", (m, n))
    gain = te.compute((n,), lambda j: te.exp(0.5 * w[j]))
    y = te.compute((m, n), lambda i, j: x[i, j] * (gain[j] + gain[_near(j + 1, n)]))
    return _program(te.compute((m - 1, n), lambda i, j: y[i, j] + y[i + 1, j]))


def repeated(n: int = 20) -> Program:
    """A result that is the same all along the axis of vectors."""
    x = te.input("x", (n + 1, 3))
    y = te.compute((n + 1,), lambda i: te.sum(3, lambda k: x[i, k]))
    return _program(te.compute((n, 70), lambda i, _: y[i] - y[i + 1]))


def compared(m: int = 18, n: int = 70) -> Program:
    """A result of truth values."""
    x = te.input("x", (m, n + 1, 5))
    y = te.compute((m, n + 1), lambda i, j: te.sum(5, lambda k: x[i, j, k]))
    return _program(te.compute((m, n), lambda i, j: y[i, j] < y[i, j + 1]))


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f for f in (heat, clamped, blur, pooled, line, volume, unsharp, shrinking, weighted, repeated, compared)
}
enter("neighbours", PROGRAMS)
