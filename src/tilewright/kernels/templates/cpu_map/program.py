"""Elementwise programs prepared for vectorisation: the vectorised axis, pure data movement, segments, transposes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, ValueNumbers, load
from tilewright.kernels.expression.numerics import encode
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.families.elementwise import Elementwise, elementwise
from tilewright.kernels.families.flatten import linear, ordered, unconditional
from tilewright.kernels.templates.cpu_map.segments import Segment, segments
from tilewright.kernels.templates.cpu_map.short import components, contiguous, short_axes


@dataclass(frozen=True, eq=False)
class Map(Elementwise):
    """The normal form of an elementwise program. ``segments``: its value by ranges of the vectorised axis ``inner``.

    ``short``: axes inside the vectorised axis; each of their points is a component with its own vector
    (:mod:`.short`). ``moves``: the program has no arithmetic, so elements are copied as integers of their size.
    ``across``: the axis along which the ``transposed`` reads are contiguous, or ``None`` without them.
    """

    segments: tuple[Segment, ...]
    moves: bool
    across: str | None
    transposed: tuple[Expr, ...]
    short: tuple[str, ...]

    @property
    def inner(self) -> str:
        """The vectorised axis."""
        return self.names[-1 - len(self.short)]

    @property
    def outer(self) -> tuple[str, ...]:
        """The axes outside of the vectorised axis."""
        return self.names[: -1 - len(self.short)]

    @property
    def components(self) -> int:
        """Number of adjacent results at each point of the vectorised axis."""
        return len(self.segments[0].values)

    @property
    def position(self) -> Expr:
        """The flat position of an output element."""
        return self.where.expr()

    @property
    def bytes(self) -> int:
        """Total size of all tensors that are read or written, in bytes."""
        used = {str(x.value) for x in self.value.loads()} | {self.program.output.name}
        return sum(self.tensors[t].size * ITEMSIZE[self.program.tensors[t].dtype] for t in used)


@lru_cache(maxsize=256)
def match(program: Program) -> Map | None:
    """Recognise a program as a map, or return ``None``. Cached: equal programs give the same object."""
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
    across = (None, ()) if short else _transposed_reads(e, value)
    return Map(e.program, tensors, e.axes, value, e.where, cut, moves, *across, short)


def _transposed_reads(e: Elementwise, value: Expr) -> tuple[str | None, tuple[Expr, ...]]:
    """The axis along which transposed reads are contiguous, and the distinct transposed reads."""
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
    """Why this template cannot compute an elementwise program; empty if it can."""
    return "" if m.program.plain else "has 8-bit reals"


# --------------------------------------------------------------------------- programs that only move elements
# Elements of any type are copied as integers of their size.

RAW = {1: "raw1", 2: "raw2", 4: "raw4", 8: "raw8"}
"""Element types of programs that only move elements, by an element's size in bytes."""
MOVING = ("load", "select", "const")


def data_loads(value: Expr) -> Iterable[Expr]:
    """Reads whose value becomes data, not a position or a condition."""
    stack = [value]
    while stack:
        e = stack.pop()
        if e.op == "load":
            yield e
        elif e.op == "select":
            stack += e.args[1:]


def only_moves(value: Expr) -> bool:
    """Whether elements are only copied, and no tensor is read both as data and as positions or conditions."""

    def data_only(e: Expr) -> bool:
        return e.op in MOVING and (e.op != "select" or all(data_only(a) for a in e.args[1:]))

    if not data_only(value) or not any(True for _ in data_loads(value)):
        return False
    data = {str(x.value) for x in data_loads(value)}
    others = {str(y.value) for x in data_loads(value) for a in x.args for y in a.loads()}
    others |= {str(y.value) for n in value.walk() if n.op == "select" for y in n.args[0].loads()}
    return not data & others


def raw(value: Expr) -> Expr:
    """A value that only moves elements, with integers of the elements' size in place of their type."""
    dtype = RAW[ITEMSIZE[value.dtype]]
    if value.op == "load":
        return load(str(value.value), dtype, value.args)
    if value.op == "const":
        return Expr("const", dtype, (), _bits(value))
    return Expr("select", dtype, (value.args[0], raw(value.args[1]), raw(value.args[2])))


def _bits(value: Expr) -> int:
    """The bit pattern of a constant as a signed integer of its size."""
    with np.errstate(over="ignore"):
        pattern = encode(np.asarray(value.value), value.dtype)
    found: int = pattern.view(f"i{ITEMSIZE[value.dtype]}").item()
    return found
