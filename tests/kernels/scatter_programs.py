"""Scatters of every form that the template tells apart."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import nn, te
from tilewright.kernels.expression.program import Program
from tilewright.testing import programs
from tilewright.testing.catalogue import enter


def _program(out: te.TensorRef) -> Program:
    return te.program(out)[0]


def counts(bins: int = 9, n: int = 201) -> Program:
    """Whole numbers, some of which land nowhere."""
    at = te.input("at", (n,), "int64")
    one = te.cast(te.compute((1,), lambda i: 1.0)[0], "int32")
    return _program(te.compute((bins,), lambda b: te.scatter("sum", b, n, lambda r: (at[r] - 2, one))))


def added_rows(rows: int = 30, d: int = 37, n: int = 50) -> Program:
    """Rows, of which pieces are units of work, and a tensor to which they are added."""
    x, index, source = te.input("x", (rows, d)), te.input("index", (n,), "int64"), te.input("source", (n, d))
    return _program(nn.index_add(x, 0, index, source, alpha=0.5))


def added_columns() -> Program:
    """An axis of the result around the sources."""
    x, index, source = te.input("x", (5, 12)), te.input("index", (40,), "int64"), te.input("source", (5, 40))
    return _program(nn.index_add(x, 1, index, source))


def own_places() -> Program:
    """An index for every element, and two axes of sources."""
    at, x = te.input("at", (6, 4, 3), "int32"), te.input("x", (6, 4, 3), "float64")
    return _program(
        te.compute((5, 3), lambda b, j: te.scatter("min", b, (6, 4), lambda r, q: (at[r, q, j], x[r, q, j])))
    )


def two_indices() -> Program:
    """Two chosen axes with a row's axis between them, which is walked outside of the sources."""
    at, column = te.input("at", (60,), "int32"), te.input("column", (60,), "int32")
    x = te.input("x", (60, 3))
    return _program(
        te.compute((7, 3, 4), lambda b, j, c: te.scatter("sum", (b, c), 60, lambda r: ((at[r], column[r]), x[r, j])))
    )


def halves(rows: int = 6, d: int = 20, n: int = 30) -> Program:
    """Half precision: sums are of float32, and rounded once."""
    at, x = te.input("at", (n,), "int32"), te.input("x", (n, d), "float16")
    s = te.compute((rows, d), lambda b, j: te.scatter("sum", b, n, lambda r: (at[r], te.cast(x[r, j], "float32"))))
    return _program(te.compute((rows, d), lambda b, j: te.cast(s[b, j], "float16")))


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        programs.histogram, programs.largest_of_rows, counts, added_rows, added_columns, own_places, two_indices, halves
    )
}  # fmt: skip
enter("scatter", PROGRAMS)
