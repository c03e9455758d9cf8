"""Reads as linear positions in flat tensors, and neighbouring axes walked as one where every read allows it.

Every read becomes one of a tensor of one axis. Its position is a sum of terms: axes, and whatever is not
linear in them (quotients, gathered indices). Quotient and rest of the same number go together again, so a
reshape that changes nothing in memory leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.kernels.expression.expr import INDEX, Expr, const, load, whole
from tilewright.kernels.expression.linear import Linear, linearise, total
from tilewright.kernels.expression.program import Tensor


def linear(index: Expr) -> Linear:
    """An index as a linear form, a quotient and the rest beside it as the number that they are of."""
    return _joined(linearise(index))


def _joined(form: Linear) -> Linear:
    """``(x // n) * (n * c) + (x % n) * c`` is ``x * c``."""
    for quotient, e in form.atoms.items():
        rest = repr(Expr("mod", e.dtype, e.args))
        if e.op == "floordiv" and rest in form.atoms and form.of(quotient) == form.of(rest) * whole(e.args[1]):
            return _joined(form.without(quotient, rest).plus(linearise(e.args[0]), form.of(rest)))
    return form


def position(read: Expr, tensor: Tensor) -> Linear:
    """Where a read lies in its tensor, in elements."""
    return _joined(total(zip(read.args, tensor.strides, strict=True)))


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
        return all(_allowed(x, outer, inner, size) for x, _ in where.rest)
    return all(_allowed(a, outer, inner, size) for a in e.args)


def _without(e: Expr, outer: str) -> Expr:
    """An expression whose positions leave out an axis that another one stands for now."""

    def rebuilt(x: Expr) -> Expr | None:
        if x.op != "load":
            return None
        return load(str(x.value), x.dtype, (linear(x.args[0]).without(outer).expr(),))

    return e.map(rebuilt)


__all__ = ["collapse", "flat", "flat_tensors", "linear", "position"]
