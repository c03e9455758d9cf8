"""Recurrences of the interpreter: step by step, with full products of the state and the weights."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.reference.expressions import Array, Body, Box, Scope

STEPS = 64
"""Number of steps whose elements are evaluated together."""


def recurrent_stage(body: Body, out: Array, box: Box) -> None:
    """Fills ``out`` with the box of a recurrence's states."""
    stage = body.stage
    step = stage.step
    assert step is not None
    (c0, c1), (t0, t1), rows, (j0, j1) = box
    _, length, _, features = stage.extents
    shape = (rows[1] - rows[0], features)

    def at(first: int, last: int, e: Expr) -> Array:
        """An expression at positions ``first`` to ``last``, for all features of the rows: [positions, rows,
        features]."""
        scope = body.scope(((0, 1), (first, last), rows, (0, features), (0, 1)))
        return np.broadcast_to(scope.value(e), (1, last - first, *shape, 1))[0, ..., 0]

    everything = body.scope(((0, 1), (0, 1), (0, 1), (0, features), (0, stage.reduce[0])))
    full = (1, 1, 1, features, stage.reduce[0])
    weights = [np.broadcast_to(everything.value(x.weight), full)[0, 0, 0].T for x in step.mixes]
    formulas = Scope((), (), {}, {})
    state = tuple(at(0, 1, e)[0] for e in step.start)
    blocks = range(0, length, STEPS)
    for first in reversed(blocks[t0 // STEPS :]) if step.reverse else blocks[: (t1 - 1) // STEPS + 1]:
        last = min(first + STEPS, length)
        elements = [at(first, last, e) for e in stage.body]
        order = range(last - 1, first - 1, -1) if step.reverse else range(first, last)
        for t in order:
            names = {f"l{n}": v for n, v in enumerate(state)}
            names |= {f"r{n}": v[t - first] for n, v in enumerate(elements)}
            formulas.hold(names)
            for n, (mix, weight) in enumerate(zip(step.mixes, weights, strict=True)):
                names[f"m{n}"] = np.broadcast_to(formulas.value(mix.value), shape) @ weight
            state = tuple(np.broadcast_to(formulas.value(e), shape) for e in stage.reduction.combine)
            if t0 <= t < t1:
                for c in range(c0, c1):
                    out[c - c0, t - t0] = state[c][:, j0:j1]
