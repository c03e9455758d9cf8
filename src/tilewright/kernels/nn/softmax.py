"""Softmax and its logarithm along one axis; the largest value is subtracted first, so nothing overflows."""

from __future__ import annotations

from tilewright.kernels import te
from tilewright.kernels.nn.dims import one_dim, reducer
from tilewright.kernels.nn.element import value


def _parts(op: str, input: te.TensorRef, dim: int) -> tuple[int, te.TensorRef]:
    """The axis, and the largest value along it."""
    d = one_dim(op, dim, len(input.shape))
    fill = reducer(len(input.shape), (d,))
    others = tuple(n for a, n in enumerate(input.shape) if a != d)
    top = te.compute(others, lambda *i: te.max(input.shape[d], lambda k: value(input[fill.full(i, (k,))])))
    return d, top


def softmax(input: te.TensorRef, dim: int = -1) -> te.TensorRef:
    """``exp(x - max) / sum of exp(x - max)`` along ``dim``."""
    d, top = _parts("softmax", input, dim)
    fill = reducer(len(input.shape), (d,))
    power = te.compute(input.shape, lambda *i: te.exp(value(input[i]) - top[fill.kept(i)]))
    total = te.compute(top.shape, lambda *i: te.sum(input.shape[d], lambda k: power[fill.full(i, (k,))]))
    return te.compute(input.shape, lambda *i: power[i] / total[fill.kept(i)])


def log_softmax(input: te.TensorRef, dim: int = -1) -> te.TensorRef:
    """``(x - max) - log(sum of exp(x - max))`` along ``dim``."""
    d, top = _parts("log_softmax", input, dim)
    fill = reducer(len(input.shape), (d,))
    total = te.compute(
        top.shape, lambda *i: te.sum(input.shape[d], lambda k: te.exp(value(input[fill.full(i, (k,))]) - top[i]))
    )
    return te.compute(input.shape, lambda *i: (value(input[i]) - top[fill.kept(i)]) - te.log(total[fill.kept(i)]))
