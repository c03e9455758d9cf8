"""Scatters: a reduction over sources, each of which lands at the one element that its indices choose.

The language states scatters densely: every element combines the sources whose indices name it, and the neutral value
for all others. The normal form iterates over sources instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.kernels.expression.expr import Expr, axis, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Monoid, Program, landing
from tilewright.kernels.families.flatten import Axes, Flat, collapsed, flat_tensors, linear
from tilewright.kernels.families.parts import MAX_RECOMPUTE, recompute, simple_operator, split
from tilewright.kernels.families.sides import need, needed, recogniser


@dataclass(frozen=True, eq=False)
class Chosen:
    """An axis of the result along which ``index`` places sources; indices from ``extent`` on are dropped."""

    name: str
    extent: int
    index: Expr


@dataclass(frozen=True, eq=False)
class Scatter(Flat):
    """A program in normal form, with flat ``tensors``.

    ``outer``: axes of the result that are not chosen; each of their points has all ``sources`` (at least one axis).
    ``row``: the last axis of the result (at most one) if sources span all of it. ``element``: value of a source, which
    lands at ``place``, a sum over the result's axes. ``value``: the result as a function of the accumulated value
    (``l0``), over the axes ``after``, at ``where``.
    """

    chosen: tuple[Chosen, ...]
    outer: Axes
    sources: Axes
    row: Axes
    monoid: Monoid
    element: Expr
    place: Linear
    after: Axes
    value: Expr
    where: Linear

    @property
    def extents(self) -> dict[str, int]:
        """Extents of the loop axes, by name."""
        return dict((*self.outer, *self.sources, *self.row))

    @property
    def count(self) -> int:
        """Number of sources at a point of the outer axes."""
        return prod(n for _, n in self.sources)

    @property
    def direct(self) -> bool:
        """Whether the accumulated value is the result."""
        return self.value.op == "var" and self.value.dtype == self.output.dtype


@recogniser
def scatter(program: Program) -> Scatter:
    """The normal form of a program, or ``None`` if the program is no scatter; cached."""
    reductions = [s for s in program.stages if s.monoid is not None]
    need(not program.results and len(reductions) == 1 and reductions[0].scan is None)
    maps = [s for s in program.stages[:-1] if s.monoid is None]
    need(all(recompute(program, s) <= MAX_RECOMPUTE for s in maps))
    taking = frozenset(s.name for s in reductions if s is not program.stages[-1])
    parts = needed(split(program, frozenset(s.name for s in maps), taking))
    need(len(parts) == 1)
    (part,) = parts
    found = landing(part)
    need(bool(found) and simple_operator(part.monoid) is not None)
    element = part.body[0].args[1]
    fixed = frozenset(a for e in found.values() for a in e.axes())
    need(not element.axes() & found.keys() and any(e.loads() for e in found.values()))
    # If the accumulated value determines a read's index, a separate kernel must compute that read.
    need(not any(n.op == "var" for x in part.value.loads() for i in x.args for n in i.walk()))
    ranges = part.ranges
    kept = [a for a in part.axes if a not in found]
    row: list[str] = []
    for a in reversed(part.axes):
        if a in found or a in fixed:
            break
        row.insert(0, a)
    groups = [[a for a in kept if a not in row], list(part.reduce_axes), row, *([a] for a in found)]
    out = load(part.target, part.dtype, tuple(axis(a) for a in part.axes))
    flat, axes = collapsed(
        (*found.values(), element, out), program.tensors, [tuple((a, ranges[a]) for a in g) for g in groups]
    )
    outer, sources, rows, *_ = axes
    (value, where), (after,) = collapsed(
        (part.value, out), program.tensors, (tuple((a, ranges[a]) for a in part.axes),)
    )  # fmt: skip
    chosen = tuple(Chosen(a, ranges[a], e) for a, e in zip(found, flat, strict=False))
    tensors = flat_tensors((*program.inputs, program.output))
    return Scatter(
        program, tensors, chosen, (*outer, *rows[:-1]), sources or (("r0", 1),), rows[-1:],
        part.reduction, flat[-2], linear(flat[-1].args[0]), after or (("i0", 1),), value,
        linear(where.args[0]),
    )  # fmt: skip
