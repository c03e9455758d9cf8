"""Row reductions: reductions over the columns of common rows, and maps before, between and after.

A stage is a *scalar* (one value a row), a *reduction* of a row, or a map over a row's *elements*. Stages read each
other at their own position only. Rows share no data: every reduction depends on a read that meets each element at most
once. So products do not match, nor do overlapping windows. Windows that do not overlap are rows, and so is a whole
image. Rows and columns may lie anywhere in memory, and the output's axes may have another order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import Expr, axis, cast, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Monoid, Program, Reducing, Stage
from tilewright.kernels.families.flatten import Axes, Flat, collapsed, flat_tensors, linear
from tilewright.kernels.families.sides import NoMatch, matches, need, needed
from tilewright.kernels.loopnest import Layout
from tilewright.kernels.rewrite import squeezed

SCALAR, REDUCTION, ELEMENT = "scalar", "reduction", "element"


@dataclass(frozen=True, eq=False)
class RowStage(Reducing):
    """A stage in the axes of rows and columns; it reads earlier stages as vars of their names."""

    name: str
    kind: str
    dtype: str
    body: tuple[Expr, ...]
    monoid: Monoid | None

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the stages that this stage reads."""
        return frozenset(str(x.value) for e in self.body for x in e.walk() if x.op == "var")


@dataclass(frozen=True, eq=False)
class RowReduction(Flat):
    """A program in normal form.

    ``rows`` and ``columns`` are fused as far as reads allow; the last stage is the result. ``tensors`` are flat;
    ``where`` is the result's position in the output.
    """

    rows: Axes
    columns: Axes
    stages: tuple[RowStage, ...]
    where: Linear

    @property
    def height(self) -> int:
        """Number of rows."""
        return math.prod(n for _, n in self.rows)

    @property
    def width(self) -> int:
        """Number of columns."""
        return math.prod(n for _, n in self.columns)

    @cached_property
    def extents(self) -> dict[str, int]:
        return dict((*self.rows, *self.columns))

    @property
    def row_axes(self) -> tuple[str, ...]:
        return tuple(a for a, _ in self.rows)

    @property
    def column_axes(self) -> tuple[str, ...]:
        return tuple(a for a, _ in self.columns)

    @cached_property
    def stage(self) -> dict[str, RowStage]:
        """Stages by name."""
        return {s.name: s for s in self.stages}

    @property
    def result(self) -> RowStage:
        return self.stages[-1]

    @cached_property
    def level(self) -> dict[str, int]:
        """Number of passes over a row before a stage's value: one for each level of reductions on which it depends.

        A reduction is computed in the pass of that number, and known after it.
        """
        found: dict[str, int] = {}
        for s in self.stages:
            after = [found[n] + (self.stage[n].kind == REDUCTION) for n in s.reads]
            found[s.name] = max(after, default=0)
        return found

    @cached_property
    def passes(self) -> int:
        """Number of passes over a row: one for every level of reductions, and a last pass that writes the row."""
        last = max(self.level[s.name] for s in self.stages if s.kind == REDUCTION)
        return max(last, self.level[self.result.name] if self.result.kind == ELEMENT else 0) + 1


@lru_cache(maxsize=256)
def row_reduction(program: Program) -> RowReduction | None:
    """The normal form of a program, or ``None`` if the program is no row reduction; cached."""
    if program.results or any(s.scan is not None for s in program.stages):
        return None
    forms = (program if plain else squeezed(program) for plain in (True, False))
    return next(matches(forms, _recognise), None)


def _recognise(program: Program) -> RowReduction:
    first = needed(next((s for s in program.stages if s.monoid is not None), None))
    stages, place = _stages(program, first)
    rows = tuple(zip(first.axes, first.extents, strict=True))
    columns = tuple(zip(first.reduce_axes, first.reduce, strict=True))
    out = load(program.output.name, program.output.dtype, tuple(axis(n) for n in place))
    exprs = [*(e for s in stages for e in s.body), out]
    bodies, (rows, columns) = collapsed(exprs, program.tensors, (rows, columns))
    each = iter(bodies)
    made = tuple(RowStage(s.name, s.kind, s.dtype, tuple(next(each) for _ in s.body), s.monoid) for s in stages)
    need(_apart(made, rows, columns))
    tensors = flat_tensors((*program.inputs, program.output))
    return RowReduction(program, tensors, rows, columns, made, linear(next(each).args[0]))


# --------------------------------------------------------------------------- structure


