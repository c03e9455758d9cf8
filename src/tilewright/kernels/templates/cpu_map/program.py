"""Elementwise programs as vectors compute them: along which axis, what only moves, segments, transposes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, ValueNumbers
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.families.elementwise import Elementwise, elementwise
from tilewright.kernels.families.flatten import linear, ordered, unconditional
from tilewright.kernels.templates.cpu_map.moves import RAW, data_loads, only_moves, raw
from tilewright.kernels.templates.cpu_map.segments import Segment, segments
from tilewright.kernels.templates.cpu_map.short import components, contiguous, short_axes


@dataclass(frozen=True, eq=False)
class Map(Elementwise):
    """The normal form; ``segments`` are its value by ranges of the axis along which vectors run (``inner``).

    ``short``: the axes inside of that one, whose points are components, computed beside each other (:mod:`.short`).
    ``moves``: no arithmetic, elements are copied as whole numbers of their size. ``across``: the axis along which the
    ``turned`` reads are contiguous while they step along the innermost one (a transpose), or ``None``.
    """

    segments: tuple[Segment, ...]
    moves: bool
    across: str | None
    turned: tuple[Expr, ...]
    short: tuple[str, ...]

    @property
    def inner(self) -> str:
        """The axis along which vectors run."""
        return self.names[-1 - len(self.short)]

    @property
    def outer(self) -> tuple[str, ...]:
        """The axes outside of it."""
        return self.names[: -1 - len(self.short)]

    @property
    def components(self) -> int:
        """How many results of each point of the vectors' axis lie side by side."""
        return len(self.segments[0].values)

    @property
    def position(self) -> Expr:
        """The flat position of an output element."""
        return self.where.expr()

    @property
    def bytes(self) -> int:
        """Bytes of all tensors that are read or written."""
        used = {str(x.value) for x in self.value.loads()} | {self.program.output.name}
        return sum(self.tensors[t].size * ITEMSIZE[self.program.tensors[t].dtype] for t in used)


@lru_cache(maxsize=256)
def match(program: Program) -> Map | None:
    """The map that a program is, or ``None``; the same object each time."""
    e = elementwise(program)
    if e is None:
        return None
    value, tensors, moves = ordered(e.value), dict(e.tensors), only_moves(e.value)
    if moves:
        value = raw(value)
        read = {str(x.value) for x in data_loads(value)} | {e.output.name}
        dtype = RAW[ITEMSIZE[e.output.dtype]]
        tensors |= {n: Tensor(n, (tensors[n].size,), dtype) for n in read}
    for short in short_axes(e.axes) if moves or e.output.dtype != "bool" else ((),):
        inner = e.names[-1 - len(short)]
        cut = segments(components(value, short, e.axes, tensors), tensors, inner, e.extents)
        if all(contiguous(s.values, s.runs, inner) for s in cut):
            break
    across = (None, ()) if short else _turned(e, value)
    return Map(e.program, tensors, e.axes, value, e.where, cut, moves, *across, short)


def _turned(e: Elementwise, value: Expr) -> tuple[str | None, tuple[Expr, ...]]:
    """The axis along which transposed reads are contiguous, and those reads."""
    votes: dict[str, list[Expr]] = {}
    for x in reversed(unconditional(value)):
        s = linear(x.args[0])
        if s.step(e.inner) in (None, 0, 1):
            continue
        for a in e.outer:
            if s.step(a) == 1 and min(e.extents[a], e.extents[e.inner]) >= 4:
                votes.setdefault(a, []).append(x)
    if not votes:
        return None, ()
    best = max(votes, key=lambda a: (len(votes[a]), e.extents[a]))
    numbers = ValueNumbers()
    return best, tuple({numbers.of(x): x for x in votes[best]}.values())


@lru_cache(maxsize=256)
def refusal(m: Map) -> str:
    """Why this template leaves an elementwise program to others; empty where it does not."""
    return "" if m.program.plain else "has 8-bit reals"
