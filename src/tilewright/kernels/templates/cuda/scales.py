"""Moves scales of quantised operands out of the sum: ``sum x*(w*s)`` is ``s * sum x*w`` if ``s`` does not depend on K.

If ``s`` is constant in blocks of K, the identity holds for the sum of each block. Only factors beside 8-bit numbers
move. Products with 8-bit integers are at most 255 times the second factor. Products with 8-bit floats are small beside
float32's range. So a sum overflows only for operands near the end of their type's range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd

from tilewright.kernels.expression.expr import BYTES, Expr
from tilewright.kernels.expression.linear import factors, steps
from tilewright.kernels.families.group import Group


@dataclass(frozen=True, eq=False)
class BlockScales:
    """Scales of the sum of each block of ``depth`` along K: a factor for each side, ``a`` before ``b``; 1 if absent."""

    depth: int
    of: Mapping[str, Expr]

    @property
    def swapped(self) -> BlockScales:
        """Scales of the product with swapped operands."""
        return BlockScales(self.depth, {x: self.of[y] for x, y in ("ab", "ba") if y in self.of})


def after(sides: tuple[Expr, Expr], k: frozenset[str]) -> tuple[tuple[Expr, Expr], Expr] | None:
    """The two sides without the scales that are free of K, and the product of the scales; ``None`` without scales."""
    (a, of_a), (b, of_b) = (_apart(value, lambda f: not f.axes() & k) for value in sides)
    return ((a, b), _product([*of_a, *of_b])) if of_a or of_b else None


def in_blocks(sides: tuple[Expr, Expr], k: Group) -> tuple[tuple[Expr, Expr], BlockScales] | None:
    """The two sides without scales that are constant in blocks of K, and the scales; ``None`` without scales."""
    (a, of_a), (b, of_b) = (_apart(value, lambda f: block_length(f, k) != 1) for value in sides)
    depth = gcd(*(block_length(f, k) for f in (*of_a, *of_b)))
    scales = {side: _product(found) for side, found in (("a", of_a), ("b", of_b)) if found}
    return ((a, b), BlockScales(depth, scales)) if depth > 1 else None


def _apart(value: Expr, is_scale: Callable[[Expr], bool]) -> tuple[Expr, list[Expr]]:
    """A side without its scales, and the scales: none unless the rest is one read of 8-bit numbers."""
    found = factors(value)
    scales, rest = [f for f in found if is_scale(f)], [f for f in found if not is_scale(f)]
    return (rest[0], scales) if scales and len(rest) == 1 and _is_8bit_integer(rest[0]) else (value, [])


def block_length(e: Expr, group: Group) -> int:
    """Length of the aligned blocks along a group in which a value is constant; 0 if it is constant along the group."""
    inner = 1
    for number, (axis, extent) in enumerate(zip(reversed(group.axes), reversed(group.extents), strict=True)):
        step = steps(e, axis) if extent > 1 else 0
        if step:
            return inner * (step if number == len(group.axes) - 1 else gcd(step, extent))
        inner *= extent
    return 0


def _product(values: list[Expr]) -> Expr:
    return reduce(lambda x, y: Expr("mul", x.dtype, (x, y)), values)


def _is_8bit_integer(e: Expr) -> bool:
    """Whether a value is a read of 8-bit integers, perhaps guarded; the bits of 8-bit floats are read as integers."""
    if e.op == "select":
        return e.args[2].op == "const" and _is_8bit_integer(e.args[1])
    return e.op == "cast" and e.args[0].op == "load" and e.args[0].dtype in BYTES
