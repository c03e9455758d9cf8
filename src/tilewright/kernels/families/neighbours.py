"""Fused stencil chains: stencils over time steps, separable filters, windows of windows.

Windows are unrolled, so that every stage is one expression over its axes. A stage that is read at one place only is
inlined into its reader. In the remaining stages, every axis follows at most one axis of the result, so a box of the
result needs a box of each stage.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod

from tilewright.kernels.expression.expr import INDEX, Expr, ValueNumbers, axis, binary, const, whole
from tilewright.kernels.expression.program import Program, Stage, count_ops
from tilewright.kernels.families.elementwise import tree_size
from tilewright.kernels.families.parts import computed_inside
from tilewright.kernels.families.sides import need, recogniser
from tilewright.kernels.rewrite.simplify import simplified

MAX_TERMS = 64
"""Largest number of elements in an unrolled window."""
MAX_NODES = 3000
"""Largest number of nodes in a stage's expression."""
KEPT = ("float64", "float32", "int64", "int32")
"""Element types of intermediate stages; storing other types would round."""


@dataclass(frozen=True, eq=False)
class Link:
    """A stage of the chain: its ``value`` over axes ``i0, i1, ...``; ``follows``: for each axis, an axis of the result.

    An axis that follows none is needed in full, or in a range that is equal for every tile of the result. ``first`` and
    ``last`` (inclusive) bound the positions that readers need along each axis. They are expressions of the readers'
    edges (:func:`edge`), and empty for the result.
    """

    stage: Stage
    value: Expr
    follows: tuple[int | None, ...] = ()
    first: tuple[Expr, ...] = ()
    last: tuple[Expr, ...] = ()

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def extents(self) -> tuple[int, ...]:
        return self.stage.extents

    @property
    def axes(self) -> tuple[str, ...]:
        return self.stage.axes

    @property
    def flops(self) -> int:
        """Operations of an element."""
        return max(1, count_ops(self.value))

    def along(self, axis: int | None) -> int | None:
        """Which axis of the stage follows an axis of the result; ``None`` if none does."""
        return self.follows.index(axis) if axis is not None and axis in self.follows else None


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A chain in normal form: ``links`` are the stages; each reads only earlier ones, and the last is the result."""

    program: Program
    links: tuple[Link, ...]

    @property
    def result(self) -> Link:
        return self.links[-1]


def edge(stage: str, d: int, last: bool = False) -> str:
    """Name of the first (or last) position of a stage that is needed along its axis ``d``."""
    return f"{stage}_{'last' if last else 'first'}{d}"


@recogniser
def neighbours(program: Program) -> Neighbours:
    """The stencil chain of a program, or ``None``; cached."""
    need(program.plain and program.varying is None and len(program.stages) > 1)
    need(all(s.dtype in KEPT for s in program.stages[:-1]))
    values = {s.name: _written_out(s) for s in program.stages}
    return Neighbours(program, _linked(_merged(program, values), values))


def _written_out(s: Stage) -> Expr:
    """The value of a stage with its reduction unrolled. Raises ``NoMatch`` if it is too long."""
    if s.monoid is None:
        value = s.body[0]
    else:
        combine, body = s.monoid.combine[0], s.body[0]
        uses = [n.value for n in combine.walk() if n.op == "var"]
        need(len(s.body) == 1 and s.terms <= MAX_TERMS and uses.count("l0") <= 1 and uses.count("r0") <= 1)
        value = s.monoid.identity[0]
        # The size is computed before unrolling: most stages are too long.
        size, of_term = tree_size(value, {}), tree_size(body, {})
        for _ in range(prod(s.reduce)):
            size = tree_size(combine, {}) + sum({"l0": size, "r0": of_term}[str(v)] - 1 for v in uses)
        need(size <= MAX_NODES)
        for point in itertools.product(*(range(n) for n in s.reduce)):
            at = {a: const(k, INDEX) for a, k in zip(s.reduce_axes, point, strict=True)}
            value = _with(combine, {"l0": value, "r0": body.substitute(at)})
        value = _with(s.monoid.finish, {"l0": value})
    need(tree_size(value, {}) <= MAX_NODES)
    return simplified(value, dict(zip(s.axes, s.extents, strict=True)))


def _with(e: Expr, by: Mapping[str, Expr]) -> Expr:
    return e.map(lambda n: by[str(n.value)] if n.op == "var" else None)


def _merged(program: Program, values: dict[str, Expr]) -> list[Stage]:
    """The stages that remain after inlining; in ``values``, the readers of inlined stages are updated.

    A stage is inlined if it is read at one place only, or if it only moves elements.
    """
    kept: list[Stage] = []
    for s in program.stages:
        numbers = ValueNumbers()
        readers = [t for t in program.stages if any(x.value == s.name for x in values[t.name].loads())]
        places = {(t.name, numbers.of(x)) for t in readers for x in values[t.name].loads() if x.value == s.name}
        moves = values[s.name].op == "load"
        if s is program.stages[-1] or (not moves and (len(places) != 1 or readers[0].outputs > s.outputs)):
            kept.append(s)
            continue
        for t in readers:
            inside = computed_inside(values[t.name], {s.name: replace(s, body=(values[s.name],))})
            values[t.name] = simplified(inside, t.ranges)
    return kept


def _linked(stages: list[Stage], values: Mapping[str, Expr]) -> tuple[Link, ...]:
    """The chain. Raises ``NoMatch`` unless a box of the result needs a box of each stage and a stage reads
    neighbours."""
    result = stages[-1]
    done = [Link(result, values[result.name], tuple(range(len(result.extents))))]
    near = False
    for s in reversed(stages[:-1]):
        follows: dict[int, int | None] = {}
        lows: list[dict[str, Expr]] = [{} for _ in s.extents]
        highs: list[dict[str, Expr]] = [{} for _ in s.extents]
        for reader in done:
            before = [len(found) for found in lows]
            for x in reader.value.loads():
                if x.value != s.name:
                    continue
                for d, index in enumerate(x.args):
                    low, high = _ends(index, reader.name, {a: n for n, a in enumerate(reader.axes)})
                    its = {reader.follows[reader.axes.index(a)] for a in index.axes()} or {None}
                    need(len(its | {follows.get(d, next(iter(its)))}) == 1)
                    follows[d] = next(iter(its))
                    lows[d].setdefault(repr(low), low)
                    highs[d].setdefault(repr(high), high)
            places = [len(found) - n for found, n in zip(lows, before, strict=True)]
            near |= any(follows.get(d) is not None and n > 1 for d, n in enumerate(places))
        if not all(lows):
            continue  # its readers were never evaluated
        followed = [o for o in follows.values() if o is not None]
        need(len(set(followed)) == len(followed))
        first = tuple(_hull("min", e.values(), n) for e, n in zip(lows, s.extents, strict=True))
        last = tuple(_hull("max", e.values(), n) for e, n in zip(highs, s.extents, strict=True))
        done.append(Link(s, values[s.name], tuple(follows[d] for d in range(len(s.extents))), first, last))
    need(near)
    return tuple(reversed(done))


def _hull(op: str, ends: Iterable[Expr], extent: int) -> Expr:
    """The least or the greatest of some positions, clamped to the axis."""
    return binary("max", binary("min", reduce(partial(binary, op), ends), extent - 1), 0)


def _ends(e: Expr, reader: str, axes: Mapping[str, int]) -> tuple[Expr, Expr]:
    """Bounds of an index if each axis of its reader lies between its edges. Raises ``NoMatch`` if it is not
    monotone."""
    if e.op == "const":
        return e, e
    if e.op == "axis":
        d = axes[str(e.value)]
        return axis(edge(reader, d)), axis(edge(reader, d, last=True))
    need(e.op in ("add", "sub", "neg", "mul", "floordiv", "min", "max"))
    bounds = [_ends(a, reader, axes) for a in e.args]
    (low, high), *more = bounds
    if e.op == "neg":
        return -high, -low
    if e.op == "sub":
        return low - more[0][1], high - more[0][0]
    if e.op == "mul":
        (factor, (a, b)) = (e.args[1], bounds[0]) if e.args[1].op == "const" else (e.args[0], bounds[1])
        need(factor.op == "const")
        return (a * factor, b * factor) if whole(factor) >= 0 else (b * factor, a * factor)
    return binary(e.op, low, more[0][0]), binary(e.op, high, more[0][1])
