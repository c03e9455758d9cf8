"""Hoists loop-invariant expressions: a value that all elements of a row share is computed once a row."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.kernels.expression.expr import FLOATS, INDEX, Expr, ValueNumbers


@dataclass
class Hoist:
    """Rewrites bodies of one pass; ``found`` then lists the values to compute before the pass, by name.

    A hoisted value is an expression and its use: ``same`` (the expression's value), or one of the two factors that
    replace a division by the expression, ``balance`` and ``inverse`` (``tw::balance`` in ``headers/sqrt.h``).
    """

    moving: frozenset[str]  # element axes and maps over elements
    reciprocal: bool
    found: dict[str, tuple[Expr, str]] = field(default_factory=dict)
    _numbers: ValueNumbers = field(default_factory=ValueNumbers)
    _names: dict[tuple[int, str], str] = field(default_factory=dict)

    def varies(self, e: Expr) -> bool:
        """Whether the expression's value may change along a row."""
        return any(n.op in ("axis", "var") and str(n.value) in self.moving for n in e.walk())

    def rewrite(self, e: Expr, guarded: bool = False) -> Expr:
        """The expression with a variable in place of each row-invariant subexpression.

        ``guarded``: a condition protects the expression, so subexpressions that read memory are not hoisted.
        """
        if e.op in ("const", "axis", "var") or e.dtype in (INDEX, "bool"):
            return self._condition(e, guarded)
        if not self.varies(e):
            return e if guarded and e.loads() else self._name(e, "same")
        if e.op == "load":
            return e
        if self.reciprocal and e.op == "div" and e.dtype in FLOATS and self._divisor(e, guarded):
            top, below = self.rewrite(e.args[0], guarded), e.args[1]
            scaled = Expr("mul", e.dtype, (top, self._name(below, "balance")))
            return Expr("mul", e.dtype, (scaled, self._name(below, "inverse")))
        args = [self.rewrite(a, guarded or (e.op == "select" and n > 0)) for n, a in enumerate(e.args)]
        return Expr(e.op, e.dtype, tuple(args), e.value)

    def _condition(self, e: Expr, guarded: bool) -> Expr:
        if e.dtype != "bool" or not e.args or not self.varies(e) or e.op == "load":
            return e
        return Expr(e.op, e.dtype, tuple(self.rewrite(a, guarded) for a in e.args), e.value)

    def _divisor(self, e: Expr, guarded: bool) -> bool:
        below = e.args[1]
        return not self.varies(below) and not (guarded and below.loads())

    def _name(self, e: Expr, use: str) -> Expr:
        key = self._numbers.of(e), use
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"h{len(self.found)}"
            self.found[name] = (e, use)
        return Expr("var", e.dtype, (), name)


def value_text(text: str, use: str, ctype: str) -> str:
    """C text of a hoisted value. ``text``: C text of the hoisted expression."""
    if use == "same":
        return text
    if use == "balance":
        return f"tw::balance<{ctype}>({text})"
    return f"({ctype})1 / (({text}) * tw::balance<{ctype}>({text}))"
