"""Values that are a single read: optionally under a condition (padding), optionally converted."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.kernels.expression.expr import TF32, Expr, unwidened

CONVERSIONS = ("cast", *TF32)


@dataclass(frozen=True, eq=False)
class Read:
    """``load`` where ``guard`` holds (``None``: everywhere), elsewhere the constant ``other``.

    ``chain``: conversions applied to the element, outermost first: nodes of :data:`CONVERSIONS`, whose operands are not
    used. ``other`` is the final value; a conversion that applies to it is accepted only if it is zero, which stays
    zero.
    """

    load: Expr
    chain: tuple[Expr, ...] = ()
    guard: Expr | None = None
    other: Expr | None = None

    @property
    def widens(self) -> bool:
        """Whether all conversions keep every value; at most one on either side of the guard."""
        most = 1 if self.guard is None else 2
        return len(self.chain) <= most and all(unwidened(x) is not x for x in self.chain)


def one_read(value: Expr) -> Read | None:
    """The single read in a value; ``None`` for any other value."""
    chain, e = _unwrapped(value)
    guard, other = None, None
    if e.op == "select":
        guard, inner, outer = e.args
        if inner.op == "const":
            guard, inner, outer = Expr("not", "bool", (guard,)), outer, inner
        rest, other = _unwrapped(outer)
        if other.op != "const" or ((chain or rest) and other.value != 0):
            return None
        more, e = _unwrapped(inner)
        chain += more
    return Read(e, tuple(chain), guard, other) if e.op == "load" else None


def _unwrapped(e: Expr) -> tuple[list[Expr], Expr]:
    """A value's conversions, outermost first, and the value that they convert."""
    chain = []
    while e.op in CONVERSIONS:
        chain.append(e)
        e = e.args[0]
    return chain, e
