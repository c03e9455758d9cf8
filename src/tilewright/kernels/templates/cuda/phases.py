"""Axes whose phases do not divide the extent, as in a transposed convolution with an odd number of rows.

An axis ``x`` of extent 31 that occurs as ``(x + 1) // 2`` becomes 16 pairs, ``x = 2*q + f``. The last pair has one
element too many: the kernel computes it from zeros and never stores it. Without the padding, every ``x`` would be a
batch of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.kernels.expression.expr import INDEX, Expr, axis, const
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.rewrite import inlined, split
from tilewright.kernels.rewrite.split import rounded_up


@dataclass(frozen=True)
class Ragged:
    """A program whose axes are padded to whole phases and split.

    ``strides``: elements between neighbours in the real output along each split axis. ``clips``: for each padded axis,
    the condition that a position exists.
    """

    program: Program
    strides: Mapping[str, int]
    clips: tuple[Expr, ...]


def ragged(program: Program) -> Ragged | None:
    """Pads and splits the axes whose phases do not divide them.

    ``None`` if no axis needs padding or the stages' shapes differ.
    """
    program = inlined(program)
    first = program.stages[0]
    extents = rounded_up(first)
    if extents == first.extents or any(s.extents != first.extents for s in program.stages):
        return None
    stages = [Stage(s.name, extents, s.reduce, s.body, s.dtype, s.monoid) for s in program.stages]
    found = split(Program(program.inputs, tuple(stages)))
    strides: dict[str, int] = {}
    clips = []
    parts = iter(zip(found.stages[0].axes, found.stages[0].extents, strict=True))
    for extent, real, step in zip(extents, first.extents, program.output.strides, strict=True):
        own: list[tuple[str, int]] = []
        size = 1
        while not own or size < extent:
            own.append(next(parts))
            size *= own[-1][1]
        total: Expr = const(0, INDEX)
        inner = extent
        for part, n in own:
            inner //= n
            strides[part] = step * inner
            total = total + axis(part) * inner
        if extent > real:
            clips.append(total < real)
    return Ragged(found, strides, tuple(clips))


def clipped(value: Expr, clips: tuple[Expr, ...]) -> Expr:
    """A side's value where ``clips`` hold, and zero without a read elsewhere."""
    mine = [c for c in clips if c.axes() & value.axes()]
    if not mine:
        return value
    if value.op == "select" and value.args[2].op == "const" and value.args[2].value == 0:
        guard, inner, zero = value.args
    else:
        guard, inner, zero = mine.pop(), value, const(0, value.dtype)
    for c in mine:
        guard = Expr("and", "bool", (guard, c))
    return Expr("select", value.dtype, (guard, inner, zero))
