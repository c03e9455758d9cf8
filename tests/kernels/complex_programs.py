"""Products of matrices and convolutions of complex numbers and quaternions, written out by component."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter

Pair = tuple[te.Expr, te.Expr]
"""A real and an imaginary part."""


def by_select(c: te.Expr, x: Pair, y: Pair) -> te.Expr:
    """A component of a product, each chosen as a whole."""
    return te.select(c == 0, x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0])


def by_selects(c: te.Expr, x: Pair, y: Pair) -> te.Expr:
    """The same with a choice in each factor."""
    first = x[0] * te.select(c == 0, y[0], y[1])
    return first + te.select(c == 0, -1.0, 1.0) * x[1] * te.select(c != 0, y[0], y[1])


def by_sign(c: te.Expr, x: Pair, y: Pair) -> te.Expr:
    """The same with signs that are computed, and the imaginary part first."""
    sign = te.cast(1 - 2 * c, "float32")
    return te.select(c > 0, x[1], -x[1]) * te.select(c == 0, y[1], y[0]) - (-x[0]) * (
        te.select(c == 1, y[1], sign * y[0]) * 1.0
    )


Written = Callable[[te.Expr, Pair, Pair], te.Expr]


def _read(t: te.TensorRef, at: tuple[te.Expr, ...], place: int, conjugate: bool = False) -> Pair:
    """The number at a position, its components along axis ``place`` of the tensor."""
    real, imaginary = (t[(*at[:place], c, *at[place:])] for c in (0, 1))
    return real, -imaginary if conjugate else imaginary


def matmul(
    m: int = 5, n: int = 19, k: int = 7, place: int = 2, written: Written = by_select, conjugate: str = "",
    turned: str = "", dtype: str = "float32", constant: bool = False, after: str = "",
) -> Program:  # fmt: skip
    """A product of matrices whose components are axis ``place`` of every tensor.

    ``conjugate`` and ``turned`` name operands that are conjugated and that lie transposed; ``after``: ``b`` adds a
    complex bias of each column, ``s`` takes a real multiple.
    """

    def tensor(name: str, rows: int, columns: int, constant: bool = False) -> te.TensorRef:
        shape = (columns, rows) if name in turned else (rows, columns)
        return te.input(name, (*shape[:place], 2, *shape[place:]), dtype, constant=constant)

    a, b = tensor("a", m, k), tensor("b", k, n, constant)

    def read(t: te.TensorRef, row: te.Expr, column: te.Expr) -> Pair:
        at = (column, row) if t.label in turned else (row, column)
        return _read(t, at, place, t.label in conjugate)

    def element(*at: te.Expr) -> te.Reduction:
        c, (i, j) = at[place], at[:place] + at[place + 1 :]
        return te.sum(k, lambda r: written(c, read(a, i, r), read(b, r, j)))

    shape = (*(m, n)[:place], 2, *(m, n)[place:])
    y = te.compute(shape, element)
    if "b" in after:
        bias = te.input("bias", (n, 2), dtype)
        y = te.compute(shape, lambda *at: y[at] + bias[(at[:place] + at[place + 1 :])[1], at[place]])
    if "s" in after:
        z = y
        y = te.compute(shape, lambda *at: z[at] * 0.25)
    return te.program(y)[0]


def in_one_axis(m: int = 5, n: int = 21, k: int = 7) -> Program:
    """Components beside each other in rows: no axis of their own."""
    a, b = te.input("a", (m, 2 * k)), te.input("b", (k, 2 * n))

    def element(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        first = 2 * (j // 2)
        return by_select(j % 2, (a[i, 2 * r], a[i, 2 * r + 1]), (b[r, first], b[r, first + 1]))

    return te.program(te.compute((m, 2 * n), lambda i, j: te.sum(k, lambda r: element(i, j, r))))[0]


def batched(z: int = 3, m: int = 4, n: int = 9, k: int = 6) -> Program:
    a, b = te.input("a", (z, m, k, 2)), te.input("b", (z, k, n, 2))
    return te.program(
        te.compute(
            (z, m, n, 2),
            lambda q, i, j, c: te.sum(k, lambda r: by_select(c, _read(a, (q, i, r), 3), _read(b, (q, r, j), 3))),
        )
    )[0]


def real_part(m: int = 6, n: int = 18, k: int = 5) -> Program:
    """Of a product whose operands hold their components in tensors of their own."""
    ar, ai, br, bi = (te.input(name, (m, k) if name[0] == "a" else (k, n)) for name in ("ar", "ai", "br", "bi"))
    return te.program(te.compute((m, n), lambda i, j: te.sum(k, lambda r: ar[i, r] * br[r, j] - ai[i, r] * bi[r, j])))[
        0
    ]


def by_real(m: int = 5, n: int = 19, k: int = 7, right: bool = True, chosen: bool = True) -> Program:
    """A complex matrix times a real one, or a real one times a complex one (``right``)."""
    a, b = te.input("a", (m, k) if right else (m, k, 2)), te.input("b", (k, n, 2) if right else (k, n))

    def part(i: te.Expr, j: te.Expr, r: te.Expr, c: te.ExprLike) -> te.Expr:
        return a[i, r] * b[r, j, c] if right else a[i, r, c] * b[r, j]

    def element(i: te.Expr, j: te.Expr, c: te.Expr, r: te.Expr) -> te.Expr:
        return te.select(c == 0, part(i, j, r, 0), part(i, j, r, 1)) if chosen else part(i, j, r, c)

    return te.program(te.compute((m, n, 2), lambda i, j, c: te.sum(k, lambda r: element(i, j, c, r))))[0]


def conv1d(n: int = 2, w: int = 11, ci: int = 3, co: int = 10, taps: int = 3, pad: int = 1) -> Program:
    """Channels last."""
    x, f = te.input("x", (n, w, ci, 2)), te.input("f", (taps, ci, co, 2))

    def element(z: te.Expr, i: te.Expr, o: te.Expr, c: te.Expr, t: te.Expr, r: te.Expr) -> te.Expr:
        at = i + t - pad
        x0, x1 = (te.select((at >= 0) & (at < w), v, 0.0) for v in _read(x, (z, at, r), 3))
        return by_select(c, (x0, x1), _read(f, (t, r, o), 3))

    out = w + 2 * pad - taps + 1
    return te.program(
        te.compute((n, out, co, 2), lambda *at: te.sum((taps, ci), lambda t, r: element(*at, t, r)))
    )[0]  # fmt: skip


def conv2d(n: int = 2, h: int = 6, w: int = 9, ci: int = 3, co: int = 4, taps: int = 3, pad: int = 1) -> Program:
    """Channels first."""
    x, f = te.input("x", (n, ci, h, w, 2)), te.input("f", (co, ci, taps, taps, 2))

    def element(z: te.Expr, o: te.Expr, i: te.Expr, j: te.Expr, c: te.Expr, *at: te.Expr) -> te.Expr:
        r, s, t = at
        y, u = i + s - pad, j + t - pad
        inside = (y >= 0) & (y < h) & (u >= 0) & (u < w)
        x0, x1 = (te.select(inside, v, 0.0) for v in _read(x, (z, r, y, u), 4))
        return by_select(c, _read(f, (o, r, s, t), 4), (x0, x1))

    shape = (n, co, h + 2 * pad - taps + 1, w + 2 * pad - taps + 1, 2)
    return te.program(
        te.compute(shape, lambda *at: te.sum((ci, taps, taps), lambda *r: element(*at, *r)))
    )[0]  # fmt: skip


_HAMILTON = (((0, 1), (1, -1), (2, -1), (3, -1)), ((1, 1), (0, 1), (3, 1), (2, -1)),
             ((2, 1), (3, -1), (0, 1), (1, 1)), ((3, 1), (2, 1), (1, -1), (0, 1)))  # fmt: skip


def quaternions(m: int = 4, n: int = 9, k: int = 5) -> Program:
    """A product of matrices of quaternions."""
    a, b = te.input("a", (m, k, 4)), te.input("b", (k, n, 4))

    def component(i: te.Expr, j: te.Expr, r: te.Expr, row: tuple[tuple[int, int], ...]) -> te.Expr:
        found: te.Expr | None = None
        for p, (q, sign) in enumerate(row):
            term = a[i, r, p] * b[r, j, q]
            found = term if found is None else found + term if sign > 0 else found - term
        assert found is not None
        return found

    def element(i: te.Expr, j: te.Expr, c: te.Expr, r: te.Expr) -> te.Expr:
        w, x, y, z = (component(i, j, r, row) for row in _HAMILTON)
        return te.select(c == 0, w, te.select(c == 1, x, te.select(c == 2, y, z)))

    return te.program(te.compute((m, n, 4), lambda i, j, c: te.sum(k, lambda r: element(i, j, c, r))))[0]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "matmul": matmul,
    "matmul_wide": partial(matmul, 17, 70, 33),
    "matmul_double": partial(matmul, dtype="float64"),
    "matmul_constant": partial(matmul, constant=True),
    "matmul_selects": partial(matmul, written=by_selects),
    "matmul_sign": partial(matmul, written=by_sign),
    "matmul_conjugates": partial(matmul, conjugate="ab", after="s"),
    "matmul_adjoint": partial(matmul, conjugate="b", turned="b"),
    "matmul_turned": partial(matmul, conjugate="a", turned="ab"),
    "matmul_bias": partial(matmul, after="bs"),
    "row_times_matrix": partial(matmul, 1),
    "matrix_times_column": partial(matmul, 19, 1),
    "components_first": partial(matmul, place=0),
    "components_first_turned": partial(matmul, place=0, turned="ab"),
    "components_between": partial(matmul, place=1, conjugate="b"),
    "in_one_axis": in_one_axis,
    "batched": batched,
    "real_part": real_part,
    "times_real": partial(by_real, right=False),
    "times_real_read": partial(by_real, right=False, chosen=False),
    "real_times": by_real,
    "conv1d": conv1d,
    "conv2d": conv2d,
    "quaternions": quaternions,
}
enter("complex", PROGRAMS)
