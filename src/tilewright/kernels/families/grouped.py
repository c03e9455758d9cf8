"""Grouped contractions: an index tensor chooses the matrix by which each row is multiplied (mixture of experts).

Rows of one group, gathered side by side, form a contraction with that group's matrix. The normal form is that
contraction for any number of rows, and the sources of its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tilewright.extent import Extent, varies
from tilewright.kernels.expression.expr import Expr, ValueNumbers, axis, load, same
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.families.contraction import check_maps
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.sides import NoMatch, matches, need
from tilewright.kernels.rewrite import normal_forms

WHOLE, CHOSEN, ROWS = "whole", "chosen", "rows"


@dataclass(frozen=True, eq=False)
class Source:
    """Source of an input of a group's contraction, by ``how``.

    ``whole``: all of ``tensor``. ``chosen``: the slice of ``tensor`` that the group chooses along the first axis.
    ``rows``: the values of ``read`` at each row and at the axes ``others``, gathered into a dense array.
    """

    how: str
    tensor: str
    dtype: str
    read: Expr | None = None
    others: tuple[tuple[str, int], ...] = ()

    @property
    def size(self) -> int:
        """Elements of a row."""
        return prod(n for _, n in self.others)


@dataclass(frozen=True, eq=False)
class Grouped:
    """A program in normal form: each point of ``rows``, the outermost output axes, is one row.

    ``index`` is the row's group, below ``groups``. ``one`` computes the rows of a single group; its first axis, the
    number of rows, is a symbolic :class:`~tilewright.extent.Extent` from one to all of them. Its inputs come from
    ``sources``. ``typical``: number of rows of a group if rows are distributed evenly.
    """

    program: Program
    rows: Group
    index: Expr
    groups: int
    one: Program
    sources: tuple[Source, ...]
    typical: int

    @property
    def row(self) -> int:
        """Elements of a row of the result."""
        return prod(self.program.output.shape[len(self.rows.axes) :])

    @property
    def varying(self) -> Extent:
        """Symbolic number of rows of a group."""
        assert self.one.varying is not None
        return self.one.varying

    @property
    def chosen(self) -> int:
        """Largest number of groups that have rows."""
        return min(self.groups, int(self.rows.size))


@lru_cache(maxsize=256)
def grouped(program: Program) -> Grouped | None:
    """The normal form of a program, or ``None`` if it is not grouped; cached."""
    forms = normal_forms(program) if not program.results and all(s.scan is None for s in program.stages) else ()
    return next(matches(forms, _recognised), None)


def _recognised(program: Program) -> Grouped:
    stage, *after = program.stages
    need(stage.monoid is not None and bool(stage.reduce))
    check_maps(stage, after)
    chosen = _chooser(stage)
    names = [a for a in stage.axes if a in chosen.args[0].axes()]
    need(names == list(stage.axes[: len(names)]))
    rows = Group(tuple(names), stage.extents[: len(names)])
    parts = _Parts(program, rows, chosen.args[0], program.tensors[str(chosen.value)].shape[0])
    stages = tuple(parts.stage(s) for s in program.stages)
    one = Program(tuple(parts.inputs), stages)
    # The number of rows must be the only symbolic size.
    need(not varies(parts.groups) and one.sizes.keys() == parts.extent.spans.keys())
    typical = -(-int(rows.size) // min(parts.groups, int(rows.size)))
    return Grouped(program, rows, chosen.args[0], parts.groups, one, tuple(parts.sources), typical)


def _chooser(stage: Stage) -> Expr:
    """The read of a matrix that an index tensor chooses, by output axes that do not index the rest of the matrix."""
    outputs = set(stage.axes)
    for read in stage.loads():
        if not read.args or not read.args[0].loads():
            continue
        first, others = read.args[0], {a for i in read.args[1:] for a in i.axes()}
        if first.axes() and first.axes() <= outputs and others & outputs and not others & first.axes():
            return read
    raise NoMatch


class _Parts:
    """Rewrites stages to compute the rows of one group, and collects their inputs."""

    def __init__(self, program: Program, rows: Group, index: Expr, groups: int) -> None:
        self.program, self.rows, self.index, self.groups = program, rows, index, groups
        self.extent = Extent(int(rows.size), 1, "rows" if "rows" not in program.sizes else "rows_of_group")
        self.inputs: list[Tensor] = []
        self.sources: list[Source] = []
        self._known: dict[tuple[object, ...], str] = {}
        self._numbers = ValueNumbers()

    def stage(self, s: Stage) -> Stage:
        """The stage of one group, whose rows are one axis."""
        count, own = len(self.rows.axes), set(self.rows.axes)
        names = {a: axis(f"i{d - count + 1}") for d, a in enumerate(s.axes) if d >= count}
        stages = {x.name for x in self.program.stages}
        need(not any(_guarded(e, own, stages) or _outside(e, own) for e in s.body))

        def rebuilt(e: Expr) -> Expr:
            if e.op == "axis":
                return names.get(str(e.value), e)
            if e.op != "load":
                return Expr(e.op, e.dtype, tuple(map(rebuilt, e.args)), e.value)
            if str(e.value) not in stages:
                return self._read(s, e, names)
            return load(str(e.value), e.dtype, (axis("i0"), *(names[a] for a in s.axes if a in names)))

        body = tuple(map(rebuilt, s.body))
        return Stage(s.name, (self.extent, *s.extents[count:]), s.reduce, body, s.dtype, s.monoid)

    def _read(self, s: Stage, x: Expr, names: Mapping[str, Expr]) -> Expr:
        tensor, own = self.program.tensors[str(x.value)], set(self.rows.axes)
        ranges = s.ranges
        if not x.axes() & own:
            name = self._input(Source(WHOLE, tensor.name, tensor.dtype), tensor.shape, (WHOLE, tensor.name))
            return load(name, x.dtype, tuple(i.substitute(names) for i in x.args))
        rest = x.args[1:]
        if rest and same(x.args[0], self.index) and not any(i.axes() & own for i in rest):
            need(tensor.shape[0] == self.groups)
            name = self._input(Source(CHOSEN, tensor.name, tensor.dtype), tensor.shape[1:], (CHOSEN, tensor.name))
            return load(name, x.dtype, tuple(i.substitute(names) for i in rest))
        others = tuple((a, ranges[a]) for a in (*s.axes, *s.reduce_axes) if a in x.axes() and a not in own)
        source = Source(ROWS, tensor.name, tensor.dtype, x, others)
        # Axes of different stages may share a name but differ in extent.
        name = self._input(source, (self.extent, *(n for _, n in others)), (ROWS, self._numbers.of(x), others))
        return load(name, x.dtype, (axis("i0"), *(axis(a).substitute(names) for a, _ in others)))

    def _input(self, source: Source, shape: tuple[int, ...], key: tuple[object, ...]) -> str:
        if key not in self._known:
            self._known[key] = f"x{len(self.inputs)}"
            self.inputs.append(Tensor(self._known[key], shape, source.dtype))
            self.sources.append(source)
        return self._known[key]


def _guarded(e: Expr, rows: set[str], stages: set[str], behind: bool = False) -> bool:
    """Whether a read of rows is guarded by a condition: rows are gathered before conditions are evaluated."""
    if e.op == "load":
        return behind and str(e.value) not in stages and bool(e.axes() & rows)
    return any(_guarded(x, rows, stages, behind or e.op == "select") for x in e.args)


def _outside(e: Expr, rows: set[str]) -> bool:
    """Whether an axis of the rows is used as a value, outside indices."""
    if e.op == "axis":
        return str(e.value) in rows
    return e.op != "load" and any(_outside(x, rows) for x in e.args)
