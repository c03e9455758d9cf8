"""Whole-number expressions as linear forms, for rewrites, bounds and templates that analyse indices and positions.

A subexpression that is no sum (a quotient, a read) becomes a term of its own. Callers treat these terms differently:
they pass a ``term`` function to :func:`linearise`, or inspect the ``atoms`` of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import INDEX, Expr, axis, const, whole


@dataclass(frozen=True)
class Linear:
    """``const + sum(coef[name] * name)``, without zero coefficients after arithmetic; numbers may be extents.

    A name is an axis, or the text of a term that is no sum; ``atoms`` maps that text to the term. Names are in order of
    appearance.
    """

    const: int = 0
    coef: Mapping[str, int] = field(default_factory=dict)
    atoms: Mapping[str, Expr] = field(default_factory=dict, compare=False)

    def of(self, name: str) -> int:
        """Growth of the form per step of an axis, apart from the growth of other terms."""
        return self.coef.get(name, 0)

    def step(self, name: str) -> int | None:
        """Growth of the form per step of an axis; ``None`` if it varies."""
        return None if any(name in e.axes() for e in self.atoms.values()) else self.of(name)

    @cached_property
    def axes(self) -> Mapping[str, int]:
        """Coefficients of the axes."""
        return {n: c for n, c in self.coef.items() if n not in self.atoms}

    @property
    def rest(self) -> tuple[tuple[Expr, int], ...]:
        """Terms that are no axes, with their coefficients."""
        return tuple((e, self.coef[n]) for n, e in self.atoms.items())

    @property
    def terms(self) -> tuple[tuple[Expr, int], ...]:
        """Axes and other terms with their coefficients, in order."""
        return tuple((self.atoms[n] if n in self.atoms else axis(n), c) for n, c in self.coef.items())

    @property
    def opaque(self) -> frozenset[str]:
        """Axes inside terms that are no axes."""
        return frozenset(a for e in self.atoms.values() for a in e.axes())

    def plus(self, other: Linear | int, times: int = 1) -> Linear:
        """The sum of this form and ``times`` times another form."""
        if isinstance(other, int):
            return Linear(self.const + times * other, self.coef, self.atoms)
        coef = dict(self.coef)
        for n, c in other.coef.items():
            coef[n] = coef.get(n, 0) + times * c
        return _made(self.const + times * other.const, coef, {**self.atoms, **other.atoms})

    def times(self, factor: int) -> Linear:
        """The form multiplied by ``factor``."""
        return Linear().plus(self, factor)

    def without(self, *names: str) -> Linear:
        """The form without the multiples of some axes or terms, as if their values were 0."""
        return _made(self.const, {n: c for n, c in self.coef.items() if n not in names}, self.atoms)

    def substitute(self, name: str, by: Linear | int) -> Linear:
        """The form with another form substituted for an axis; other terms must not depend on the axis."""
        return self.without(name).plus(by, self.of(name))

    def divided(self, by: int) -> tuple[Linear, Linear]:
        """``(q, r)`` with ``self == q * by + r``: ``r`` keeps the terms that ``by`` does not divide, its constant in
        [0, by)."""
        whole = {n: c // by for n, c in self.coef.items() if c % by == 0}
        left = {n: c for n, c in self.coef.items() if c % by}
        return _made(self.const // by, whole, self.atoms), _made(self.const % by, left, self.atoms)

    def ordered(self) -> Linear:
        """The form with its axes first, sorted by name."""
        return Linear(self.const, dict(sorted(self.axes.items())) | dict(self.coef), self.atoms)

    def expr(self) -> Expr:
        """The form as an index expression."""
        total: Expr | None = None
        for e, c in self.terms:
            total = e * c if total is None else total + e * c
        if total is None:
            return const(self.const, INDEX)
        return total + self.const if self.const >= 0 else total - -self.const


def _made(constant: int, coef: Mapping[str, int], atoms: Mapping[str, Expr]) -> Linear:
    """A form without the names whose coefficient is zero."""
    kept = {n: c for n, c in coef.items() if c}
    return Linear(constant, kept, {n: atoms[n] for n in kept if n in atoms})


def atom(e: Expr) -> Linear:
    """The form of an expression as a single opaque term."""
    name = repr(e)
    return Linear(0, {name: 1}, {name: e})


def linearise(e: Expr, term: Callable[[Expr], Linear] = atom) -> Linear:
    """A whole-number expression as a linear form; ``term`` converts subexpressions that are neither sums nor
    multiples."""
    if e.op in ("const", "size") and isinstance(e.value, int):
        return Linear(e.value)
    if e.op == "axis":
        return Linear(0, {str(e.value): 1})
    if e.op in ("add", "sub"):
        return linearise(e.args[0], term).plus(linearise(e.args[1], term), 1 if e.op == "add" else -1)
    if e.op == "neg":
        return linearise(e.args[0], term).times(-1)
    if e.op == "cast" and e.dtype == INDEX == e.args[0].dtype:
        return linearise(e.args[0], term)
    if e.op == "mul":
        x, y = (linearise(a, term) for a in e.args)
        if not y.coef:
            return x.times(y.const)
        if not x.coef:
            return y.times(x.const)
    return term(e)


def total(parts: Iterable[tuple[Expr, int]], term: Callable[[Expr], Linear] = atom) -> Linear:
    """The linear form of a sum of multiples, such as the flat position of indices and strides."""
    found = Linear()
    for e, factor in parts:
        found = found.plus(linearise(e, term), factor)
    return found


def combined(parts: Iterable[tuple[Linear, int]]) -> Linear:
    """The sum of multiples of forms."""
    found = Linear()
    for form, factor in parts:
        found = found.plus(form, factor)
    return found


def flat_step(indices: tuple[Expr, ...], strides: tuple[int, ...], name: str) -> int | None:
    """Elements between the accesses of neighbouring points along an axis; ``None`` if it varies."""
    return total(zip(indices, strides, strict=True)).step(name)


# --------------------------------------------------------------------------- factors

# Factors of products, and how often a factor changes along an axis.


def factors(e: Expr) -> list[Expr]:
    """The factors of a product; any other value alone."""
    return [f for x in e.args for f in factors(x)] if e.op == "mul" else [e]


def steps(e: Expr, axis: str) -> int:
    """Steps of an axis between two changes of a value: 128 for ``s[r // 128]``; 0 if the value lacks the axis."""
    if e.op == "floordiv" and e.args[0].op == "axis" and e.args[0].value == axis:
        return whole(e.args[1])
    return int(e.value == axis) if e.op == "axis" else gcd(*(steps(x, axis) for x in e.args))
