"""Strip mining of a partition: the rows are divided into strips, and each strip goes through all segments at once.

A strip's intermediate results, and the rows that several segments read, stay in the caches.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.core import Target
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.program import Program, Tensor

LEAST_ROWS = 8
"""Smallest number of rows of a strip: with fewer rows, products would read their other operand too often."""


def rows(program: Program) -> tuple[int, int]:
    """Number of the row axis, which is the first axis of more than one element, and the number of rows."""
    shape = max((s.extents for s in program.stages), key=len)
    d = next((d for d, n in enumerate(shape[:-1]) if n > 1), 0)
    return d, shape[d]


def row_tensors(program: Program) -> frozenset[str]:
    """Names of the tensors that have a row for each row of the result; empty if a row depends on other rows.

    All stages must have the same row axis. Each tensor must be read at the computed row only, or be independent of the
    row.
    """
    d, count = rows(program)
    if any(s.extents[: d + 1] != (*(1,) * d, count) or s.scan == d for s in program.stages):
        return frozenset()
    at_row, anywhere = {s.name for s in program.stages}, set[str]()

    def alone(e: Expr) -> bool:
        """Whether the row axis only occurs as the row index of reads."""
        args = e.args
        if e.op == "load":
            here = len(args) > d and args[d].op == "axis" and args[d].value == f"i{d}"
            (at_row if here else anywhere).add(str(e.value))
            args = (*args[:d], *args[d + 1 :]) if here else args
        return (e.op != "axis" or e.value != f"i{d}") and all(alone(a) for a in args)

    independent = all(alone(e) for s in program.stages for e in s.body)
    return frozenset(at_row) if independent and not anywhere & at_row else frozenset()


def with_rows(program: Program, count: int) -> Program:
    """The program with ``count`` rows in place of all its rows, which must be independent."""
    (d, _), names = rows(program), row_tensors(program)

    def shortened(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:d], count, *shape[d + 1 :])

    # Inputs with rows lose the mark "constant": prepacking works on whole tensors, not on strips.
    inputs = (Tensor(t.name, shortened(t.shape), t.dtype) if t.name in names else t for t in program.inputs)
    stages = (replace(s, extents=shortened(s.extents)) for s in program.stages)
    return replace(program, inputs=tuple(inputs), stages=tuple(stages))


def strip_count(program: Program, shared: int, target: Target) -> int:
    """Number of equal strips into which to divide the rows. ``shared``: bytes that segments share for all rows.

    A strip's share must fit half of the second-level cache, or else half of a thread's share of the last-level cache.
    Returns 1 if all rows fit one of the caches, or if no number of strips does.
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
