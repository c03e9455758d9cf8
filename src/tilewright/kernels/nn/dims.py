"""Axes by number, as in PyTorch: negative ones count from the last; an index with some of them replaced."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.parameters import numbers


def one_dim(op: str, dim: int, rank: int, name: str = "dim") -> int:
    """The axis ``dim`` counted from 0. Raises ``UsageError`` where there is none."""
    if not -rank <= dim < rank:
        last = "there is none" if rank == 0 else f"the axes are 0 to {rank - 1}, or -1 to {-rank} from the last"
        raise UsageError(f"{op}: {name}={dim} is no axis of a tensor of {rank} axes", f"Correct it: {last}")
    return dim % rank


def several_dims(op: str, dim: te.Ints, rank: int) -> tuple[int, ...]:
    """The axes ``dim`` counted from 0, in ascending order; all of them where none is given."""
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
    """The shape that is left when ``dims`` are reduced."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def reducer(rank: int, dims: Sequence[int], keepdim: bool = False) -> Filler:
    """What puts reduce axes in the place of ``dims``, given the axes of the reduced tensor."""
    return Filler(rank, tuple(dims), keepdim)


class Filler:
    """Indices into a tensor of ``rank`` axes, and into the same reduced over ``dims``."""

    def __init__(self, rank: int, dims: tuple[int, ...], keepdim: bool) -> None:
        self.rank, self.dims, self.keepdim = rank, dims, keepdim

    def full(self, kept: Sequence[te.Expr], reduced: Sequence[te.Expr]) -> tuple[te.Expr, ...]:
        """The index into the whole tensor."""
        outer, inner = iter(kept), iter(reduced)
        out = []
        for d in range(self.rank):
            if d in self.dims:
                if self.keepdim:
                    next(outer)
                out.append(next(inner))
            else:
                out.append(next(outer))
        return tuple(out)

    def kept(self, index: Sequence[te.Expr]) -> tuple[te.Expr, ...]:
        """The part of an index into the whole tensor that the reduced one has (without ``keepdim``)."""
        return tuple(i for d, i in enumerate(index) if d not in self.dims)


def broadcast(op: str, what: str, shape: Sequence[int], to: Sequence[int]) -> None:
    """Raise ``UsageError`` for a shape that does not stretch to another as in NumPy."""
    fits = len(shape) <= len(to) and all(
        n in (1, m) for n, m in zip(reversed(tuple(shape)), reversed(tuple(to)), strict=False)
    )
    if not fits:
        raise UsageError(
            f"{op}: {what} has shape {tuple(shape)}, which does not stretch to {tuple(to)}",
            "Counted from the last, each axis has the same size or 1",
        )


def stretched(x: te.TensorRef, index: Sequence[te.Expr]) -> te.Expr:
    """The element of a smaller tensor that belongs to an index into one that it stretches to."""
    own = list(index)[len(index) - len(x.shape) :]
    zero = te.Expr("const", "index", (), 0)
    return x[tuple(zero if n == 1 else i for n, i in zip(x.shape, own, strict=True))]
