"""Split of a reduction's body into the values of two operands, and a function of the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TypeVar

from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import INDEX, Expr, same
from tilewright.kernels.expression.linear import factors, linearise

F = TypeVar("F")
M = TypeVar("M")


class NoMatch(Exception):
    """The program is not in the family."""


def need(condition: bool) -> None:
    """Raises :class:`NoMatch` if a condition does not hold."""
    if not condition:
        raise NoMatch


def needed(found: F | None) -> F:
    """Returns ``found``. Raises :class:`NoMatch` if it is ``None``."""
    if found is None:
        raise NoMatch
    return found


def matches(forms: Iterable[F], recognise: Callable[[F], M]) -> Iterator[M]:
    """Yields ``recognise(form)`` for each form, in order, skipping forms for which it raises :class:`NoMatch`."""
    for form in forms:
        try:
            found = recognise(form)
        except NoMatch:
            continue
        yield found


def recogniser(recognise: Callable[[F], M]) -> Callable[[F], M | None]:
    """A cached version of ``recognise`` that returns ``None`` where that raises :class:`NoMatch`."""

    @lru_cache(maxsize=256)
    @wraps(recognise)
    def found(form: F) -> M | None:
        return next(matches((form,), recognise), None)

    return found


@dataclass
class _Sides:
    """Splits a body into one value for each operand and a function of the two."""

    a_axes: frozenset[str]
    b_axes: frozenset[str]
    mark: str
    outputs: frozenset[str]
    a: Expr | None = None
    b: Expr | None = None

    def body(self, e: Expr) -> Expr:
        if e.op == "const":
            return e
        axes = e.axes() & self.outputs
        loads = e.loads()
        if loads and e.dtype in DTYPES:
            on_b = [self.mark in x.axes() for x in loads]
            if not any(on_b) and axes <= self.a_axes:
                return self._side("a", e)
            if all(on_b) and axes <= self.b_axes:
                return self._side("b", e)
        need(e.op not in ("load", "axis") and bool(e.args) and e.dtype != INDEX)
        if e.op == "mul":
            return self._product(e)
        return Expr(e.op, e.dtype, tuple(self.body(x) for x in e.args), e.value)

    def _side(self, name: str, value: Expr) -> Expr:
        known = self.a if name == "a" else self.b
        need(known is None or same(known, value))
        setattr(self, name, value)
        return Expr("var", value.dtype, (), name)

    def _product(self, e: Expr) -> Expr:
        """Regroups a product whose factors interleave (x * scale * w) by operand."""
        saved = self.a, self.b
        try:
            return Expr("mul", e.dtype, tuple(self.body(x) for x in e.args))
        except NoMatch:
            self.a, self.b = saved
        all_of_it = factors(e)
        mine = [f for f in all_of_it if f.op != "const" and self.mark in f.axes()]
        rest = [f for f in all_of_it if not any(f is x for x in mine)]
        need(bool(mine) and bool(rest))
        values = []
        for group, allowed in ((rest, self.a_axes), (mine, self.b_axes)):
            total = group[0]
            for f in group[1:]:
                total = Expr("mul", e.dtype, (total, f))
            need(total.axes() & self.outputs <= allowed and bool(total.loads()))
            values.append(total)
        return Expr("mul", e.dtype, (self._side("a", values[0]), self._side("b", values[1])))


def split(body: Expr, mark: str, outputs: frozenset[str]) -> tuple[Expr, Expr, Expr]:
    """The two operands of a body, and the body as a function of the vars ``a`` and ``b`` that stand for them.

    Operand B reads the output axis ``mark``. A regrouped operand must contain a read. Raises ``NoMatch`` for a body
    that does not split into two operands.
    """
    a_axes, b_axes = frozenset[str](), frozenset[str]()
    for read in body.loads():
        axes = read.axes() & outputs
        if mark in axes:
            b_axes |= axes
        else:
            a_axes |= axes
    # A condition that chooses among reads of one operand belongs to that operand, too.
    for x in body.walk():
        if x.op == "select" and not x.args[0].loads():
            axes = x.args[0].axes() & outputs
            on_b = [mark in read.axes() for read in x.loads()]
            if not any(on_b):
                a_axes |= axes - {mark}
            elif all(on_b):
                b_axes |= axes
    sides = _Sides(a_axes, b_axes, mark, outputs)
    function = sides.body(body)
    return needed(sides.a), needed(sides.b), function


# --------------------------------------------------------------------------- limits

# Values that are zero beyond a valid length along an axis, such as a cache beyond its sequence's length.


def limited(e: Expr, along: str) -> tuple[Expr, Expr | None]:
    """A value without the condition that makes it zero from a valid length on, and that length.

    The length does not depend on the axis ``along``. If there is no condition on a valid length, returns the value
    unchanged and ``None``.
    """
    if e.op != "select" or e.args[0].op not in ("lt", "le", "gt", "ge"):
        return e, None
    condition, value, other = e.args
    if other.op != "const" or other.value != 0 or not condition.args[0].dtype == condition.args[1].dtype == INDEX:
        return e, None
    left, right = condition.args if condition.op in ("lt", "le") else condition.args[::-1]
    beyond = linearise(right - left)  # above 0, or at least 0, at valid positions
    if beyond.step(along) != -1:
        return e, None
    return value, beyond.without(along).plus(1 if condition.op in ("le", "ge") else 0).expr()
