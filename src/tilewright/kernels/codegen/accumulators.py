"""C text for partial results: merging by an operator, and pairwise sums."""

from __future__ import annotations

from collections.abc import Sequence

ACROSS = {"add": "tw::hsum", "mul": "tw::hprod", "max": "tw::hmax", "min": "tw::hmin"}
"""Functions that reduce the lanes of a vector, by operator."""


def merged(operator: str, a: str, b: str) -> str:
    """C text that merges two partial results by an operator of :data:`ACROSS`."""
    if operator in ("max", "min"):
        return f"tw::{operator}({a}, {b})"
    return f"({a} {'+' if operator == 'add' else '*'} {b})"


def pairwise(texts: Sequence[str]) -> str:
    """C text of a pairwise sum: adjacent texts are added first, then the results."""
    left = list(texts)
    while len(left) > 1:
        pairs = [f"({a} + {b})" for a, b in zip(left[::2], left[1::2], strict=False)]
        left = pairs + left[len(pairs) * 2 :]
    return left[0]
