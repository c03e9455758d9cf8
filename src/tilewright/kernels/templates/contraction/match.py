"""Recognising contractions: a reduction over a body of two sides, with elementwise stages after it.

Output axes fall into M (side B does not read them), N (only side B does; vectors lie along its innermost
axis) and outer axes (both sides read them, or they do not fuse with the N group in the output). All reduce
axes are K. Positions are linear in M, N and K; outer axes may stand in any function (phases of a
transposed convolution).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import FLOATS, INDEX, Expr, whole
from tilewright.kernels.expression.linear import Linear, linearise
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.rewrite import normal_forms
from tilewright.kernels.templates.contraction.sides import NoMatch, split
from tilewright.kernels.templates.group import Group

DTYPES = ("float32", "float64")
"""What is accumulated, and what stages after it give."""

NARROWED = ("float16", "bfloat16")
"""What the last stage's result may be rounded to as it is stored."""

STORED = (*DTYPES, "int64", "int32", "int8", "uint8", "bool")
"""What inputs may hold: 16-bit reals need conversions that packing does not print."""


@dataclass(frozen=True)
class Window:
    """A read of ``tensor`` at ``dims`` (an index along each of its axes) where all ``bounds`` are at least 0.

    Elsewhere the value is ``fill`` (``None`` where there are no bounds).
    """

    tensor: Tensor
    dims: tuple[Linear, ...]
    bounds: tuple[Linear, ...] = ()
    fill: Expr | None = None

    @property
    def position(self) -> Linear:
        """The element's place in the tensor."""
        total = Linear(0, {})
        for d, stride in zip(self.dims, self.tensor.strides, strict=True):
            total = total.plus(d, stride)
        return total


@dataclass(frozen=True)
class Operand:
    """One side of the body: its value, from where it is read where that is one window of a tensor
    (``window``), and where it is a plain read, its position (``affine``)."""

    value: Expr
    tensor: str | None
    affine: Linear | None
    window: Window | None = None


@dataclass(frozen=True)
class Grouped:
    """A reduction whose axes fall into groups, and the maps after it (``epilogue``)."""

    program: Program
    stage: Stage
    epilogue: tuple[Stage, ...]
    outer: Group
    m: Group
    n: Group
    k: Group

    @property
    def output(self) -> Tensor:
        return self.program.output

    @cached_property
    def out_strides(self) -> dict[str, int]:
        """Elements between neighbours in the output along each output axis."""
        return dict(zip(self.stage.axes, self.output.strides, strict=True))


@dataclass(frozen=True)
class Contraction(Grouped):
    """A matched program. ``body`` is over vars ``a`` and ``b``, the values of the two sides.

    ``program`` computes the task's program in the same memory, but stages in front of the reduction are part of
    it, and axes may be split or dropped. ``atoms`` are functions of outer axes that positions are linear in.
    """

    a: Operand
    b: Operand
    body: Expr
    dtype: str
    atoms: Mapping[str, Expr]

    @property
    def n_step(self) -> int:
        """Elements between neighbouring columns of the output."""
        return self.n.stride(Linear(0, self.out_strides)) or 1

    @property
    def in_place(self) -> bool:
        """Whether unfinished sums can live in the output."""
        return self.output.dtype == self.dtype and self.n_step == 1

    @cached_property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """Least and greatest value of every axis and atom."""
        found = {a: (0, n - 1) for a, n in self.stage.ranges.items()}
        for name, e in self.atoms.items():
            values = [evaluate_index(e, point) for point in self.points(sorted(e.axes()))]
            found[name] = min(values), max(values)
        return found

    def points(self, axes: Sequence[str]) -> list[dict[str, int]]:
        """Every combination of values of some axes."""
        extents = self.stage.ranges
        return [dict(zip(axes, p, strict=True)) for p in itertools.product(*(range(extents[a]) for a in axes))]

    def interval(self, f: Linear) -> tuple[int, int]:
        """Least and greatest value of a linear form, taking its terms as independent."""
        low = high = f.const
        for name, k in f.coef.items():
            ends = [k * x for x in self.ranges[name]]
            low, high = low + min(ends), high + max(ends)
        return low, high

    @cached_property
    def is_product_sum(self) -> bool:
        """Whether this is a sum of ``a * b``, to which a step with ``a = 0`` and a finite ``b`` adds nothing."""
        monoid = self.stage.monoid
        assert monoid is not None
        names = sorted(str(x.value) for x in self.body.args if x.op == "var")
        return monoid.name == "sum" and self.body.op == "mul" and names == ["a", "b"]

    @cached_property
    def narrow(self) -> Contraction | None:
        """The same with those N axes outer that do not fuse where B is read; ``None`` where all do."""
        if self.b.affine is None:
            return None
        kept = len(self.n.axes)
        while kept > 1 and _tail(self.n, kept).stride(self.b.affine) is None:
            kept -= 1
        n = _tail(self.n, kept)
        if kept == len(self.n.axes) or n.stride(self.b.affine) is None:
            return None
        moved = self.n.axes[: len(self.n.axes) - kept]
        names = tuple(a for a in self.stage.axes if a in self.outer.axes or a in moved)
        return replace(self, n=n, outer=Group(names, tuple(self.stage.ranges[a] for a in names)))


