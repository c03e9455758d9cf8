"""Recognising row programs: reductions over the columns of the same rows, and maps before, between and after.

Stages fall into *vectors* (one value a row and column), *reductions* of a row, and *scalars* (one value a
row). Axes of the output may be in another order than those of the rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from tilewright.kernels.expression.expr import Expr, axis, cast, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Monoid, Program, Stage, Tensor
from tilewright.kernels.loopnest import Layout
from tilewright.kernels.templates.cuda.flatten import collapse, flat, flat_tensors, linear
from tilewright.kernels.templates.cuda.kernels import fits, supported

OUT = "out"

Axes = tuple[tuple[str, int], ...]


class Shape(NamedTuple):
    """Axes with their extents."""

    axes: tuple[str, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RowStage:
    """One stage, in the axes of rows and columns; it reads earlier stages as vars of their names."""

    name: str
    kind: str  # "vector", "reduction", "scalar"
    body: tuple[Expr, ...]
    dtype: str
    monoid: Monoid | None

    @cached_property
    def reads(self) -> frozenset[str]:
        """Stages that it reads."""
        return frozenset(str(x.value) for e in self.body for x in e.walk() if x.op == "var")


@dataclass(frozen=True, eq=False)
class RowProgram:
    """A matched program. ``rows`` and ``cols`` are axes and extents, outermost first; the last stage is the result.

    ``tensors`` are flat; ``where`` is the result's position in the output.
    """

    program: Program
    tensors: Mapping[str, Tensor]
    rows: Axes
    cols: Axes
    stages: tuple[RowStage, ...]
    where: Linear

    @property
    def height(self) -> int:
        """Rows."""
        return _size(self.rows)

    @property
    def width(self) -> int:
        """Columns."""
        return _size(self.cols)

    @property
    def ranges(self) -> dict[str, int]:
        return dict((*self.rows, *self.cols))

    @cached_property
    def named(self) -> dict[str, RowStage]:
        return {s.name: s for s in self.stages}

    @property
    def result(self) -> RowStage:
        return self.stages[-1]

    @cached_property
    def levels(self) -> dict[str, int]:
        """How many passes over a row come before a stage's value: those of the reductions that it stands on."""
        found: dict[str, int] = {}
        for s in self.stages:
            after = [found[n] + (self.named[n].kind == "reduction") for n in s.reads]
            found[s.name] = max(after, default=0)
        return found

    @property
    def passes(self) -> int:
        """Passes over a row: one for every level of reductions, and one that writes a row."""
        last = max(self.levels[s.name] for s in self.stages if s.kind == "reduction")
        return max(last, self.levels[self.result.name] if self.result.kind == "vector" else 0) + 1


def _size(axes: Axes) -> int:
    n = 1
    for _, extent in axes:
        n *= extent
    return n


@lru_cache(maxsize=256)
def match_text(text: str) -> RowProgram | None:
    """The row program that a program (canonical text) is, or ``None``; the same object each time."""
    program = Program.loads(text)
    if not supported(program) or any(s.scan is not None for s in program.stages):
        return None
    first = next((s for s in program.stages if s.monoid is not None), None)
    if first is None:
        return None
    found = _stages(program, first)
    return None if found is None else _made(program, first, *found)


def _stages(program: Program, first: Stage) -> tuple[list[RowStage], tuple[str, ...]] | None:
    """Every stage in the first reduction's axes, and the output's axes; ``None`` where one does not fit."""
    rows = Shape(first.axes, first.extents)
    shapes = (rows, Shape((*first.axes, *first.reduce_axes), (*first.extents, *first.reduce)))
    places: dict[str, tuple[str, ...]] = {}  # of every stage: its own axes under the common names
    found: list[RowStage] = []
    for s in program.stages:
        if s.monoid is not None:
            if s.extents != first.extents or s.reduce != first.reduce:
                return None
            names: tuple[str, ...] | None = first.axes
        else:
            names = _places(s, program, places, shapes)
        if names is None:
            return None
        places[s.name] = names
        rename = {a: axis(n) for a, n in zip(s.axes, names, strict=True)}
        body = tuple(_renamed(e, rename, places, s.name) for e in s.body)
        if any(e is None for e in body):
            return None
        kind = "reduction" if s.monoid is not None else "scalar" if len(names) == len(first.axes) else "vector"
        found.append(RowStage(s.name, kind, tuple(e for e in body if e is not None), s.dtype, s.monoid))
    return found, places[program.output.name]


