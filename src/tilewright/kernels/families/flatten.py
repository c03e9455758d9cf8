"""Flat positions of reads, and fusion of adjacent axes where every read allows it.

A position is a sum: a constant, multiples of axes, and multiples of terms that are no sums of axes (quotients, gathered
indices). The quotient and the remainder of one number are joined again, so a reshape that keeps memory unchanged leaves
no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.core import cached_property
from tilewright.extent import Extent
from tilewright.kernels.codegen.ranges import Range, index_range
from tilewright.kernels.expression.expr import COMPARISONS, INDEX, Expr, const, decided, load, outcome, same, whole
from tilewright.kernels.expression.linear import Linear, atom, linearise, total
from tilewright.kernels.expression.program import Program, Tensor

Axes = tuple[tuple[str, int], ...]
"""Names and extents, outermost first."""


class Linearizer:
    """Turns index expressions into linear forms, for axes within ``ranges`` (inclusive; at least 0 if not given)."""

    def __init__(self, ranges: Mapping[str, Range] | None = None) -> None:
        self.ranges = ranges or {}

    @staticmethod
    def below(extents: Mapping[str, int]) -> Linearizer:
        """A linearizer for axes from 0 to their extents."""
        return Linearizer({a: (0, n - 1) for a, n in extents.items()})

    def of(self, e: Expr) -> Linear:
        """The linear form of ``e``, with divisions resolved where the ranges allow."""
        return self.total(((e, 1),))

    def total(self, parts: Iterable[tuple[Expr, int]]) -> Linear:
        """The linear form of a sum of multiples: a position, from indices and strides."""
        return self._joined(total(parts, self._term))

    def position(self, read: Expr, tensor: Tensor) -> Linear:
        """Position of a read in its tensor, in elements."""
        return self.total(zip(read.args, tensor.strides, strict=True))

    def bounds(self, e: Expr) -> Range:
        return index_range(e, self.ranges)

    def _term(self, e: Expr) -> Linear:
        """Resolves a division, minimum or maximum as far as the ranges allow."""
        op, a = e.op, e.args
        if op in ("floordiv", "mod"):
            return atom(e) if isinstance(_divisor(e), Extent) else self._divided(op, self.of(a[0]), _divisor(e))
        if op in ("min", "max"):
            (l0, h0), (l1, h1) = self.bounds(a[0]), self.bounds(a[1])
            if l0 >= h1 if op == "max" else h0 <= l1:
                return linearise(a[0], self._term)
            if l1 >= h0 if op == "max" else h1 <= l0:
                return linearise(a[1], self._term)
        return atom(e)

    def _divided(self, op: str, x: Linear, d: int) -> Linear:
        if op == "floordiv" and not x.axes and not x.const and len(x.rest) == 1:
            ((inner, factor),) = x.rest
            if inner.op == "floordiv" and factor == 1 and not isinstance(_divisor(inner), Extent):
                return self._divided(op, self.of(inner.args[0]), _divisor(inner) * d)
        quotient, left = x.divided(d)
        inside = left.ordered().expr()
        low, high = self.bounds(inside)
        if low // d == high // d:  # false for infinite bounds, whose quotient is NaN
            k = int(low // d)
            return quotient.plus(k) if op == "floordiv" else left.plus(-k * d)
        return atom(inside % d) if op == "mod" else quotient.plus(atom(inside // d))

    def _joined(self, x: Linear) -> Linear:
        """Replaces ``(e // n) * (c * n) + (e % n) * c`` by ``e * c``, also inside a further ``% m``."""
        for rest, e in x.atoms.items():
            if e.op != "mod":
                continue
            n, c = _divisor(e), x.of(rest)
            for name, term in x.atoms.items():
                quotient, modulus = (term.args[0], _divisor(term)) if term.op == "mod" else (term, None)
                if quotient.op != "floordiv" or x.of(name) != c * n or _divisor(quotient) != n:
                    continue
                inner = self.of(e.args[0])
                if self.of(quotient.args[0]) != inner:
                    continue
                if modulus is not None and isinstance(n * modulus, Extent):
                    continue
                both = inner if modulus is None else self._divided("mod", inner, n * modulus)
                return self._joined(x.without(rest, name).plus(both, c))
        return x


def _divisor(e: Expr) -> int:
    return whole(e.args[1])


def linear(index: Expr) -> Linear:
    """The linear form of an index, valid for any extents."""
    return Linearizer().of(index)


def position(read: Expr, tensor: Tensor) -> Linear:
    """Position of a read in its tensor, in elements, valid for any extents."""
    return Linearizer().position(read, tensor)


# --------------------------------------------------------------------------- flat tensors


def unconditional(e: Expr) -> list[Expr]:
    """Reads that every evaluation makes, including reads common to both branches of a ``select``.

    Reads inside the indices of other reads are left out.
    """
    if e.op == "load":
        return [e]
    if e.op == "select":
        condition, one, other = map(unconditional, e.args)
        return condition + [x for x in one if any(same(x, y) for y in other)]
    return [x for a in e.args for x in unconditional(a)]


@dataclass(frozen=True, eq=False)
class Flat:
    """A program in a normal form whose ``tensors`` have one axis each."""

    program: Program
    tensors: Mapping[str, Tensor]

    @cached_property
    def output(self) -> Tensor:
        return self.tensors[self.program.output.name]


def flat_tensors(tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    """Every tensor reshaped to one axis, by name."""
    return {t.name: Tensor(t.name, (t.size,), t.dtype, t.constant) for t in tensors}


def flattened(e: Expr, tensors: Mapping[str, Tensor], lin: Linearizer) -> Expr:
    """An expression whose reads (also inside indices) are of flat tensors, with conditions simplified by the ranges."""

    def rebuilt(n: Expr) -> Expr | None:
        if n.op == "load":
            return load(str(n.value), n.dtype, (lin.position(n, tensors[str(n.value)]).expr(),))
        return _decided(n, lin)

    return e.map(rebuilt)


def ordered(e: Expr) -> Expr:
    """An expression whose positions list axes first, sorted: equal positions become equal expressions."""
    return e.map(
        lambda n: load(str(n.value), n.dtype, (linear(n.args[0]).ordered().expr(),)) if n.op == "load" else None
    )


def _decided(n: Expr, lin: Linearizer) -> Expr | None:
    """Simplifies a condition or ``select`` that the ranges decide; ``None`` if they do not."""
    if n.op in COMPARISONS and n.args[0].dtype == INDEX:
        known = outcome(n.op, *lin.bounds(lin.total(((n.args[0], 1), (n.args[1], -1))).expr()))
        return None if known is None else const(known, "bool")
    return decided(n)


# --------------------------------------------------------------------------- axes walked as one


def collapsed(
    exprs: Sequence[Expr], tensors: Mapping[str, Tensor], groups: Sequence[Axes]
) -> tuple[tuple[Expr, ...], tuple[Axes, ...]]:
    """Expressions on flat tensors with adjacent axes of each group fused, and the remaining axes of each group.

    Fused axes keep the inner axis's name. Axes of one element are dropped, so a group can become empty.
    """
    lin = Linearizer.below(dict(a for group in groups for a in group))
    single = {a: const(0, INDEX) for group in groups for a, n in group if n == 1}
    bodies = tuple(flattened(e.substitute(single), tensors, lin) for e in exprs)
    out: list[Axes] = []
    for group in groups:
        wide = [(a, n) for a, n in group if n > 1]
        merged = wide[-1:]
        for outer, extent in reversed(wide[:-1]):
            inner, size = merged[0]
            if all(_mergeable(e, outer, inner, size) for e in bodies):
                bodies = tuple(_without(e, outer) for e in bodies)
                merged[0] = (inner, extent * size)
            else:
                merged.insert(0, (outer, extent))
        out.append(tuple(merged))
    return bodies, tuple(out)


def _mergeable(e: Expr, outer: str, inner: str, size: int) -> bool:
    """Whether both axes occur only in flat positions, where a step of ``outer`` equals all of ``inner``."""
    if e.op == "axis":
        return e.value not in (outer, inner)
    if e.op == "load":
        where = linear(e.args[0])
        if where.of(outer) != size * where.of(inner):
            return False
        return all(_mergeable(x, outer, inner, size) for x, _ in where.rest)
    return all(_mergeable(a, outer, inner, size) for a in e.args)


def _without(e: Expr, outer: str) -> Expr:
    """An expression whose positions drop an axis that was fused into another one."""

    def rebuilt(x: Expr) -> Expr | None:
        if x.op != "load":
            return None
        return load(str(x.value), x.dtype, (linear(x.args[0]).without(outer).expr(),))

    return e.map(rebuilt)
