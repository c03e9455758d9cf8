"""Rewrites that bring a program into the form in which templates look for their class.

``inlined`` computes maps in front of a reduction where they are read. ``split`` turns axes that a program decomposes by
``//`` and ``%`` into separate axes. ``squeezed`` drops axes of extent 1. ``simplified`` shortens index arithmetic and
conditions. ``unrolled`` unrolls reductions over a short innermost axis. ``one_product`` turns a sum of several
products, as of complex numbers, into a sum of one product over an additional axis. All compute the same elements in the
same memory; shapes of stages may change.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.kernels.expression.program import Program
from tilewright.kernels.rewrite.components import one_product
from tilewright.kernels.rewrite.inline import inlined, squeezed, unrolled
from tilewright.kernels.rewrite.simplify import simplified
from tilewright.kernels.rewrite.split import split

__all__ = ["inlined", "normal_forms", "one_product", "simplified", "split", "squeezed", "unrolled"]


@lru_cache(maxsize=256)
def normal_forms(program: Program) -> tuple[Program, ...]:
    """Equivalent programs in which templates look for a pattern, the most rewritten first."""
    plain = squeezed(inlined(program))
    taken_apart = split(plain)
    forms = (plain,) if taken_apart is plain else (taken_apart, plain)
    products = ((f, one_product(f)) for f in forms)
    return (*(p for f, p in products if p is not f), *forms)
