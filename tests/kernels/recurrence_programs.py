"""Recurrences of every form that the template tells apart."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import te
from tilewright.kernels.expression.program import Monoid, Program
from tilewright.testing import programs
from tilewright.testing.catalogue import enter


def linear(dtype: str = "float32") -> Monoid:
    """``h[t] = a[t] * h[t - 1] + b[t]``."""
    return te.monoid(
        "linear", (1.0, 0.0), lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), lambda _, at: at, dtype=dtype
    )


def _program(out: te.TensorRef) -> Program:
    return te.program(out)[0]


def selective_scan(batch: int = 2, length: int = 21, channels: int = 19, states: int = 6) -> Program:
    """The selective scan of state space models: its state is read by a sum alone."""
    x, delta = te.input("x", (batch, length, channels)), te.input("delta", (batch, length, channels))
    a = te.input("a", (channels, states))
    b, c = te.input("b", (batch, length, states)), te.input("c", (batch, length, states))
    d = te.input("d", (channels,))
    dt = te.compute((batch, length, channels), lambda i, t, k: te.log1p(te.exp(delta[i, t, k])))
    h = te.compute(
        (batch, length, channels, states),
        lambda i, t, k, s: te.scan(
            linear(), t, (te.exp(-dt[i, t, k] * te.exp(a[k, s])), dt[i, t, k] * b[i, t, s] * x[i, t, k])
        ),
    )
    y = te.compute((batch, length, channels), lambda i, t, k: te.sum(states, lambda s: h[i, t, k, s] * c[i, t, s]))
    return _program(te.compute(y.shape, lambda i, t, k: y[i, t, k] + d[k] * x[i, t, k]))


def middle_sums(n: int = 400) -> Program:
    """Axes on both sides, the inner two of which are one, and blocks of a long sequence."""
    x = te.input("x", (2, n, 3, 7))
    return _program(te.compute(x.shape, lambda i, t, h, c: te.scan("sum", t, x[i, t, h, c])))


def gated_heads(length: int = 300) -> Program:
    """A decay for each head, which keeps the two inner axes apart."""
    g, x = te.input("g", (length, 3), low=0.0, high=1.0), te.input("x", (length, 3, 10))
    return _program(te.compute(x.shape, lambda t, h, c: te.scan(linear(), t, (g[t, h], x[t, h, c]))))


def long_average(n: int = 1500) -> Program:
    """One sequence alone, in float64: vectors along it, and blocks."""
    x = te.input("x", (n,), "float64")
    return _program(te.compute((n,), lambda t: te.scan(linear("float64"), t, (0.9, 0.1 * x[t]))))


def running_argmax(m: int = 3, n: int = 37) -> Program:
    """A state of two components of different sizes, along the innermost axis."""
    x = te.input("x", (m, n))
    argmax = te.argmax(1, lambda r: x[0, 0]).monoid
    return _program(te.compute((m, n), lambda i, j: te.scan(argmax, j, (x[i, j], te.cast(j, "int64")))))


def two_scans(m: int = 40, n: int = 12) -> Program:
    """A scan of another's values, and a map that reads both in another order of axes."""
    x = te.input("x", (m, n))
    a = te.compute((m, n), lambda t, c: te.scan("max", t, x[t, c]))
    b = te.compute((m, n), lambda t, c: te.scan("sum", t, a[t, c] - x[t, c]))
    return _program(te.compute((n, m), lambda c, t: b[t, c] + a[t, c] * 0.5))


def largest_over_time(m: int = 30, n: int = 11) -> Program:
    """A state that only a reduction along the sequence reads, behind which a map stands."""
    x, bias = te.input("x", (m, n), "float16"), te.input("bias", (n,))
    s = te.compute((m, n), lambda t, c: te.scan("sum", t, te.cast(x[t, c], "float32")))
    top = te.compute((n,), lambda c: te.max(m, lambda t: s[t, c]))
    return _program(te.compute((n,), lambda c: top[c] + bias[c]))


def one_total(n: int = 50) -> Program:
    """Nothing but the sequence, reduced: no axis is left for vectors."""
    x = te.input("x", (n,))
    s = te.compute((n,), lambda t: te.scan("prod", t, x[t] * 0.5))
    return _program(te.compute((1,), lambda _: te.sum(n, lambda t: s[t])))


def seen_so_far(m: int = 33, n: int = 9) -> Program:
    """States that are conditions, of a monoid of one's own; whole numbers as the result."""
    x = te.input("x", (m, n), "int32")
    seen = te.monoid("seen", (False,), lambda p, q: p[0] | q[0], dtype="bool")
    s = te.compute((m, n), lambda t, c: te.scan(seen, t, x[t, c] > 7))
    return _program(te.compute((m, n), lambda t, c: te.select(s[t, c], x[t, c], -1)))


def shifted_feed(m: int = 20, n: int = 13) -> Program:
    """A map in front that reads its neighbour where there is one, and gathers."""
    x, at = te.input("x", (m, n)), te.input("at", (m,), "int32")
    d = te.compute((m, n), lambda t, c: x[at[t], c] - te.select(t > 0, x[t - 1, c], 0.0))
    return _program(te.compute((m, n), lambda t, c: te.scan("sum", t, d[t, c])))


def turned(m: int = 12, n: int = 70) -> Program:
    """Rows that lie in the input as columns."""
    x = te.input("x", (n, m))
    return _program(te.compute((m, n), lambda c, t: te.scan("sum", t, x[t, c])))


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        programs.running_sums, programs.running_maxima, programs.recurrence, selective_scan, middle_sums, gated_heads,
        long_average, running_argmax, two_scans, largest_over_time, one_total, seen_so_far, shifted_feed, turned,
    )
}  # fmt: skip
enter("recurrence", PROGRAMS)