def _tail(group: Group, count: int) -> Group:
    return Group(group.axes[-count:], group.extents[-count:])


_INDEX: dict[str, Callable[..., int]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "neg": lambda x: -x,
    "floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "min": min, "max": max,
}  # fmt: skip


def evaluate_index(e: Expr, at: Mapping[str, int]) -> int:
    """Value of an index expression without reads."""
    if e.op == "const":
        return whole(e)
    if e.op == "axis":
        return at[str(e.value)]
    return _INDEX[e.op](*(evaluate_index(x, at) for x in e.args))


class IndexForms:
    """Reads index expressions as linear forms; functions of ``outer`` axes become atoms."""

    def __init__(self, outer: frozenset[str] = frozenset()) -> None:
        self.outer = outer
        self.atoms: dict[str, Expr] = {}

    def of(self, index: Expr) -> Linear | None:
        """The form of an index, if it is linear."""
        form = linearise(index)
        if not all(self._allowed(e) for e in form.atoms.values()):
            return None
        self.atoms.update(form.atoms)
        return form

    def _allowed(self, term: Expr) -> bool:
        axes = term.axes()
        known = all(e.op in ("const", "axis", *_INDEX) for e in term.walk())
        return bool(axes) and axes <= self.outer and known and term.op != "mul"

    def window(self, value: Expr, program: Program) -> Window | None:
        """A read, or a read guarded by linear inequalities."""
        bounds: list[Linear] | None = []
        fill = None
        if value.op == "select" and value.args[2].op == "const":
            bounds, fill, value = self.bounds(value.args[0]), value.args[2], value.args[1]
        if value.op != "load" or bounds is None:
            return None
        dims = [self.of(i) for i in value.args]
        if any(d is None for d in dims):
            return None
        return Window(program.tensors[str(value.value)], tuple(d for d in dims if d), tuple(bounds), fill)

    def bounds(self, condition: Expr) -> list[Linear] | None:
        """A conjunction of linear inequalities as ``form >= 0`` each, or ``None``."""
        if condition.op == "and":
            parts = [self.bounds(x) for x in condition.args]
            return None if any(x is None for x in parts) else [y for x in parts for y in (x or [])]
        if condition.op not in ("lt", "le", "gt", "ge") or condition.args[0].dtype != INDEX:
            return None
        x, y = (self.of(e) for e in condition.args)
        if x is None or y is None:
            return None
        if condition.op in ("lt", "le"):
            x, y = y, x
        return [x.plus(y, -1).plus(Linear(-(condition.op in ("lt", "gt")), {}))]


def affine(index: Expr) -> Linear | None:
    """An index expression as a linear form of axes, if it is one."""
    return IndexForms().of(index)


def position(load: Expr, tensor: Tensor, linear: IndexForms | None = None) -> Linear | None:
    """Where a load reads, as a linear form, if all its indices are linear."""
    total = Linear(0, {})
    for index, stride in zip(load.args, tensor.strides, strict=True):
        one = (linear or IndexForms()).of(index)
        if one is None:
            return None
        total = total.plus(one, stride)
    return total


def _operand(value: Expr, program: Program, linear: IndexForms) -> Operand:
    window = linear.window(value, program)
    if value.op != "load":
        return Operand(value, None, None, window)
    return Operand(value, str(value.value), None if window is None else window.position, window)


