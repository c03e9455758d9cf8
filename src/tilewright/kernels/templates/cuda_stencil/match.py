"""Recognising stencils: a reduction over a window of an input that every output axis moves, and maps after it.

A *window* is a pair of an output axis and a reduce axis that move one index of a read together, by ``stride``
and ``dilation``: outputs that are neighbours along it share what they read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tilewright.kernels.expression.expr import INDEX, ITEMSIZE, Expr, ValueNumbers
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.templates.contraction.match import affine
from tilewright.kernels.templates.cuda.flatten import flat, flat_tensors, linear
from tilewright.kernels.templates.cuda.kernels import fits, outputs, points, supported
from tilewright.kernels.templates.generic.parts import Part, split

MOST_TAPS = 4096
"""Elements of a window."""


@dataclass(frozen=True)
class Window:
    """Output axis ``axis`` and reduce axis ``tap``: they read at ``stride * axis + dilation * tap``."""

    axis: str
    tap: str
    stride: int
    dilation: int


@dataclass(frozen=True, eq=False)
class Stencil:
    """A matched program: one part, whose body and value are of flat tensors."""

    program: Program
    tensors: Mapping[str, Tensor]
    part: Part
    windows: tuple[Window, ...]

    @property
    def ranges(self) -> dict[str, int]:
        return self.part.ranges

    @property
    def inner(self) -> str:
        """The innermost output axis."""
        return self.part.axes[-1]

    @property
    def item(self) -> int:
        """Bytes of an output element."""
        return ITEMSIZE[self.part.dtype]

    @cached_property
    def numbers(self) -> ValueNumbers:
        return ValueNumbers()

    def packed(self, where: Linear, width: int) -> bool:
        """Whether ``width`` elements along the innermost axis are one aligned run, wherever it begins at a multiple."""
        if where.step(self.inner) != 1 or self.ranges[self.inner] % width:
            return False
        wide = {a for a, n in self.ranges.items() if n > 1}
        steps = [c for e, c in where.terms if e.op != "axis" or (e.value != self.inner and str(e.value) in wide)]
        return all(c % width == 0 for c in (where.const, *steps))

    @cached_property
    def widest(self) -> int:
        """The most neighbouring outputs a thread takes along the innermost axis: 1 where that is a window."""
        if any(w.axis == self.inner for w in self.windows):
            return 1
        best = 16
        reads = [x for e in self.part.body for x in e.loads() if self.inner in x.axes()]
        for x in reads:
            width = 1
            while 2 * width * ITEMSIZE[x.dtype] <= 16 and self.packed(linear(x.args[0]), 2 * width):
                width *= 2
            best = min(best, width)
        while best > 1 and (best * self.item > 16 or self.ranges[self.inner] % best):
            best //= 2
        return best if reads else 1


@lru_cache(maxsize=256)
def match_text(text: str) -> Stencil | None:
    """The stencil that a program (canonical text) is, or ``None``; the same object each time."""
    program = Program.loads(text)
    if not supported(program) or any(s.scan is not None for s in program.stages):
        return None
    reduced = [s.name for s in program.stages if s.monoid is not None]
    if len(reduced) != 1:
        return None
    maps = frozenset(s.name for s in program.stages[:-1] if s.monoid is None)
    last = program.stages[-1].name
    parts = split(program, maps, frozenset(r for r in reduced if r != last))
    if parts is None or len(parts) != 1 or not parts[0].axes or points(parts[0]) // outputs(parts[0]) > MOST_TAPS:
        return None
    part = parts[0]
    tensors = flat_tensors({t.name: t for t in program.inputs})
    body = tuple(flat(e, program.tensors) for e in part.body)
    value = flat(part.value, program.tensors)
    made = Part(part.stage, part.target, part.dtype, part.extents, part.reduce, body, part.monoid, value)
    found = tuple(w for w in _windows(part) if all(_moves(e, w) for e in body))
    taps = {w.tap for w in found}
    if any(n > 1 and r not in taps for r, n in zip(part.reduce_axes, part.reduce, strict=True)):
        return None
    if not found or not fits(tensors, made.expressions, made.ranges, (outputs(made),)):
        return None
    return Stencil(program, tensors, made, found)


def _windows(part: Part) -> list[Window]:
    """Windows of reads that every output axis moves; empty without such a read."""
    ranges = part.ranges
    wide = {a for a in part.axes if ranges[a] > 1}
    found: dict[str, Window] = {}
    for x in (x for e in part.body for x in e.loads()):
        if not wide <= x.axes():
            continue
        for index in x.args:
            linear_index = affine(index)
            if linear_index is None:
                continue
            moved = [a for a in wide if linear_index.of(a)]
            taps = [r for r in part.reduce_axes if ranges[r] > 1 and linear_index.of(r)]
            if len(moved) == len(taps) == 1:
                stride, dilation = linear_index.of(moved[0]), linear_index.of(taps[0])
                if stride > 0 and dilation > 0:
                    found.setdefault(moved[0], Window(moved[0], taps[0], stride, dilation))
    return sorted(found.values(), key=lambda w: part.axes.index(w.axis))


# --------------------------------------------------------------------------- values that outputs share


def together(e: Expr, w: Window) -> bool:
    """Whether an expression sees a window's two axes in ``stride * axis + dilation * tap`` only."""
    if e.dtype == INDEX:
        where = linear(e)
        if where.step(w.axis) is None or where.step(w.tap) is None:
            return False
        by, rest = divmod(where.of(w.axis), w.stride)
        return rest == 0 and where.of(w.tap) == by * w.dilation
    return all(together(a, w) for a in e.args)


def shared(e: Expr, w: Window) -> list[Expr]:
    """The largest subexpressions that outputs along a window share: they read memory, and see the axes together."""
    if together(e, w):
        return [e] if w.axis in e.axes() and e.loads() and e.dtype != INDEX else []
    return [x for a in e.args if a.dtype != INDEX for x in shared(a, w)]


def at_offset(e: Expr, w: Window, offset: int) -> Expr:
    """A shared expression where ``stride * axis + dilation * tap`` is ``offset`` more than ``stride * axis``."""
    if e.dtype == INDEX and e.op != "load":
        where = linear(e)
        if not where.of(w.axis):
            return e
        by = where.of(w.axis) // w.stride
        return where.without(w.tap).plus(by * offset).expr()
    if not e.args:
        return e
    return Expr(e.op, e.dtype, tuple(at_offset(a, w, offset) for a in e.args), e.value)


def _moves(e: Expr, w: Window) -> bool:
    """Whether some value of a body is shared along a window."""
    return bool(shared(e, w)) or w.axis not in e.axes()


__all__ = ["Stencil", "Window", "at_offset", "match_text", "shared", "together"]
