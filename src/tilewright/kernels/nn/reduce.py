"""Reductions over any axes, named as in PyTorch: sum, mean, var_mean, prod, amax, amin, argmax, argmin, norm.

``dim``: one axis or several, all if none is given. ``keepdim`` keeps reduced axes with size 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression import monoids
from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.nn.dims import Reduced, computed, one_dim, over, reciprocal, several_dims, value, without

NormOrder = Literal["2", "1", "inf"]


def _reduced(
    op: str,
    input: te.TensorRef,
    dim: te.Ints,
    keepdim: bool,
    reduce: Callable[..., te.Reduction],
    element: Callable[[te.Expr], te.Expr] = value,
) -> te.TensorRef:
    dims = several_dims(op, dim, len(input.shape))
    return over(input.shape, dims, keepdim, reduce, lambda at, _: element(input[at]))


def _count(op: str, input: te.TensorRef, dim: te.Ints) -> int:
    return math.prod(input.shape[d] for d in several_dims(op, dim, len(input.shape)))


def _wide(x: te.Expr) -> te.Expr:
    """Converts an element to the type of its sum: int64 for whole numbers, as in PyTorch."""
    return value(x) if x.dtype in FLOATS else te.cast(x, "int64")


def sum(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """Sum over the axes ``dim``; a sum of whole numbers is int64.

    ``dim``: one axis or several, all where none is given. ``keepdim`` leaves axes of size 1 in their place. Raises
    ``UsageError`` for a number that is no axis.
    """
    return _reduced("sum", input, dim, keepdim, te.sum, _wide)


def prod(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """Product over the axes ``dim``; a product of whole numbers is int64.

    ``dim`` and ``keepdim`` are those of ``sum``. Raises ``UsageError`` for a number that is no axis.
    """
    return _reduced("prod", input, dim, keepdim, te.prod, _wide)


def mean(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """Mean of reals over the axes ``dim``.

    ``dim`` and ``keepdim`` are those of ``sum``. Raises ``UsageError`` for a number that is no axis, and for whole
    numbers.
    """
    if input.dtype not in FLOATS:
        raise UsageError(f"mean: input is {input.dtype}", f"It takes {', '.join(FLOATS)}")
    total = _reduced("mean", input, dim, keepdim, te.sum)
    share = reciprocal(_count("mean", input, dim), total.dtype)
    return te.compute(total.shape, lambda *i: total[i] * share)


def var_mean(
    input: te.TensorRef, dim: te.Ints = (), correction: int = 1, keepdim: bool = False
) -> tuple[te.TensorRef, te.TensorRef]:
    """Variance over the axes ``dim``, and the mean about which it is taken: two tensors of one shape.

    The variance is the sum of squared differences from the mean, divided by the number of elements less ``correction``.
    ``dim`` and ``keepdim`` are those of ``sum``. Raises ``UsageError`` for a number that is no axis, for whole numbers,
    and where the divisor is not positive.
    """
    count = _count("var_mean", input, dim)
    if not 0 <= correction < count:
        raise UsageError(f"var_mean: correction={correction} of {count} elements", f"Use 0 to {count - 1}")
    average = mean(input, dim, keepdim)
    dims = several_dims("var_mean", dim, len(input.shape))

    def square(*i: te.Expr) -> te.Expr:
        place = tuple(0 if d in dims else x for d, x in enumerate(i) if keepdim or d not in dims)
        return (value(input[i]) - average[place]) ** 2

    squares = _reduced("var_mean", te.compute(input.shape, square), dim, keepdim, te.sum)
    share = reciprocal(count - correction, squares.dtype)
    return te.compute(squares.shape, lambda *i: squares[i] * share), average


def amax(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """Largest element over the axes ``dim``; NaN wins.

    ``dim`` and ``keepdim`` are those of ``sum``. Raises ``UsageError`` for a number that is no axis.
    """
    return _reduced("amax", input, dim, keepdim, te.max)


def amin(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """Smallest element over the axes ``dim``; NaN wins.

    ``dim`` and ``keepdim`` are those of ``sum``. Raises ``UsageError`` for a number that is no axis.
    """
    return _reduced("amin", input, dim, keepdim, te.min)


def logsumexp(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """``log(sum of exp(x))`` over the axes ``dim``; the largest element is subtracted first, so nothing overflows.

    ``dim`` and ``keepdim`` are those of ``sum``. Raises ``UsageError`` for a number that is no axis.
    """
    dims = several_dims("logsumexp", dim, len(input.shape))
    top = _reduced("logsumexp", input, dim, keepdim, te.max)

    def shift(i: tuple[te.Expr, ...]) -> te.Expr:
        """The subtracted value: 0 if the largest value is infinite, because its difference with itself is NaN."""
        return te.select(te.abs(top[i]) < math.inf, top[i], 0.0)

    total = over(input.shape, dims, keepdim, te.sum, lambda at, i: te.exp(value(input[at]) - shift(i)))
    return te.compute(top.shape, lambda *i: te.log(total[i]) + shift(i))


def _position(
    op: str, input: te.TensorRef, dim: te.Ints, keepdim: bool, reduce: Callable[..., te.Reduction]
) -> te.TensorRef:
    shape, rank = input.shape, len(input.shape)
    dims = several_dims(op, dim, rank)
    if len(dims) not in (1, rank):
        raise UsageError(f"{op}: dim={dim} names {len(dims)} axes", "Give one axis, or none for all of them")
    fill = Reduced(rank, dims, keepdim)

    def at(r: te.Expr) -> tuple[te.Expr, ...]:
        if len(dims) == 1:
            return (r,)
        out: list[te.Expr] = []
        for d in reversed(range(rank)):
            inner = math.prod(shape[d + 1 :])
            out.append(r // inner if d == 0 else r // inner % shape[d])
        return tuple(reversed(out))

    extent = math.prod(shape[d] for d in dims)
    return te.compute(
        without(shape, dims, keepdim), lambda *i: reduce(extent, lambda r: value(input[fill.full(i, at(r))]))
    )


def argmax(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """Position (int64) of the largest element along one axis, or in the whole tensor read row by row.

    The first of equal elements is found; NaN wins. ``keepdim`` is that of ``sum``. Raises ``UsageError`` for several
    axes.
    """
    return _position("argmax", input, dim, keepdim, te.argmax)


def argmin(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """Position (int64) of the smallest element along one axis, or in the whole tensor read row by row.

    The first of equal elements is found; NaN wins. ``keepdim`` is that of ``sum``. Raises ``UsageError`` for several
    axes.
    """
    return _position("argmin", input, dim, keepdim, te.argmin)


def norm(input: te.TensorRef, ord: NormOrder = "2", dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """Vector norm of reals over the axes ``dim``: ``ord`` is ``2``, ``1`` or ``inf``.

    Over both axes of a matrix, ``2`` is the Frobenius norm. ``dim`` and ``keepdim`` are those of ``sum``. Raises
    ``UsageError`` for another ``ord``, for a number that is no axis, and for whole numbers.
    """
    if ord not in ("2", "1", "inf"):
        raise UsageError(f"norm: ord cannot be {ord!r}", "Use 2, 1 or inf")
    if input.dtype not in FLOATS:
        raise UsageError(f"norm: input is {input.dtype}", f"It takes {', '.join(FLOATS)}")
    if ord != "2":
        return _reduced("norm", input, dim, keepdim, te.max if ord == "inf" else te.sum, lambda x: te.abs(value(x)))
    squares = _reduced("norm", input, dim, keepdim, te.sum, lambda x: value(x) ** 2)
    return te.compute(squares.shape, lambda *i: te.sqrt(squares[i]))


def cumsum(input: te.TensorRef, dim: int) -> te.TensorRef:
    """Cumulative sum along the axis ``dim``: each element plus all elements before it; of whole numbers in int64.

    Raises ``UsageError`` for a number that is no axis.
    """
    return _running("cumsum", "sum", input, dim)


def cumprod(input: te.TensorRef, dim: int) -> te.TensorRef:
    """Cumulative product along the axis ``dim``: each element times all elements before it; of whole numbers in int64.

    Raises ``UsageError`` for a number that is no axis.
    """
    return _running("cumprod", "prod", input, dim)


def cummax(input: te.TensorRef, dim: int) -> te.TensorRef:
    """Largest element so far along the axis ``dim``; NaN wins. Raises ``UsageError`` for a number that is no axis."""
    return _running("cummax", "max", input, dim)


def cummin(input: te.TensorRef, dim: int) -> te.TensorRef:
    """Smallest element so far along the axis ``dim``; NaN wins. Raises ``UsageError`` for a number that is no axis."""
    return _running("cummin", "min", input, dim)


def cummax_positions(input: te.TensorRef, dim: int) -> te.TensorRef:
    """Position (int64) of the largest element so far along the axis ``dim``: the last of equal elements; NaN wins.

    Raises ``UsageError`` for a number that is no axis.
    """
    return _running_position("cummax", "argmax", input, dim)


def cummin_positions(input: te.TensorRef, dim: int) -> te.TensorRef:
    """Position (int64) of the smallest element so far along the axis ``dim``: the last of equal elements; NaN wins.

    Raises ``UsageError`` for a number that is no axis.
    """
    return _running_position("cummin", "argmin", input, dim)


def _running_position(op: str, monoid: str, input: te.TensorRef, dim: int) -> te.TensorRef:
    d = one_dim(op, dim, len(input.shape))
    found = monoids.arg(monoid, computed(input.dtype), "last")
    return te.compute(input.shape, lambda *i: te.scan(found, i[d], (value(input[i]), te.cast(i[d], "int64"))))


def _running(op: str, monoid: str, input: te.TensorRef, dim: int) -> te.TensorRef:
    d = one_dim(op, dim, len(input.shape))
    element = value if monoid in ("max", "min") else _wide
    return te.compute(input.shape, lambda *i: te.scan(monoid, i[d], element(input[i])))
