"""Programs that only move elements: these are copied as whole numbers of their size, whatever their type."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, load, whole

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
    inside = {str(y.value) for x in data_loads(value) for a in x.args for y in a.loads()}
    stack, conditions = [value], set[str]()
    while stack:
        e = stack.pop()
        if e.op == "select":
            conditions |= {str(y.value) for y in e.args[0].loads()}
            stack += e.args[1:]
    return not data & (inside | conditions)


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
    if value.dtype == "bfloat16":
        (single,) = struct.unpack("<I", struct.pack("<f", value.value))
        bits = single >> 16 | 0x40 if value.value != value.value else (single + 0x7FFF + (single >> 16 & 1)) >> 16
        return int(bits) - (1 << 16 if bits >= 1 << 15 else 0)
    kind = {"float64": "d", "float32": "f", "float16": "e"}.get(value.dtype)
    if kind is None:
        size = 8 * ITEMSIZE[value.dtype]
        number = whole(value) % (1 << size)
        return number - (1 << size if number >= 1 << (size - 1) else 0)
    real = float(value.value)  # type: ignore[arg-type]
    if kind == "e" and abs(real) >= 65520.0:
        real = float("inf") if real > 0 else float("-inf")
    found: int = struct.unpack({"d": "<q", "f": "<i", "e": "<h"}[kind], struct.pack("<" + kind, real))[0]
    return found
