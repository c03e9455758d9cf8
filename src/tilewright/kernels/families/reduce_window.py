"""Windowed reductions: each output reduces a neighbourhood in a tensor, with maps before and after.

Depthwise convolution, pooling, stencils. A *window* is a pair of an output axis and a reduce axis that together move
one index of a read, by ``stride`` and ``dilation``. Neighbouring outputs along the window share reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.kernels.expression.expr import INDEX, Expr
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.index_forms import affine
from tilewright.kernels.families.parts import Part, split
from tilewright.kernels.families.sides import need, needed, recogniser

MOST_TAPS = 4096
"""Largest number of elements in a window."""


@dataclass(frozen=True)
class Window:
    """Output axis ``axis`` and reduce axis ``tap``, which read at ``stride * axis + dilation * tap``."""

    axis: str
    tap: str
    stride: int
    dilation: int


@dataclass(frozen=True, eq=False)
class ReduceWindow:
    """A matched program: one part, in which every reduce axis of more than one element is the tap of a window."""

    program: Program
    part: Part
    windows: tuple[Window, ...]

    @property
    def walked(self) -> tuple[Window, ...]:
        """Windows with more than one output along them; all windows if every window has one output."""
        ranges = self.part.ranges
        return tuple(w for w in self.windows if ranges[w.axis] > 1) or self.windows


@recogniser
def reduce_window(program: Program) -> ReduceWindow:
    """The windowed reduction of a program, or ``None``; cached."""
    reductions = [s.name for s in program.stages if s.monoid is not None]
    need(program.plain and len(reductions) == 1)
    maps = frozenset(s.name for s in program.stages[:-1] if s.monoid is None)
    parts = needed(split(program, maps, frozenset(reductions) - {program.output.name}))
    need(len(parts) == 1 and bool(parts[0].axes) and prod(parts[0].reduce) <= MOST_TAPS)
    (part,) = parts
    found = tuple(w for w in _windows(part) if all(_moves(e, w) for e in part.body))
    taps = {w.tap for w in found}
    need(bool(found) and all(n == 1 or r in taps for r, n in zip(part.reduce_axes, part.reduce, strict=True)))
    return ReduceWindow(program, part, found)


def _windows(part: Part) -> list[Window]:
    """Windows of reads that depend on every output axis; empty if no read does.

    The output axis of a window may have one element: the window is then as large as the tensor.
    """
    ranges = part.ranges
    wide = {a for a in part.axes if ranges[a] > 1}
    found: dict[str, Window] = {}
    for x in (x for e in part.body for x in e.loads()):
        if not wide <= x.axes():
            continue
        for index in x.args:
            where = affine(index)
            if where is None:
                continue
            moved = [a for a in part.axes if where.of(a)]
            taps = [r for r in part.reduce_axes if ranges[r] > 1 and where.of(r)]
            if len(moved) == len(taps) == 1:
                stride, dilation = where.of(moved[0]), where.of(taps[0])
                if stride > 0 and dilation > 0:
                    found.setdefault(moved[0], Window(moved[0], taps[0], stride, dilation))
    return sorted(found.values(), key=lambda w: part.axes.index(w.axis))


# --------------------------------------------------------------------------- values that outputs share


def together(e: Expr, w: Window) -> bool:
    """Whether an expression depends on a window's two axes only through ``stride * axis + dilation * tap``."""
    if e.dtype == INDEX:
        where = linearise(e)
        if where.step(w.axis) is None or where.step(w.tap) is None:
            return False
        by, rest = divmod(where.of(w.axis), w.stride)
        return rest == 0 and where.of(w.tap) == by * w.dilation
    return all(together(a, w) for a in e.args)


def shared(e: Expr, w: Window) -> list[Expr]:
    """The largest subexpressions that outputs along a window share: they read memory, and :func:`together` holds."""
    if together(e, w):
        return [e] if w.axis in e.axes() and e.loads() and e.dtype != INDEX else []
    return [x for a in e.args if a.dtype != INDEX for x in shared(a, w)]


def at_offset(e: Expr, w: Window, offset: int) -> Expr:
    """A shared expression at ``stride * axis + offset`` in place of ``stride * axis + dilation * tap``."""
    if e.dtype == INDEX and e.op != "load":
        where = linearise(e)
        if not where.of(w.axis):
            return e
        by = where.of(w.axis) // w.stride
        return where.without(w.tap).plus(by * offset).expr()
    if not e.args:
        return e
    return Expr(e.op, e.dtype, tuple(at_offset(a, w, offset) for a in e.args), e.value)


def _moves(e: Expr, w: Window) -> bool:
    """Whether outputs share a value of a body along a window, or the body does not depend on the window's axis."""
    return bool(shared(e, w)) or w.axis not in e.axes()
