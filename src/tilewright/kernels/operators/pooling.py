"""What the pooling operators share, whatever their number of spatial axes; and their NumPy forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operators.epilogue import Array
from tilewright.kernels.operators.windowed import (
    CHANNELS_LAST,
    channels_first,
    check_ranks,
    image,
    padded,
    rounded_like,
    shifted,
    split_image,
    tuples,
)


def pooled(
    fn: Callable[..., te.TensorRef],
    n: int,
    c: int,
    sizes: tuple[int, ...],
    layout: str,
    dtype: str,
    *attributes: object,
) -> te.TensorRef:
    """``fn``, of ``nn``, on an input of these sizes."""
    x = te.input("input", image(layout, n, c, sizes), dtype)
    return nn.cast(fn(x, *attributes, layout=layout), dtype)


def infer_pooling(
    op: str,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    *,
    kernel_size: te.Ints,
    layout: str = "",
    **_: object,
) -> dict[str, Value]:
    """Sizes by ``names`` (n, c, spatial sizes) from the input's shape."""
    check_ranks(op, shapes, [len(names)])
    if len(shapes) > 1:
        raise UsageError(f"{op} got {len(shapes)} inputs", "It takes one")
    n, c, sizes = split_image(layout, shapes[0])
    return dict(zip(names, (n, c, *sizes), strict=True))


def numpy_max_pool(
    x: Array,
    *,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    layout: str = "",
) -> Array:
    """The elementwise maximum of the input seen through every tap."""
    axes = x.ndim - 2
    kernel = tuples(kernel_size, axes)
    wide = padded(channels_first(x, layout), tuples(padding, axes), -math.inf)
    taps = shifted(wide, kernel, kernel if stride == () else tuples(stride, axes), tuples(dilation, axes))
    out = np.maximum.reduce([window for _, window in taps])
    return rounded_like(np.moveaxis(out, 1, -1) if layout in CHANNELS_LAST else out, x)


def numpy_avg_pool(
    x: Array,
    *,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    count_include_pad: bool = True,
    layout: str = "",
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
    return rounded_like(np.moveaxis(out, 1, -1) if layout in CHANNELS_LAST else out, x)
