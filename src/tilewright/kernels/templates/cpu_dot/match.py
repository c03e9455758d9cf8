"""Matching contractions that the CPU computes as dot products of 16-bit reals and of 8-bit whole numbers.

A contraction matches if it sums products of two values in float32 or int32. M and N keep the innermost of the family's
axes that fuse in the output; the remaining axes are batch axes here. Sides may be padded reads, the only form that the
fast instructions take, or any other value, which is converted while it is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.codegen.ranges import Range, index_range
from tilewright.kernels.expression.expr import BYTES, SIXTEEN, Expr
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.families import contraction as family
from tilewright.kernels.families.index_forms import IndexForms
from tilewright.kernels.families.sides import matches, need
from tilewright.kernels.templates.cpu_contraction.match import Contraction, Operand

VALUES = ("float32", "int32", "float64", "int64", *SIXTEEN, *BYTES)
"""Types of inputs, of the output and of values after the sum."""


@lru_cache(maxsize=256)
def match(program: Program) -> Contraction | None:
    """The contraction form of a program; ``None`` if this template cannot compute the program."""
    return next(matches(family.contractions(program), _computed), None)


def _computed(form: family.Contraction) -> Contraction:
    program = form.program
    need(form.acc in ("float32", "int32") and form.is_product)
    need(form.lhs.dtype == form.acc == form.rhs.dtype and [x.op for x in form.body.args] == ["var", "var"])
    need(all(t.dtype in VALUES for t in (*program.inputs, program.output)))
    _check_epilogue(program, form.stage, form.epilogue)
    m, n = form.together(form.m), form.together(form.n)
    batch = form.group([x for x in form.wide if x not in m.axes and x not in n.axes])
    a, b = _operand(form.lhs, program), _operand(form.rhs, program)
    rhs, valid_length = form.limited(batch.axes)
    cut = replace(_operand(rhs, program), valid_length=valid_length)
    if form.acc == "float32" and not a.dtype == cut.dtype == "bfloat16":
        b = cut  # steps are single elements
    # Refuses float32 inputs and products without reuse across rows: the contraction template is at least as fast.
    need(form.acc != "float32" or any(x.dtype in SIXTEEN for side in (a, b) for x in side.value.loads()))
    need(bool(form.m.axes) or b.affine is not None)
    return Contraction(
        program, form.stage, form.epilogue, batch, m, n, form.k, form.lhs, form.rhs, form.body, a, b, {}
    )  # fmt: skip


def _operand(value: Expr, program: Program) -> Operand:
    """A side as an operand, with its read if it is ``cast(x[...])`` or ``select(bounds, x[...], 0)`` with a cast."""
    window = IndexForms().window(value, program, widened=True)
    if window is None or (window.fill is not None and window.fill.value != 0):
        return Operand(value, None, None)
    if window.bounds:
        return Operand(value, None, None, window)
    return Operand(value, window.tensor.name, window.position, window)


def _check_epilogue(program: Program, stage: Stage, after: Sequence[Stage]) -> None:
    """Refuses reads under a ``select`` that could lie outside of their tensors, and positions used as values."""
    assert stage.monoid is not None
    for s, e in ((stage, stage.monoid.finish), *((s, s.body[0]) for s in after)):
        bounds: dict[str, Range] = {x: (0, extent - 1) for x, extent in s.ranges.items()}
        _check_values(e, program, bounds)


def _check_values(e: Expr, program: Program, bounds: Mapping[str, Range]) -> None:
    if e.op == "load":
        return
    need(e.dtype in (*VALUES, "bool") and e.op != "axis" and (e.dtype not in SIXTEEN or e.op in ("cast", "var")))
    need(e.op != "select" or all(_inside(x, program, bounds) for part in e.args[1:] for x in part.loads()))
    for x in e.args:
        _check_values(x, program, bounds)


def _inside(load: Expr, program: Program, bounds: Mapping[str, Range]) -> bool:
    """Whether a read lies within its tensor for all values of the axes."""
    for index, extent in zip(load.args, program.tensors[str(load.value)].shape, strict=True):
        low, high = index_range(index, bounds)
        if low < 0 or high >= extent:
            return False
    return True
