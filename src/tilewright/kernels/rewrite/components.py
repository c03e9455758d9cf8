"""Sums of several products, rewritten as sums of one product over an additional axis: complex numbers, quaternions.

``x[i, r, 0] * y[r, j, 0] - x[i, r, 1] * y[r, j, 1]`` is the sum over ``s`` of ``x[i, r, s]`` times ``y[r, j, 0]`` or
``-y[r, j, 1]``. An output axis ``c`` (the component of the result) may choose among several sums. Then one operand is
equal for every ``c``, and the second operand depends on ``s`` and ``c``. The number of multiplications does not change.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise

from tilewright.extent import Extent
from tilewright.kernels.expression.expr import FLOATS, INDEX, Expr, ValueNumbers, axis, const, same, select
from tilewright.kernels.expression.linear import factors, flat_step, linearise
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.rewrite.simplify import simplified

MOST = 8
"""Largest number of sums to choose among, and of products in a sum: the numbers for octonions."""


def one_product(program: Program) -> Program:
    """The program whose first reduction sums one product of two operands, over an additional reduce axis.

    Returns the same object if the first stage sums no products, or one product already.
    """
    stage = program.stages[0]
    if stage.monoid is None or stage.monoid.name != "sum" or not stage.reduce or stage.body[0].dtype not in FLOATS:
        return program
    wide = [a for a, n in zip(stage.axes, stage.extents, strict=True) if n > 1]
    choosing = _choosing(stage)
    for c in (*(a for a in reversed(wide) if a in choosing), None):
        sums = _sums(stage, c)
        for mark in reversed([a for a in wide if a != c] if sums else []):
            # Vectors lie along the innermost axis: the operand read along the next axis should have the choice of that
            # axis.
            for beside in (c == wide[-1], c != wide[-1]):
                made = _restated(program, sums, c, mark, beside)
                if made is not None:
                    return replace(program, stages=(made, *program.stages[1:]))
    return program


def _choosing(s: Stage) -> set[str]:
    """Short output axes on which values depend outside indices. Edge conditions of windows do not count."""
    values = [x.args[0] for x in s.body[0].walk() if x.op == "select" or (x.op == "cast" and x.dtype in FLOATS)]
    free = (x.axes() for x in values if not x.loads() and not x.axes() & set(s.reduce_axes))
    return {a for axes in free for a in axes if s.ranges[a] <= MOST and not isinstance(s.ranges[a], Extent)}


Sum = list[tuple[float, list[Expr]]]
"""Products to add up, each as a constant and its other factors."""


def _sums(s: Stage, c: str | None) -> list[Sum]:
    """The sum at each point of axis ``c``, if given; empty for a single product, or for more than :data:`MOST`."""
    found = []
    for k in range(s.ranges[c] if c is not None else 1):
        body = s.body[0] if c is None else s.body[0].substitute({c: const(k, INDEX)})
        found.append(list(_terms(simplified(body, s.ranges).map(_folded), 1.0)))
    return found if len(found[0]) <= MOST and (c is not None or len(found[0]) > 1) else []


def _terms(e: Expr, by: float) -> Iterator[tuple[float, list[Expr]]]:
    """Yields the products whose sum is ``by * e``."""
    if e.op in ("add", "sub"):
        yield from _terms(e.args[0], by)
        yield from _terms(e.args[1], -by if e.op == "sub" else by)
        return
    values = list[Expr]()
    for f in factors(e):
        while f.op == "neg":
            by, f = -by, f.args[0]
        if f.op == "const" and isinstance(f.value, float):
            by *= f.value
        else:
            values += factors(f)
    if len(values) == 1 and values[0].op in ("add", "sub"):
        yield from _terms(values[0], by)
    else:
        yield by, values


_FOLDS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def _folded(e: Expr) -> Expr | None:
    """Folds an operation on real constants into a constant, such as a computed sign."""
    values = [x.value for x in e.args if x.op == "const" and isinstance(x.value, (int, float))]
    if e.dtype not in FLOATS or not e.args or len(values) < len(e.args):
        return None
    if e.op == "cast":
        return const(values[0], e.dtype)
    return const(_FOLDS[e.op](*values), e.dtype) if e.op in _FOLDS else None


def _restated(program: Program, sums: Sequence[Sum], c: str | None, mark: str, beside: bool) -> Stage | None:
    """The first stage as a product of two operands: one common to all sums, and one chosen by axis ``c``.

    ``mark``: an axis that only one operand reads. ``beside``: whether that operand is the chosen one.
    """
    s = program.stages[0]
    numbers, common, chosen = ValueNumbers(), dict[int, Expr](), list[dict[int, Expr]]()
    for terms in sums:
        row: dict[int, Expr] = {}
        for by, values in terms:
            mine, others = ([f for f in values if (mark in f.axes()) == own] for own in (not beside, beside))
            if not any(f.loads() for f in mine) or not any(f.loads() for f in others):
                return None
            value, scaled = reduce(operator.mul, mine), reduce(operator.mul, others)
            number = numbers.of(value)
            if number in row:
                return None
            common.setdefault(number, value)
            row[number] = scaled if by == 1.0 else -scaled if by == -1.0 else scaled * by
        chosen.append(row)
        if row.keys() != chosen[0].keys():
            return None
    order = sorted(common, key=lambda n: [x.value for x in common[n].walk() if x.op == "const"])
    made = replace(s, reduce=(*s.reduce, len(order)) if len(order) > 1 else s.reduce)
    plain = _joined([common[n] for n in order], made.reduce_axes[-1])
    if c is not None and not plain.axes() & set(s.axes):
        return None  # for one row alone, the chosen operand has the rows: one per choice
    other = _joined([_joined([row[n] for row in chosen], c) for n in order], made.reduce_axes[-1])
    body = simplified(plain * other if beside else other * plain, made.ranges)
    made = replace(made, body=(body,))
    return _widest_first(made, plain, program) if len(order) > 1 else made


def _joined(values: Sequence[Expr], along: str | None) -> Expr:
    """One expression whose value at point ``k`` of axis ``along`` is ``values[k]``."""
    if along is None:
        return values[0]
    found = _stepped(values, along)
    if found is None:
        found = values[-1]
        for k in reversed(range(len(values) - 1)):
            found = select(axis(along) == k, values[k], found)
    return found


def _stepped(values: Sequence[Expr], along: str) -> Expr | None:
    """One expression as :func:`_joined`, if only indices differ, by an equal step between consecutive values; else
    ``None``."""
    first = values[0]
    if all(same(first, v) for v in values[1:]):
        return first
    if first.dtype == INDEX:
        forms = [linearise(v) for v in values]
        steps = {b.const - a.const for a, b in pairwise(forms)}
        alike = all(f.coef == forms[0].coef for f in forms) and len(steps) == 1
        return first + axis(along) * steps.pop() if alike else None
    if any(
        (v.op, v.dtype, v.value, len(v.args)) != (first.op, first.dtype, first.value, len(first.args)) for v in values
    ):
        return None
    args = [_stepped(column, along) for column in zip(*(v.args for v in values), strict=True)]
    known = tuple(a for a in args if a is not None)
    return Expr(first.op, first.dtype, known, first.value) if len(known) == len(args) else None


def _widest_first(s: Stage, plain: Expr, program: Program) -> Stage:
    """The stage with its last reduce axis first, if reads along it have the largest stride."""
    read = plain.loads()[0]
    strides = program.tensors[str(read.value)].strides
    *others, last = (abs(flat_step(read.args, strides, a) or 0) for a in s.reduce_axes)
    if last <= max(others):
        return s
    moved = {a: axis(f"r{(d + 1) % len(s.reduce)}") for d, a in enumerate(s.reduce_axes)}
    return replace(s, reduce=(s.reduce[-1], *s.reduce[:-1]), body=(s.body[0].substitute(moved),))
