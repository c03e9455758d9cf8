"""Matching contractions that the CPU computes in float32 and float64, and the reads of their sides.

N keeps the innermost of the family's N axes that fuse in the output, along which vectors lie; the remaining N axes are
batch axes here. Axes that neither side reads belong to M. Positions are linear in M, N and K; batch axes may occur in
any function (phases of a transposed convolution).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, SIXTEEN, Expr, const
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.families import contraction as family
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.index_forms import IndexForms, Window, evaluate_index
from tilewright.kernels.families.sides import matches, need
from tilewright.kernels.rewrite.simplify import simplified

# --------------------------------------------------------------------------- operands chosen part by part

# A product of complex numbers has an operand whose parts are swapped and negated: short axes select every part.


Part = tuple[float, Window]
"""A constant factor, and the read that it multiplies."""


@dataclass(frozen=True)
class Choices:
    """A value that short axes select: ``parts[step][position]``.

    ``step`` is a K axis, and ``chosen`` the M or N axis of the position; an axis is ``None`` if it selects nothing. All
    parts of a step are reads of one tensor at constant distances, zero beyond the same bounds.
    """

    step: str | None
    chosen: str | None
    parts: tuple[tuple[Part, ...], ...]


def choices(
    value: Expr, group: Group, k: Group, ranges: Mapping[str, int], linear: IndexForms, program: Program
) -> Choices | None:
    """The parts that conditions on single axes select in an operand; ``None`` without conditions that can be read."""
    conditions = [x.args[0] for x in value.walk() if x.op == "select"]
    asked = {str(e.args[0].value) for e in conditions if e.op == "eq" and e.args[0].op == "axis"}
    steps, chosen = asked & set(k.axes), asked - set(k.axes)
    if not asked or len(steps) > 1 or not chosen <= set(group.axes):
        return None
    step, along = next(iter(steps), None), next(iter(chosen), None)
    if len(chosen) > 1:
        return None

    def part(s: int, c: int) -> Part | None:
        at = {a: const(v, INDEX) for a, v in ((step, s), (along, c)) if a is not None}
        by, e = 1.0, simplified(value.substitute(at), ranges)
        while e.op == "neg" or (e.op == "mul" and e.args[1].op == "const"):
            by *= -1.0 if e.op == "neg" else float(str(e.args[1].value))
            e = e.args[0]
        window = linear.window(e, program)
        return None if window is None else (by, window)

    rows = []
    for s in range(ranges[step] if step else 1):
        row = [part(s, c) for c in range(ranges[along] if along else 1)]
        found = tuple(x for x in row if x is not None)
        if len(found) < len(row) or not _alike(found):
            return None
        rows.append(found)
    return Choices(step, along, tuple(rows))


def _alike(parts: tuple[Part, ...]) -> bool:
    """Whether parts are reads of one tensor at constant distances, zero beyond the same bounds."""
    first = parts[0][1]
    return all(
        w.tensor == first.tensor
        and w.position.coef == first.position.coef
        and w.bounds == first.bounds
        and (w.fill is None or w.fill.value == 0)
        for _, w in parts
    )


# --------------------------------------------------------------------------- contractions


DTYPES = ("float32", "float64")
"""Types of the sums, and of the results of stages after the sum."""

NARROWED = SIXTEEN
"""Types that the last stage's result may be rounded to in the store."""

STORED = (*DTYPES, *INTEGERS, "bool")
"""Types of inputs: 16-bit reals would need conversions that packing does not print."""


@dataclass(frozen=True)
class Operand:
    """One side of the body: its ``value``, and the forms in which it can be read.

    ``window``: the read, if the value is one window of a tensor. ``tensor`` and ``affine``: name and position of a
    plain read. ``choices``: the parts of a value that short axes select. ``valid_length``: the step of K from which on
    the operand is zero, and the value's reads may lie outside of a tensor.
    """

    value: Expr
    tensor: str | None
    affine: Linear | None
    window: Window | None = None
    valid_length: Expr | None = None
    choices: Choices | None = None

    @property
    def dtype(self) -> str | None:
        """Element type in memory, if the operand is one window of a tensor."""
        return self.window.tensor.dtype if self.window else None


@dataclass(frozen=True)
class Side:
    """Strides, in elements, of an operand that is a plain read: along its M or N axis, and along K."""

    along: int
    k: int


