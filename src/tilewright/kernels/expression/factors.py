"""What a product is a product of, and how often a factor changes along an axis."""

from __future__ import annotations

from math import gcd

from tilewright.kernels.expression.expr import Expr, whole


def factors(e: Expr) -> list[Expr]:
    """What a product is a product of; any other value alone."""
    return [f for x in e.args for f in factors(x)] if e.op == "mul" else [e]


def steps(e: Expr, axis: str) -> int:
    """Steps of an axis from one change of a value to the next, ``s[r // 128]``: 128; 0 where it has no such axis."""
    if e.op == "floordiv" and e.args[0].op == "axis" and e.args[0].value == axis:
        return whole(e.args[1])
    return int(e.value == axis) if e.op == "axis" else gcd(*(steps(x, axis) for x in e.args))
