"""Linear forms of index expressions, and reads guarded by linear conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.kernels.expression.expr import FOLDS, INDEX, Expr, whole
from tilewright.kernels.expression.linear import Linear, combined, linearise
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.families.reads import one_read


@dataclass(frozen=True)
class Window:
    """A read of ``tensor`` at ``dims`` (an index along each of its axes) where all ``bounds`` are at least 0.

    Elsewhere the value is ``fill`` (``None`` if there are no bounds).
    """

    tensor: Tensor
    dims: tuple[Linear, ...]
    bounds: tuple[Linear, ...] = ()
    fill: Expr | None = None

    @property
    def position(self) -> Linear:
        """Flat position of the element in the tensor."""
        return combined(zip(self.dims, self.tensor.strides, strict=True))

    @property
    def padded(self) -> bool:
        """Whether all bounds are edges of the tensor, so that padding can replace them."""
        last = (Linear(n - 1).plus(d, -1) for d, n in zip(self.dims, self.tensor.shape, strict=True))
        edges = [*self.dims, *last]
        return all(b in edges for b in self.bounds)


def evaluate_index(e: Expr, at: Mapping[str, int]) -> int:
    """Value of an index expression without reads."""
    if e.op == "const":
        return whole(e)
    if e.op == "axis":
        return at[str(e.value)]
    values = [evaluate_index(x, at) for x in e.args]
    return -values[0] if e.op == "neg" else FOLDS[e.op](*values)


class IndexForms:
    """Converts index expressions to linear forms; functions of ``outer`` axes become atoms."""

    def __init__(self, outer: frozenset[str] = frozenset()) -> None:
        self.outer = outer
        self.atoms: dict[str, Expr] = {}

    def of(self, index: Expr) -> Linear | None:
        """The linear form of an index, or ``None`` if it is not linear."""
        form = linearise(index)
        if not all(self._allowed(e) for e in form.atoms.values()):
            return None
        self.atoms.update(form.atoms)
        return form

    def _allowed(self, term: Expr) -> bool:
        axes = term.axes()
        known = all(e.op in ("const", "axis", "neg", *FOLDS) for e in term.walk())
        return bool(axes) and axes <= self.outer and known and term.op != "mul"

    def window(self, value: Expr, program: Program, widened: bool = False) -> Window | None:
        """A read, or a read guarded by linear inequalities; ``None`` for any other value.

        ``widened``: the read may be converted to types that hold all its values.
        """
        found = one_read(value)
        if found is None or (found.chain and not (widened and found.widens)):
            return None
        bounds = [] if found.guard is None else self.bounds(found.guard)
        dims = [self.of(i) for i in found.load.args]
        if bounds is None or any(d is None for d in dims):
            return None
        tensor = program.tensors[str(found.load.value)]
        return Window(tensor, tuple(d for d in dims if d), tuple(bounds), found.other)

    def bounds(self, condition: Expr) -> list[Linear] | None:
        """A conjunction of linear inequalities, each as a form that must be ``>= 0``; ``None`` for another
        condition."""
        if condition.op == "and":
            parts = [self.bounds(x) for x in condition.args]
            return None if any(x is None for x in parts) else [y for x in parts for y in (x or [])]
        if condition.op not in ("lt", "le", "gt", "ge") or condition.args[0].dtype != INDEX:
            return None
        x, y = (self.of(e) for e in condition.args)
        if x is None or y is None:
            return None
        if condition.op in ("lt", "le"):
            x, y = y, x
        return [x.plus(y, -1).plus(Linear(-(condition.op in ("lt", "gt")), {}))]


def affine(index: Expr) -> Linear | None:
    """An index expression as a linear form of axes, or ``None`` if it is not linear."""
    return IndexForms().of(index)


def position(load: Expr, tensor: Tensor, linear: IndexForms | None = None) -> Linear | None:
    """Flat position of a load as a linear form; ``None`` unless all its indices are linear."""
    forms = linear or IndexForms()
    dims = [forms.of(index) for index in load.args]
    known = [d for d in dims if d is not None]
    return combined(zip(known, tensor.strides, strict=True)) if len(known) == len(dims) else None
