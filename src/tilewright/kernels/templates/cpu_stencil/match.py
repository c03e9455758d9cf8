"""Recognises the windowed reductions that the template computes, and their reads.

The body is a function of reads at affine positions. A read may be guarded by conditions of the form "an affine sum is
at least 0" (padding). At least one read varies along every output axis, with a small stride along the innermost axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import INDEX, INTEGERS, Expr, ValueNumbers, const, whole
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Monoid, Program
from tilewright.kernels.families.flatten import Flat, Linearizer, flat_tensors, flattened, ordered
from tilewright.kernels.families.parts import Part
from tilewright.kernels.families.reduce_window import reduce_window
from tilewright.kernels.families.sides import need, needed, recogniser

MONOIDS = ("sum", "prod", "max", "min")
ACCUMULATED = ("float32", "float64", *INTEGERS)
MAX_STEP = 4
"""Largest stride of a read along the innermost axis, in elements: beyond it, lanes are gathered one by one."""
MAX_NODES = 400


@dataclass(frozen=True, eq=False)
class Read:
    """A guarded read: ``value`` where all ``guards`` are at least 0, else ``outside``.

    ``value`` is an expression of the variable ``read``, the element of ``tensor`` at position ``at``. ``repeat``:
    number of neighbouring outputs along the innermost axis that read one element.
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
class Stencil(Flat):
    """A matched program with flat tensors.

    ``body``: reduced expression of the variables ``a0, a1, ...``, the values of ``reads``. ``value``: the result, an
    expression of the reduced body ``l0``. ``axes``: output axes of more than one element, outermost first.
    ``windows``: the output axes that have a window.
    """

    part: Part
    axes: tuple[str, ...]
    ranges: Mapping[str, int]
    strides: Mapping[str, int]
    reads: tuple[Read, ...]
    body: Expr
    value: Expr
    windows: frozenset[str]

    @property
    def inner(self) -> str:
        return self.axes[-1]

    @cached_property
    def monoid(self) -> Monoid:
        return self.part.reduction

    @property
    def accumulator(self) -> str:
        """Element type of the accumulators."""
        return self.monoid.identity[0].dtype

    @property
    def taps(self) -> int:
        return prod(self.part.reduce)


@recogniser
def match(program: Program) -> Stencil:
    """Recognise a program as a windowed reduction; ``None`` if this template cannot compute the program."""
    form = needed(reduce_window(program))
    program, part = form.program, form.part
    need(part.monoid is not None and len(part.reduction.identity) == 1 and part.reduction.name in MONOIDS)
    need(part.reduction.identity[0].dtype in ACCUMULATED)
    need(max(_nodes(part.body[0]), _nodes(part.value)) <= MAX_NODES)
    ranges = part.ranges
    axes = tuple(a for a in part.axes if ranges[a] > 1)
    need(bool(axes))  # an output of one element has no axis to block
    lin = Linearizer.below(ranges)
    body, reads = _reads(flattened(part.body[0], program.tensors, lin), lin, axes[-1])
    single = {a for a in part.axes if ranges[a] == 1}
    data = [r for r in reads if set(axes) <= r.axes | ({axes[-1]} if r.repeat > 1 else set())]
    need(bool(data) and all(_moving(r, axes[-1]) or r.repeat > 1 for r in data))
    reads = tuple(_without(r, single) for r in reads)
    conditions = {tuple((g.const, *sorted(g.axes.items())) for g in r.guards) for r in reads if r.guards}
    need(len(conditions) <= 1)  # blocks test one set of conditions for all reads
    strides = {a: s for a, s in zip(part.axes, program.output.strides, strict=True) if a in axes}
    tensors = flat_tensors((*program.inputs, program.output))
    value = ordered(flattened(part.value, program.tensors, lin))
    value = value.substitute({a: Expr("const", INDEX, (), 0) for a in single})
    windows = frozenset(w.axis for w in form.windows)
    return Stencil(program, tensors, part, axes, ranges, strides, reads, body, value, windows)


def _nodes(e: Expr) -> int:
    return sum(1 for _ in e.walk())


def _moving(r: Read, inner: str) -> int:
    return abs(r.at.of(inner))


def _without(r: Read, single: set[str]) -> Read:
    """The read without the axes of one element."""
    guards = tuple(g.without(*single) for g in r.guards)
    return Read(r.value, r.tensor, r.at.without(*single), guards, r.outside, r.repeat)


# --------------------------------------------------------------------------- the body


def _reads(body: Expr, lin: Linearizer, inner: str) -> tuple[Expr, tuple[Read, ...]]:
    """The body as an expression of variables ``a0, a1, ...``, and the reads that they stand for."""
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
            need(outside.op == "const")
            if inside.op == "mul" and outside.value == 0:
                # Every factor is zero outside: a factor that is not finite there would turn the product into NaN.
                return Expr("mul", e.dtype, tuple(visit(_chosen(condition, a)) for a in inside.args))
            return take(inside, _guards(condition, lin), outside, e)
        need(e.op != "axis" and e.dtype not in (INDEX, "bool"))
        return Expr(e.op, e.dtype, tuple(visit(a) for a in e.args), e.value)

    made = visit(body)
    return made, tuple(r for _, r in found.values())


def _chosen(condition: Expr, factor: Expr) -> Expr:
    """A factor that is zero where the condition fails; a constant factor is unchanged."""
    if factor.op == "const":
        return factor
    return Expr("select", factor.dtype, (condition, factor, const(0, factor.dtype)))


def _read(e: Expr, guards: tuple[Linear, ...], outside: Expr | None, lin: Linearizer, inner: str) -> Read:
    inside = e
    while inside.op == "cast":
        inside = inside.args[0]
    need(inside.op == "load" and inside.dtype != "bool" and not inside.args[0].loads())
    at, repeat = lin.of(inside.args[0]).ordered(), 1
    for name, term in at.atoms.items():
        if inner in term.axes():
            plain = term.op == "floordiv" and term.args[0].op == "axis" and at.of(name) == 1
            need(plain and not at.of(inner) and repeat == 1)
            repeat = whole(term.args[1])
            at = at.without(name)
        need(not any(a.startswith("r") for a in term.axes()))
    need(0 <= at.of(inner) <= MAX_STEP)
    value = e.map(lambda n: Expr("var", n.dtype, (), "read") if n.op == "load" else None)
    return Read(value, str(inside.value), at, guards, outside, repeat)


def _guards(e: Expr, lin: Linearizer) -> tuple[Linear, ...]:
    """The affine sums of a condition: it holds where all sums are at least 0."""
    if e.op == "and":
        return (*_guards(e.args[0], lin), *_guards(e.args[1], lin))
    need(e.op in ("lt", "le", "gt", "ge") and e.args[0].dtype == INDEX)
    less = e.op in ("lt", "le")
    a, b = e.args[::-1] if less else e.args
    found = lin.total(((a, 1), (b, -1))).ordered()
    need(not found.rest)
    return (found.plus(-(e.op in ("lt", "gt"))),)
