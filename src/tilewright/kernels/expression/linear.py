"""Whole-number expressions as linear forms: how rewrites, bounds and templates read indices and positions.

What is no sum (a quotient, a read) is a term of its own. Readers differ in what they make of such terms: they
say so by the ``term`` they hand to :func:`linearise`, or by looking at ``atoms`` of what they get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import INDEX, Expr, axis, const, whole


@dataclass(frozen=True)
class Linear:
    """``const + sum(coef[name] * name)``. Arithmetic leaves no coefficient of zero; numbers may be extents.

    A name is that of an axis, or the text of a term that is no sum: ``atoms`` holds that term under it. Names stand
    in the order in which they appeared.
    """

    const: int = 0
    coef: Mapping[str, int] = field(default_factory=dict)
    atoms: Mapping[str, Expr] = field(default_factory=dict, compare=False)

    def of(self, name: str) -> int:
        """How much the form grows per step of an axis, apart from what other terms add."""
        return self.coef.get(name, 0)

    def step(self, name: str) -> int | None:
        """How much the form grows per step of an axis; ``None`` where that varies."""
        return None if any(name in e.axes() for e in self.atoms.values()) else self.of(name)

    @cached_property
    def axes(self) -> Mapping[str, int]:
        """Factors of the axes."""
        return {n: c for n, c in self.coef.items() if n not in self.atoms}

    @property
    def rest(self) -> tuple[tuple[Expr, int], ...]:
        """The other terms and their factors."""
        return tuple((e, self.coef[n]) for n, e in self.atoms.items())

    @property
    def terms(self) -> tuple[tuple[Expr, int], ...]:
        """Axes and other terms with their factors, in order."""
        return tuple((self.atoms[n] if n in self.atoms else axis(n), c) for n, c in self.coef.items())

    @property
    def opaque(self) -> frozenset[str]:
        """Axes inside of terms that are no axes."""
        return frozenset(a for e in self.atoms.values() for a in e.axes())

    def plus(self, other: Linear | int, times: int = 1) -> Linear:
        """The sum of this and a multiple of another."""
        if isinstance(other, int):
            return Linear(self.const + times * other, self.coef, self.atoms)
        coef = dict(self.coef)
        for n, c in other.coef.items():
            coef[n] = coef.get(n, 0) + times * c
        return _made(self.const + times * other.const, coef, {**self.atoms, **other.atoms})

    def times(self, factor: int) -> Linear:
        """The multiple."""
        return Linear().plus(self, factor)

    def without(self, *names: str) -> Linear:
        """The same without the multiples of some axes or terms, as where these are 0."""
        return _made(self.const, {n: c for n, c in self.coef.items() if n not in names}, self.atoms)

    def substitute(self, name: str, by: Linear | int) -> Linear:
        """The same with another form in place of an axis; other terms must not depend on it."""
        return self.without(name).plus(by, self.of(name))

    def divided(self, by: int) -> tuple[Linear, Linear]:
        """``(q, r)`` with ``self == q * by + r``: ``r`` keeps what ``by`` does not divide, its constant in [0, by)."""
        whole = {n: c // by for n, c in self.coef.items() if c % by == 0}
        left = {n: c for n, c in self.coef.items() if c % by}
        return _made(self.const // by, whole, self.atoms), _made(self.const % by, left, self.atoms)

    def ordered(self) -> Linear:
        """The same with axes first, by name."""
        return Linear(self.const, dict(sorted(self.axes.items())) | dict(self.coef), self.atoms)

    def expr(self) -> Expr:
        """The form as an index."""
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
    """An expression as a term of its own."""
    name = repr(e)
    return Linear(0, {name: 1}, {name: e})


def linearise(e: Expr, term: Callable[[Expr], Linear] = atom) -> Linear:
    """A whole-number expression as a linear form; ``term`` reads what is neither a sum nor a multiple."""
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
    """The sum of multiples of expressions: of indices and strides, a position in a flat tensor."""
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

# What a product is a product of, and how often a factor changes along an axis.


def factors(e: Expr) -> list[Expr]:
    """What a product is a product of; any other value alone."""
    return [f for x in e.args for f in factors(x)] if e.op == "mul" else [e]


def steps(e: Expr, axis: str) -> int:
    """Steps of an axis from one change of a value to the next, ``s[r // 128]``: 128; 0 where it has no such axis."""
    if e.op == "floordiv" and e.args[0].op == "axis" and e.args[0].value == axis:
        return whole(e.args[1])
    return int(e.value == axis) if e.op == "axis" else gcd(*(steps(x, axis) for x in e.args))
