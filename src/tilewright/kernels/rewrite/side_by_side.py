"""Products of parts of TF32, of operands that are written part by part first: 3xTF32.

The sum over ``p`` and k of ``part(a, p) * part(b, p)``, where a condition on ``p`` chooses among parts of one element,
is one product over 3k of the rows ``[small(a) | big(a) | big(a)]`` and ``[big(b) | small(b) | big(b)]``. Stages of
their own write these, so whatever multiplies TF32 operands multiplies them.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.expression.expr import TF32, Expr, axis, const, load, same, select, unary
from tilewright.kernels.expression.factors import factors
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.rewrite.inline import inlined
from tilewright.kernels.rewrite.relaid import behind

ALIGNED = 4
"""Float32 elements of the 16 bytes of which rows are a whole number; zeros fill them up."""


@lru_cache(maxsize=256)
def side_by_side(program: Program) -> tuple[Program, int] | None:
    """The program with the parts of both operands side by side, and by how many stages at its beginning: two.

    ``None`` where its first stage sums no such products.
    """
    program = inlined(program)
    stage = program.stages[0]
    if stage.monoid is None or stage.monoid.name != "sum" or not stage.reduce:
        return None
    sides = factors(stage.body[0])
    inputs = {t.name for t in program.inputs}
    rows = [_rows(x, stage, inputs) for x in sides]
    if len(sides) != 2 or None in rows or not any(x.op == "select" for x in sides):
        return None
    deep = (*stage.reduce[:-1], -(-stage.reduce[-1] // ALIGNED) * ALIGNED)
    copies, reads = list[Stage](), list[Expr]()
    for side, own in zip(sides, rows, strict=True):
        names = (*(own or ()), *stage.reduce_axes)
        body = side.substitute({name: axis(f"i{n}") for n, name in enumerate(names)})
        if deep != stage.reduce:
            body = select(axis(f"i{len(names) - 1}") < stage.reduce[-1], body, const(0, body.dtype))
        extents = (*(stage.ranges[name] for name in own or ()), *deep)
        copies.append(Stage(f"s{len(copies)}", extents, (), (body,), body.dtype))
        reads.append(unary("truncate_tf32", load(copies[-1].name, body.dtype, tuple(map(axis, names)))))
    made = behind(program, copies, {})
    product, *after = made.stages[len(copies) :]
    product = replace(product, reduce=deep, body=(reads[0] * reads[1],))
    return replace(made, stages=(*copies, product, *after)), len(copies)


def _rows(side: Expr, stage: Stage, inputs: Container[str]) -> tuple[str, ...] | None:
    """The output axes by which an operand is read; ``None`` where it is no TF32 value, for every step of the sum, of
    one element of an input that is read in place."""
    if not _converted(side):
        return None
    read, *others = side.loads()
    names = [str(e.value) for e in read.args]
    plain = len({*names}) == len(names) and all(e.op == "axis" for e in read.args)
    whole = stage.reduce_axes[-1] in names and side.axes() == {*names, *stage.reduce_axes}
    if read.value not in inputs or not plain or not whole or not all(same(read, x) for x in others):
        return None
    return tuple(name for name in names if name not in stage.reduce_axes)


def _converted(e: Expr) -> bool:
    """Whether a value is one of TF32 that is read, whatever conditions on axes choose."""
    chosen = e.op == "select" and not e.args[0].loads() and all(map(_converted, e.args[1:]))
    return chosen or (e.op in TF32 and bool(e.loads()))
