"""Reads as linear positions in flat tensors, and neighbouring axes walked as one where every read allows it.

Every read becomes one of a tensor of one axis. Its position is a sum of terms: axes, and whatever is not
linear in them (quotients, gathered indices). Quotient and rest of the same number go together again, so a
reshape that changes nothing in memory leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.kernels.expr import INDEX, Expr, ValueNumbers, const, load, whole
from tilewright.kernels.program import Tensor


@dataclass(frozen=True)
class Position:
    """A position: ``const + sum(coef * atom)``; an atom is an axis or an index that is no linear form."""

    const: int
    terms: tuple[tuple[Expr, int], ...]

    def of(self, name: str) -> int:
        """Step along an axis; what other atoms add is not counted."""
        return sum(c for e, c in self.terms if e.op == "axis" and e.value == name)

    @property
    def others(self) -> tuple[tuple[Expr, int], ...]:
        """Terms that are no axes."""
        return tuple((e, c) for e, c in self.terms if e.op != "axis")

    def step(self, name: str) -> int | None:
        """Step along an axis; ``None`` where it varies."""
        return None if any(name in e.axes() for e, _ in self.others) else self.of(name)

    def expr(self) -> Expr:
        """The position as an index."""
        total: Expr | None = None
        for e, c in self.terms:
            term = e if c == 1 else e * c
            total = term if total is None else total + term
        if total is None:
            return const(self.const, INDEX)
        return total + self.const if self.const > 0 else total - -self.const if self.const < 0 else total


def linear(index: Expr) -> Position:
    """An index as a linear form."""
    numbers = ValueNumbers()
    constant, terms = _linear(index, numbers)
    while True:
        pair = _pair(terms)
        if pair is None:
            break
        whole, by, inner = pair
        for key in whole:
            del terms[key]
        more, found = _linear(inner, numbers)
        constant += more * by
        _add(terms, found, by)
    return Position(constant, tuple((e, c) for e, c in terms.values() if c))


_Terms = dict[int, tuple[Expr, int]]


def _linear(e: Expr, numbers: ValueNumbers) -> tuple[int, _Terms]:
    if e.op == "const":
        return whole(e), {}
    if e.op == "cast" and e.dtype == INDEX and e.args[0].dtype == INDEX:
        return _linear(e.args[0], numbers)
    if e.op in ("add", "sub"):
        (p, total), (q, more) = _linear(e.args[0], numbers), _linear(e.args[1], numbers)
        sign = 1 if e.op == "add" else -1
        _add(total, more, sign)
        return p + sign * q, total
    if e.op == "neg":
        p, found = _linear(e.args[0], numbers)
        return -p, {k: (x, -c) for k, (x, c) in found.items()}
    if e.op == "mul":
        for factor, other in (e.args, e.args[::-1]):
            if factor.op == "const":
                by = whole(factor)
                p, found = _linear(other, numbers)
                return p * by, {k: (x, c * by) for k, (x, c) in found.items()}
    return 0, {numbers.of(e): (e, 1)}


def _add(total: _Terms, more: _Terms, by: int) -> None:
    for key, (e, c) in more.items():
        total[key] = (e, total.get(key, (e, 0))[1] + c * by)


def _pair(terms: _Terms) -> tuple[tuple[int, int], int, Expr] | None:
    """A quotient ``x // n`` and a rest ``x % n`` whose steps make them ``x`` again: their keys, the step, and ``x``."""
    numbers = ValueNumbers()
    rests = {
        (numbers.of(e.args[0]), e.args[1].value): (key, e, c) for key, (e, c) in terms.items() if e.op == "mod" and c
    }
    for key, (e, c) in terms.items():
        if e.op == "floordiv" and c:
            found = rests.get((numbers.of(e.args[0]), e.args[1].value))
            if found is not None and c == found[2] * whole(e.args[1]):
                return (key, found[0]), found[2], e.args[0]
    return None


def position(read: Expr, tensor: Tensor) -> Position:
    """Where a read lies in its tensor, in elements."""
    total: Expr = const(0, INDEX)
    for index, step in zip(read.args, tensor.strides, strict=True):
        total = total + index * step
    return linear(total)


def flat(e: Expr, tensors: Mapping[str, Tensor]) -> Expr:
    """An expression whose reads are of flat tensors; those inside of indices too."""

    def rebuilt(x: Expr) -> Expr | None:
        if x.op != "load":
            return None
        return load(str(x.value), x.dtype, (position(x, tensors[str(x.value)]).expr(),))

    return e.map(rebuilt)


def flat_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor with one axis."""
    return {n: Tensor(n, (t.size,), t.dtype, t.constant) for n, t in tensors.items()}


def collapse(
    exprs: Sequence[Expr], groups: Sequence[Sequence[tuple[str, int]]]
) -> tuple[tuple[Expr, ...], tuple[tuple[tuple[str, int], ...], ...]]:
    """Expressions (of flat tensors) and their axes, with neighbours in a group merged into the inner one.

    Each group lists names and extents, outermost first. Axes of one element go; what is left of a group
    whose axes are all gone is empty.
    """
    out: list[tuple[tuple[str, int], ...]] = []
    bodies = tuple(exprs)
    for group in groups:
        single = {a: const(0, INDEX) for a, n in group if n == 1}
        if single:
            bodies = tuple(_relinked(e.substitute(single)) for e in bodies)
        left = [(a, n) for a, n in group if n > 1]
        merged: list[tuple[str, int]] = left[-1:]
        for outer, extent in reversed(left[:-1]):
            inner, size = merged[0]
            if _mergeable(bodies, outer, inner, size):
                bodies = tuple(_without(e, outer) for e in bodies)
                merged[0] = (inner, extent * size)
            else:
                merged.insert(0, (outer, extent))
        out.append(tuple(merged))
    return bodies, tuple(out)


def _relinked(e: Expr) -> Expr:
    return e.map(lambda x: load(str(x.value), x.dtype, (linear(x.args[0]).expr(),)) if x.op == "load" else None)


def _mergeable(exprs: Sequence[Expr], outer: str, inner: str, size: int) -> bool:
    """Whether both axes occur in linear positions only, where ``outer`` steps as far as all of ``inner``."""
    return all(_allowed(e, outer, inner, size) for e in exprs)


def _allowed(e: Expr, outer: str, inner: str, size: int) -> bool:
    if e.op == "axis":
        return e.value not in (outer, inner)
    if e.op == "load":
        where = linear(e.args[0])
        if where.of(outer) != size * where.of(inner):
            return False
        return all(_allowed(x, outer, inner, size) for x, _ in where.others)
    return all(_allowed(a, outer, inner, size) for a in e.args)


def _without(e: Expr, outer: str) -> Expr:
    """An expression whose positions leave out an axis that another one stands for now."""

    def rebuilt(x: Expr) -> Expr | None:
        if x.op != "load":
            return None
        where = linear(x.args[0])
        kept = tuple((t, c) for t, c in where.terms if not (t.op == "axis" and t.value == outer))
        return load(str(x.value), x.dtype, (Position(where.const, kept).expr(),))

    return e.map(rebuilt)


__all__ = ["Position", "collapse", "flat", "flat_tensors", "linear", "position"]
