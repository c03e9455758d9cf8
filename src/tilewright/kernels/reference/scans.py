"""Scans of the interpreter: inclusive prefixes of any monoid along one axis, chunk by chunk with a carry."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.expression.program import Monoid
from tilewright.kernels.reference.expressions import Array, Body, Box, chunks, place, points_within, weight
from tilewright.kernels.reference.reductions import finished, identities, merged, simple_ufunc


def scan_stage(body: Body, out: Array, box: Box, memory: int) -> None:
    """Fills ``out`` with the box of a scan's values; elements before the box are combined too."""
    stage = body.stage
    m, d = stage.reduction, stage.scan
    assert d is not None
    points = points_within(max(stage.body, key=weight), memory // (2 * len(stage.body)))
    first, length = box[d]
    step = min(points, length)
    for part in chunks((*box[:d], (0, 1), *box[d + 1 :]), max(1, points // step)):
        carry = identities(m, tuple(hi - lo for lo, hi in part))
        for low in range(0, length, step):
            high = min(length, low + step)
            scope = body.scope((*part[:d], (low, high), *part[d + 1 :]))
            shape = [high - low if n == d else hi - lo for n, (lo, hi) in enumerate(part)]
            values = tuple(np.broadcast_to(scope.value(e), shape) for e in stage.body)
            prefix = merged(m, carry, _prefixes(m, values, d))
            carry = tuple(_along(v, d, -1, None) for v in prefix)
            start = max(low, first)
            if start >= high:
                continue
            at = list(place(part, box))
            at[d] = slice(start - first, high - first)
            out[tuple(at)] = finished(m, tuple(_along(v, d, start - low, None) for v in prefix))


def _along(v: Array, d: int, start: int | None, stop: int | None) -> Array:
    return v[(*[slice(None)] * d, slice(start, stop))]


def _prefixes(m: Monoid, values: tuple[Array, ...], d: int) -> tuple[Array, ...]:
    """Inclusive prefixes along dimension ``d``, by recursive doubling."""
    ufunc = simple_ufunc(m)
    if ufunc is not None:
        return (np.asarray(ufunc.accumulate(values[0], axis=d)),)
    reach = 1
    while reach < values[0].shape[d]:
        before = tuple(_along(v, d, None, -reach) for v in values)
        later = merged(m, before, tuple(_along(v, d, reach, None) for v in values))
        values = tuple(
            np.concatenate([_along(v, d, None, reach), x], axis=d) for v, x in zip(values, later, strict=True)
        )
        reach *= 2
    return values
