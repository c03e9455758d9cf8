"""Long chains of accumulation, cut into blocks: each has a partial result of its own, which goes into the whole's.

The error of a running total of n terms of one sign grows with n, of either sign with the square root of n. Totals of
float32 sums are float64: then it grows with the length of a block alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.kernels.expression.expr import FLOATS, TRANSCENDENTAL, Expr
from tilewright.kernels.expression.program import Monoid
from tilewright.kernels.families.parts import simple_operator
from tilewright.kernels.loopnest import Loop

CHAIN = 32
"""Terms that one accumulator of many takes in, about; twice as many are not cut."""

ALONE = 16
"""The same of an accumulator that shares a sum with no others."""

PRODUCTS = 128
"""The same of products, which do not wait for memory."""

_ROUNDING = frozenset(("add", "sub", "mul", "div", "sqrt", "rsqrt", *TRANSCENDENTAL))


def longest(m: Monoid, body: Sequence[Expr]) -> int | None:
    """Terms of a reduction that its one accumulator should take in; ``None`` where combining does not round."""
    if not any(n.op in _ROUNDING and n.dtype in FLOATS for e in m.combine for n in e.walk()):
        return None
    return PRODUCTS if len(m.combine) > 1 or len({str(x.value) for x in body[0].loads()}) > 1 else ALONE


def widened(m: Monoid) -> bool:
    """Whether totals of blocks are float64: those of a plain sum of float32."""
    return simple_operator(m) == "add" and m.identity[0].dtype == "float32"


def cut(loops: Sequence[Loop], chain: int | None) -> tuple[tuple[Loop, ...], int | None]:
    """Reduction loops, outermost first, in blocks of about ``chain`` trips; and how many of them stand around a block.

    ``None`` where all trips are few enough as they are.
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
