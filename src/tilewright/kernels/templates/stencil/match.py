"""Recognising stencils: a reduction over a window of a tensor, with elementwise stages after it.

The body is a function of reads at sums of axes, each behind conditions of the form "a sum is at least 0"
(padding). At least one read moves with every output axis and with a window; a read that some output axis does
not move (a shared N axis) makes a contraction instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tilewright.kernels.expression.expr import INDEX, Expr, ValueNumbers, cast, whole
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.templates.contraction.match import check_maps
from tilewright.kernels.templates.contraction.sides import NoMatch
from tilewright.kernels.templates.map.linear import Linearizer
from tilewright.kernels.templates.map.match import flattened

MONOIDS = ("sum", "prod", "max", "min")
ACCUMULATED = ("float32", "float64", "int32", "int64", "int8", "uint8")
MAX_STEP = 4
"""Elements between the reads of neighbouring outputs at most: beyond, lanes are gathered one by one."""
MAX_NODES = 400


@dataclass(frozen=True, eq=False)
class Read:
    """``value`` of the var ``read``, the element at ``at``, where all ``guards`` are at least 0, else ``outside``.

    ``repeat``: neighbouring outputs along the innermost axis read the same element in runs of so many.
    """

    value: Expr
    tensor: str
    at: Linear
    guards: tuple[Linear, ...]
    outside: Expr | None
    repeat: int

    @property
    def axes(self) -> frozenset[str]:
        return frozenset(self.at.axes) | self.at.opaque | {a for g in self.guards for a in g.axes}


@dataclass(frozen=True, eq=False)
class Stencil:
    """A matched program, its tensors flat.

    ``body`` is over vars ``a0, a1, ...``, the values of ``reads``; ``value``, the result, over ``l0``, the reduced
    body. ``axes`` are the output's of more than one element, outermost first. ``windows``: for each output axis
    the reduce axes that move with it along some dimension.
    """

    program: Program
    stage: Stage
    tensors: Mapping[str, Tensor]
    axes: tuple[str, ...]
    ranges: Mapping[str, int]
    strides: Mapping[str, int]
    reads: tuple[Read, ...]
    body: Expr
    value: Expr
    windows: Mapping[str, frozenset[str]]

    @property
    def inner(self) -> str:
        return self.axes[-1]

    @property
    def output(self) -> Tensor:
        return self.tensors[self.program.output.name]

    @property
    def accumulator(self) -> str:
        """The dtype of the sum."""
        assert self.stage.monoid is not None
        return self.stage.monoid.identity[0].dtype

    @property
    def taps(self) -> int:
        return prod(self.stage.reduce)


def match(program: Program) -> Stencil | None:
    """The stencil that a program is, or ``None``."""
    return _match(program.dumps())


@lru_cache(maxsize=256)
def _match(text: str) -> Stencil | None:
    program = Program.loads(text)
    if not program.plain:
        return None
    try:
        return _recognise(program)
    except NoMatch:
        return None


def _recognise(program: Program) -> Stencil:
    stage, *after = program.stages
    monoid = stage.monoid
    if monoid is None or len(monoid.identity) != 1 or not stage.reduce or monoid.name not in MONOIDS:
        raise NoMatch
    if monoid.identity[0].dtype not in ACCUMULATED or sum(1 for _ in stage.body[0].walk()) > MAX_NODES:
        raise NoMatch
    value = _epilogue(program, stage, after)
    ranges = stage.ranges
    axes = tuple(a for a in stage.axes if ranges[a] > 1)
    if not axes:
        raise NoMatch
    lin = Linearizer({a: (0, n - 1) for a, n in ranges.items()})
    body, reads = _reads(flattened(stage.body[0], program, ranges), lin, axes[-1])
    windows, paired = _windows(stage)
    single = {a for a in stage.axes if ranges[a] == 1}
    data = [r for r in reads if r.tensor in paired and set(axes) <= r.axes | ({axes[-1]} if r.repeat > 1 else set())]
    if not data or any(_moving(r, axes[-1]) == 0 and r.repeat == 1 for r in data):
        raise NoMatch
    reads = tuple(_without(r, single) for r in reads)
    conditions = {tuple((g.const, *sorted(g.axes.items())) for g in r.guards) for r in reads if r.guards}
    if len(conditions) > 1:
        raise NoMatch  # blocks test one set of conditions for all reads
    strides = {a: s for a, s in zip(stage.axes, program.output.strides, strict=True) if a in axes}
    tensors = {t.name: Tensor(t.name, (t.size,), t.dtype) for t in (*program.inputs, program.output)}
    value = flattened(value, program, ranges).substitute({a: Expr("const", INDEX, (), 0) for a in single})
    return Stencil(program, stage, tensors, axes, ranges, strides, reads, body, value, windows)


def _epilogue(program: Program, stage: Stage, after: list[Stage]) -> Expr:
    """The result as a function of ``l0``, the reduced body."""
    assert stage.monoid is not None
    known: dict[str, Expr] = {stage.name: cast(stage.monoid.finish, stage.dtype)}
    check_maps(stage, after)
    for s in after:
        if sum(1 for _ in s.body[0].walk()) > MAX_NODES:
            raise NoMatch
        known[s.name] = cast(s.body[0].map(lambda n: known.get(str(n.value)) if n.op == "load" else None), s.dtype)
        if sum(1 for _ in known[s.name].walk()) > MAX_NODES:
            raise NoMatch
    return known[program.output.name]


def _moving(r: Read, inner: str) -> int:
    return abs(r.at.of(inner))


def _without(r: Read, single: set[str]) -> Read:
    """The read with axes of one element left out."""
    guards = tuple(g.without(*single) for g in r.guards)
    return Read(r.value, r.tensor, r.at.without(*single), guards, r.outside, r.repeat)


# --------------------------------------------------------------------------- the body


def _reads(body: Expr, lin: Linearizer, inner: str) -> tuple[Expr, tuple[Read, ...]]:
    """The body as a function of its reads."""
    numbers = ValueNumbers()
    found: dict[int, tuple[str, Read]] = {}

    def take(e: Expr, guards: tuple[Linear, ...], outside: Expr | None, whole: Expr) -> Expr:
        key = numbers.of(whole)
        if key not in found:
            found[key] = f"a{len(found)}", _read(e, guards, outside, lin, inner)
        return Expr("var", whole.dtype, (), found[key][0])

    def visit(e: Expr) -> Expr:
        if e.op == "load":
            return take(e, (), None, e)
        if e.op == "select":
            condition, inside, outside = e.args
            if outside.op == "cast" and outside.args[0].op == "const":
                raise NoMatch
            if outside.op != "const":
                raise NoMatch
            return take(inside, _guards(condition, lin), outside, e)
        if e.op == "axis" or e.dtype in (INDEX, "bool"):
            raise NoMatch
        return Expr(e.op, e.dtype, tuple(visit(a) for a in e.args), e.value)

    made = visit(body)
    return made, tuple(r for _, r in found.values())


def _read(e: Expr, guards: tuple[Linear, ...], outside: Expr | None, lin: Linearizer, inner: str) -> Read:
    inside = e
    while inside.op == "cast":
        inside = inside.args[0]
    if inside.op != "load" or inside.dtype == "bool" or any(n.op == "load" for n in inside.args[0].walk()):
        raise NoMatch
    at, repeat = lin.of(inside.args[0]), 1
    for name, term in at.atoms.items():
        if inner in term.axes():
            plain = term.op == "floordiv" and term.args[0].op == "axis" and at.of(name) == 1
            if not plain or at.of(inner) or repeat > 1:
                raise NoMatch
            repeat = whole(term.args[1])
            at = at.without(name)
        if any(a.startswith("r") for a in term.axes()):
            raise NoMatch
    if not 0 <= at.of(inner) <= MAX_STEP:
        raise NoMatch
    value = e.map(lambda n: Expr("var", n.dtype, (), "read") if n.op == "load" else None)
    return Read(value, str(inside.value), at, guards, outside, repeat)


def _guards(e: Expr, lin: Linearizer) -> tuple[Linear, ...]:
    """Sums that must all be at least 0 for a condition to hold."""
    if e.op == "and":
        return (*_guards(e.args[0], lin), *_guards(e.args[1], lin))
    if e.op not in ("lt", "le", "gt", "ge") or e.args[0].dtype != INDEX:
        raise NoMatch
    less = e.op in ("lt", "le")
    a, b = e.args[::-1] if less else e.args
    found = lin.total(((a, 1), (b, -1)))
    if found.rest:
        raise NoMatch
    return (found.plus(-(e.op in ("lt", "gt"))),)


def _windows(stage: Stage) -> tuple[dict[str, frozenset[str]], set[str]]:
    """For each output axis the reduce axes that move with it along some dimension, and the tensors where one does."""
    found: dict[str, set[str]] = {}
    paired: set[str] = set()
    for x in stage.loads():
        for i in x.args:
            axes = i.axes()
            reduce = {a for a in axes if a.startswith("r")}
            if reduce and any(n.op in ("floordiv", "mod") for n in i.walk()):
                raise NoMatch
            if reduce and axes - reduce:
                paired.add(str(x.value))
            for a in axes - reduce:
                found.setdefault(a, set()).update(reduce)
    return {a: frozenset(r) for a, r in found.items()}, paired


__all__ = ["Read", "Stencil", "match"]
