"""Convolutions and pooling, one output element at a time, from their definitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate

Array = np.ndarray[Any, Any]
LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def traced(make: Any, *arrays: Array, dtype: str = "float64") -> Program:
    """The program of ``make`` on inputs of these arrays' shapes."""

    def define() -> te.TensorRef:
        result: te.TensorRef = make(*(te.input(f"x{n}", a.shape) for n, a in enumerate(arrays)))
        return result

    return te.trace(define, dtype)[0]


def run(make: Any, *arrays: Array) -> Array:
    """What ``make`` computes of the arrays, in float64."""
    return evaluate(traced(make, *arrays), list(arrays))


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def last(x: Array) -> Array:
    """Activations with channels last."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def first(x: Array) -> Array:
    return np.moveaxis(x, -1, 1)


def kernel_last(w: Array, order: tuple[int, int] = (1, 0)) -> Array:
    """A weight with its spatial axes first, then the channel axes in ``order``."""
    return np.ascontiguousarray(np.moveaxis(w, order, (-2, -1)))


def _taps(kernel: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, kernel))


def conv(
    x: Array,
    w: Array,
    bias: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """(n, ci, *sizes), (co, ci/groups, *kernel), (co,)."""
    n, _, *sizes = x.shape
    co, cg, *kernel = w.shape
    parts = zip(sizes, kernel, stride, padding, dilation, strict=True)
    out = np.zeros((n, co, *((h + 2 * p - d * (k - 1) - 1) // s + 1 for h, k, s, p, d in parts)))
    for o, tap, place in itertools.product(range(co), list(_taps(kernel)), list(np.ndindex(*out.shape[2:]))):
        at = tuple(i * s + r * d - p for i, s, r, d, p in zip(place, stride, tap, dilation, padding, strict=True))
        if all(0 <= a < h for a, h in zip(at, sizes, strict=True)):
            low = o // (co // groups) * cg
            out[(slice(None), o, *place)] += x[(slice(None), slice(low, low + cg), *at)] @ w[(o, slice(None), *tap)]
    return out + bias.reshape(-1, *(1,) * len(sizes))


def conv_transpose(
    x: Array,
    w: Array,
    bias: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    extra: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Array:
    """(n, ci, *sizes), (ci, co/groups, *kernel), (co,): every element of the input scatters a kernel."""
    n, ci, *sizes = x.shape
    _, og, *kernel = w.shape
    parts = zip(sizes, kernel, stride, padding, extra, dilation, strict=True)
    out = np.zeros((n, og * groups, *((h - 1) * s - 2 * p + d * (k - 1) + e + 1 for h, k, s, p, e, d in parts)))
    for c, tap, at in itertools.product(range(ci), list(_taps(kernel)), list(np.ndindex(*sizes))):
        place = tuple(i * s + r * d - p for i, s, r, d, p in zip(at, stride, tap, dilation, padding, strict=True))
        if all(0 <= a < h for a, h in zip(place, out.shape[2:], strict=True)):
            low = c // (ci // groups) * og
            products = np.outer(x[(slice(None), c, *at)], w[(c, slice(None), *tap)])
            out[(slice(None), slice(low, low + og), *place)] += products
    return out + bias.reshape(-1, *(1,) * len(sizes))


def windows(
    x: Array, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], list[Array]]]:
    """Every output position, and what its window sees: arrays (n, c)."""
    sizes = x.shape[2:]
    parts = zip(sizes, kernel, stride, padding, dilation, strict=True)
    for place in np.ndindex(*((h + 2 * p - d * (k - 1) - 1) // s + 1 for h, k, s, p, d in parts)):
        seen = []
        for tap in _taps(kernel):
            at = tuple(i * s + r * d - p for i, s, r, d, p in zip(place, stride, tap, dilation, padding, strict=True))
            if all(0 <= a < h for a, h in zip(at, sizes, strict=True)):
                seen.append(x[(slice(None), slice(None), *at)])
        yield place, seen
