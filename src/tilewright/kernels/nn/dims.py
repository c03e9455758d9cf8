"""Axes by number as in PyTorch (negative numbers count from the last), reduced indices, and computed element types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.core import UsageError
from tilewright.dtypes import DTYPES
from tilewright.extent import Extent
from tilewright.kernels import te
from tilewright.kernels.expression.expr import ExprLike, const
from tilewright.kernels.parameters import numbers

Index = tuple[te.Expr, ...]


def one_dim(op: str, dim: int, rank: int, name: str = "dim") -> int:
    """The axis ``dim``, counted from 0. Raises ``UsageError`` if there is no such axis."""
    if not -rank <= dim < rank:
        last = "there is none" if rank == 0 else f"the axes are 0 to {rank - 1}, or -1 to {-rank} from the last"
        raise UsageError(f"{op}: {name}={dim} is not an axis of a tensor of {rank} axes", f"Correct it: {last}")
    return dim % rank


def several_dims(op: str, dim: te.Ints, rank: int) -> tuple[int, ...]:
    """The axes ``dim``, counted from 0, in ascending order; all axes if none is given."""
    given = numbers(dim)
    if given is None:
        raise UsageError(f"{op}: dim={dim!r} is not a whole number or several", "Write dim=1 or dim=1,2")
    if not given:
        return tuple(range(rank))
    found = [one_dim(op, d, rank) for d in given]
    if len(set(found)) < len(found):
        raise UsageError(f"{op}: dim={','.join(map(str, given))} names an axis twice", "Name each axis once")
    return tuple(sorted(found))


def without(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    """The shape after a reduction over ``dims``."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


@dataclass(frozen=True)
class Reduced:
    """Indices into a tensor of ``rank`` axes, and into the tensor reduced over ``dims``."""

    rank: int
    dims: Sequence[int]
    keepdim: bool = False

    def full(self, kept: Sequence[te.Expr], reduced: Sequence[te.Expr]) -> tuple[te.Expr, ...]:
        """The index into the whole tensor."""
        outer, inner = iter(self.kept(kept) if self.keepdim else kept), iter(reduced)
        return tuple(next(inner) if d in self.dims else next(outer) for d in range(self.rank))

    def kept(self, index: Sequence[te.Expr]) -> tuple[te.Expr, ...]:
        """The index into the reduced tensor (without ``keepdim``) for an index into the whole tensor."""
        return tuple(i for d, i in enumerate(index) if d not in self.dims)


def over(
    shape: Sequence[int],
    dims: Sequence[int],
    keepdim: bool,
    reduce: Callable[..., te.Reduction],
    term: Callable[[Index, Index], te.Expr],
) -> te.TensorRef:
    """``reduce`` over ``dims`` of ``term(at, i)``: ``at`` is an index into ``shape``, ``i`` an index of the result."""
    fill, extents = Reduced(len(shape), dims, keepdim), tuple(shape[d] for d in dims)
    return te.compute(
        without(shape, dims, keepdim), lambda *i: reduce(extents, lambda *r: term(fill.full(i, r), i))
    )  # fmt: skip


def broadcast(op: str, what: str, shape: Sequence[int], to: Sequence[int]) -> None:
    """Raises ``UsageError`` for a shape that does not broadcast to ``to`` as in NumPy."""
    fits = len(shape) <= len(to) and all(
        n in (1, m) for n, m in zip(reversed(tuple(shape)), reversed(tuple(to)), strict=False)
    )
    if not fits:
        raise UsageError(
            f"{op}: {what} has shape {tuple(shape)}, which does not stretch to {tuple(to)}",
            "Counted from the last, each axis has the same size or 1",
        )


def stretched(x: te.TensorRef, index: Sequence[te.Expr]) -> te.Expr:
    """The element of a tensor broadcast to a larger shape, at an index into the larger shape."""
    own = list(index)[len(index) - len(x.shape) :]
    zero = te.Expr("const", "index", (), 0)
    return x[tuple(zero if n == 1 else i for n, i in zip(x.shape, own, strict=True))]


# --------------------------------------------------------------------------- element types


def computed(dtype: str) -> str:
    """Type in which values of ``dtype`` are computed: narrow reals in float32, narrow whole numbers in int32."""
    return DTYPES[dtype].computed if dtype in DTYPES else dtype


def value(element: te.Expr) -> te.Expr:
    """An element converted to the type in which it is computed."""
    return te.cast(element, computed(element.dtype))


def pointwise(x: te.TensorRef, fn: Callable[[te.Expr], te.Expr]) -> te.TensorRef:
    """``fn`` of every element of ``x``."""
    return te.compute(x.shape, lambda *i: fn(value(x[i])))


def cast(x: te.TensorRef, dtype: str) -> te.TensorRef:
    """``x``, of any shape, converted to ``dtype``: the stage that computes ``x`` rounds its elements.

    No stage is added, unless ``x`` is an input. Raises ``TypeError`` for an unknown ``dtype``.
    """
    made = x.definition
    if x.dtype == dtype:
        return x
    if made is None:
        return te.compute(x.shape, lambda *i: x[i], dtype=dtype)
    if made.monoid is None:
        made = replace(made, body=(te.cast(made.body[0], dtype),))
    else:
        made = replace(made, monoid=replace(made.monoid, finish=te.cast(made.monoid.finish, dtype)))
    return te.TensorRef(x.label, x.shape, dtype, made)


def reciprocal(count: int, dtype: str) -> ExprLike:
    """``1 / count``; in ``dtype`` if ``count`` is symbolic."""
    return const(1.0, dtype) / const(count, dtype) if isinstance(count, Extent) else 1.0 / count
