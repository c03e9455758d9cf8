"""Tensor programs: inputs and a chain of stages, each a map, a reduction or a scan over axes.

A :class:`Program` is normalised as it is built: inputs are ``x0, x1, ...`` in call order, stages
``s0, s1, ...`` in order of use, a stage's axes ``i0, i1, ...`` and its reduce axes ``r0, r1, ...``
(local to the stage). Two definitions that differ only in names are therefore equal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Protocol

from tilewright.core import TensorSpec, UsageError, Workload, cached_property, canonical_json
from tilewright.extent import Extent, Size, Sizes, bounds, symbolic_sizes
from tilewright.kernels.expression.expr import (
    FLOAT8,
    INDEX,
    LEAVES,
    TF32,
    Expr,
    ValueNumbers,
    const,
    in_place,
    remainder,
    resized,
    whole,
)
from tilewright.kernels.expression.linear import factors, steps
from tilewright.serialization import JsonList


@dataclass(frozen=True)
class Monoid(JsonList):
    """An associative reduction over tuples of accumulators.

    ``identity`` is the initial value of each component. ``combine`` merges two partial results ``l0, l1, ...`` and
    ``r0, r1, ...`` into one. ``finish`` turns the final ``l0, l1, ...`` into the stage's value. A single reduced
    element is a partial result, too: its body gives the ``r`` components.
    """

    name: str
    identity: tuple[Expr, ...]
    combine: tuple[Expr, ...]
    finish: Expr


def left(component: int, dtype: str) -> Expr:
    """Component number ``component``, of ``dtype``, of a monoid's left partial result (``l`` in ``combine(l, r)``)."""
    return Expr("var", dtype, (), f"l{component}")


def right(component: int, dtype: str) -> Expr:
    """Component number ``component``, of ``dtype``, of a monoid's right partial result (``r`` in ``combine(l, r)``)."""
    return Expr("var", dtype, (), f"r{component}")


@dataclass(frozen=True)
class Tensor(JsonList, sparse=("constant", "low", "high")):
    """A dense, row-major array: a program's input or a stage's result.

    ``constant``: the input is given once, before the first call (weights). ``low`` and ``high``: inclusive bounds of
    the input's values; ``None`` means unbounded.
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str
    constant: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def size(self) -> int:
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis."""
        out: list[int] = []
        step = 1
        for s in reversed(self.shape):
            out.append(step)
            step *= s
        return tuple(reversed(out))


class Reducing:
    """Base of a map or, if it has a monoid, a reduction."""

    monoid: Monoid | None

    @property
    def reduction(self) -> Monoid:
        """The monoid of a reduction."""
        assert self.monoid is not None
        return self.monoid


