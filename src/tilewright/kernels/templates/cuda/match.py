"""Recognising contractions for a GPU: a reduction over f(A, B), with elementwise stages after it.

Output axes fall into M (only side A reads them), N (only side B does) and batch (both or neither).
A group is walked as one fused index that is split again by division, so any axes fit in any group,
whatever their place in the output. All reduce axes are K. A body that has no two sides is one side,
B: then there is no A, and M is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.program import Monoid, Program, Stage, Tensor
from tilewright.kernels.rewrite import normal_forms
from tilewright.kernels.templates.contraction.match import check_maps
from tilewright.kernels.templates.contraction.sides import NoMatch, split
from tilewright.kernels.templates.cuda.phases import clipped, ragged
from tilewright.kernels.templates.cuda.scales import after
from tilewright.kernels.templates.group import Group

ACCUMULATED = ("float32", "float64", "int32", "int64")
"""What may be accumulated. Sides may hold any dtype."""

LARGEST = (1 << 31) - (1 << 16)
"""Fused indices are 32-bit, with room for a tile past the end."""


@dataclass(frozen=True, eq=False)
class CudaContraction:
    """A matched program: ``stage`` reduces ``body`` over K, ``epilogue`` are maps over its result.

    ``program`` computes the task's program in the same memory, but stages before the reduction are part of it
    now, and axes may have been split in two or dropped (:mod:`~tilewright.kernels.rewrite`): use its stages and
    shapes for indices, and the task's for the arrays that callers pass.
    ``a`` and ``b`` are the values of the two sides over the stage's axes (``a`` is ``None`` where the
    body has one side only); ``body`` is over vars ``a`` and ``b``; ``acc`` is what is accumulated.
    Results are stored where all ``clips`` hold (conditions on output axes), and ``strides``, where given, are the
    steps along these axes in the real output (:mod:`.phases`).
    """

    program: Program
    stage: Stage
    epilogue: tuple[Stage, ...]
    batch: Group
    m: Group
    n: Group
    k: Group
    a: Expr | None
    b: Expr
    body: Expr
    acc: str
    clips: tuple[Expr, ...] = ()
    strides: Mapping[str, int] | None = None

    @property
    def output(self) -> Tensor:
        return self.program.output

    @property
    def monoid(self) -> Monoid:
        assert self.stage.monoid is not None
        return self.stage.monoid

    @cached_property
    def out_strides(self) -> dict[str, int]:
        """Elements between neighbours in the output along each output axis."""
        return dict(self.strides or zip(self.stage.axes, self.output.strides, strict=True))

    @property
    def outputs(self) -> int:
        """Elements of the output."""
        return self.batch.size * self.m.size * self.n.size

    def side(self, name: str) -> Expr | None:
        """The value of side ``a`` or ``b``."""
        return self.a if name == "a" else self.b

    def group(self, side: str) -> Group:
        """The output axes of a side that the other one does not read."""
        return self.m if side == "a" else self.n

    @cached_property
    def is_sum(self) -> bool:
        """Whether the reduction is a plain sum."""
        combine, identity = self.monoid.combine[0], self.monoid.identity[0]
        names = {str(x.value) for x in combine.args if x.op == "var"}
        return combine.op == "add" and names == {"l0", "r0"} and identity.op == "const" and identity.value == 0

    @cached_property
    def is_product(self) -> bool:
        """Whether this is a sum of ``a * b``: what matrix units compute."""
        names = [str(x.value) for x in self.body.args if x.op == "var"]
        return self.is_sum and self.body.op == "mul" and sorted(names) == ["a", "b"]

    @cached_property
    def zero_is_neutral(self) -> bool:
        """Whether a step of K whose sides are both zero changes nothing, so that tiles may be padded."""
        return self.is_sum and _at_zero(self.body) == 0


def match(program: Program) -> CudaContraction | None:
    """The contraction that a program is, or ``None``."""
    return match_text(program.dumps())


@lru_cache(maxsize=256)
def match_text(text: str) -> CudaContraction | None:
    """The same, from the program's canonical text (``Workload.program``); the same object each time."""
    program = Program.loads(text)
    for form in normal_forms(program) if program.plain else ():
        try:
            found = scaled_after(_recognise(form))
        except NoMatch:
            continue
        other = _in_phases(program) if found.batch.size > 1 else None
        return other if other is not None and 2 * other.batch.size <= found.batch.size else found
    return None


