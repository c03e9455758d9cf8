"""Operations that move elements and compute none: reshapes, other orders of axes, slices, concatenations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.core import UsageError
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import INDEX, const
from tilewright.kernels.nn.dims import broadcast, one_dim, stretched

VIEWS = ("reshape",)
"""The elements of the input in the same order: no kernel is needed."""


def _reshape(input: te.TensorRef, shape: Sequence[int]) -> te.TensorRef:
    """Runs of axes with equal products are matched, so that indices need no more divisions than they must."""
    new, old = tuple(shape), input.shape
    if math.prod(new) != math.prod(old):
        raise UsageError(f"reshape: {old} does not become {new}", "The numbers of elements agree")
    pieces = _pieces(old, new)

    def point(*i: te.Expr) -> te.Expr:
        index: list[te.Expr] = [const(0, INDEX)] * len(old)
        for olds, news in pieces:
            flat: te.Expr | None = None
            for d in news:
                flat = i[d] if flat is None else flat * new[d] + i[d]
            if flat is None:
                continue
            inner = 1
            for d in reversed(olds):
                whole = flat if inner == 1 else flat // inner
                index[d] = whole if d == olds[0] else whole % old[d]
                inner *= old[d]
        return input[tuple(index)]

    return te.compute(new, point)


def _pieces(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Axes above 1 in runs of equal products, as short as possible."""
    a = [d for d, n in enumerate(old) if n > 1]
    b = [d for d, n in enumerate(new) if n > 1]
    out = []
    while a or b:
        olds, news = [a.pop(0)], [b.pop(0)]
        x, y = old[olds[0]], new[news[0]]
        while x != y:
            if x < y:
                olds.append(a.pop(0))
                x *= old[olds[-1]]
            else:
                news.append(b.pop(0))
                y *= new[news[-1]]
        out.append((olds, news))
    return out


def _expand(input: te.TensorRef, shape: Sequence[int]) -> te.TensorRef:
    broadcast("expand", "input", input.shape, shape)
    return te.compute(tuple(shape), lambda *i: stretched(input, i))


def _slice(input: te.TensorRef, dim: int, start: int, end: int, step: int = 1) -> te.TensorRef:
    """Elements ``start``, ``start + step``, ... below ``end``, counted from 0, within the axis."""
    d = one_dim("slice", dim, len(input.shape))
    size = input.shape[d]
    if step < 1 or not 0 <= start < min(end, size):
        raise UsageError(f"slice: {start}:{end}:{step} takes nothing of an axis of {size}", "Take one element at least")
    count = -(-(min(end, size) - start) // step)
    shape = (*input.shape[:d], count, *input.shape[d + 1 :])
    return te.compute(shape, lambda *i: input[(*i[:d], i[d] * step + start, *i[d + 1 :])])


def _cat(*tensors: te.TensorRef, dim: int = 0) -> te.TensorRef:
    return nn.cat(tensors, dim)


def _permute(input: te.TensorRef, dims: Sequence[int]) -> te.TensorRef:
    return nn.permute(input, tuple(dims))


def _pad(input: te.TensorRef, pad: Sequence[int], value: float = 0.0) -> te.TensorRef:
    return nn.pad(input, tuple(pad), value)


FUNCTIONS: dict[str, Callable[..., te.TensorRef]] = {
    "reshape": _reshape, "permute": _permute, "expand": _expand, "slice": _slice, "cat": _cat, "pad": _pad,
}  # fmt: skip
"""Statements by operation."""
