"""Scans along one axis, with the maps that feed them and maps that read their values at the same step.

Cumulative sums, exponential averages, gated linear recurrences, the selective scan of state space models. Maps that
feed the scans are inlined into them, and maps that read them into the result. So one pass along the axis computes all,
with a state of a few elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import INDEX, Expr, ValueNumbers, axis, const, in_place, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Monoid, Program, Reducing, Stage, Step, Tensor
from tilewright.kernels.families.elementwise import MAX_NODES, tree_size
from tilewright.kernels.families.flatten import Axes, Flat, Linearizer, collapsed, flat_tensors, linear
from tilewright.kernels.families.parts import Part, recompute, simple_operator, split
from tilewright.kernels.families.sides import need, needed, recogniser

MAX_RECOMPUTE = 256
"""Largest factor by which inlining may multiply evaluations of a map; values constant along an axis are hoisted."""


@dataclass(frozen=True, eq=False)
class Scan:
    """One scan: ``body`` is its element; vars named after earlier scans are their values at the current point.

    ``value`` is the scan's value, a function of the state ``l0, l1, ...``. ``wide``: a float32 sum for a float32
    result. Its rounding errors add up in all later values, so its state has a second component: the rounding error of
    the first.
    """

    name: str
    monoid: Monoid
    body: tuple[Expr, ...]
    value: Expr
    wide: bool

    @property
    def state(self) -> tuple[Expr, ...]:
        """The state before the first element."""
        return self.monoid.identity * (2 if self.wide else 1)

    @cached_property
    def live(self) -> tuple[int, ...]:
        """Components of the state on which later values depend."""
        if self.wide:
            return 0, 1
        found, more = set[int](), _lefts(self.value)
        while more - found:
            found |= more
            more = {c for n in found for c in _lefts(self.monoid.combine[n])}
        return tuple(sorted(found)) or (0,)


@dataclass(frozen=True, eq=False)
class Recurrence(Flat, Reducing):
    """A program in normal form, with flat ``tensors``.

    ``before`` and ``after``: the result's axes outside and inside ``sequence``, the axis of all scans. ``reduced``: the
    axis along which the result reduces ``body`` (at most one). If it reduces along the sequence, ``over_time`` holds.
    ``value`` is the result's element, a function of the reduction's ``l0, l1, ...`` or of the scans' values; ``where``
    is its position.
    """

    before: Axes
    sequence: tuple[str, int]
    after: Axes
    reduced: Axes
    scans: tuple[Scan, ...]
    monoid: Monoid | None
    body: tuple[Expr, ...]
    value: Expr
    where: Linear

    @property
    def over_time(self) -> bool:
        return self.monoid is not None and not self.reduced

    @cached_property
    def extents(self) -> dict[str, int]:
        """Extent of every axis, by name."""
        return dict((*self.before, self.sequence, *self.after, *self.reduced))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """All expressions that are evaluated at a point."""
        return (*(e for s in self.scans for e in s.body), *self.body, *(() if self.body else (self.value,)))


@recogniser
def recurrence(program: Program) -> Recurrence:
    """The normal form of a program, or ``None`` if the program is not in this family; cached."""
    need(not program.results and not program.recurrent and any(s.scan is not None for s in program.stages))
    sizes: dict[str, int] = {}
    for s in program.stages:
        sizes[s.name] = sum(tree_size(e, sizes) for e in s.body)
        if s.monoid is not None:
            need(sizes[s.name] <= MAX_NODES)
            sizes[s.name] = 1
        else:
            need(s is program.stages[-1] or recompute(program, s) <= MAX_RECOMPUTE)
    need(sizes[program.output.name] <= MAX_NODES)
    maps = frozenset(s.name for s in program.stages[:-1] if s.monoid is None)
    taking = frozenset(s.name for s in program.stages[:-1] if s.monoid is not None and s.scan is None)
    parts = needed(split(program, maps, taking))
    scans = [p for p in parts if p.scanned is not None]
    rest = [p for p in parts if p.scanned is None]
    first = scans[0]
    need(len(rest) <= 1 and all((p.extents, p.scanned) == (first.extents, first.scanned) for p in scans))
    last = rest[0] if rest else scans[-1]
    need(last is parts[-1])
    names = frozenset(p.target for p in scans)
    places = _places(last, names, first) if rest else {a: a for a in first.axes}
    reads = [x for p in scans for e in p.body for x in e.loads() if x.value in names]
    need(all(in_place(x, first.axes) for x in reads))
    moved = {a: axis(places[a]) if a in places else const(0, INDEX) for a in (*last.axes, *last.reduce_axes)}
    tail = [_values(e, names).substitute(moved) for e in (*last.body, last.value)] if rest else []
    body, monoid = (tuple(tail[:-1]), last.monoid) if rest and last.monoid is not None else ((), None)
    need(monoid is None or not any(n.op == "var" and n.value in names for n in tail[-1].walk()))
    value = tail[-1] if tail else Expr("var", last.dtype, (), last.target)
    out = load(program.output.name, program.output.dtype, tuple(moved[a] for a in last.axes))
    return _flat(program, scans, body, monoid, value, out, tuple(places[a] for a in last.reduce_axes if a in places))


def _flat(
    program: Program, scans: Sequence[Part], body: tuple[Expr, ...], monoid: Monoid | None, value: Expr, out: Expr,
    reduced: tuple[str, ...],
) -> Recurrence:  # fmt: skip
    """Builds the normal form: reads of flat tensors, and adjacent axes fused."""
    sequence, extents = str(scans[0].scanned), scans[0].ranges
    names = frozenset(p.target for p in scans)
    kept = [a for a in scans[0].axes if a not in reduced]
    if sequence in kept:
        at = kept.index(sequence)
        groups = [kept[:at], [sequence], kept[at + 1 :], list(reduced)]
    else:
        at = sum(a in kept for a in scans[0].axes[: scans[0].axes.index(sequence)])
        groups = [kept[:at], [sequence], kept[at:], [a for a in reduced if a != sequence]]
        need(not groups[3])
    elements = [tuple(_values(e, names) for e in p.body) for p in scans]
    exprs = [*(e for es in elements for e in es), *body, value, out]
    flat, axes = collapsed(exprs, program.tensors, [tuple((a, extents[a]) for a in g) for g in groups])
    before, along, after, over = axes
    need(bool(along) and len(over) <= 1)
    each = iter(flat)
    made = tuple(
        Scan(p.target, p.monoid, tuple(next(each) for _ in p.body), p.value, _wide(p.monoid, program.output))
        for p in scans if p.monoid is not None
    )  # fmt: skip
    body = tuple(next(each) for _ in body)
    # Refuses a reduction over an axis of one element, because that axis is dropped.
    need(monoid is None or bool(over) or sequence in reduced)
    tensors = flat_tensors((*program.inputs, program.output))
    value, place = next(each), linear(next(each).args[0])
    return Recurrence(program, tensors, before, along[0], after, over, made, monoid, body, value, place)


def _wide(m: Monoid, output: Tensor) -> bool:
    return simple_operator(m) == "add" and m.identity[0].dtype == output.dtype == "float32"


def _places(last: Part, scans: frozenset[str], first: Part) -> dict[str, str]:
    """By the result's axis, the scans' axis along which it reads, if all reads of scans agree.

    Axes of one element are left out. Raises ``NoMatch`` if reads do not agree.
    """
    found: dict[str, str] | None = None
    for e in last.expressions:
        for x in e.loads():
            if x.value not in scans:
                continue
            wide = [(a, d) for a, d, n in zip(x.args, first.axes, first.extents, strict=True) if n > 1]
            named = {str(a.value): d for a, d in wide if a.op == "axis"}
            need(len(named) == len(wide) and found in (None, named))
            found = named
    found = needed(found)
    need(all(last.ranges[a] == first.ranges[d] for a, d in found.items()))
    need(all(n == 1 for a, n in last.ranges.items() if a not in found))
    return found


def _values(e: Expr, scans: frozenset[str]) -> Expr:
    """The expression with reads of scans replaced by vars."""
    return e.map(lambda n: Expr("var", n.dtype, (), n.value) if n.op == "load" and n.value in scans else None)


def _lefts(e: Expr) -> set[int]:
    return {int(str(n.value)[1:]) for n in e.walk() if n.op == "var" and str(n.value).startswith("l")}


# --------------------------------------------------------------------------- recurrent layers

# One recurrence whose products multiply rows of the state by weight matrices (RNN, GRU, LSTM). Mixes of one value form
# a *pass*: one product of that value with the weights of several gates. Most layers have one pass a step. A layer that
# applies a gate to the state before the product has two.


REALS = ("float32", "float64")


@dataclass(frozen=True)
class Weight:
    """Weights of a mix: the position, in a tensor, of the element for feature ``i3`` and term ``r0``."""

    tensor: str
    where: Linear


@dataclass(frozen=True, eq=False)
class Pass:
    """A product of ``value`` with the weights of ``mixes``, by mix number."""

    value: Expr
    mixes: dict[int, Weight]

    @property
    def component(self) -> int | None:
        """The state component that is multiplied unchanged; ``None`` for a computed value."""
        plain = self.value.op == "var" and str(self.value.value).startswith("l")
        return int(str(self.value.value)[1:]) if plain else None


@dataclass(frozen=True, eq=False)
class Recurrent:
    """A recurrent layer. ``after``: the next state as a function of the state's vars, the mixes' vars and the
    elements."""

    program: Program
    passes: tuple[Pass, ...]
    after: tuple[Expr, ...]

    @property
    def stage(self) -> Stage:
        return self.program.stages[0]

    @property
    def step(self) -> Step:
        step = self.stage.step
        assert step is not None
        return step

    @property
    def output(self) -> Tensor:
        return self.program.output

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """State components, steps, rows, features."""
        states, steps, rows, features = self.stage.extents
        return states, steps, rows, features

    @cached_property
    def packed(self) -> str | None:
        """Name of the constant input that holds exactly the weights, and is prepacked; ``None`` if no input does."""
        names = {w.tensor for p in self.passes for w in p.mixes.values()}
        others = {str(x.value) for e in (*self.stage.body, *self.step.start) for x in e.loads()}
        if len(names) != 1 or names & others:
            return None
        (name,) = names
        return name if self.program.tensors[name].constant else None


@recogniser
def recurrent(program: Program) -> Recurrent:
    """The recurrent layer of a program, or ``None``; cached."""
    need(program.recurrent and len(program.stages) == 1 and not program.results)
    stage = program.stages[0]
    types = {n.dtype for e in stage.reading for n in e.walk() if n.dtype != "index"} | {t.dtype for t in program.inputs}
    need(types == {stage.dtype} and stage.dtype in REALS)
    elements = _elements(stage)
    after = tuple(e.substitute(elements) for e in stage.reduction.combine)
    return Recurrent(program, _passes(program, stage), after)


def _passes(program: Program, stage: Stage) -> tuple[Pass, ...]:
    assert stage.step is not None
    numbers, elements = ValueNumbers(), _elements(stage)
    at = Linearizer.below(stage.ranges)
    inputs = {t.name: t for t in program.inputs}
    found: dict[int, Pass] = {}
    for n, mix in enumerate(stage.step.mixes):
        tensor = needed(inputs.get(str(mix.weight.value)) if mix.weight.op == "load" else None)
        where = at.position(mix.weight, tensor)
        need(not where.atoms and where.axes.keys() <= {"i3", "r0"})
        value = mix.value.substitute(elements)
        made = found.setdefault(numbers.of(value), Pass(value, {}))
        made.mixes[n] = Weight(tensor.name, where)
    passes = tuple(found.values())
    known: set[str] = set()
    for p in passes:  # each value depends only on mixes of earlier passes
        need({str(v.value) for v in p.value.walk() if v.op == "var" and str(v.value).startswith("m")} <= known)
        known |= {f"m{n}" for n in p.mixes}
    return passes


def _elements(stage: Stage) -> dict[str, Expr]:
    return {f"r{n}": e for n, e in enumerate(stage.body)}
