"""Products with an operand of which a condition leaves a part: triangles, bands."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter

Condition = Callable[[te.Expr, te.Expr], te.Expr]


def masked(m: int, n: int, k: int, condition: Condition) -> Program:
    """``out[i, j] = sum_r a[i, r] * b[r, j]`` over the steps that ``condition(i, r)`` leaves."""
    a, b = te.input("a", (m, k)), te.input("b", (k, n))
    out = te.compute(
        (m, n), lambda i, j: te.sum(k, lambda r: te.select(condition(i, r), a[i, r], 0.0) * b[r, j])
    )  # fmt: skip
    return te.program(out)[0]


CONDITIONS: dict[str, Condition] = {
    "lower": lambda i, r: r <= i,
    "upper": lambda i, r: r >= i,
    "band": lambda i, r: (r <= i + 3) & (r >= i - 5),
    "steep": lambda i, r: 2 * r + 3 < i,
    "corner": lambda i, r: r + i >= 60,
}
PROGRAMS: dict[str, Callable[[], Program]] = {
    name: lambda condition=condition: masked(37, 29, 50, condition) for name, condition in CONDITIONS.items()
}
enter("triangle", PROGRAMS)
