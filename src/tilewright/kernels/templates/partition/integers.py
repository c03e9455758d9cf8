"""Integer expressions of a segment's launch in the names of the whole launch."""

from __future__ import annotations

from tilewright.core import IntExpr


def renamed(expr: IntExpr, prefix: str) -> IntExpr:
    """Every name with a prefix."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return prefix + expr
    return [expr[0], *(renamed(x, prefix) for x in expr[1:])]