@dataclass(frozen=True, eq=False)
class Contraction(family.Contraction):
    """A contraction with its two operands. ``atoms``: functions of batch axes that count as variables of positions."""

    a: Operand
    b: Operand
    atoms: Mapping[str, Expr]

    @cached_property
    def n_step(self) -> int:
        """Elements between adjacent columns of the output."""
        return self.n.stride(Linear(0, self.out_strides)) or 1

    @cached_property
    def in_place(self) -> bool:
        """Whether unfinished sums can live in the output."""
        return self.output.dtype == self.acc and self.n_step == 1

    @cached_property
    def a_side(self) -> Side | None:
        """A's strides, if its M axes and its K axes each fuse; else ``None``."""
        return self._side(self.a, self.m)

    @cached_property
    def b_side(self) -> Side | None:
        """B's strides, if its N axes and its K axes each fuse; else ``None``."""
        return self._side(self.b, self.n)

    def _side(self, operand: Operand, group: Group) -> Side | None:
        if operand.affine is None or operand.value.dtype != self.acc:
            return None
        along, k = group.stride(operand.affine), self.k.stride(operand.affine)
        return None if along is None or k is None else Side(along, k)

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
        """Least and greatest value of a linear form, whose terms count as independent."""
        low = high = f.const
        for name, k in f.coef.items():
            ends = [k * x for x in self.ranges[name]]
            low, high = low + min(ends), high + max(ends)
        return low, high

    @cached_property
    def narrow(self) -> Contraction | None:
        """The contraction whose N keeps only axes that fuse in B, with the remaining N axes as batch axes.

        ``None`` where all N axes fuse, or where no N axes fuse in B.
        """
        if self.b.affine is None:
            return None
        kept = len(self.n.axes)
        while kept > 1 and self.group(self.n.axes[-kept:]).stride(self.b.affine) is None:
            kept -= 1
        n = self.group(self.n.axes[-kept:])
        if kept == len(self.n.axes) or n.stride(self.b.affine) is None:
            return None
        moved = self.n.axes[: len(self.n.axes) - kept]
        batch = self.group([a for a in self.stage.axes if a in self.batch.axes or a in moved])
        return replace(self, n=n, batch=batch)


def constant(c: Contraction, which: str) -> int | None:
    """Number of the program input that packed panels of a constant operand replace.

    ``None`` if the operand is not constant, or if other expressions read all of its inputs.
    """
    operand, other = (c.a, c.b) if which == "a" else (c.b, c.a)
    if operand.valid_length is not None:
        return None  # its valid length is known in calls only
    names = {str(x.value) for x in operand.value.loads()}
    elsewhere = {str(x.value) for x in other.value.loads()}
    elsewhere |= {str(x.value) for s in c.epilogue for x in s.loads()}
    inputs = {t.name: n for n, t in enumerate(c.program.inputs)}
    if not all(c.program.inputs[inputs[n]].constant for n in names):
        return None
    return min((inputs[n] for n in names - elsewhere), default=None)


def _operand(value: Expr, form: family.Contraction, group: Group, linear: IndexForms) -> Operand:
    window = linear.window(value, form.program)
    if value.op != "load":
        chosen = None if window else choices(value, group, form.k, form.stage.ranges, linear, form.program)
        return Operand(value, None, None, window, choices=chosen)
    return Operand(value, str(value.value), None if window is None else window.position, window)


@lru_cache(maxsize=256)
def match(program: Program) -> Contraction | None:
    """The contraction form of a program; ``None`` if this template cannot compute the program."""
    return next(matches(family.contractions(program), _computed), None)


def _computed(form: family.Contraction) -> Contraction:
    program = form.program
    need(form.acc in DTYPES and form.monoid.name in ("sum", "prod", "max", "min"))
    need(form.lhs.dtype in DTYPES and form.rhs.dtype in DTYPES)
    need(all(t.dtype in STORED for t in program.inputs) and program.output.dtype in (*NARROWED, *STORED))
    _check_types(form.epilogue)
    read = {x for side in (form.lhs, form.rhs) for x in side.axes()}
    m = [x for x in form.wide if x in form.m.axes or x not in read]
    n = form.together(form.n)
    batch = form.group([x for x in form.wide if x not in m and x not in n.axes])
    linear = IndexForms(frozenset(batch.axes))
    rhs, valid_length = form.limited(batch.axes)
    m_group = form.group(m)
    a, b = _operand(form.lhs, form, m_group, linear), replace(_operand(rhs, form, n, linear), valid_length=valid_length)
    # Without M nothing is reused, so vectors of B must be contiguous.
    need(bool(m) or (b.affine is not None and n.axes[-1] == form.wide[-1]))
    return Contraction(
        program, form.stage, form.epilogue, batch, m_group, n, form.k, form.lhs, form.rhs, form.body, a, b,
        linear.atoms,
    )  # fmt: skip


def _check_types(after: Sequence[Stage]) -> None:
    """Refuses maps that compute in other types than float32 and float64. The store may round the last map's result
    once, to a 16-bit real."""
    for s in after:
        need(s.dtype in (*DTYPES, *(NARROWED if s is after[-1] else ())))
        body = s.body[0]
        if s.dtype not in DTYPES:
            need(body.op == "cast" and body.args[0].dtype == "float32")
            body = body.args[0]
        need(all(x.dtype in DTYPES for x in body.walk() if x.dtype in FLOATS))
