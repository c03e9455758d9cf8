"""Recognising contractions: a reduction over a body of two sides, with elementwise stages after it.

Output axes fall into M (only side A reads them), N (only side B does; the innermost output axis is
one, so that vectors lie along it) and outer axes (both sides, or neither, or not fusable with the
M or N group in the output). All reduce axes are K.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.kernels.expr import Expr, axis
from tilewright.kernels.program import Program, Stage, Tensor
from tilewright.kernels.templates.contraction.sides import NoMatch, split

DTYPES = ("float32", "float64")
"""What is accumulated, and what stages after it give."""

STORED = (*DTYPES, "int64", "int32", "int8", "uint8", "bool")
"""What inputs and the output may hold: 16-bit reals need conversions that packing does not print."""


@dataclass(frozen=True)
class Affine:
    """A linear position in a tensor, in elements: ``const + sum(coef[axis] * axis)``."""

    const: int
    coef: Mapping[str, int]

    def of(self, axis: str) -> int:
        return self.coef.get(axis, 0)


@dataclass(frozen=True)
class Group:
    """Axes walked as one, outermost first: ``extents`` of each, and their product."""

    axes: tuple[str, ...]
    extents: tuple[int, ...]

    @property
    def size(self) -> int:
        n = 1
        for e in self.extents:
            n *= e
        return n

    def stride(self, where: Affine) -> int | None:
        """Step of the fused axis in a tensor; ``None`` where the axes do not fuse there."""
        steps = [(where.of(a), e) for a, e in zip(self.axes, self.extents, strict=True) if e > 1]
        if not any(step for step, _ in steps):
            return 0
        for (outer, _), (inner, extent) in itertools.pairwise(steps):
            if outer != inner * extent:
                return None
        return steps[-1][0]

    def indices(self, fused: str) -> dict[str, Expr]:
        """Every axis as an expression of the axis called ``fused``, which walks the whole group."""
        out: dict[str, Expr] = {}
        step = 1
        for number, (name, extent) in enumerate(zip(reversed(self.axes), reversed(self.extents), strict=True)):
            value = axis(fused)
            if step > 1:
                value = value // step
            if number < len(self.axes) - 1:
                value = value % extent
            out[name] = value
            step *= extent
        return out

    def split(self, fused: str) -> dict[str, str]:
        """C text of every axis, given the text of the fused index."""
        out: dict[str, str] = {}
        step = 1
        for n, (name, extent) in enumerate(zip(reversed(self.axes), reversed(self.extents), strict=True)):
            text = fused if step == 1 else f"({fused})/{step}L"
            out[name] = text if n == len(self.axes) - 1 else f"({text})%{extent}L"
            step *= extent
        return out


@dataclass(frozen=True)
class Operand:
    """One side of the body: its value, and, where it is a plain affine read, from where."""

    value: Expr
    tensor: str | None
    affine: Affine | None


@dataclass(frozen=True)
class Contraction:
    """A matched program. ``body`` is over vars ``a`` and ``b``, the values of the two sides."""

    program: Program
    stage: Stage
    epilogue: tuple[Stage, ...]
    outer: Group
    m: Group
    n: Group
    k: Group
    a: Operand
    b: Operand
    body: Expr
    dtype: str

    @property
    def output(self) -> Tensor:
        return self.program.output

    @property
    def out_strides(self) -> dict[str, int]:
        """Elements between neighbours in the output along each output axis."""
        return dict(zip(self.stage.axes, self.output.strides, strict=True))

    @property
    def ldc(self) -> int:
        """Elements between neighbouring M rows of the output."""
        return self.m.stride(Affine(0, self.out_strides)) or 0

    @property
    def in_place(self) -> bool:
        """Whether unfinished sums can live in the output."""
        return self.output.dtype == self.dtype


def affine(index: Expr) -> Affine | None:
    """An index expression as a linear form of axes, if it is one."""
    if index.op == "const":
        return Affine(int(index.value), {})  # type: ignore[arg-type]
    if index.op == "axis":
        return Affine(0, {str(index.value): 1})
    if index.op == "neg":
        inner = affine(index.args[0])
        return inner and scaled(inner, -1)
    if index.op in ("add", "sub"):
        x, y = affine(index.args[0]), affine(index.args[1])
        if x is None or y is None:
            return None
        y = scaled(y, -1) if index.op == "sub" else y
        names = {**x.coef, **y.coef}
        return Affine(x.const + y.const, {n: x.of(n) + y.of(n) for n in names})
    if index.op == "mul":
        x, y = affine(index.args[0]), affine(index.args[1])
        if x is None or y is None or (x.coef and y.coef):
            return None
        return scaled(x, y.const) if x.coef else scaled(y, x.const)
    return None


def scaled(a: Affine, by: int) -> Affine:
    return Affine(a.const * by, {n: c * by for n, c in a.coef.items()})


def position(load: Expr, tensor: Tensor) -> Affine | None:
    """Where a load reads, as a linear form, if all its indices are linear."""
    total = Affine(0, {})
    for index, stride in zip(load.args, tensor.strides, strict=True):
        one = affine(index)
        if one is None:
            return None
        one = scaled(one, stride)
        total = Affine(total.const + one.const, {n: total.of(n) + one.of(n) for n in {**total.coef, **one.coef}})
    return total


def _operand(value: Expr, program: Program) -> Operand:
    if value.op == "load":
        return Operand(value, str(value.value), position(value, program.tensors[str(value.value)]))
    return Operand(value, None, None)


def match(program: Program) -> Contraction | None:
    """The contraction that a program is, or ``None``."""
    return _match(program.dumps())


@lru_cache(maxsize=256)
def _match(text: str) -> Contraction | None:
    program = Program.loads(text)
    try:
        return _recognise(program)
    except NoMatch:
        return None


def _recognise(program: Program) -> Contraction:
    stage, *after = program.stages
    if stage.monoid is None or len(stage.monoid.identity) != 1 or len(stage.body) != 1 or not stage.reduce:
        raise NoMatch
    dtype = stage.monoid.identity[0].dtype
    body = stage.body[0]
    if dtype not in DTYPES or body.dtype != dtype or stage.monoid.combine[0].dtype != dtype:
        raise NoMatch
    if stage.monoid.name not in ("sum", "prod", "max", "min"):
        raise NoMatch
    if any(t.dtype not in STORED for t in (*program.inputs, program.output)):
        raise NoMatch
    _check_epilogue(program, stage, after)
    ranges = stage.ranges
    wide = tuple(x for x in stage.axes if ranges[x] > 1)
    if not wide:
        raise NoMatch
    sides = split(body, wide[-1], frozenset(wide), DTYPES)
    a_axes, b_axes, function = sides.a_axes, sides.b_axes, sides.function
    assert sides.a is not None
    assert sides.b is not None
    assert function is not None
    a, b = _operand(sides.a, program), _operand(sides.b, program)
    m_axes = [x for x in wide if x in a_axes and x not in b_axes]
    n_axes = [x for x in wide if x in b_axes and x not in a_axes]
    if not m_axes and b.affine is None:
        raise NoMatch  # a window over one tensor (depthwise): nothing is reused across rows
    strides = dict(zip(stage.axes, program.output.strides, strict=True))
    m, n = _fused(m_axes, ranges, strides), _fused(n_axes, ranges, strides)
    outer = tuple(x for x in wide if x not in m.axes and x not in n.axes)
    return Contraction(
        program=program,
        stage=stage,
        epilogue=tuple(after),
        outer=Group(outer, tuple(ranges[x] for x in outer)),
        m=m,
        n=n,
        k=Group(stage.reduce_axes, stage.reduce),
        a=a,
        b=b,
        body=function,
        dtype=dtype,
    )


def _fused(axes: list[str], ranges: Mapping[str, int], strides: Mapping[str, int]) -> Group:
    """The innermost axes that are one axis in the output."""
    kept: list[str] = []
    for x in reversed(axes):
        if kept and strides[x] != strides[kept[0]] * ranges[kept[0]]:
            break
        kept.insert(0, x)
    return Group(tuple(kept), tuple(ranges[x] for x in kept))


def _check_epilogue(program: Program, stage: Stage, after: list[Stage]) -> None:
    """Every later stage must be a map over the same axes that reads earlier stages in place."""
    own = {stage.name}
    for s in after:
        if s.monoid is not None or s.extents != stage.extents:
            raise NoMatch
        for read in s.loads():
            if str(read.value) in own and [(i.op, i.value) for i in read.args] != [("axis", x) for x in s.axes]:
                raise NoMatch
        own.add(s.name)
        if s.dtype not in DTYPES:
            raise NoMatch
    stage_reads = {str(x.value) for x in stage.loads()}
    if stage_reads & {s.name for s in program.stages}:
        raise NoMatch
