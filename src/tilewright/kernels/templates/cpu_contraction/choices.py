"""Operands that short axes choose part by part: of complex numbers, the one whose parts are swapped and negated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.kernels.expression.expr import INDEX, Expr, const
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.index_forms import IndexForms, Window
from tilewright.kernels.rewrite.simplify import simplified

Part = tuple[float, Window]
"""A constant, and the read that it multiplies."""


@dataclass(frozen=True)
class Choices:
    """A value by the steps of a K axis and the positions along the innermost M or N axis: ``parts[step][position]``.

    Either axis is ``None`` where the value is the same function of the others all along it. Parts of one step are
    read from one tensor, a constant distance apart, zero beyond the same bounds.
    """

    step: str | None
    chosen: str | None
    parts: tuple[tuple[Part, ...], ...]


def choices(
    value: Expr, group: Group, k: Group, ranges: Mapping[str, int], linear: IndexForms, program: Program
) -> Choices | None:
    """What conditions on single axes choose in an operand; ``None`` where there are none, or other axes are in them."""
    conditions = [x.args[0] for x in value.walk() if x.op == "select"]
    asked = {str(e.args[0].value) for e in conditions if e.op == "eq" and e.args[0].op == "axis"}
    steps, chosen = asked & set(k.axes), asked - set(k.axes)
    if not asked or len(steps) > 1 or not chosen <= set(group.axes):
        return None
    step, along = next(iter(steps), None), next(iter(chosen), None)
    if len(chosen) > 1:
        return None

    def part(s: int, c: int) -> Part | None:
        at = {a: const(v, INDEX) for a, v in ((step, s), (along, c)) if a is not None}
        by, e = 1.0, simplified(value.substitute(at), ranges)
        while e.op == "neg" or (e.op == "mul" and e.args[1].op == "const"):
            by *= -1.0 if e.op == "neg" else float(str(e.args[1].value))
            e = e.args[0]
        window = linear.window(e, program)
        return None if window is None else (by, window)

    rows = []
    for s in range(ranges[step] if step else 1):
        row = [part(s, c) for c in range(ranges[along] if along else 1)]
        found = tuple(x for x in row if x is not None)
        if len(found) < len(row) or not _alike(found):
            return None
        rows.append(found)
    return Choices(step, along, tuple(rows))


def _alike(parts: tuple[Part, ...]) -> bool:
    """Whether parts are read from one tensor, a constant distance apart, zero beyond the same bounds."""
    first = parts[0][1]
    return all(
        w.tensor == first.tensor
        and w.position.coef == first.position.coef
        and w.bounds == first.bounds
        and (w.fill is None or w.fill.value == 0)
        for _, w in parts
    )