class Domain(Reducing):
    """Axes by name: output axes ``i0, i1, ...`` of ``extents``, and reduce axes ``r0, r1, ...`` of ``reduce``."""

    extents: tuple[int, ...]
    reduce: tuple[int, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(f"i{d}" for d in range(len(self.extents)))

    @property
    def reduce_axes(self) -> tuple[str, ...]:
        return tuple(f"r{d}" for d in range(len(self.reduce)))

    @property
    def ranges(self) -> dict[str, int]:
        """Extent of every axis by name."""
        return {
            **dict(zip(self.axes, self.extents, strict=True)),
            **dict(zip(self.reduce_axes, self.reduce, strict=True)),
        }

    @property
    def outputs(self) -> int:
        """Number of output elements."""
        return math.prod(self.extents)

    @property
    def points(self) -> int:
        """Number of evaluations of the body."""
        return self.outputs * math.prod(self.reduce)


@dataclass(frozen=True)
class Stage(Domain, JsonList, sparse=("scan", "step")):
    """One tensor, element by element: a map, a reduction with a monoid, a scan, or a recurrence.

    ``extents``: size of each output axis ``i0, i1, ...`` (the result's shape). ``reduce``: size of each reduce axis
    ``r0, r1, ...``. ``body`` has one expression per accumulator component (one for a map).

    ``scan``: number of the axis along which the monoid runs; ``None`` if the stage is no scan. A scan has no reduce
    axes. Its body is the element at a position; its value there combines the elements from the first position up to
    this one, in order (an inclusive prefix).

    ``step``: makes the scan a recurrence, over axes (state component, position, row, feature), with the features once
    more as ``r0``. ``monoid.combine`` gives the next state from the state ``l0, ...``, the elements ``r0, ...`` of
    ``body`` (any number) and the mixes ``m0, ...``; it need not be associative. The value at each position is the state
    after it, component by component.
    """

    name: str
    extents: tuple[Size, ...]
    reduce: tuple[Size, ...]
    body: tuple[Expr, ...]
    dtype: str
    monoid: Monoid | None = None
    scan: int | None = None
    step: Step | None = None

    @property
    def tensor(self) -> Tensor:
        return Tensor(self.name, self.extents, self.dtype)

    @property
    def reading(self) -> tuple[Expr, ...]:
        """All expressions that may read tensors."""
        return self.body if self.step is None else (*self.body, *self.step.reading)

    def loads(self) -> tuple[Expr, ...]:
        return tuple(x for e in self.reading for x in e.loads())

    def renamed(self, name: str, fn: Callable[[Expr], Expr]) -> Stage:
        """The stage under another name, with ``fn`` applied to every expression that may read tensors."""
        step = None if self.step is None else self.step.renamed(fn)
        return replace(self, name=name, body=tuple(map(fn, self.body)), step=step)

    def at(self, read: Expr) -> Expr:
        """Value of a map at the indices of a read of it."""
        return self.body[0].substitute(dict(zip(self.axes, read.args, strict=True)))

    @property
    def terms(self) -> int:
        """Largest number of elements that are combined into one value (1 for a map)."""
        return math.prod(self.reduce) if self.scan is None else self.extents[self.scan]


def in_step(stages: Sequence[Stage]) -> bool:
    """Whether later stages have the axes of the first one, and read earlier stages in place."""
    first, *after = stages
    names = {first.name}
    for s in after:
        if s.extents != first.extents or any(x.value in names and not in_place(x, s.axes) for x in s.loads()):
            return False
        names.add(s.name)
    return True


def leading_to(stages: Sequence[Stage], result: str) -> tuple[Stage, ...]:
    """The stages that the stage ``result`` needs, in order, itself included."""
    needed, kept = {result}, list[Stage]()
    for s in reversed(stages):
        if s.name in needed:
            kept.append(s)
            needed |= {str(x.value) for x in s.loads()}
    return tuple(kept[::-1])


@dataclass(frozen=True, eq=False)
class Program(JsonList, sparse=("results",)):
    """Inputs in call order, and stages in an order in which each reads only earlier tensors.

    Programs with equal text (:meth:`dumps`) are equal. ``results`` names the result stages, in the order in which calls
    return them; empty if the last stage is the only result. Later stages may read a result.
    """

    inputs: tuple[Tensor, ...]
    stages: tuple[Stage, ...]
    results: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The results, in the order in which calls return them."""
        return tuple(self.tensors[n] for n in self.results) or (self.stages[-1].tensor,)

    @property
    def output(self) -> Tensor:
        """The result of a program with one result."""
        if self.results:
            raise ValueError(f"the program has {len(self.results)} results")
        return self.stages[-1].tensor

    def of_each(self) -> tuple[Program, ...]:
        """One program for each result, on all inputs, that computes it alone. Tensors keep their names."""
        if not self.results:
            return (self,)
        return tuple(Program(self.inputs, leading_to(self.stages, n)) for n in self.results)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Inputs and stage results by name."""
        return {t.name: t for t in (*self.inputs, *(s.tensor for s in self.stages))}

    @cached_property
    def sizes(self) -> dict[str, Extent]:
        """The symbolic sizes of the program, by name."""
        lengths = [n for t in self.tensors.values() for n in t.shape]
        return symbolic_sizes((*lengths, *(n for s in self.stages for n in s.reduce), *self._terms))

    @property
    def size_arguments(self) -> tuple[str, ...]:
        """Names of the symbolic sizes among the launch arguments of kernels."""
        return tuple(size.argument for size in self.sizes.values())

    @cached_property
    def _terms(self) -> tuple[int, ...]:
        """Symbolic extents that occur in expressions."""
        every = (e for s in self.stages for e in s.body)
        return tuple(whole(n) for e in every for n in e.walk() if n.op == "size")

    @cached_property
    def leading(self) -> bool:
        """Whether the program has one symbolic size, which occurs only as a length of tensors' first axes."""
        inner = [n for t in self.tensors.values() for n in t.shape[1:]]
        first = [t.shape[0] for t in self.tensors.values() if t.shape and isinstance(t.shape[0], Extent)]
        others = (*inner, *(n for s in self.stages for n in s.reduce), *self._terms)
        return (
            len(self.sizes) == 1 and all(isinstance(n, Extent) and n.simple for n in first)
            and not any(isinstance(n, Extent) for n in others)
        )  # fmt: skip

    @cached_property
    def varying(self) -> Extent | None:
        """The first symbolic extent in a tensor's shape; ``None`` if all shapes are fixed."""
        return next((n for t in self.tensors.values() for n in t.shape if isinstance(n, Extent)), None)

    def at(self, sizes: Sizes) -> Program:
        """The program for fixed sizes; the program itself if it has no symbolic sizes."""
        return self._with(lambda n: n.at(sizes)) if self.sizes else self

    def within(self, spans: Mapping[str, tuple[int, int]]) -> Program:
        """The program with other bounds of its symbolic sizes."""
        return self._with(lambda n: n.within(spans))

    def _with(self, other: Callable[[Extent], int]) -> Program:
        """The program with every extent replaced by ``other`` of it (an extent or a number)."""

        def lengths(shape: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(other(n) if isinstance(n, Extent) else n for n in shape)

        return Program(
            tuple(replace(t, shape=lengths(t.shape)) for t in self.inputs),
            tuple(
                replace(
                    s, extents=lengths(s.extents), reduce=lengths(s.reduce),
                    body=tuple(resized(e, other) for e in s.body),
                )
                for s in self.stages
            ),
            self.results,
        )  # fmt: skip

    @cached_property
    def plain(self) -> bool:
        """Whether the program has one result, only maps and reductions, and no 8-bit reals, as most templates
        require."""
        return not self.results and all(s.scan is None for s in self.stages) and not self.has_float8

    @cached_property
    def has_float8(self) -> bool:
        """Whether 8-bit reals are stored or computed."""
        monoids = [s.monoid for s in self.stages if s.monoid is not None]
        values = (*(s.body for s in self.stages), *((*m.combine, m.finish) for m in monoids))
        types = {t.dtype for t in self.tensors.values()} | {n.dtype for es in values for e in es for n in e.walk()}
        return not types.isdisjoint(FLOAT8)

    @cached_property
    def recurrent(self) -> bool:
        """Whether a stage is a recurrence."""
        return any(s.step is not None for s in self.stages)

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """Number of reads of each tensor over all points of all stages; repeated reads at one point count once."""
        found: dict[str, int] = {}
        for s in self.stages:
            numbers = ValueNumbers()
            for x in {numbers.of(x): x for x in s.loads()}.values():
                found[str(x.value)] = found.get(str(x.value), 0) + s.points
        return found

    @cached_property
    def flops(self) -> int:
        """Arithmetic operations, a multiply-add counted as two; index arithmetic is not counted.

        A scatter's sources count once each, not once per element of the axis where they land. Symbolic extents count
        with their upper bounds.
        """
        return bounds(sum(_flops(s) for s in self.stages))[1]

    def dumps(self) -> str:
        """Canonical text: equal for programs with equal computations."""
        return self._text

    @cached_property
    def _text(self) -> str:
        text = canonical_json(self.to_json())
        known = _latest(text)
        if not known:
            known.append(self)
        return text

    @staticmethod
    def loads(text: str) -> Program:
        """The program of a text that :meth:`dumps` wrote. Raises ``UsageError`` for any other text."""
        known = _latest(text)
        if not known:
            known.append(_parse(text))
        return known[0]


def output_specs(program: Program) -> tuple[TensorSpec, ...]:
    """Specs of a program's results: ``out``, or ``out0, out1, ...`` for several."""
    results = program.outputs
    names = ("out",) if len(results) == 1 else tuple(f"out{n}" for n in range(len(results)))
    return tuple(TensorSpec(n, t.shape, t.dtype) for n, t in zip(names, results, strict=True))


def bare_workload(op: str, program: Program, precision: str = "ieee") -> Workload:
    """A workload without parameters around a program, under the name ``op``."""
    inputs = tuple(TensorSpec(t.name, t.shape, t.dtype, t.constant) for t in program.inputs)
    output, *more = output_specs(program)
    return Workload(op, (), (), program.dumps(), inputs, output, program.flops, precision, tuple(more))


@lru_cache(maxsize=256)
def _latest(text: str) -> list[Program]:
    """Cache slot for the program of a text; the list stays empty until the program is stored."""
    return []


def _parse(text: str) -> Program:
    try:
        return Program.from_json(json.loads(text))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as e:
        hint = "Tune it again, or restore a copy of the file that it is in"
        raise UsageError(f"the program of a workload cannot be read ({type(e).__name__}: {e})", hint) from None


def count_ops(*exprs: Expr) -> int:
    """Arithmetic operations on data in one evaluation, a repeated subexpression counted once.

    Index arithmetic, logic, casts, selects, roundings and their remainders are free.
    """
    numbers, seen = ValueNumbers(), set[int]()
    for e in exprs:
        for node in e.walk():
            free = node.op in LEAVES or node.op in ("cast", "select", *TF32) or node.dtype in (INDEX, "bool")
            if not free and not remainder(node):
                seen.add(numbers.of(node))
    return len(seen)


def _flops(s: Stage) -> int:
    """Operations of a whole stage."""
    if s.step is None:
        return s.points // math.prod(s.ranges[a] for a in landing(s)) * flops_per_point(s)
    values = (*s.body, *(m.value for m in s.step.mixes), *s.reduction.combine)
    return s.outputs // s.extents[0] * (2 * s.reduce[0] * len(s.step.mixes) + count_ops(*values))


class Reduced(Protocol):
    """An evaluation per point: a stage, or several stages merged into one."""

    @property
    def body(self) -> tuple[Expr, ...]: ...

    @property
    def monoid(self) -> Monoid | None: ...

    @property
    def axes(self) -> tuple[str, ...]: ...


def flops_per_point(stage: Reduced) -> int:
    """Operations of one body evaluation with its combine; at least one if it reduces.

    In sums, a factor that is constant over blocks of a reduced axis (``s[r // 128]``) is not counted: it multiplies the
    block's sum.
    """
    if stage.monoid is None:
        return count_ops(*stage.body)
    combine = stage.monoid.combine
    body = [_changing(e) for e in stage.body] if combine[0].op == "add" else stage.body
    return count_ops(*body) + max(1, count_ops(*combine))


def _changing(e: Expr) -> Expr:
    """A reduced value without factors that change only every several steps of a reduced axis."""
    found = factors(e)
    kept = [f for f in found if all(steps(f, a) <= 1 for a in f.axes() if a.startswith("r"))]
    return e if len(kept) in (0, len(found)) else reduce(lambda x, y: Expr("mul", x.dtype, (x, y)), kept)


def landing(stage: Reduced) -> dict[str, Expr]:
    """For a scatter-like reduction, the index at which a source lands, by axis of the result; empty for others.

    Elements at other indices along the axis are the neutral value. Empty too if the condition tests more than indices.
    """
    body, monoid = stage.body[0], stage.monoid
    if monoid is None or len(stage.body) > 1 or body.op != "select":
        return {}
    condition, _, neutral = body.args
    if neutral.op != "const" or neutral.value != monoid.identity[0].value:
        return {}
    found = _asked_for(condition, stage.axes) or {}
    return {} if any(e.axes() & found.keys() for e in found.values()) else found


def _asked_for(condition: Expr, axes: Sequence[str]) -> dict[str, Expr] | None:
    """The index that a condition requires along some of the ``axes``; ``None`` if it tests anything else."""
    if condition.op == "and":
        one, other = (_asked_for(a, axes) for a in condition.args)
        if one is None or other is None or one.keys() & other.keys():
            return None
        return one | other
    if condition.op != "eq":
        return None
    for a, index in (condition.args, condition.args[::-1]):
        if a.op == "axis" and str(a.value) in axes and str(a.value) not in index.axes():
            return {str(a.value): index}
    return None


def simple_monoid(name: str, dtype: str, identity: float | int, combine: Expr) -> Monoid:
    """A one-component monoid whose value is its accumulator."""
    return Monoid(name, (const(identity, dtype),), (combine,), left(0, dtype))


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    return Tensor("", tuple(shape), "").strides


# --------------------------------------------------------------------------- steps of recurrences

# Products of the state with weights, which plain scans lack.


@dataclass(frozen=True)
class Mix(JsonList):
    """A product in every step: ``sum over r0 of weight[i3, r0] * value[i2, r0]`` for row ``i2`` and feature ``i3``.

    ``weight`` is an expression in ``i3`` and ``r0``. ``value`` is an expression in vars: of the state (``l0, ...``), of
    the step's elements (``r0, ...``) and of earlier mixes (``m0, ...``).
    """

    weight: Expr
    value: Expr


@dataclass(frozen=True)
class Step(JsonList):
    """Extends a scan to a *recurrence*: ``mixes``, which the next state reads as ``m0, m1, ...``.

    ``start``: initial state, one expression per component in the axes ``i2`` (row) and ``i3`` (feature). ``reverse``:
    the steps run from the last position to the first.
    """

    start: tuple[Expr, ...]
    mixes: tuple[Mix, ...]
    reverse: bool = False

    @property
    def reading(self) -> tuple[Expr, ...]:
        """All expressions that may read tensors."""
        return (*self.start, *(m.weight for m in self.mixes))

    def renamed(self, fn: Callable[[Expr], Expr]) -> Step:
        """The step with ``fn`` applied to every expression that may read tensors."""
        mixes = tuple(replace(m, weight=fn(m.weight)) for m in self.mixes)
        return replace(self, start=tuple(map(fn, self.start)), mixes=mixes)

    def weights(self, terms: int) -> dict[str, float]:
        """Largest magnitude with which to try each weight tensor: ``1 / sqrt(terms)``, as layers are initialised.

        Kernels are checked and timed with weights up to that magnitude. With larger ones a recurrence is chaotic, and
        rounding decides its result.
        """
        return {str(x.value): 1.0 / math.sqrt(terms) for m in self.mixes for x in m.weight.loads()}


def mixed(component: int, dtype: str) -> Expr:
    """Mix number ``component`` of a recurrence's step."""
    return Expr("var", dtype, (), f"m{component}")
