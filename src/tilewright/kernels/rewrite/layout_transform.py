"""Layout transforms: windowed products with channels outermost get additional stages that copy operands channels-last.

With channels outermost, a convolution reads scattered elements; with channels innermost, whole vectors. The copy is
cheap beside the windows, which read each element many times.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from tilewright.kernels.expression.expr import TF32, Expr, axis, const, load, same, select, unary
from tilewright.kernels.expression.linear import factors
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.rewrite.inline import inlined

LEAST_TAPS = 4
"""Least number of reads of an element by windows for which a copy pays."""


@lru_cache(maxsize=256)
def channels_last(program: Program) -> tuple[Program, int] | None:
    """The program with the operands of its windowed product copied channels-last, and the number of leading copy
    stages.

    ``None`` if there is no windowed product, its channels are innermost already, or they are no axis of both operands.
    """
    for number, stage in enumerate(program.stages):
        channels = _channels(program, stage)
        if channels is not None:
            return _rewritten(program, number, channels)
    return None


def _channels(program: Program, stage: Stage) -> str | None:
    """The channel axis to make innermost; ``None`` if the rewrite does not apply.

    It is a reduce axis that alone indexes a dimension of both inputs and is innermost in neither, beside window axes.
    """
    loads = {str(x.value): x for x in stage.loads()}
    inputs = {t.name for t in program.inputs}
    if stage.monoid is None or stage.scan is not None or len(loads) != 2 or not inputs >= loads.keys():
        return None
    if len(stage.loads()) != len(loads):
        return None
    for name in sorted(stage.reduce_axes, key=lambda a: -stage.ranges[a]):
        taps = prod(stage.reduce) // stage.ranges[name]
        places = [_place(x, name) for x in loads.values()]
        if taps < LEAST_TAPS or None in places or _elsewhere(stage, name):
            continue
        last = [p == len(x.args) - 1 for p, x in zip(places, loads.values(), strict=True)]
        return None if any(last) else name
    return None


def _place(read: Expr, name: str) -> int | None:
    """Dimension of a read whose index is exactly this axis; ``None`` unless the other indices are free of it."""
    alone = [n for n, e in enumerate(read.args) if e.op == "axis" and e.value == name]
    others = [e for n, e in enumerate(read.args) if n not in alone and name in e.axes()]
    return alone[0] if len(alone) == 1 and not others else None


def _elsewhere(stage: Stage, name: str) -> bool:
    """Whether the body uses an axis outside the indices of its reads."""

    def hidden(e: Expr) -> Expr | None:
        return Expr("var", e.dtype, (), "read") if e.op == "load" else None

    return any(name in e.map(hidden).axes() for e in stage.body)


def _rewritten(program: Program, number: int, channels: str) -> tuple[Program, int]:
    read = {str(x.value): x for x in program.stages[number].loads()}
    copied = program
    for name, x in reversed(read.items()):
        place = _place(x, channels)
        assert place is not None
        copied = innermost(copied, name, place)
    stages = list(copied.stages)
    stage = stages[number + len(read)]
    # Channels become the last reduce axis.
    rest = [a for a in stage.reduce_axes if a != channels]
    axes = {a: axis(f"r{n}") for n, a in enumerate([*rest, channels])}
    stages[number + len(read)] = replace(
        stage, reduce=(*(stage.ranges[a] for a in rest), stage.ranges[channels]),
        body=tuple(e.substitute(axes) for e in stage.body),
    )  # fmt: skip
    return Program(program.inputs, tuple(stages), copied.results), len(read)


def innermost(program: Program, name: str, dimension: int) -> Program:
    """The program with a leading stage that copies the input ``name`` with dimension ``dimension`` last; all stages
    read the copy."""
    tensor = program.tensors[name]
    order = [d for d in range(len(tensor.shape)) if d != dimension] + [dimension]
    back: list[Expr] = [axis(f"i{order.index(d)}") for d in range(len(order))]
    body = load(name, tensor.dtype, tuple(back))
    copy = Stage("s0", tuple(tensor.shape[d] for d in order), (), (body,), tensor.dtype)
    return behind(program, [copy], {name: lambda x: load("s0", x.dtype, tuple(x.args[d] for d in order))})


def behind(program: Program, copies: Sequence[Stage], read: Mapping[str, Callable[[Expr], Expr]]) -> Program:
    """The program with ``copies`` as leading stages. ``read`` maps a tensor's name to a function that replaces its
    reads."""
    later = {s.name: f"s{n + len(copies)}" for n, s in enumerate(program.stages)}

    def moved(e: Expr) -> Expr | None:
        if e.op != "load" or (e.value not in read and e.value not in later):
            return None
        name, args = str(e.value), tuple(a.map(moved) for a in e.args)
        return read[name](load(name, e.dtype, args)) if name in read else load(later[name], e.dtype, args)

    stages = [s.renamed(later[s.name], lambda e: e.map(moved)) for s in program.stages]
    return Program(program.inputs, (*copies, *stages), tuple(later[r] for r in program.results))


# --------------------------------------------------------------------------- parts side by side

# 3xTF32: products of operands split into TF32 terms, which copy stages write first. The sum over ``p`` and k of
# ``part(a, p) * part(b, p)``, where a condition on ``p`` chooses the term of one element, is one product over 3k. Its
# rows are ``[small(a) | big(a) | big(a)]`` and ``[big(b) | small(b) | big(b)]``. Separate stages write the rows, so any
# template for TF32 operands can multiply them.


ALIGNED = 4
"""Row lengths are rounded up to this number of float32 elements (16 bytes), filled with zeros."""


@lru_cache(maxsize=256)
def side_by_side(program: Program) -> tuple[Program, int] | None:
    """The program with the TF32 terms of both operands side by side in memory, and the number of leading copy stages
    (two).

    ``None`` if the first stage is not a sum of products of TF32 terms.
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
    """The output axes by which an operand is read; ``None`` if the rewrite does not apply to the operand.

    The operand must be a TF32 value, at every step of the sum, of one element of an input that is read in place.
    """
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
    """Whether a value is a TF32 rounding of a read, possibly chosen by conditions on axes."""
    chosen = e.op == "select" and not e.args[0].loads() and all(map(_converted, e.args[1:]))
    return chosen or (e.op in TF32 and bool(e.loads()))
