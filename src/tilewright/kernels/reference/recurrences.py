"""Recurrences of the interpreter: step by step, with whole products of the state and the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilewright.kernels.expression.expr import Expr, ValueNumbers
from tilewright.kernels.reference.expressions import Array, Body, Box, applied

STEPS = 64
"""Steps whose elements are evaluated at a time."""


def recurrent_stage(body: Body, out: Array, box: Box) -> None:
    """Fill ``out`` with the box of a recurrence's states."""
    stage = body.stage
    step = stage.step
    assert step is not None
    (c0, c1), (t0, t1), rows, (j0, j1) = box
    _, length, _, features = stage.extents
    shape = (rows[1] - rows[0], features)

    def at(first: int, last: int, e: Expr) -> Array:
        """An expression at some positions, all features of the rows: [positions, rows, features]."""
        scope = body.scope(((0, 1), (first, last), rows, (0, features), (0, 1)))
        return np.broadcast_to(scope.value(e), (1, last - first, *shape, 1))[0, ..., 0]

    everything = body.scope(((0, 1), (0, 1), (0, 1), (0, features), (0, stage.reduce[0])))
    full = (1, 1, 1, features, stage.reduce[0])
    weights = [np.broadcast_to(everything.value(x.weight), full)[0, 0, 0].T for x in step.mixes]
    formulas = _Formulas([*((x.value,) for x in step.mixes), stage.reduction.combine])
    state = tuple(at(0, 1, e)[0] for e in step.start)
    blocks = range(0, length, STEPS)
    for first in reversed(blocks[t0 // STEPS :]) if step.reverse else blocks[: (t1 - 1) // STEPS + 1]:
        last = min(first + STEPS, length)
        elements = [at(first, last, e) for e in stage.body]
        order = range(last - 1, first - 1, -1) if step.reverse else range(first, last)
        for t in order:
            names = {f"l{n}": v for n, v in enumerate(state)}
            names |= {f"r{n}": v[t - first] for n, v in enumerate(elements)}
            known: dict[int, Array] = {}
            for n, weight in enumerate(weights):
                (value,) = formulas.values(n, names, known)
                names[f"m{n}"] = np.broadcast_to(value, shape) @ weight
            state = tuple(np.broadcast_to(v, shape) for v in formulas.values(len(weights), names, known))
            if t0 <= t < t1:
                for c in range(c0, c1):
                    out[c - c0, t - t0] = state[c][:, j0:j1]


class _Formulas:
    """Groups of expressions in vars, of which a step evaluates one after the other; equal ones once a step."""

    def __init__(self, groups: Sequence[Sequence[Expr]]) -> None:
        self._numbers = ValueNumbers()
        self._results = [[self._numbers.of(e) for e in group] for group in groups]
        done: set[int] = set()
        self._nodes = [[n for e in group for n in self._new(e, done)] for group in groups]

    def _new(self, e: Expr, done: set[int]) -> Iterator[tuple[int, Expr, tuple[int, ...]]]:
        """What an expression needs that is not ``done``, operands first."""
        number = self._numbers.of(e)
        if number in done:
            return
        for a in e.args:
            yield from self._new(a, done)
        done.add(number)
        yield number, e, tuple(map(self._numbers.of, e.args))

    def values(self, group: int, names: Mapping[str, Array], known: dict[int, Array]) -> list[Array]:
        """The values of a group where vars have these; ``known``: of this step's earlier groups, and then its too."""
        for number, e, args in self._nodes[group]:
            if e.op == "var":
                known[number] = names[str(e.value)]
            elif e.op == "const":
                known[number] = np.asarray(e.value)
            else:
                known[number] = applied(e, [known[a] for a in args])
        return [known[n] for n in self._results[group]]
