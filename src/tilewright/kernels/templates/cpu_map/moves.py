"""Programs that only move elements: these are copied as whole numbers of their size, whatever their type."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, load
from tilewright.kernels.expression.numerics import encode

RAW = {1: "raw1", 2: "raw2", 4: "raw4", 8: "raw8"}
"""Element types of programs that only move: the bits of elements of so many bytes."""
MOVING = ("load", "select", "const")


def data_loads(value: Expr) -> Iterable[Expr]:
    """Reads whose value is data, not a position."""
    stack = [value]
    while stack:
        e = stack.pop()
        if e.op == "load":
            yield e
        elif e.op == "select":
            stack += e.args[1:]


def only_moves(value: Expr) -> bool:
    """Whether elements are only copied, and no tensor is read both as data and as positions or conditions."""

    def data_only(e: Expr) -> bool:
        return e.op in MOVING and (e.op != "select" or all(data_only(a) for a in e.args[1:]))

    if not data_only(value) or not any(True for _ in data_loads(value)):
        return False
    data = {str(x.value) for x in data_loads(value)}
    others = {str(y.value) for x in data_loads(value) for a in x.args for y in a.loads()}
    others |= {str(y.value) for n in value.walk() if n.op == "select" for y in n.args[0].loads()}
    return not data & others


def raw(value: Expr) -> Expr:
    """The same moves of whole numbers of the elements' size."""
    dtype = RAW[ITEMSIZE[value.dtype]]
    if value.op == "load":
        return load(str(value.value), dtype, value.args)
    if value.op == "const":
        return Expr("const", dtype, (), _bits(value))
    return Expr("select", dtype, (value.args[0], raw(value.args[1]), raw(value.args[2])))


def _bits(value: Expr) -> int:
    """The bit pattern of a constant as a signed whole number of its size."""
    with np.errstate(over="ignore"):
        pattern = encode(np.asarray(value.value), value.dtype)
    found: int = pattern.view(f"i{ITEMSIZE[value.dtype]}").item()
    return found
