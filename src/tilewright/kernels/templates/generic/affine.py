"""Index expressions as sums of axes: steps of a flat index along each axis."""

from __future__ import annotations

from tilewright.kernels.expr import Expr, whole


def coefficient(e: Expr, axis: str) -> int | None:
    """How much ``e`` grows per step of ``axis``; ``None`` where that is not a constant."""
    if e.op == "axis":
        return int(e.value == axis)
    if e.op in ("add", "sub"):
        a, b = coefficient(e.args[0], axis), coefficient(e.args[1], axis)
        if a is None or b is None:
            return None
        return a + b if e.op == "add" else a - b
    if e.op == "neg":
        a = coefficient(e.args[0], axis)
        return None if a is None else -a
    if e.op == "mul":
        for x, y in (e.args, e.args[::-1]):
            if x.op == "const":
                a = coefficient(y, axis)
                return None if a is None else a * whole(x)
    if e.op == "cast" and e.dtype == "index" and e.args[0].dtype == "index":
        return coefficient(e.args[0], axis)
    return 0 if axis not in e.axes() else None


def flat_step(indices: tuple[Expr, ...], strides: tuple[int, ...], axis: str) -> int | None:
    """Elements between the accesses of neighbouring points along ``axis``; ``None`` if it varies."""
    total = 0
    for i, s in zip(indices, strides, strict=True):
        c = coefficient(i, axis)
        if c is None:
            return None
        total += c * s
    return total
