"""Recognising maps: every stage becomes part of one expression over the output's axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, ValueNumbers, axis, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Tensor, count_ops
from tilewright.kernels.families.parts import recompute, split
from tilewright.kernels.templates.cuda.flatten import collapse, flat, flat_tensors, linear
from tilewright.kernels.templates.cuda.kernels import fits, supported
from tilewright.kernels.templates.cuda.vectors import unconditional

OUT = "out"
MOST_AGAIN = 4
"""How many times over a stage may be computed at most."""
MOST_OPERATIONS = 400
"""In one expression; longer ones are left to kernels of their own."""


@dataclass(frozen=True, eq=False)
class MapProgram:
    """A matched program: ``value`` over ``axes`` (names and extents, outermost first; at least one).

    Tensors are flat; ``where`` is the position in the output.
    """

    program: Program
    tensors: Mapping[str, Tensor]
    axes: tuple[tuple[str, int], ...]
    value: Expr
    where: Linear

    @property
    def ranges(self) -> dict[str, int]:
        return dict(self.axes)

    @property
    def inner(self) -> tuple[str, int]:
        """The innermost axis, along which the output lies."""
        return self.axes[-1]

    @property
    def size(self) -> int:
        return self.program.output.size

    @property
    def item(self) -> int:
        """Bytes of an output element."""
        return ITEMSIZE[self.program.output.dtype]

    @cached_property
    def numbers(self) -> ValueNumbers:
        return ValueNumbers()

    @cached_property
    def reads(self) -> dict[int, Expr]:
        """Reads that every element makes, by value number."""
        return {self.numbers.of(x): x for x in unconditional(self.value)}

    @cached_property
    def across(self) -> str | None:
        """The axis along which reads lie that the output does not: where tiles are turned; ``None`` without any.

        It is the one of the first such read.
        """
        name = self.inner[0]
        for x in self.reads.values():
            where = linear(x.args[0])
            if where.step(name) in (0, 1):
                continue
            for a, n in self.axes[:-1]:
                if where.step(a) == 1 and n > 1:
                    return a
        return None

    @cached_property
    def turned(self) -> dict[int, Expr]:
        """Reads that lie along that axis, by value number."""
        found = {}
        for key, x in self.reads.items() if self.across else ():
            where = linear(x.args[0])
            if where.step(str(self.across)) == 1 and where.step(self.inner[0]) not in (0, 1):
                found[key] = x
        return found

    def packed(self, where: Linear, name: str, width: int) -> bool:
        """Whether ``width`` elements along an axis are one aligned run, wherever it begins at a multiple."""
        if where.step(name) != 1 or self.ranges[name] % width:
            return False
        return all(c % width == 0 for c in (where.const, *where.without(name).coef.values()))


@lru_cache(maxsize=256)
def match_text(text: str) -> MapProgram | None:
    """The map that a program (canonical text) is, or ``None``; the same object each time."""
    program = Program.loads(text)
    if not supported(program) or any(s.monoid is not None for s in program.stages):
        return None
    before = program.stages[:-1]
    again = 1.0
    for s in before:
        again *= max(1.0, recompute(program, s))
    if again > MOST_AGAIN or len(before) > 64:
        return None
    parts = split(program, frozenset(s.name for s in before), frozenset())
    if parts is None or len(parts) != 1 or count_ops(parts[0].value) > MOST_OPERATIONS:
        return None
    part = parts[0]
    output = program.output
    place = flat(load(OUT, output.dtype, tuple(axis(a) for a in part.axes)), {OUT: output})
    axes = tuple(zip(part.axes, part.extents, strict=True))
    (value, placed), (axes,) = collapse((flat(part.value, program.tensors), place), (axes,))
    axes = axes or (("i0", 1),)
    tensors = flat_tensors({t.name: t for t in program.inputs})
    if not fits(tensors, (value,), dict(axes), (output.size,)):
        return None
    return MapProgram(program, tensors, axes, value, linear(placed.args[0]))