def _in_phases(program: Program) -> CudaContraction | None:
    """The contraction over phases that do not divide their axis."""
    form = ragged(program)
    if form is None:
        return None
    try:
        c = scaled_after(_recognise(form.program))
    except NoMatch:
        return None
    a, b = (clipped(x, form.clips) if x is not None else None for x in (c.a, c.b))
    assert b is not None
    return replace(c, a=a, b=b, clips=form.clips, strides=form.strides)


def _recognise(program: Program) -> CudaContraction:
    stage, *after = program.stages
    if stage.monoid is None or len(stage.monoid.identity) != 1 or len(stage.body) != 1 or not stage.reduce:
        raise NoMatch
    acc = stage.monoid.identity[0].dtype
    body = stage.body[0]
    if acc not in ACCUMULATED or body.dtype != acc or stage.monoid.combine[0].dtype != acc:
        raise NoMatch
    check_maps(stage, after)
    ranges = stage.ranges
    wide = tuple(x for x in stage.axes if ranges[x] > 1)
    found: CudaContraction | None = None

    def groups(a: frozenset[str], b: frozenset[str]) -> tuple[Group, Group, Group]:
        m = tuple(x for x in wide if x in a and x not in b)
        n = tuple(x for x in wide if x in b and x not in a)
        batch = tuple(x for x in wide if x not in m and x not in n)
        return tuple(Group(g, tuple(ranges[x] for x in g)) for g in (batch, m, n))  # type: ignore[return-value]

    def made(a: Expr | None, b: Expr, function: Expr, parts: tuple[Group, Group, Group]) -> CudaContraction:
        k = Group(stage.reduce_axes, stage.reduce)
        if max(*(g.size for g in parts), k.size) > LARGEST:
            raise NoMatch
        return CudaContraction(program, stage, tuple(after), *parts, k, a, b, function, acc)

    # Side B is what reads the innermost output axis, where that gives two sides; else another axis.
    for mark in reversed(wide):
        try:
            sides = split(body, mark, frozenset(wide), reads=True)
        except NoMatch:
            continue
        parts = groups(sides.a_axes, sides.b_axes)
        assert sides.a is not None
        assert sides.b is not None
        assert sides.function is not None
        candidate = made(sides.a, sides.b, sides.function, parts)
        if candidate.m.size > 1 and candidate.n.size > 1:
            return candidate
        found = found or candidate
    if found is not None:
        return found
    whole = groups(frozenset(), frozenset(wide))
    return made(None, body, Expr("var", body.dtype, (), "b"), whole)


def scaled_after(c: CudaContraction) -> CudaContraction:
    """A sum of products whose quantised factors are scaled: the scales multiply the finished sum instead."""
    if not c.is_product or c.a is None or c.acc not in ("float32", "float64"):
        return c
    moved = after((c.a, c.b), frozenset(c.k.axes))
    if moved is None:
        return c
    (a, b), scale = moved
    monoid = c.monoid
    finish = monoid.finish.substitute({"l0": Expr("mul", c.acc, (Expr("var", c.acc, (), "l0"), scale))})
    stage = replace(c.stage, monoid=replace(monoid, finish=finish))
    return replace(c, stage=stage, a=a, b=b)


def _at_zero(e: Expr) -> float | None:
    """The value of a body whose sides are zero, where it is easily told."""
    if e.op == "const" and isinstance(e.value, (int, float)):
        return float(e.value)
    if e.op == "var":
        return 0.0
    rule = _RULES.get(e.op)
    values = [_at_zero(x) for x in e.args]
    if rule is None or any(v is None for v in values):
        return None
    return rule(*(v for v in values if v is not None))


_RULES: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "abs": abs,
    "cast": lambda x: x,
    "min": min,
    "max": max,
}
