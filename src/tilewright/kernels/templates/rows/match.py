"""Programs that work row by row: which programs these are, and their form with flat positions.

Every stage of such a program has the same leading *row* axes. Within a row, a stage is a *scalar* (one
value a row), a *reduction* of the row's elements, or a map over the *elements*; stages read each other at
their own position only. The canonical form here has row axes ``i0, i1, ...`` and element axes ``r0, r1,
...``, neighbours merged wherever every read walks them as one; inputs are flat arrays, and what a stage
reads of another is a var of that stage's name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import INDEX, ITEMSIZE, Expr, axis, cast, const, whole
from tilewright.kernels.expression.linear import flat_step, linearise
from tilewright.kernels.expression.program import Monoid, Program, Stage, Tensor
from tilewright.kernels.templates.rows.monoids import commutes, narrowed

SLOW = ("div", "exp", "log", "sqrt", "rsqrt", "tanh", "erf")


@dataclass(frozen=True, eq=False)
class RowStage:
    """A stage in canonical form. ``kind``: ``scalar``, ``reduce`` or ``element``.

    ``ready``: the number of the first pass over the row in which all it depends on is known; a
    reduction is computed in that pass and known after it. ``moments``: the reduction whose partial results,
    which are moments, it is finished from (``moments.py``; itself, the first of them), ``""`` for others.
    """

    name: str
    kind: str
    dtype: str
    body: tuple[Expr, ...]
    monoid: Monoid | None
    ready: int
    moments: str = ""

    @property
    def accumulates(self) -> bool:
        """Whether it is a reduction with partial results of its own."""
        return self.kind == "reduce" and self.moments in ("", self.name)

    def reads(self) -> frozenset[str]:
        """Names of the stages that it reads."""
        return frozenset(str(n.value) for e in self.body for n in e.walk() if n.op == "var")


@dataclass(frozen=True, eq=False)
class RowProgram:
    """A program in canonical form; the last stage is the result. ``rows`` and ``elements`` are extents."""

    rows: tuple[int, ...]
    elements: tuple[int, ...]
    inputs: tuple[Tensor, ...]
    stages: tuple[RowStage, ...]

    @property
    def count(self) -> int:
        """Number of rows."""
        return math.prod(self.rows)

    @property
    def length(self) -> int:
        """Elements of a row."""
        return math.prod(self.elements)

    @property
    def row_axes(self) -> tuple[str, ...]:
        return tuple(f"i{d}" for d in range(len(self.rows)))

    @property
    def element_axes(self) -> tuple[str, ...]:
        return tuple(f"r{d}" for d in range(len(self.elements)))

    @property
    def inner(self) -> str:
        """The element axis that is vectorised."""
        return self.element_axes[-1]

    @property
    def extents(self) -> dict[str, int]:
        return dict(zip((*self.row_axes, *self.element_axes), (*self.rows, *self.elements), strict=True))

    @property
    def result(self) -> RowStage:
        return self.stages[-1]

    @cached_property
    def stage(self) -> dict[str, RowStage]:
        return {s.name: s for s in self.stages}

    @cached_property
    def passes(self) -> int:
        """How many times a row is walked."""
        last = max(s.ready for s in self.stages if s.kind == "reduce")
        return max(last, self.result.ready if self.result.kind == "element" else 0) + 1

    @cached_property
    def needed(self) -> dict[str, tuple[int, ...]]:
        """The passes in which each map over elements is needed, if it is computed wherever it is read."""
        found: dict[str, set[int]] = {s.name: set() for s in self.stages}
        for s in reversed(self.stages):
            if s.kind == "reduce" or (s is self.result and s.kind == "element"):
                found[s.name].add(s.ready)
            for name in s.reads():
                if self.stage[name].kind == "element":
                    found[name] |= found[s.name]
        return {n: tuple(sorted(p)) for n, p in found.items() if self.stage[n].kind == "element"}

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Maps over elements that are expensive and needed in several passes."""
        return tuple(
            n for n, p in self.needed.items()
            if len(p) > 1 and self.stage[n].dtype != "bool"
            and any(x.op in SLOW for e in self.stage[n].body for x in e.walk())
        )  # fmt: skip

    @cached_property
    def shared(self) -> int:
        """Bytes that the last pass reads of inputs along a row and that are the same for every row."""
        last = self.passes - 1
        stages = [self.result, *(self.stage[n] for n, passes in self.needed.items() if last in passes)]
        found = {
            (str(n.value), repr(n.args[0])): ITEMSIZE[n.dtype]
            for s in stages
            for e in s.body
            for n in e.loads()
            if n.args and linearise(n.args[0]).step(self.inner) == 1 and not n.args[0].axes() & set(self.row_axes)
        }
        return sum(found.values()) * self.length

    @cached_property
    def position(self) -> Expr:
        """Flat position of an element within its row."""
        return _flat(self.element_axes, self.elements)

    @cached_property
    def place(self) -> Expr:
        """Flat position of a row's scalar among all rows'."""
        return _flat(self.row_axes, self.rows)

    @cached_property
    def where(self) -> Expr:
        """Flat position of an element among those of all rows."""
        return _flat((*self.row_axes, *self.element_axes), (*self.rows, *self.elements))

    @cached_property
    def streams(self) -> tuple[Expr, ...]:
        """Reads of inputs that differ from row to row and walk along it, once each."""
        found: dict[tuple[str, str], Expr] = {}
        for s in self.stages:
            for x in s.body:
                for n in x.loads():
                    moves = linearise(n.args[0]).step(self.inner) if n.args else 0
                    if moves == 1 and (not self.rows or n.args[0].axes() & set(self.row_axes)):
                        found.setdefault((str(n.value), repr(n.args[0])), n)
        return tuple(found.values())


