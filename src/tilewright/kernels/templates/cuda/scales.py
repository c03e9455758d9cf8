"""Scales of quantised operands, taken out of the sum: ``sum x*(w*s)`` is ``s * sum x*w`` where ``s`` is free of K.

Only factors beside an 8-bit whole number move: products with it are at most 255 times the other side, so that no sum
overflows but for operands near the end of their type's range.
"""

from __future__ import annotations

from functools import reduce

from tilewright.kernels.expression.expr import Expr

WHOLE = ("int8", "uint8")


def after(sides: tuple[Expr, Expr], k: frozenset[str]) -> tuple[tuple[Expr, Expr], Expr] | None:
    """The two sides without such scales, and the scales' product; ``None`` where there are none."""
    kept, moved = [], []
    for value in sides:
        factors = _factors(value)
        constant = [f for f in factors if not f.axes() & k]
        rest = [f for f in factors if f.axes() & k]
        if constant and len(rest) == 1 and _is_whole(rest[0]):
            kept.append(rest[0])
            moved += constant
        else:
            kept.append(value)
    if not moved:
        return None
    return (kept[0], kept[1]), reduce(lambda x, y: Expr("mul", x.dtype, (x, y)), moved)


def _is_whole(e: Expr) -> bool:
    """Whether it is a read of 8-bit whole numbers, perhaps under a condition."""
    if e.op == "select":
        return e.args[2].op == "const" and _is_whole(e.args[1])
    return e.op == "cast" and e.args[0].op == "load" and e.args[0].dtype in WHOLE


def _factors(e: Expr) -> list[Expr]:
    return [f for x in e.args for f in _factors(x)] if e.op == "mul" else [e]
