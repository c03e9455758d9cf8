"""What the convolutions share, transposed ones too, whatever their number of spatial axes; and a NumPy form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import te
from tilewright.kernels.nn.sizes import check_groups
from tilewright.kernels.operators.epilogue import Activation, Array
from tilewright.kernels.operators.windowed import (
    CHANNELS_LAST,
    channels_first,
    check_ranks,
    check_rest,
    finished,
    image,
    numpy_finished,
    padded,
    shifted,
    spatially,
    split_image,
    tuples,
)


def convolution(
    fn: Callable[..., te.TensorRef],
    n: int,
    ci: int,
    sizes: tuple[int, ...],
    co: int,
    kernel: tuple[int, ...],
    window: tuple[te.Ints, ...],
    *,
    groups: int,
    layout: str,
    bias: bool,
    batch_norm: bool,
    eps: float,
    activation: Activation,
    dtype: str,
    transposed: bool = False,
) -> te.TensorRef:
    """``fn``, of ``nn``, on inputs of these sizes, with what follows it.

    ``window``: ``fn``'s arguments after the bias, in its order.
    """
    check_groups(fn.__name__, groups, ci, co)
    x = te.input("input", image(layout, n, ci, sizes), dtype)
    if transposed:
        first, last = (ci, co // groups), (ci, co // groups)
    else:
        first, last = (co, ci // groups), (ci // groups, co)
    weight = te.input("weight", (*kernel, *last) if layout in CHANNELS_LAST else (*first, *kernel), dtype)
    added = te.input("bias", (co,), dtype) if bias else None
    out = fn(x, weight, added, *window, layout=layout)
    return finished(out, co, layout=layout, batch_norm=batch_norm, eps=eps, activation=activation, dtype=dtype)


def infer_convolution(
    op: str,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
    *,
    groups: int = 1,
    layout: str = "",
    bias: bool = False,
    batch_norm: bool = False,
    **_: object,
) -> dict[str, Value]:
    """Sizes by ``names`` (n, ci, spatial sizes, co, kernel) from the inputs' shapes."""
    check_ranks(op, shapes, [(len(names) + 1) // 2] * 2)
    n, ci, sizes = split_image(layout, shapes[0])
    weight = shapes[1]
    if layout in CHANNELS_LAST:
        weight = (weight[-1], weight[-2], *weight[:-2])
    co, cw, *kernel = weight
    check_groups(op, groups, ci, co)
    if ci != cw * groups:
        raise UsageError(
            f"{op}: input has {ci} channels, and weight takes {cw} in each of {groups} groups",
            "The input's channels are groups times the weight's",
        )
    check_rest(op, shapes[2:], co, bias, batch_norm)
    return dict(zip(names, (n, ci, *sizes, co, *kernel), strict=True))


def numpy_convolution(
    x: Array,
    weight: Array,
    *rest: Array,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    groups: int = 1,
    layout: str = "",
    bias: bool = False,
    batch_norm: bool = False,
    eps: float = 1e-5,
    activation: Activation = "none",
    precision: str = "ieee",
) -> Array:
    """One matrix product a tap, of the weights and the window's view of the input: ``exact`` in any ``precision``."""
    del precision
    axes = x.ndim - 2
    image = padded(channels_first(x, layout), tuples(padding, axes))
    w = wide_weight(weight, layout)
    co, cg, *kernel = w.shape
    n, step = len(x), tuples(stride, axes)
    out: Array | None = None
    for tap, window in shifted(image, kernel, step, tuples(dilation, axes)):
        taps = np.ascontiguousarray(spatially(w, tap)).reshape(groups, co // groups, cg)
        sizes = window.shape[2:]
        product = np.matmul(taps, window.reshape(n, groups, cg, math.prod(sizes))).reshape(n, co, *sizes)
        out = product if out is None else out + product
    assert out is not None  # a window has elements
    return numpy_finished(out, x, rest, layout=layout, bias=bias, batch_norm=batch_norm, eps=eps, activation=activation)


def wide_weight(weight: Array, layout: str) -> Array:
    """A weight as (co, ci/groups, *kernel), 16-bit ones as float32."""
    if layout in CHANNELS_LAST:
        weight = np.moveaxis(weight, (-1, -2), (0, 1))
    return channels_first(weight, "")