def _places(
    s: Stage, program: Program, places: Mapping[str, tuple[str, ...]], shapes: tuple[Shape, ...]
) -> tuple[str, ...] | None:
    """The common names of a map's axes: as reductions read it, else by what it reads of earlier stages and its shape.

    Any names that fit will do: every read of a stage is checked against them.
    """
    for reduction in (t for t in program.stages if t.monoid is not None):
        for x in reduction.loads():
            if x.value == s.name and all(i.op == "axis" for i in x.args):
                return tuple(str(i.value) for i in x.args)
    known: dict[str, str] = {}
    for x in s.loads():
        if str(x.value) in places:
            for name, index in zip(places[str(x.value)], x.args, strict=True):
                if index.op == "axis" and known.setdefault(str(index.value), name) != name:
                    return None
    for shape in shapes:
        if len(s.extents) != len(shape.axes):
            continue
        if s.extents == shape.extents and all(known.get(a, n) == n for a, n in zip(s.axes, shape.axes, strict=True)):
            return shape.axes
        ranges = dict(zip(shape.axes, shape.extents, strict=True))
        left = [n for n in shape.axes if n not in known.values()]
        names: list[str] = []
        for a, extent in zip(s.axes, s.extents, strict=True):
            name = known.get(a) or next((n for n in left if ranges[n] == extent), "")
            left = [n for n in left if n != name]
            names.append(name)
        if sorted(names) == sorted(shape.axes) and all(ranges[n] == e for n, e in zip(names, s.extents, strict=True)):
            return tuple(names)
    return None


def _renamed(e: Expr, rename: Mapping[str, Expr], places: Mapping[str, tuple[str, ...]], own: str) -> Expr | None:
    """A body in the common axes, with reads of stages as vars; ``None`` where one is not read in place."""
    wrong = False

    def rebuilt(x: Expr) -> Expr | None:
        nonlocal wrong
        if x.op == "axis":
            return rename.get(str(x.value))
        if x.op == "load" and str(x.value) in places:
            here = [("axis", n) for n in places[str(x.value)]]
            wrong = wrong or x.value == own or [(i.op, i.value) for i in x.args] != here
            return Expr("var", x.dtype, (), str(x.value))
        return None

    out = e.map(rebuilt)
    return None if wrong else out


def _made(program: Program, first: Stage, stages: list[RowStage], place: tuple[str, ...]) -> RowProgram | None:
    """The program with flat tensors and as few axes as possible, if every element is read once."""
    rows = tuple(zip(first.axes, first.extents, strict=True))
    cols = tuple(zip(first.reduce_axes, first.reduce, strict=True))
    if not any(_once(x, program.tensors, rows, cols) for s in stages for e in s.body for x in e.loads()):
        return None
    if any(_partly(x, rows, cols) for s in stages if s.kind == "reduction" for e in s.body for x in e.loads()):
        return None
    output = program.stages[-1]
    exprs = [flat(e, program.tensors) for s in stages for e in s.body]
    exprs.append(flat(load(OUT, output.dtype, tuple(axis(n) for n in place)), {OUT: output.tensor}))
    bodies, (rows, cols) = collapse(exprs, (rows, cols))
    tensors = flat_tensors(program.tensors)
    at, made = 0, []
    for s in stages:
        made.append(RowStage(s.name, s.kind, bodies[at : at + len(s.body)], s.dtype, s.monoid))
        at += len(s.body)
    if not fits(tensors, bodies[:-1], dict((*rows, *cols)), (_size(rows), _size(cols), output.tensor.size)):
        return None
    return RowProgram(program, tensors, rows, cols, tuple(made), linear(bodies[-1].args[0]))


def _once(x: Expr, tensors: Mapping[str, Tensor], rows: Axes, cols: Axes) -> bool:
    """Whether a read meets every element at most once: the rows share nothing, as they do in contractions."""
    if x.op != "load":
        return False
    where = linear(flat(x, tensors).args[0])
    axes = [(a, n) for a, n in (*rows, *cols) if n > 1]
    steps = [where.step(a) for a, _ in axes]
    if any(s is None or s == 0 for s in steps):
        return _gathered(where, cols) and all(a in x.axes() for a, _ in axes)
    return Layout(tuple(n for _, n in axes), tuple(abs(s or 0) for s in steps)).injective()


def _partly(x: Expr, rows: Axes, cols: Axes) -> bool:
    """Whether a read of a reduction's columns is shared by some rows and not by others, as in a contraction."""
    mine = x.axes()
    moved = [a in mine for a, n in rows if n > 1]
    return any(a in mine for a, n in cols if n > 1) and any(moved) and not all(moved)


def _gathered(where: Linear, cols: Axes) -> bool:
    """Whether rows are chosen by an index tensor, and walked in steps."""
    return any(x.op == "load" for e in where.atoms.values() for x in e.walk()) and all(
        where.step(a) not in (None, 0) for a, n in cols if n > 1
    )


def value_of(stage: RowStage) -> Expr:
    """A vector's or scalar's value, converted to its own type."""
    return cast(stage.body[0], stage.dtype)
