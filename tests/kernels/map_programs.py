"""Programs without reductions, of odd sizes: chains, permutations, index maps, gathers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from harness.gpu_programs import wrapping
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter


def permuted(shape: Sequence[int], order: Sequence[int], dtype: str = "float32") -> Program:
    """``numpy.transpose(x, order)``."""
    x = te.input("x", tuple(shape), dtype)
    source = [list(order).index(d) for d in range(len(order))]
    return te.program(te.compute([shape[d] for d in order], lambda *a: x[tuple(a[s] for s in source)]))[0]


def chain(m: int = 13, n: int = 77, dtype: str = "float32", out: str | None = None) -> Program:
    """Several stages, a broadcast row and column, and a scalar."""
    real = "float32" if "16" in dtype else dtype
    x, y = te.input("x", (m, n), dtype), te.input("y", (m, n), dtype)
    row, column, scale = te.input("row", (n,), real), te.input("column", (m,), real), te.scalar("scale", real)
    h = te.compute((m, n), lambda i, j: te.cast(x[i, j], real) * scale[()] + row[j])
    g = te.compute((m, n), lambda i, j: h[i, j] * 0.5 * (1.0 + te.erf(h[i, j] * 0.70710678)) / te.exp(column[i]))
    return te.program(te.compute((m, n), lambda i, j: te.maximum(g[i, j], 0.0) + te.cast(y[i, j], real), out))[0]


def turned_chain(m: int = 37, n: int = 43, dtype: str = "float32") -> Program:
    """A transposed read beside plain ones, converted on the way."""
    x, y, b = te.input("x", (n, m), dtype), te.input("y", (m, n)), te.input("b", (n,))
    return te.program(te.compute((m, n), lambda i, j: te.cast(x[j, i], "float32") * y[i, j] + b[j]))[0]


def turned_twice(m: int = 21, n: int = 35) -> Program:
    """Two transposed reads and a condition on them, to bytes."""
    x, y = te.input("x", (n, m)), te.input("y", (n, m))
    return te.program(
        te.compute((m, n), lambda i, j: te.cast(te.select(x[j, i] > y[j, i], x[j, i] * 20.0, 3.0), "int8"))
    )[0]


def turned_slice() -> Program:
    """Columns of a tensor as rows, fewer than a vector has lanes; what is read before lies anywhere."""
    b, x = te.input("b", (4,)), te.input("x", (64, 16))
    return te.program(te.compute((4, 64), lambda i, j: x[j, i] + b[i]))[0]


def turned_bools(m: int = 21, n: int = 35) -> Program:
    x, keep = te.input("x", (m, n)), te.input("keep", (n, m), "bool")
    return te.program(te.compute((m, n), lambda i, j: te.select(keep[j, i], x[i, j], -1.0)))[0]


def concatenated(dtype: str = "bfloat16") -> Program:
    """Two tensors side by side, and a constant after them."""
    a, b = te.input("a", (7, 23), dtype), te.input("b", (7, 40), dtype)
    return te.program(
        te.compute(
            (7, 70),
            lambda i, j: te.select(
                j < 23, a[i, j], te.select(j < 63, b[i, j - 23], te.cast(te.cast(i * 0, "float32") + 1.5, dtype))
            ),
        )
    )[0]


def stacked() -> Program:
    """Two tensors one below the other."""
    a, b = te.input("a", (5, 33)), te.input("b", (6, 33))
    return te.program(te.compute((11, 33), lambda i, j: te.select(i < 5, a[i, j], b[i - 5, j])))[0]


def padded(dtype: str = "float32") -> Program:
    x = te.input("x", (6, 29), dtype)
    inside = te.compute(
        (8, 34), lambda i, j: te.select((i >= 1) & (i < 7) & (j >= 2) & (j < 31), x[i - 1, j - 2], te.cast(1.0 * te.cast(i * 0, "float32"), dtype) if dtype == "float16" else 0.0)
    )  # fmt: skip
    return te.program(inside)[0]


def embedding(dtype: str = "bfloat16") -> Program:
    """Rows of a table."""
    table, index = te.input("table", (19, 75), dtype), te.input("index", (4, 6), "int64")
    return te.program(te.compute((4, 6, 75), lambda b, t, d: table[index[b, t], d]))[0]


def split_heads() -> Program:
    """A reshape and a permutation: (2, 9, 3 * 20) to (2, 3, 9, 20)."""
    x = te.input("x", (2, 9, 60))
    y = te.compute((2, 9, 3, 20), lambda b, t, h, d: x[b, t, h * 20 + d])
    return te.program(te.compute((2, 3, 9, 20), lambda b, h, t, d: y[b, t, h, d]))[0]


def refold() -> Program:
    """A reshape that no axis survives."""
    x = te.input("x", (6, 35))
    return te.program(te.compute((5, 42), lambda i, j: x[(i * 42 + j) // 35, (i * 42 + j) % 35]))[0]


def rolled() -> Program:
    x = te.input("x", (5, 41))
    return te.program(te.compute((5, 41), lambda i, j: x[i, (j - 7) % 41] - x[(i + 2) % 5, j]))[0]


def every_third() -> Program:
    x = te.input("x", (5, 90), "int32")
    return te.program(te.compute((5, 29), lambda i, j: x[4 - i, 3 * j + 2] + te.cast(j, "int32")))[0]


def quantised() -> Program:
    x, s = te.input("x", (9, 51)), te.input("s", (9,))
    y = te.compute((9, 51), lambda i, j: te.floor(x[i, j] * s[i] * 30.0 + 0.5))
    return te.program(
        te.compute((9, 51), lambda i, j: te.cast(te.minimum(te.maximum(y[i, j], -128.0), 127.0), "int8"))
    )[0]


def repeated() -> Program:
    """Two numbers again and again along a short axis: moves without vectors."""
    x = te.input("x", (2,), "int64")
    return te.program(te.compute((2, 3, 4), lambda i, j, k: x[k % 2]))[0]


def one_number() -> Program:
    x = te.input("x", (1, 1))
    return te.program(te.compute((), lambda: x[0, 0] + 1.0))[0]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "chain": chain,
    "chain_bfloat16": partial(chain, dtype="bfloat16", out="bfloat16"),
    "chain_double": partial(chain, dtype="float64"),
    "transpose": partial(permuted, (50, 70), (1, 0)),
    "transpose_double": partial(permuted, (21, 35), (1, 0), "float64"),
    "transpose_halves": partial(permuted, (50, 70), (1, 0), "float16"),
    "transpose_bytes": partial(permuted, (50, 70), (1, 0), "int8"),
    "permute": partial(permuted, (3, 19, 4, 21), (0, 3, 2, 1)),
    "permute_rows": partial(permuted, (3, 9, 4, 21), (1, 2, 0, 3), "uint8"),
    "rotate": partial(permuted, (6, 17, 20), (2, 0, 1)),
    "turned_chain": turned_chain,
    "turned_halves": partial(turned_chain, dtype="float16"),
    "turned_twice": turned_twice,
    "turned_slice": turned_slice,
    "turned_bools": turned_bools,
    "concatenated": concatenated,
    "stacked": stacked,
    "padded": padded,
    "padded_halves": partial(padded, "float16"),
    "embedding": embedding,
    "split_heads": split_heads,
    "refold": refold,
    "rolled": rolled,
    "every_third": every_third,
    "quantised": quantised,
    "one_number": one_number,
    "repeated": repeated,
    "wrapping": wrapping,
    "wrapping_long": partial(wrapping, "int64"),
    "wrapping_bytes": partial(wrapping, "int8"),
}
enter("map", PROGRAMS)
