"""Max and average pooling over one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.sizes import AXES
from tilewright.kernels.operator import Operator
from tilewright.kernels.operators.numeric import Array, Found, Shapes
from tilewright.kernels.operators.windowed import (
    channels_first,
    check_ranks,
    image,
    laid_out,
    over_axes,
    padded,
    shifted,
    split_image,
    tuples,
)


def max_pool(
    axes: int,
    sizes: tuple[int, ...],
    kernel_size: te.Ints,
    *,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    layout: str = "",
    dtype: str = "float32",
) -> te.TensorRef:
    """{Rank}-dimensional max pooling: the largest element of every window.

    The largest ``input[..., i*stride + r*dilation - padding, ...]`` over ``0 <= r < kernel_size``
    on every spatial axis, elements outside of the input left out; NaN wins.

    Input: ``input`` (n, c, {space}). Output: (n, c, {out}) with
    ``wo = (w + 2*padding - dilation*(kernel_size - 1) - 1) // stride + 1``.
    With ``layout={last}``: (n, {space}, c), giving (n, {out}, c).

    ``kernel_size`` and the other numbers hold for all spatial axes, or one for each (``2,1``). ``stride`` is
    ``kernel_size`` where it is not given; ``padding`` is at most half of the window.
    """
    fn = (nn.max_pool1d, nn.max_pool2d, nn.max_pool3d)[axes - 1]
    return nn.cast(fn(_input(sizes, layout, dtype), kernel_size, stride, padding, dilation, layout=layout), dtype)


def avg_pool(
    axes: int,
    sizes: tuple[int, ...],
    kernel_size: te.Ints,
    *,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    count_include_pad: bool = True,
    layout: str = "",
    dtype: str = "float32",
) -> te.TensorRef:
    """{Rank}-dimensional average pooling: the mean of every window.

    The mean of ``input[..., i*stride + r - padding, ...]`` over ``0 <= r < kernel_size`` on every
    spatial axis; zeros of the padding count as elements, unless ``count_include_pad`` is false.

    Input: ``input`` (n, c, {space}). Output: (n, c, {out}) with
    ``wo = (w + 2*padding - kernel_size) // stride + 1``.
    With ``layout={last}``: (n, {space}, c), giving (n, {out}, c).

    ``kernel_size`` and the other numbers hold for all spatial axes, or one for each (``2,1``). ``stride`` is
    ``kernel_size`` where it is not given; ``padding`` is at most half of the window.
    """
    fn = (nn.avg_pool1d, nn.avg_pool2d, nn.avg_pool3d)[axes - 1]
    x = _input(sizes, layout, dtype)
    return nn.cast(fn(x, kernel_size, stride, padding, count_include_pad, layout=layout), dtype)


def _input(sizes: tuple[int, ...], layout: str, dtype: str) -> te.TensorRef:
    n, c, *spatial = sizes
    return te.input("input", image(layout, n, c, spatial), dtype)


def infer_pooling(
    op: str,
    names: Sequence[str],
    shapes: Shapes,
    *,
    kernel_size: te.Ints,
    layout: str,
) -> Found:
    """Sizes by ``names`` (n, c, spatial sizes) from the input's shape; a window's size is told, since none shows it."""
    check_ranks(op, shapes, [len(names)])
    if len(shapes) > 1:
        raise UsageError(f"{op} got {len(shapes)} inputs", "It takes one")
    n, c, sizes = split_image(layout, shapes[0])
    return dict(zip(names, (n, c, *sizes), strict=True))


def numpy_max_pool(
    x: Array, *, kernel_size: te.Ints, stride: te.Ints, padding: te.Ints, dilation: te.Ints, layout: str
) -> Array:
    """The elementwise maximum of the input seen through every tap."""
    axes = x.ndim - 2
    kernel = tuples(kernel_size, axes)
    wide = padded(channels_first(x, layout), tuples(padding, axes), -math.inf)
    taps = shifted(wide, kernel, kernel if stride == () else tuples(stride, axes), tuples(dilation, axes))
    out = np.maximum.reduce([window for _, window in taps])
    return laid_out(out, layout, x)


def numpy_avg_pool(
    x: Array, *, kernel_size: te.Ints, stride: te.Ints, padding: te.Ints, count_include_pad: bool, layout: str
) -> Array:
    """The sum of the input seen through every tap, over the number of elements seen."""
    axes = x.ndim - 2
    kernel = tuples(kernel_size, axes)
    steps = kernel if stride == () else tuples(stride, axes)
    first = channels_first(x, layout)

    def total(values: Array, fill: float) -> Array:
        taps = shifted(padded(values, tuples(padding, axes), fill), kernel, steps, (1,) * axes)
        return sum((window for _, window in taps), np.zeros((), values.dtype))

    out = total(first, 0.0) / total(np.ones_like(first), float(count_include_pad))
    return laid_out(out, layout, x)


EXAMPLES: dict[int, dict[str, Value]] = {
    1: {"n": 1, "c": 64, "w": 256, "kernel_size": 3, "stride": 2, "padding": 1},
    2: {"n": 1, "c": 64, "h": 56, "w": 56, "kernel_size": 3, "stride": 2, "padding": 1},
    3: {"n": 1, "c": 64, "d": 8, "h": 28, "w": 28, "kernel_size": 2, "stride": 2},
}
"""By the number of spatial axes."""


def _operator(define: Callable[..., te.TensorRef], numpy: Callable[..., Array], axes: int) -> Operator:
    return over_axes(define, axes, ("n", "c", *AXES[-axes:]), EXAMPLES[axes], numpy=numpy, infer=infer_pooling)


max_pool1d, max_pool2d, max_pool3d = (_operator(max_pool, numpy_max_pool, axes) for axes in EXAMPLES)
avg_pool1d, avg_pool2d, avg_pool3d = (_operator(avg_pool, numpy_avg_pool, axes) for axes in EXAMPLES)
