"""Axes that a program takes apart by what does not divide them, as a transposed convolution with an odd number of rows.

An axis ``x`` of extent 31 that occurs as ``(x + 1) // 2`` is 16 pairs, of which the last has one element too many.
Without this every ``x`` would be a batch of its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import count

from tilewright.core import OperatorError
from tilewright.kernels.expression.bounds import check_reads
from tilewright.kernels.expression.expr import INDEX, axis, load, whole
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.rewrite.inline import inlined


def rounded_up(stage: Stage) -> tuple[int, ...]:
    """The extents of a stage; of an output axis that is divided, the next multiple of the divisor."""
    extents = dict(zip(stage.axes, stage.extents, strict=True))
    found: dict[str, set[int]] = {}
    for body in stage.body:
        for e in body.walk():
            if e.op in ("floordiv", "mod") and e.dtype == INDEX:
                for a in e.args[0].axes() & set(extents):
                    found.setdefault(a, set()).add(whole(e.args[1]))
    for a, divisors in found.items():
        d = max(divisors)
        if all(d % other == 0 for other in divisors) and extents[a] > d:
            extents[a] = -(-extents[a] // d) * d
    return tuple(extents.values())


@lru_cache(maxsize=256)
def cropped(program: Program) -> Program | None:
    """The program with its reduction over whole multiples, and maps that read of it what exists.

    ``None`` where no axis is one of those, or where the elements too many would read outside of a tensor.
    """
    if program.sizes or len(program.outputs) > 1:
        return None
    program = inlined(program)
    first, *rest = program.stages
    extents = rounded_up(first)
    if first.monoid is None or first.scan is not None or extents == first.extents:
        return None
    if any(s.monoid is not None for s in rest):
        return None
    whole_multiples = replace(first, extents=extents)
    try:
        check_reads(whole_multiples, {t.name: t.shape for t in program.inputs})
    except OperatorError:
        return None
    if not rest:
        index = tuple(axis(a) for a in first.axes)
        taken = {first.name, *(t.name for t in program.inputs)}
        name = next(f"s{n}" for n in count() if f"s{n}" not in taken)
        rest = [Stage(name, first.extents, (), (load(first.name, first.dtype, index),), first.dtype)]
    return Program(program.inputs, (whole_multiples, *rest))
