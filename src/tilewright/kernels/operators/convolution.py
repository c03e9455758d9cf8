"""Convolutions (cross-correlations, as in deep learning) over one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.sizes import AXES, check_groups
from tilewright.kernels.operator import Operator
from tilewright.kernels.operators.epilogue import Activation, Array
from tilewright.kernels.operators.windowed import (
    CHANNELS_LAST,
    channels_first,
    check_ranks,
    check_rest,
    finished,
    image,
    numpy_finished,
    over_axes,
    padded,
    shifted,
    spatially,
    split_image,
    tuples,
)


def conv(
    axes: int,
    sizes: tuple[int, ...],
    *,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    groups: int = 1,
    layout: str = "",
    bias: bool = False,
    batch_norm: bool = False,
    eps: float = 1e-5,
    activation: Activation = "none",
    precision: Literal["ieee", "exact"] = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """{Rank}-dimensional convolution (cross-correlation), and what follows it in a layer.

    ``out[n, o, {at}] = activation(norm(bias[o] + sum over c, {taps} of
    input[n, c, {reads}] * weight[o, c, {taps}]))``,
    ``input`` being zero outside of its bounds.

    Inputs in call order: ``input`` (n, ci, {space}), ``weight`` (co, ci/groups, {kernel}); where asked for,
    ``bias`` (co,); for ``batch_norm``, ``running_mean``, ``running_var``, ``bn_weight``, ``bn_bias`` (co,).
    Output: (n, co, {out}) with ``{first}o = ({first} + 2*padding - dilation*(k{first} - 1) - 1) // stride + 1``.
    With ``layout={last}``: (n, {space}, ci), ({kernel}, ci/groups, co), giving (n, {out}, co).

    ``stride``, ``padding`` and ``dilation`` hold for all spatial axes, or one for each (``2,1``). Output channel ``o``
    reads the ci/groups channels from ``o // (co/groups) * (ci/groups)`` on; ``groups=ci`` is a depthwise convolution.
    {precision}``norm(x) = (x - running_mean) / sqrt(running_var + eps) * bn_weight + bn_bias``. 16-bit reals are
    computed in float32 and rounded once.
    """
    return convolution(
        (nn.conv1d, nn.conv2d, nn.conv3d)[axes - 1], axes, sizes, (stride, padding, dilation, groups),
        groups=groups, layout=layout, bias=bias, batch_norm=batch_norm, eps=eps, activation=activation, dtype=dtype,
    )  # fmt: skip


def convolution(
    fn: Callable[..., te.TensorRef],
    axes: int,
    sizes: tuple[int, ...],
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
    """``fn``, of ``nn``, on inputs of the sizes that :func:`size_names` names, with what follows it.

    ``window``: ``fn``'s arguments after the bias, in its order.
    """
    n, ci, *spatial, co = sizes[: axes + 3]
    kernel = sizes[axes + 3 :]
    check_groups(fn.__name__, groups, ci, co)
    x = te.input("input", image(layout, n, ci, spatial), dtype)
    if transposed:
        first, last = (ci, co // groups), (ci, co // groups)
    else:
        first, last = (co, ci // groups), (ci // groups, co)
    weight = te.input("weight", (*kernel, *last) if layout in CHANNELS_LAST else (*first, *kernel), dtype)
    added = te.input("bias", (co,), dtype) if bias else None
    out = fn(x, weight, added, *window, layout=layout)
    return finished(out, co, layout=layout, batch_norm=batch_norm, eps=eps, activation=activation, dtype=dtype)


def size_names(axes: int) -> tuple[str, ...]:
    """Names of the sizes of a convolution of either direction: batch, channels, space, features, kernel."""
    names = AXES[-axes:]
    return ("n", "ci", *names, "co", *(f"k{a}" for a in names))


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
    """Sizes by ``names``, as :func:`size_names` gives them, from the inputs' shapes."""
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


def _operator(axes: int, **example: Value) -> Operator:
    at, taps = "ijk"[:axes], "rst"[:axes]
    exact = "With ``precision=exact`` the sums are those stated here, in some order, and never by Winograd's tiles.\n"
    return over_axes(
        conv, axes, size_names(axes), example, numpy=numpy_convolution, infer=infer_convolution,
        without=() if axes == 2 else ("precision",), precision=exact if axes == 2 else "",
        at=", ".join(at), taps=", ".join(taps),
        reads=", ".join(f"{i}*stride + {r}*dilation - padding" for i, r in zip(at, taps, strict=True)),
    )  # fmt: skip


conv1d = _operator(1, n=1, ci=64, w=256, co=128, kw=3, stride=2, padding=1)
conv2d = _operator(2, n=1, ci=64, h=56, w=56, co=64, kh=3, kw=3, padding=1)
conv3d = _operator(3, n=1, ci=16, d=8, h=28, w=28, co=32, kd=3, kh=3, kw=3, padding=1)
