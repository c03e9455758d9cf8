"""Products over windows and channels with the channels innermost: operands rearranged first, by stages of their own.

A convolution whose channels are outermost reads neighbours of a window that lie in no order of memory; with channels
innermost, whole vectors of them. The copy is small beside the windows, which read each element many times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from tilewright.kernels.expression.expr import Expr, axis, load
from tilewright.kernels.expression.program import Program, Stage

LEAST_TAPS = 4
"""Times that a window reads an element, from which a copy of it pays."""


@lru_cache(maxsize=256)
def relaid(program: Program) -> tuple[Program, int] | None:
    """The program with operands of its windowed product rearranged, and by how many stages at its beginning.

    ``None`` where there is no such product, its channels are innermost already, or are no axis of both operands.
    """
    for number, stage in enumerate(program.stages):
        channels = _channels(program, stage)
        if channels is not None:
            return _rewritten(program, number, channels)
    return None


def _channels(program: Program, stage: Stage) -> str | None:
    """The reduce axis that indexes two inputs by itself, where windows reduce others, and is not yet innermost."""
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
    """Which index of a read is this axis and nothing else, the others being free of it."""
    alone = [n for n, e in enumerate(read.args) if e.op == "axis" and e.value == name]
    others = [e for n, e in enumerate(read.args) if n not in alone and name in e.axes()]
    return alone[0] if len(alone) == 1 and not others else None


def _elsewhere(stage: Stage, name: str) -> bool:
    """Whether the body uses an axis outside of what it reads."""

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
    """The program with one more stage at its beginning: a copy of the input ``name`` whose last dimension is the one
    given, which all stages read in its place."""
    tensor = program.tensors[name]
    order = [d for d in range(len(tensor.shape)) if d != dimension] + [dimension]
    back: list[Expr] = [axis(f"i{order.index(d)}") for d in range(len(order))]
    body = load(name, tensor.dtype, tuple(back))
    copy = Stage("s0", tuple(tensor.shape[d] for d in order), (), (body,), tensor.dtype)
    return behind(program, [copy], {name: lambda x: load("s0", x.dtype, tuple(x.args[d] for d in order))})


def behind(program: Program, copies: Sequence[Stage], read: Mapping[str, Callable[[Expr], Expr]]) -> Program:
    """The program with more stages at its beginning. ``read``: by the name of a tensor, what the other stages have in
    place of a read of it."""
    later = {s.name: f"s{n + len(copies)}" for n, s in enumerate(program.stages)}

    def moved(e: Expr) -> Expr | None:
        if e.op != "load" or (e.value not in read and e.value not in later):
            return None
        name, args = str(e.value), tuple(a.map(moved) for a in e.args)
        return read[name](load(name, e.dtype, args)) if name in read else load(later[name], e.dtype, args)

    stages = [s.renamed(later[s.name], lambda e: e.map(moved)) for s in program.stages]
    return Program(program.inputs, (*copies, *stages), tuple(later[r] for r in program.results))