def match(program: Program) -> Contraction | None:
    """The contraction that a program is, or ``None``."""
    return _match(program.dumps())


@lru_cache(maxsize=256)
def _match(text: str) -> Contraction | None:
    for program in normal_forms(Program.loads(text)):
        try:
            return _recognise(program)
        except NoMatch:
            continue
    return None


def _recognise(program: Program) -> Contraction:
    if not program.plain:
        raise NoMatch
    stage, *after = program.stages
    if stage.monoid is None or len(stage.monoid.identity) != 1 or len(stage.body) != 1 or not stage.reduce:
        raise NoMatch
    dtype = stage.monoid.identity[0].dtype
    body = stage.body[0]
    if dtype not in DTYPES or body.dtype != dtype or stage.monoid.combine[0].dtype != dtype:
        raise NoMatch
    if stage.monoid.name not in ("sum", "prod", "max", "min"):
        raise NoMatch
    if any(t.dtype not in STORED for t in program.inputs) or program.output.dtype not in (*NARROWED, *STORED):
        raise NoMatch
    check_maps(stage, after)
    _check_types(after)
    ranges = stage.ranges
    wide = tuple(x for x in stage.axes if ranges[x] > 1)
    # Vectors lie along the innermost axis that not both sides read.
    marks = [x for x in wide if not all(x in read.axes() for read in body.loads())]
    if not marks:
        raise NoMatch
    sides = split(body, marks[-1], frozenset(wide), DTYPES)
    a_axes, b_axes, function = sides.a_axes, sides.b_axes, sides.function
    assert sides.a is not None
    assert sides.b is not None
    assert function is not None
    strides = dict(zip(stage.axes, program.output.strides, strict=True))
    m_axes = [x for x in wide if x not in b_axes]
    n = fused([x for x in wide if x in b_axes and x not in a_axes], ranges, strides)
    outer = tuple(x for x in wide if x not in m_axes and x not in n.axes)
    linear = IndexForms(frozenset(outer))
    a, b = _operand(sides.a, program, linear), _operand(sides.b, program, linear)
    if not m_axes and (b.affine is None or marks[-1] != wide[-1]):
        raise NoMatch  # a window over one tensor (depthwise): nothing is reused across rows
    return Contraction(
        program=program,
        stage=stage,
        epilogue=tuple(after),
        outer=Group(outer, tuple(ranges[x] for x in outer)),
        m=Group(tuple(m_axes), tuple(ranges[x] for x in m_axes)),
        n=n,
        k=Group(stage.reduce_axes, stage.reduce),
        a=a,
        b=b,
        body=function,
        dtype=dtype,
        atoms=linear.atoms,
    )


def fused(axes: list[str], ranges: Mapping[str, int], strides: Mapping[str, int]) -> Group:
    """The innermost axes that are one axis in the output."""
    kept: list[str] = []
    for x in reversed(axes):
        if kept and strides[x] != strides[kept[0]] * ranges[kept[0]]:
            break
        kept.insert(0, x)
    return Group(tuple(kept), tuple(ranges[x] for x in kept))


def check_maps(stage: Stage, after: Sequence[Stage]) -> None:
    """Later stages must be maps over the same axes that read earlier stages in place; ``stage`` reads inputs only."""
    own = {stage.name}
    for s in after:
        if s.monoid is not None or s.extents != stage.extents:
            raise NoMatch
        for read in s.loads():
            if str(read.value) in own and [(i.op, i.value) for i in read.args] != [("axis", x) for x in s.axes]:
                raise NoMatch
        own.add(s.name)
    if {str(x.value) for x in stage.loads()} & own:
        raise NoMatch


def _check_types(after: Sequence[Stage]) -> None:
    """Maps compute in float32 or float64; the last may be rounded to a 16-bit real, once, as it is stored."""
    for s in after:
        if s.dtype not in (*DTYPES, *(NARROWED if s is after[-1] else ())):
            raise NoMatch
        body = s.body[0]
        if s.dtype not in DTYPES:
            if body.op != "cast" or body.args[0].dtype != "float32":
                raise NoMatch
            body = body.args[0]
        if any(x.dtype in FLOATS and x.dtype not in DTYPES for x in body.walk()):
            raise NoMatch