def _stages(program: Program, first: Stage) -> tuple[list[RowStage], tuple[str, ...]]:
    """Every stage in the first reduction's axes, and the output's axes. Raises ``NoMatch`` if a stage does not fit."""
    shapes: tuple[Mapping[str, int], ...] = (dict(zip(first.axes, first.extents, strict=True)), first.ranges)
    single = frozenset(a for a, n in zip(first.axes, first.extents, strict=True) if n == 1)
    if len(single) == len(first.axes):  # a single row: elements may have only the columns' axes
        shapes = (*shapes, dict(zip(first.reduce_axes, first.reduce, strict=True)))
    places: dict[str, tuple[str, ...]] = {}  # the axes of every stage, under the common names
    found: list[RowStage] = []
    for s in program.stages:
        need(s.monoid is None or (s.extents, s.reduce) == (first.extents, first.reduce))
        names = first.axes if s.monoid is not None else _places(s, program, places, shapes)
        places[s.name] = names
        rename = {a: axis(n) for a, n in zip(s.axes, names, strict=True)}
        body = tuple(_renamed(e, rename, places, s.name, single) for e in s.body)
        kind = REDUCTION if s.monoid is not None else ELEMENT if set(names) & set(first.reduce_axes) else SCALAR
        value = tuple(cast(e, s.dtype) if s.monoid is None else e for e in body)
        found.append(RowStage(s.name, kind, s.dtype, value, s.monoid))
    return found, places[program.output.name]


def _places(
    s: Stage, program: Program, places: Mapping[str, tuple[str, ...]], shapes: tuple[Mapping[str, int], ...]
) -> tuple[str, ...]:
    """Common names of a map's axes, from a reduction that reads it; else from its reads of stages and its shape.

    Any fitting names are valid: every read of a stage is checked against them. Raises ``NoMatch`` if none fit.
    """
    for reduction in (t for t in program.stages if t.monoid is not None):
        for x in reduction.loads():
            if x.value == s.name and all(i.op == "axis" for i in x.args):
                return tuple(str(i.value) for i in x.args)
    known: dict[str, str] = {}
    for x in s.loads():
        if str(x.value) in places:
            for name, index in zip(places[str(x.value)], x.args, strict=True):
                need(index.op != "axis" or known.setdefault(str(index.value), name) == name)
    for shape in shapes:
        if len(s.extents) != len(shape):
            continue
        if s.extents == tuple(shape.values()) and all(known.get(a, n) == n for a, n in zip(s.axes, shape, strict=True)):
            return tuple(shape)
        left = [n for n in shape if n not in known.values()]
        names: list[str] = []
        for a, extent in zip(s.axes, s.extents, strict=True):
            name = known.get(a) or next((n for n in left if shape[n] == extent), "")
            left = [n for n in left if n != name]
            names.append(name)
        if sorted(names) == sorted(shape) and all(shape[n] == e for n, e in zip(names, s.extents, strict=True)):
            return tuple(names)
    raise NoMatch


def _renamed(
    e: Expr, rename: Mapping[str, Expr], places: Mapping[str, tuple[str, ...]], own: str, single: frozenset[str]
) -> Expr:
    """A body in the common axes, with reads of stages as vars. Raises ``NoMatch`` if a stage is not read in place.

    ``single``: axes of one point, whose index may be the constant 0.
    """

    def in_place(index: Expr, name: str) -> bool:
        return (index.op, index.value) in (("axis", name), ("const", 0 if name in single else None))

    def rebuilt(x: Expr) -> Expr | None:
        if x.op == "axis":
            return rename.get(str(x.value))
        if x.op == "load" and str(x.value) in places:
            here = zip(x.args, places[str(x.value)], strict=True)
            need(x.value != own and all(in_place(i, n) for i, n in here))
            return Expr("var", x.dtype, (), str(x.value))
        return None

    return e.map(rebuilt)


# --------------------------------------------------------------------------- rows that share nothing


def _apart(stages: Iterable[RowStage], rows: Axes, columns: Axes) -> bool:
    """Whether every reduction depends on a read that meets each element at most once."""
    stands: set[str] = set()
    for s in stages:
        reads = [x for e in s.body for x in e.loads()]
        partly = any(_partly(x, rows, columns) for x in reads)
        if s.reads & stands or any(_once(x, rows, columns, not partly) for x in reads):
            stands.add(s.name)
        elif s.kind == REDUCTION:
            return False
    return True


def _once(read: Expr, rows: Axes, columns: Axes, chosen: bool) -> bool:
    """Whether no two points read one element; ``chosen``: for rows that an index tensor chooses, within a row only."""
    where, axes = linear(read.args[0]), (*rows, *columns)
    steps = [where.step(a) for a, _ in axes]
    if None not in steps:
        return 0 not in steps and Layout(tuple(n for _, n in axes), tuple(abs(s or 0) for s in steps)).injective()
    if not chosen or not any(e.loads() for e in where.atoms.values()):
        return False
    return {a for a, _ in axes} <= read.axes() and all(where.step(a) not in (None, 0) for a, _ in columns)


def _partly(read: Expr, rows: Axes, columns: Axes) -> bool:
    """Whether a read of columns is shared by some row axes but not by all, as in a contraction."""
    mine = read.axes()
    moved = {a in mine for a, _ in rows}
    return len(moved) == 2 and any(a in mine for a, _ in columns)
