"""What a recurrence computes once for all of the sequence, and once a step for all states that are reduced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tilewright.kernels.expression.expr import FUNCTIONS, INDEX, Expr, ValueNumbers
from tilewright.kernels.families.flatten import linear
from tilewright.kernels.families.recurrence import Recurrence
from tilewright.kernels.templates.cpu_scan.space import ScanTiling


@dataclass(frozen=True)
class Hoists:
    """Values that are computed ``once``, before the sequence is walked, and those computed at every ``step``."""

    once: tuple[Expr, ...]
    step: tuple[Expr, ...]


def hoists(p: ScanTiling) -> Hoists:
    return _hoists(p.r, p.vector)


@lru_cache(maxsize=256)
def _hoists(r: Recurrence, vector: str | None) -> Hoists:
    sequence = frozenset((r.sequence[0],))
    reduced = frozenset(a for a, _ in r.reduced)
    numbers = ValueNumbers()

    def worth(e: Expr) -> bool:
        # A read in a loop over states is as quick as one of a copy, unless its lanes lie apart.
        return not (reduced and e.op == "load" and linear(e.args[0]).step(str(vector)) in (0, 1))

    once = {numbers.of(e): e for e in _fixed(r.expressions, sequence) if worth(e)}
    step = {}
    if reduced:
        for e in _fixed(r.expressions, reduced):
            if numbers.of(e) not in once and e.op != "load":
                step[numbers.of(e)] = e
    return Hoists(tuple(once.values()), tuple(step.values()))


def _fixed(exprs: Iterable[Expr], moving: frozenset[str]) -> Iterable[Expr]:
    """Largest parts that read or compute something, depend on no ``moving`` axis or state, and are always evaluated."""
    for e in exprs:
        if any(n.op == "var" or (n.op == "axis" and n.value in moving) for n in e.walk()):
            yield from _fixed(e.args[:1] if e.op == "select" else () if e.op == "load" else e.args, moving)
        elif e.dtype not in (INDEX, "bool") and any(n.op in ("load", "div", *FUNCTIONS) for n in e.walk()):
            yield e
