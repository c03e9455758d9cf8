"""Elementwise programs as one expression over few, long axes; reductions only over a short innermost axis.

Stages are inlined. Reads become flat positions, sums of multiples of axes. Adjacent axes are fused if every read is
contiguous across them: the loop fusion of XLA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import Expr, ValueNumbers, axis, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.flatten import Axes, Flat, collapsed, flat_tensors, linear, unconditional
from tilewright.kernels.families.parts import recompute, split
from tilewright.kernels.rewrite.inline import unrolled

MAX_NODES = 3000
"""Largest number of operations in the inlined expression, repeated values counted each time.

Longer programs belong to other families, which cut them into parts.
"""
MAX_RECOMPUTE = 4
"""Largest factor by which inlining may multiply the evaluations of a stage with arithmetic."""


@dataclass(frozen=True, eq=False)
class Elementwise(Flat):
    """A program in normal form: ``value`` over ``axes`` (at least one; the output is contiguous along the last).

    ``tensors`` are flat; ``where`` is an element's position in the output.
    """

    axes: Axes
    value: Expr
    where: Linear

    @cached_property
    def extents(self) -> dict[str, int]:
        return dict(self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(self.extents)

    @property
    def inner(self) -> str:
        """The innermost axis."""
        return self.axes[-1][0]

    @property
    def outer(self) -> tuple[str, ...]:
        """The axes outside the innermost one."""
        return self.names[:-1]

    @cached_property
    def numbers(self) -> ValueNumbers:
        return ValueNumbers()

    @cached_property
    def reads(self) -> dict[int, Expr]:
        """Reads that every element makes, by value number."""
        return {self.numbers.of(x): x for x in unconditional(self.value)}


@lru_cache(maxsize=256)
def maps(program: Program) -> Program | None:
    """A program as maps only, or ``None`` if it is not elementwise.

    ``None`` for programs with reductions other than short ones, with several results, or too long for one expression.
    """
    made = unrolled(program)
    fits = not made.results and all(s.monoid is None for s in made.stages) and _short(made)
    return made if fits else None


@lru_cache(maxsize=256)
def elementwise(program: Program) -> Elementwise | None:
    """The normal form of a program, cached; ``None`` where :func:`maps` is."""
    made = maps(program)
    if made is None:
        return None
    last = made.stages[-1]
    (part,) = split(made, frozenset(s.name for s in made.stages[:-1]), frozenset()) or ()
    out = load(last.name, last.dtype, tuple(axis(a) for a in last.axes))
    (value, place), (axes,) = collapsed((part.value, out), made.tensors, (tuple(last.ranges.items()),))
    tensors = flat_tensors((*made.inputs, made.output))
    return Elementwise(made, tensors, axes or (("i0", 1),), value, linear(place.args[0]))


def _short(program: Program) -> bool:
    """Whether the inlined expression is short enough, and recomputes little."""
    sizes: dict[str, int] = {}
    for s in program.stages:
        sizes[s.name] = tree_size(s.body[0], sizes)
        if sizes[s.name] > MAX_NODES or (s is not program.stages[-1] and recompute(program, s) > MAX_RECOMPUTE):
            return False
    return True


def tree_size(e: Expr, sizes: Mapping[str, int]) -> int:
    """Operations of an expression, including the stages that it reads; ``sizes`` has the operations of each stage."""
    own = sizes.get(str(e.value), 1) if e.op == "load" else 1
    return own + sum(tree_size(a, sizes) for a in e.args)
