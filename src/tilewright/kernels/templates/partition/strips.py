"""Rows of a program in strips, each of which goes through all segments before the next one does.

What segments hand on to each other, or read in turn, is then a strip's, and stays in the caches.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.core import Target
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.program import Program, Tensor

LEAST_ROWS = 8
"""A strip's at least: products need some, or what they read besides is read too often."""


def rows(program: Program) -> tuple[int, int]:
    """The number of the axis of rows, the first of more than one element, and how many rows there are."""
    shape = max((s.extents for s in program.stages), key=len)
    d = next((d for d, n in enumerate(shape[:-1]) if n > 1), 0)
    return d, shape[d]


def moved(program: Program) -> frozenset[str]:
    """The tensors that have a row for each row of the result; none where a row depends on others.

    Every stage must have the same rows. A tensor is read at the row that is computed, or is the same for all rows.
    """
    d, count = rows(program)
    if any(s.extents[: d + 1] != (*(1,) * d, count) or s.scan == d for s in program.stages):
        return frozenset()
    at_row, anywhere = {s.name for s in program.stages}, set[str]()

    def alone(e: Expr) -> bool:
        """Whether the row plays no part but as the place of a read."""
        args = e.args
        if e.op == "load":
            here = len(args) > d and args[d].op == "axis" and args[d].value == f"i{d}"
            (at_row if here else anywhere).add(str(e.value))
            args = (*args[:d], *args[d + 1 :]) if here else args
        return (e.op != "axis" or e.value != f"i{d}") and all(alone(a) for a in args)

    independent = all(alone(e) for s in program.stages for e in s.body)
    return frozenset(at_row) if independent and not anywhere & at_row else frozenset()


def of_rows(program: Program, count: int) -> Program:
    """The program of so many rows, of one whose rows are independent."""
    (d, _), names = rows(program), moved(program)

    def shortened(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:d], count, *shape[d + 1 :])

    # What is rearranged once cannot be a strip's.
    inputs = (Tensor(t.name, shortened(t.shape), t.dtype) if t.name in names else t for t in program.inputs)
    stages = (replace(s, extents=shortened(s.extents)) for s in program.stages)
    return replace(program, inputs=tuple(inputs), stages=tuple(stages))


def number(program: Program, shared: int, target: Target) -> int:
    """Into how many strips of equal size to divide the rows, where segments share so many bytes.

    So that a strip's stay in the second cache, or if that cannot be in the last; 1 where all of them do.
    """
    _, count = rows(program)
    for cache in (target.l2_bytes, target.l3_bytes // target.threads):
        if shared <= cache:
            return 1
        wanted = max(target.threads, -(-2 * shared // max(1, cache)))
        found = next((n for n in range(wanted, count // LEAST_ROWS + 1) if count % n == 0), None)
        if found is not None:
            return found
    return 1
