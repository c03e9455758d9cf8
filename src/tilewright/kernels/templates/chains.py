"""Blocked summation: long chains of accumulation are cut into blocks, whose partial results are combined into a total.

The rounding error of a running total of n terms grows with n for terms of one sign, else with the square root of n.
Totals of float32 sums are float64, so that the error grows with the length of a block only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.kernels.expression.expr import FLOATS, TRANSCENDENTAL, Expr
from tilewright.kernels.expression.program import Monoid
from tilewright.kernels.families.parts import simple_operator
from tilewright.kernels.loopnest import Loop

CHAIN = 32
"""Terms of a block for each accumulator, where several accumulators share a sum. Chains of up to twice as many terms
are not cut."""

ALONE = 16
"""Terms of a block where a sum has a single accumulator."""

PRODUCTS = 128
"""Terms of a block in a reduction of products of two tensors, or of several values at once."""

_ROUNDING = frozenset(("add", "sub", "mul", "div", "sqrt", "rsqrt", *TRANSCENDENTAL))


def longest(m: Monoid, body: Sequence[Expr]) -> int | None:
    """Terms of a block for a reduction with one accumulator; ``None`` where combining does not round."""
    if not any(n.op in _ROUNDING and n.dtype in FLOATS for e in m.combine for n in e.walk()):
        return None
    return PRODUCTS if len(m.combine) > 1 or len({str(x.value) for x in body[0].loads()}) > 1 else ALONE


def widened(m: Monoid) -> bool:
    """Whether the total over blocks is float64, as for a plain sum of float32."""
    return simple_operator(m) == "add" and m.identity[0].dtype == "float32"


def cut(loops: Sequence[Loop], chain: int | None) -> tuple[tuple[Loop, ...], int | None]:
    """Reduction loops, outermost first, in blocks of about ``chain`` trips, and the number of loops around a block.

    The number is ``None`` where all loops together have at most ``2 * chain`` trips, or ``chain`` is ``None``.
    """
    inner: list[Loop] = []  # innermost first
    trips = 1
    start: int | None = None
    for loop in reversed(loops):
        outer = loop
        if chain is not None and start is None and trips * loop.trips > 2 * chain:
            if chain // trips > 1:
                step = chain // trips * loop.step
                inner.append(replace(loop, extent=step))
                outer = Loop(loop.axis, loop.extent, step, level="l1")
            start = len(inner)
        trips *= loop.trips
        inner.append(outer)
    return tuple(reversed(inner)), None if start is None else len(inner) - start
