"""Values that are zero from a number on along an axis, as those of a cache beyond the length of its sequence."""

from __future__ import annotations

from tilewright.kernels.expression.expr import INDEX, Expr
from tilewright.kernels.expression.linear import linearise


def limited(e: Expr, along: str) -> tuple[Expr, Expr | None]:
    """A value without the condition that makes it zero from a number on along an axis, and that number.

    The number does not depend on the axis; ``None`` where there is no such condition, and the value is as it was.
    """
    if e.op != "select" or e.args[0].op not in ("lt", "le", "gt", "ge"):
        return e, None
    condition, value, other = e.args
    if other.op != "const" or other.value != 0 or not condition.args[0].dtype == condition.args[1].dtype == INDEX:
        return e, None
    left, right = condition.args if condition.op in ("lt", "le") else condition.args[::-1]
    beyond = linearise(right - left)  # more than 0, or at least 0, for what is left
    if beyond.step(along) != -1:
        return e, None
    return value, beyond.without(along).plus(1 if condition.op in ("le", "ge") else 0).expr()