def _flat(axes: Sequence[str], extents: Sequence[int]) -> Expr:
    total, step = const(0, INDEX), 1
    for a, n in zip(reversed(axes), reversed(extents), strict=True):
        total = axis(a) * step + total
        step *= n
    return total


@lru_cache(maxsize=256)
def match(text: str) -> RowProgram | None:
    """The canonical form of a program (canonical text), or ``None`` where rows are not what it is about."""
    program = Program.loads(text)
    reductions = [s for s in program.stages if s.monoid is not None]
    if not program.plain or not reductions or not all(_combines(s) for s in reductions):
        return None
    for depth in range(min(len(s.extents) for s in program.stages), -1, -1):
        found = _at_depth(program, depth, reductions[0].reduce)
        if found is not None:
            return found if _walks_rows(found) else None
    return None


def _combines(s: Stage) -> bool:
    """Whether partial results may be combined in any order."""
    assert s.monoid is not None
    return math.prod(s.reduce) > 0 and commutes(s.monoid)


# --------------------------------------------------------------------------- structure


def _at_depth(program: Program, depth: int, elements: tuple[int, ...]) -> RowProgram | None:
    """The canonical form with so many row axes, if stages go together that way."""
    rows = program.stages[-1].extents[:depth]
    kinds: dict[str, str] = {}
    for s in program.stages:
        rest = s.extents[depth:]
        if s.extents[:depth] != rows or (s.monoid is not None and s.reduce != elements):
            return None
        if s.monoid is None and rest == elements:
            kinds[s.name] = "element"
        elif math.prod(rest) == 1:
            kinds[s.name] = "scalar" if s.monoid is None else "reduce"
        else:
            return None
    bodies: dict[str, tuple[Expr, ...]] = {}
    for s in program.stages:
        body = _own_positions(program, s, depth, kinds)
        if body is None:
            return None
        bodies[s.name] = body
    return _canonical(program, rows, elements, kinds, bodies)


def _own_positions(program: Program, s: Stage, depth: int, kinds: Mapping[str, str]) -> tuple[Expr, ...] | None:
    """The bodies with reads of stages as vars, axes as ``row0, ...`` and ``at0, ...``; ``None`` for any other reads."""
    inner = s.axes[depth:] if kinds[s.name] == "element" else s.reduce_axes
    names = {a: axis(f"row{n}") for n, a in enumerate(s.axes[:depth])}
    names |= {a: axis(f"at{n}") for n, a in enumerate(inner)}
    if kinds[s.name] != "element":
        names |= {a: const(0, INDEX) for a in s.axes[depth:]}
    wrong = False

    def rewrite(n: Expr) -> Expr | None:
        nonlocal wrong
        if n.op == "axis":
            return names.get(str(n.value))
        if n.op != "load" or str(n.value) not in kinds:
            return None
        own = [axis(f"row{d}") for d in range(depth)]
        if kinds[str(n.value)] == "element":
            wrong |= kinds[s.name] == "scalar"
            own += [axis(f"at{k}") for k in range(len(n.args) - depth)]
        shape = program.tensors[str(n.value)].shape
        for index, there, extent in zip(n.args, own, shape, strict=False):
            # Along an axis of one element there is only one position.
            wrong |= extent > 1 and not (index.op == "axis" and index.value == there.value)
        return Expr("var", n.dtype, (), n.value)

    body = tuple(e.map(rewrite) for e in s.body)
    return None if wrong else body


# --------------------------------------------------------------------------- merging axes


