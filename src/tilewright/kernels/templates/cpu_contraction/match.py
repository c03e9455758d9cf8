"""Which contractions the CPU computes in float32 and float64, and how their sides are read.

Of the family's groups, N keeps the innermost axes that are one axis in the output, along which vectors lie; the
others are batch axes here. Axes that neither side reads are rows. Positions are linear in M, N and K; batch axes may
stand in any function (phases of a transposed convolution).
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

# Of complex numbers, the operand whose parts are swapped and negated: short axes choose it part by part.


Part = tuple[float, Window]
"""A constant, and the read that it multiplies."""


@dataclass(frozen=True)
class Choices:
    """A value by the steps of a K axis and the positions along the innermost M or N axis: ``parts[step][position]``.

    Either axis is ``None`` where the value is the same function of the others all along it. Parts of one step are
    read from one tensor, a constant distance apart, zero beyond the same bounds.
    """

    step: str | None
    chosen: str | None
    parts: tuple[tuple[Part, ...], ...]


def choices(
    value: Expr, group: Group, k: Group, ranges: Mapping[str, int], linear: IndexForms, program: Program
) -> Choices | None:
    """What conditions on single axes choose in an operand; ``None`` where there are none, or other axes are in them."""
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
    """Whether parts are read from one tensor, a constant distance apart, zero beyond the same bounds."""
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
"""What is accumulated, and what stages after it give."""

NARROWED = SIXTEEN
"""What the last stage's result may be rounded to as it is stored."""

STORED = (*DTYPES, *INTEGERS, "bool")
"""What inputs may hold: 16-bit reals need conversions that packing does not print."""


@dataclass(frozen=True)
class Operand:
    """One side of the body: its value, from where it is read where that is one window of a tensor
    (``window``), where it is a plain read, its position (``affine``), and where short axes choose it, its ``choices``.

    ``limit``: steps of K from this one on have zero instead; what the value reads there may lie outside of a tensor.
    """

    value: Expr
    tensor: str | None
    affine: Linear | None
    window: Window | None = None
    limit: Expr | None = None
    choices: Choices | None = None

    @property
    def dtype(self) -> str | None:
        """Element type in memory of an operand that is one window of a tensor."""
        return self.window.tensor.dtype if self.window else None


@dataclass(frozen=True)
class Side:
    """Strides of an operand that is a plain read: along its M or N axis and along K (elements)."""

    along: int
    k: int


@dataclass(frozen=True, eq=False)
class Contraction(family.Contraction):
    """A contraction with its two operands. ``atoms`` are functions of batch axes that positions are linear in."""

    a: Operand
    b: Operand
    atoms: Mapping[str, Expr]

    @cached_property
    def n_step(self) -> int:
        """Elements between neighbouring columns of the output."""
        return self.n.stride(Linear(0, self.out_strides)) or 1

    @cached_property
    def in_place(self) -> bool:
        """Whether unfinished sums can live in the output."""
        return self.output.dtype == self.acc and self.n_step == 1

    @cached_property
    def a_side(self) -> Side | None:
        """A's strides, where its axes fuse there."""
        return self._side(self.a, self.m)

    @cached_property
    def b_side(self) -> Side | None:
        """B's strides, where its axes fuse there."""
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
        """Least and greatest value of a linear form, taking its terms as independent."""
        low = high = f.const
        for name, k in f.coef.items():
            ends = [k * x for x in self.ranges[name]]
            low, high = low + min(ends), high + max(ends)
        return low, high

    @cached_property
    def narrow(self) -> Contraction | None:
        """The same with those N axes batch axes that do not fuse where B is read; ``None`` where all do."""
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
    """Number of the program input that panels of an operand of constants replace; nothing else reads that input."""
    operand, other = (c.a, c.b) if which == "a" else (c.b, c.a)
    if operand.limit is not None:
        return None  # calls say how much of it there is
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
    """The contraction that a program is; ``None`` where this template does not compute the program."""
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
    rhs, limit = form.limited(batch.axes)
    m_group = form.group(m)
    a, b = _operand(form.lhs, form, m_group, linear), replace(_operand(rhs, form, n, linear), limit=limit)
    # Else nothing is reused, and vectors would be gathered.
    need(bool(m) or (b.affine is not None and n.axes[-1] == form.wide[-1]))
    return Contraction(
        program, form.stage, form.epilogue, batch, m_group, n, form.k, form.lhs, form.rhs, form.body, a, b,
        linear.atoms,
    )  # fmt: skip


def _check_types(after: Sequence[Stage]) -> None:
    """Maps compute in float32 or float64; the last may be rounded to a 16-bit real, once, as it is stored."""
    for s in after:
        need(s.dtype in (*DTYPES, *(NARROWED if s is after[-1] else ())))
        body = s.body[0]
        if s.dtype not in DTYPES:
            need(body.op == "cast" and body.args[0].dtype == "float32")
            body = body.args[0]
        need(all(x.dtype in DTYPES for x in body.walk() if x.dtype in FLOATS))
