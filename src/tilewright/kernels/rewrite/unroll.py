"""Reductions over all of a short innermost axis, written out: of colours, of the parts of complex numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.extent import Extent
from tilewright.kernels.expression.expr import INDEX, Expr, cast, const
from tilewright.kernels.expression.program import Program, Stage, Tensor

SHORT = 4
"""Extent of a short axis at most: longer ones fill a fair part of a vector themselves."""


def unrolled(program: Program) -> Program:
    """The same program with a map in place of every reduction of one component over a short innermost axis.

    That is the last axis of what it reads, and the axis before it there is the innermost of the longer ones of the
    result, so that neighbours of the result are computed from neighbouring groups of elements.
    """
    stages = tuple(_map(s) if _along_short_axis(s, program.tensors) else s for s in program.stages)
    return replace(program, stages=stages) if stages != program.stages else program


def short(extent: int) -> bool:
    """Whether an axis is short."""
    return extent <= SHORT and not isinstance(extent, Extent)


def _along_short_axis(s: Stage, tensors: Mapping[str, Tensor]) -> bool:
    if s.monoid is None or s.scan is not None or len(s.body) != 1 or len(s.reduce) != 1 or not short(s.reduce[0]):
        return False
    inner = next((a for a, n in zip(reversed(s.axes), reversed(s.extents), strict=True) if not short(n)), None)
    return any(_groups(x, s, inner) for x in s.loads() if tensors[str(x.value)].shape[-1:] == s.reduce)


def _groups(x: Expr, s: Stage, inner: str | None) -> bool:
    """Whether a read follows the reduced axis within groups that neighbours of the result read."""
    last = [(a.op, a.value) for a in x.args[-2:]]
    return last == [("axis", inner), ("axis", s.reduce_axes[0])]


def _map(s: Stage) -> Stage:
    assert s.monoid is not None
    (body,), (combine,), (axis,) = s.body, s.monoid.combine, s.reduce_axes
    value = body.substitute({axis: const(0, INDEX)})
    for k in range(1, s.reduce[0]):
        value = combine.substitute({"l0": value, "r0": body.substitute({axis: const(k, INDEX)})})
    return Stage(s.name, s.extents, (), (cast(s.monoid.finish.substitute({"l0": value}), s.dtype),), s.dtype)
