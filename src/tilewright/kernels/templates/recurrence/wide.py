"""Running sums and products of float32 in float64: an error in them is an error in all that follow."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.expression.expr import Expr, cast
from tilewright.kernels.expression.monoids import simple
from tilewright.kernels.families.parts import simple_operator
from tilewright.kernels.families.recurrence import Recurrence, Scan, recurrence


@lru_cache(maxsize=256)
def widened(text: str) -> Recurrence | None:
    """The recurrence of a program as this template computes it, or ``None`` where it is none."""
    found = recurrence(text)
    return None if found is None else replace(found, scans=tuple(map(_wide, found.scans)))


def _wide(s: Scan) -> Scan:
    if simple_operator(s.monoid) not in ("add", "mul") or s.monoid.identity[0].dtype != "float32":
        return s

    def narrowed(n: Expr) -> Expr | None:
        return cast(replace(n, dtype="float64"), "float32") if n.op == "var" and n.value == "l0" else None

    value = s.value.map(narrowed)
    return Scan(s.name, simple(s.monoid.name, "float64"), (cast(s.body[0], "float64"),), value)


__all__ = ["widened"]
