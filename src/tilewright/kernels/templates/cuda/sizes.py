"""Symbolic sizes, and quantities derived from sizes, as expressions of launch arguments.

A kernel takes a symbolic size as its last launch argument, an ``int``. A quantity derived from fixed sizes is a number.
"""

from __future__ import annotations

from tilewright.core import Extent, IllegalSchedule, IntExpr
from tilewright.kernels.expression.program import Program


def arguments(program: Program) -> tuple[str, ...]:
    """Names of the launch arguments for a program's symbolic size: one or none."""
    return () if program.varying is None else (program.varying.argument,)


def expression(size: int) -> IntExpr:
    """A size as an expression of launch arguments."""
    if not isinstance(size, Extent):
        return size
    return size.argument if size.unit == 1 else ["*", size.argument, size.unit]


def used(*parts: int) -> set[str]:
    """Names of the launch arguments that expressions of ``parts`` use."""
    return {size.argument for size in parts if isinstance(size, Extent)}


def tile_count(size: int, by: int) -> IntExpr:
    """Number of tiles of length ``by`` in a size, including a shorter last one."""
    most = -(-int(size) // by)
    if not isinstance(size, Extent) or -(-size.low * size.unit // by) == most:
        return most
    return ["ceildiv", expression(size), by]


def times(*factors: IntExpr) -> IntExpr:
    """Product of expressions, with constants folded."""
    number, others = 1, list[IntExpr]()
    for f in factors:
        if isinstance(f, int):
            number *= f
        else:
            others.append(f)
    if not others:
        return number
    if number == 1 and len(others) == 1:
        return others[0]
    return ["*", *others, *([number] if number != 1 else [])]


def total(*terms: IntExpr) -> IntExpr:
    """Sum of expressions, with constants folded."""
    number = sum(t for t in terms if isinstance(t, int))
    others = [t for t in terms if not isinstance(t, int)]
    if not others:
        return number
    if not number and len(others) == 1:
        return others[0]
    return ["+", *others, *([number] if number else [])]


def roundup(e: IntExpr, by: int) -> IntExpr:
    """An expression rounded up to a multiple of ``by``."""
    return -(-e // by) * by if isinstance(e, int) else ["roundup", e, by]


def divisor(size: int) -> int:
    """The largest known divisor of a size: its unit if the size is symbolic, else the size itself."""
    return size.unit if isinstance(size, Extent) else size


def within(name: str, given: int, most: int) -> None:
    """Raises ``IllegalSchedule`` if a fixed size's schedule has wider accesses than all sizes of a range allow."""
    if given > most:
        raise IllegalSchedule(f"{name} is {given}, and the symbolic size allows {most}", "Use another schedule")


def several(e: IntExpr) -> bool:
    """Whether an expression may be more than 1."""
    return not isinstance(e, int) or e > 1
