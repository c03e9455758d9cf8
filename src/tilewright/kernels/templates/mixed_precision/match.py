"""Which contractions the CPU computes as dot products of 16-bit reals and of 8-bit whole numbers.

Sums of a product of two values, in float32 or int32. Of the family's groups, M and N keep the innermost axes that
are one axis in the output; the others are batch axes here. Sides may be padded reads, which is all that the fast
instructions take, or any other value, which is converted while it is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.dtypes import DTYPES
from tilewright.kernels.codegen.ranges import Range, index_range
from tilewright.kernels.expression.expr import BYTES, SIXTEEN, Expr, unwidened
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.families.contraction import Contraction, contractions
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.index_forms import IndexForms, position
from tilewright.kernels.families.sides import NoMatch

VALUES = ("float32", "int32", "float64", "int64", *SIXTEEN, *BYTES)
"""Types of values after the sum, and of what inputs and the output may hold."""

STORED = {name: DTYPES[name].cpu for name in VALUES}
"""C types of what inputs and the output may hold."""


@dataclass(frozen=True)
class Raw:
    """A padded read: the element at ``where``, converted without loss, or 0 where a bound is below 0."""

    tensor: Tensor
    where: Linear
    bounds: tuple[Linear, ...]


@dataclass(frozen=True)
class Operand:
    """One side: its value in the sum's type, and how it is read where it is a padded read.

    ``limit``: values from this element of K on are zero instead; what is read there may lie outside of a tensor.
    """

    value: Expr
    raw: Raw | None
    limit: Expr | None = None

    @property
    def dtype(self) -> str | None:
        """Of the elements in memory, where the side is a padded read."""
        return self.raw.tensor.dtype if self.raw else None


@dataclass(frozen=True, eq=False)
class Dot(Contraction):
    """A contraction that is ``sum over k of a * b``, with its two operands."""

    a: Operand
    b: Operand

    @property
    def ldc(self) -> int:
        """Elements between neighbouring M rows of the output."""
        return self.m.stride(Linear(0, self.out_strides)) or 0

    @property
    def n_step(self) -> int:
        """Elements between neighbouring N columns of the output: more than 1 where a batch axis is inside of N."""
        return self.n.stride(Linear(0, self.out_strides)) or 1

    @property
    def in_place(self) -> bool:
        """Whether unfinished sums can live in the output."""
        return self.output.dtype == self.acc and self.n_step == 1

    @property
    def b_outer(self) -> Group:
        """The outer axes that side B reads."""
        used = self.b.value.axes()
        pairs = [(x, e) for x, e in zip(self.batch.axes, self.batch.extents, strict=True) if x in used]
        return Group(tuple(x for x, _ in pairs), tuple(e for _, e in pairs))

    @property
    def constant_b(self) -> int | None:
        """Number of the constant input that side B alone is made of, if it is made of constants only.

        Nothing else may read it: it is not there any more in its own order.
        """
        if self.b.limit is not None:
            return None  # calls say how much of it there is
        inputs = {t.name: number for number, t in enumerate(self.program.inputs)}
        reads = [str(x.value) for x in self.b.value.loads()]
        others = [x for s in (self.stage, *self.epilogue) for x in s.loads() if str(x.value) == reads[0]]
        if len(others) != reads.count(reads[0]) or not all(self.program.tensors[r].constant for r in reads):
            return None
        return inputs[reads[0]]


@lru_cache(maxsize=256)
def match(text: str) -> Dot | None:
    """The product that a program (canonical text) is, or ``None`` where it is none that is computed here."""
    for form in contractions(text):
        try:
            return _computed(form)
        except NoMatch:
            continue
    return None


def _computed(form: Contraction) -> Dot:
    program = form.program
    if form.acc not in ("float32", "int32") or not form.is_product:
        raise NoMatch
    if form.lhs.dtype != form.acc or form.rhs.dtype != form.acc or [x.op for x in form.body.args] != ["var", "var"]:
        raise NoMatch
    if any(t.dtype not in STORED for t in (*program.inputs, program.output)):
        raise NoMatch
    _check_epilogue(program, form.stage, form.epilogue)
    m, n = form.together(form.m), form.together(form.n)
    batch = form.group([x for x in form.wide if x not in m.axes and x not in n.axes])
    a, b = _operand(form.lhs, program), _operand(form.rhs, program)
    rhs, limit = form.limited(batch.axes)
    cut = replace(_operand(rhs, program), limit=limit)
    if form.acc == "float32" and not a.dtype == cut.dtype == "bfloat16":
        b = cut  # steps are single elements
    if form.acc == "float32" and not any(x.dtype in SIXTEEN for side in (a, b) for x in side.value.loads()):
        raise NoMatch  # nothing here is better at float32 than the contraction template
    if not form.m.axes and (b.raw is None or b.raw.bounds):
        raise NoMatch  # nothing is reused across rows
    return Dot(
        program, form.stage, form.epilogue, batch, m, n, form.k, form.lhs, form.rhs, form.body, a, b
    )  # fmt: skip


def _operand(value: Expr, program: Program) -> Operand:
    return Operand(value, _raw(value, program))


def _raw(value: Expr, program: Program) -> Raw | None:
    """A value as a padded read: ``cast(x[...])`` or ``select(bounds, x[...], 0)`` with a cast in or around it."""
    value = unwidened(value)
    bounds: tuple[Linear, ...] = ()
    if value.op == "select":
        condition, read, other = value.args
        found = IndexForms().bounds(condition)
        if found is None or other.op != "const" or other.value != 0:
            return None
        bounds = tuple(found)
        value = unwidened(read)
    if value.op != "load":
        return None
    tensor = program.tensors[str(value.value)]
    where = position(value, tensor)
    return None if where is None else Raw(tensor, where, bounds)


def _check_epilogue(program: Program, stage: Stage, after: Sequence[Stage]) -> None:
    """Reads under a ``select`` that could lie outside of their tensors are refused; so are positions used as values."""
    assert stage.monoid is not None
    for s, e in ((stage, stage.monoid.finish), *((s, s.body[0]) for s in after)):
        bounds: dict[str, Range] = {x: (0, extent - 1) for x, extent in s.ranges.items()}
        _check_values(e, program, bounds)


def _check_values(e: Expr, program: Program, bounds: Mapping[str, Range]) -> None:
    if e.op == "load":
        return
    if e.dtype not in (*VALUES, "bool") or e.op == "axis" or (e.dtype in SIXTEEN and e.op not in ("cast", "var")):
        raise NoMatch
    if e.op == "select" and not all(_inside(x, program, bounds) for part in e.args[1:] for x in part.loads()):
        raise NoMatch
    for x in e.args:
        _check_values(x, program, bounds)


def _inside(load: Expr, program: Program, bounds: Mapping[str, Range]) -> bool:
    """Whether a read lies within its tensor wherever the axes are."""
    for index, extent in zip(load.args, program.tensors[str(load.value)].shape, strict=True):
        low, high = index_range(index, bounds)
        if low is None or high is None or low < 0 or high >= extent:
            return False
    return True
