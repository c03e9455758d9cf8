"""Decides a mask's conditions for a whole block of scores by interval arithmetic; the results are C texts.

Over a block, each axis lies between two C texts. A condition that compares integer expressions of axes is decided from
the least and the greatest difference of its sides. A value that is constant over the block, such as the length of a
sequence, may be read from a tensor. A condition on a tensor's values that vary within the block is not decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from tilewright.extent import Extent, ctext
from tilewright.kernels.expression.expr import INDEX, Expr, whole
from tilewright.kernels.expression.linear import Linear, linearise

Ends = tuple[str, str]
"""C texts of the least and the greatest value of an expression over a block."""


class Condition(str):
    """C text of a condition; ``axes``: the axes that it compares."""

    axes: frozenset[str]

    def __new__(cls, text: str, axes: frozenset[str] = frozenset()) -> Self:
        made = super().__new__(cls, text)
        made.axes = axes
        return made


TRUE, FALSE = Condition("1"), Condition("0")


@dataclass(frozen=True)
class Blocks:
    """Decides conditions over blocks whose axes lie within ``axes`` (both ends included).

    ``element`` prints an integer expression of axes that are constant over a block.
    """

    axes: Mapping[str, Ends]
    element: Callable[[Expr], str]

    def masked(self, score: Expr) -> Condition:
        """C condition that implies that every score of the block is minus infinity."""
        if score.op == "const":
            return TRUE if score.value == -math.inf else FALSE
        if score.op != "select":
            return FALSE
        condition, yes, no = score.args
        always, never = self.decide(condition)
        a, b = self.masked(yes), self.masked(no)
        return _any([_all([always, a]), _all([never, b]), _all([a, b])])

    def open(self, score: Expr) -> tuple[Condition, Expr]:
        """C condition under which all decidable conditions of the score hold, and the score simplified for it."""
        tests: list[Condition] = []

        def simplify(e: Expr) -> Expr | None:
            if e.op != "select":
                return None
            always, _ = self.decide(e.args[0])
            if always == FALSE:
                return None
            tests.append(always)
            return e.args[1]

        simple = score.map(simplify)
        return _all(list(dict.fromkeys(tests))), simple

    def decide(self, condition: Expr) -> tuple[Condition, Condition]:
        """Two C conditions: the first implies that ``condition`` holds in the whole block, the second nowhere in it."""
        op, args = condition.op, condition.args
        if op == "const":
            return (TRUE, FALSE) if condition.value else (FALSE, TRUE)
        if op == "not":
            always, never = self.decide(args[0])
            return never, always
        if op in ("and", "or"):
            (a, x), (b, y) = self.decide(args[0]), self.decide(args[1])
            return (_all([a, b]), _any([x, y])) if op == "and" else (_any([a, b]), _all([x, y]))
        if op not in _TESTS or args[0].dtype != INDEX or args[1].dtype != INDEX:
            return FALSE, FALSE
        ends = self._ends(linearise(Expr("sub", INDEX, args)))
        if ends is None:
            return FALSE, FALSE
        (low, high), axes = ends, condition.axes()
        always, never = (Condition(test.format(low=low, high=high), axes) for test in _TESTS[op])
        return always, never

    # ------------------------------------------------------------------ integers

    def _ends(self, form: Linear) -> Ends | None:
        lows, highs = [ctext(form.const)], [ctext(form.const)]
        for e, k in form.terms:
            ends = self._atom(e)
            if ends is None or isinstance(k, Extent):
                return None
            low, high = ends if k > 0 else ends[::-1]
            lows.append(f"{k}L*{low}")
            highs.append(f"{k}L*{high}")
        return f"({'+'.join(lows)})", f"({'+'.join(highs)})"

    def _atom(self, e: Expr) -> Ends | None:
        if e.op == "axis":
            return self.axes[str(e.value)]
        if e.op in ("floordiv", "mod"):
            ends, d = self._ends(linearise(e.args[0])), ctext(whole(e.args[1]))
            if ends is None:
                return None
            low, high = (f"tw::floordiv<long>({x},{d})" for x in ends)
            if e.op == "floordiv":
                return low, high
            same = f"{low}=={high}"
            return f"({same}?tw::mod<long>({ends[0]},{d}):0L)", f"({same}?tw::mod<long>({ends[1]},{d}):{d}-1)"
        if e.op in ("min", "max"):
            a, b = (self._ends(linearise(x)) for x in e.args)
            if a is None or b is None:
                return None
            low, high = (f"tw::i{e.op}({x},{y})" for x, y in zip(a, b, strict=True))
            return low, high
        if all(low == high for low, high in map(self.axes.__getitem__, e.axes())):
            one = f"(long)({self.element(e)})"
            return one, one
        return None


_TESTS = {
    "lt": ("({high}<0)", "({low}>=0)"),
    "le": ("({high}<=0)", "({low}>0)"),
    "gt": ("({low}>0)", "({high}<=0)"),
    "ge": ("({low}>=0)", "({high}<0)"),
    "eq": ("({low}==0&&{high}==0)", "({low}>0||{high}<0)"),
    "ne": ("({low}>0||{high}<0)", "({low}==0&&{high}==0)"),
}
"""Per comparison: C tests on the range of its sides' difference, that it always holds and that it never holds."""


def _all(tests: list[Condition]) -> Condition:
    return _joined(tests, "&&", TRUE, FALSE)


def _any(tests: list[Condition]) -> Condition:
    return _joined(tests, "||", FALSE, TRUE)


def _joined(tests: list[Condition], operator: str, neutral: Condition, decisive: Condition) -> Condition:
    kept = [t for t in tests if t != neutral]
    if not kept or decisive in kept:
        return decisive if kept else neutral
    return Condition(f"({operator.join(kept)})", frozenset().union(*(t.axes for t in kept)))