def _canonical(
    program: Program,
    rows: tuple[int, ...],
    elements: tuple[int, ...],
    kinds: Mapping[str, str],
    bodies: Mapping[str, tuple[Expr, ...]],
) -> RowProgram | None:
    extents = {f"row{d}": n for d, n in enumerate(rows)} | {f"at{d}": n for d, n in enumerate(elements)}
    unit = {a: const(0, INDEX) for a, n in extents.items() if n == 1}
    live = {a: n for a, n in extents.items() if n > 1}
    squeezed = {n: tuple(e.substitute(unit) for e in body) for n, body in bodies.items()}
    strides = {t.name: t.strides for t in program.inputs}
    steps: list[dict[str, int]] = []
    exposed: set[str] = set()
    for body in squeezed.values():
        for e in body:
            for n in _outermost(e):
                found = {a: flat_step(n.args, strides[str(n.value)], a) for a in live} if n.op == "load" else None
                if found is None or None in found.values():
                    exposed |= n.axes()
                else:
                    steps.append({a: c for a, c in found.items() if c is not None})
    groups = [_merge([a for a in live if a.startswith(kind)], live, steps, exposed) for kind in ("row", "at")]
    named = [[(f"{letter}{k}", g) for k, g in enumerate(gs)] for letter, gs in zip("ir", groups, strict=True)]
    # Only unit axes: the row is one element.
    element_extents = tuple(math.prod(live[a] for a in g) for _, g in named[1]) or (1,)
    row_extents = tuple(math.prod(live[a] for a in g) for _, g in named[0])
    every = [*named[0], *named[1]]
    renamed = {g[0]: axis(name) for name, g in every if len(g) == 1}

    def flatten(n: Expr) -> Expr | None:
        """A read at its flat position; reads in its indices are flat already."""
        if n.op != "load":
            return None
        own = strides[str(n.value)]
        found = {a: flat_step(n.args, own, a) for a in live}
        at = const(0, INDEX)
        if None in found.values():
            for i, s in zip(n.args, own, strict=True):
                at = at + i.substitute(renamed) * s
        else:
            for name, g in every:
                at = at + axis(name) * int(found[g[-1]] or 0)
            at = at + sum(_at_zero(i) * s for i, s in zip(n.args, own, strict=True))
        return Expr("load", n.dtype, (at,), n.value)

    stages: list[RowStage] = []
    for s in program.stages:
        body = tuple(e.map(flatten).substitute(renamed) for e in squeezed[s.name])
        monoid, finish = s.monoid, None
        if monoid is not None:
            monoid, body = narrowed(monoid, body, math.prod(elements))
            finish = Monoid(monoid.name, monoid.identity, monoid.combine, cast(monoid.finish, s.dtype))
        stages.append(RowStage(s.name, kinds[s.name], s.dtype, body, finish, 0))
    inputs = tuple(Tensor(t.name, (t.size,), t.dtype, t.constant) for t in program.inputs)
    return RowProgram(row_extents, element_extents, inputs, in_passes(stages))


def in_passes(stages: Sequence[RowStage]) -> tuple[RowStage, ...]:
    """The stages, each with the first pass in which it can be."""
    placed: list[RowStage] = []
    ready: dict[str, int] = {}
    for s in stages:
        first = max((ready[n] for n in s.reads()), default=0)
        ready[s.name] = first + 1 if s.kind == "reduce" else first
        placed.append(replace(s, ready=first))
    return tuple(placed)


def _outermost(e: Expr) -> Iterator[Expr]:
    """Reads, and axes outside of any; reads inside of a read's indices as well."""
    if e.op == "load":
        yield e
        for a in e.args:
            for n in a.loads():
                yield from _outermost(n)
        return
    if e.op == "axis":
        yield e
    for a in e.args:
        yield from _outermost(a)


def _merge(
    axes: Sequence[str], extents: Mapping[str, int], steps: Sequence[Mapping[str, int]], exposed: set[str]
) -> list[tuple[str, ...]]:
    """Neighbouring axes that every read walks as one."""
    groups: list[tuple[str, ...]] = []
    for a in axes:
        before = groups[-1][-1] if groups else None
        if before is not None and not {a, before} & exposed and all(s[before] == s[a] * extents[a] for s in steps):
            groups[-1] = (*groups[-1], a)
        else:
            groups.append((a,))
    return groups


def _at_zero(e: Expr) -> int:
    """Value of an affine index where all axes are 0."""
    if e.op == "const":
        return whole(e)
    values = [_at_zero(a) for a in e.args]
    if e.op == "add":
        return values[0] + values[1]
    if e.op == "sub":
        return values[0] - values[1]
    if e.op == "mul":
        return values[0] * values[1]
    if e.op == "neg":
        return -values[0]
    if e.op == "floordiv":
        return values[0] // values[1]
    if e.op == "mod":
        return values[0] % values[1]
    if e.op in ("min", "max"):
        return min(values) if e.op == "min" else max(values)
    return values[0] if e.op == "cast" else 0


# --------------------------------------------------------------------------- what is worth it


def _walks_rows(p: RowProgram) -> bool:
    """Whether rows lie apart and every reduction reads them: products and windows share what they read."""
    depends: dict[str, bool] = {}
    for s in p.stages:
        whole = any(depends[n] for n in s.reads())
        for e in s.body:
            for n in e.loads():
                at = n.args[0] if n.args else const(0, INDEX)
                form = linearise(at)
                steps = [form.step(a) for a in p.row_axes]
                walked = [form.step(a) for a in p.element_axes]
                if walked[-1] not in (0, 1) or None in walked or not _apart(p, steps, walked):
                    return False
                whole |= (any(walked) or p.length == 1) and 0 not in steps
        depends[s.name] = whole
        if s.kind == "reduce" and not whole:
            return False
    return True


def _apart(p: RowProgram, steps: Sequence[int | None], walked: Sequence[int | None]) -> bool:
    """Whether rows do not overlap: no step between rows is shorter than what a row spans."""
    span = sum(abs(c or 0) * (n - 1) for c, n in zip(walked, p.elements, strict=True))
    return all(c is None or c == 0 or abs(c) > span or span == 0 for c in steps)
