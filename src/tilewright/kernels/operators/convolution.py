"""Convolutions (cross-correlations, as in deep learning) over one to three axes: plain, transposed, of capsules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.activation import Activation
from tilewright.kernels.nn.sizes import AXES, check_groups
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators.numeric import REALS, Array, Found, Shapes, expected, rounded_like, wide
from tilewright.kernels.operators.windowed import (
    CHANNELS_LAST,
    Layer,
    channels_first,
    check_ranks,
    check_window,
    image,
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
    """{Rank}-dimensional convolution (cross-correlation), with the epilogue of a layer.

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
        (nn.conv1d, nn.conv2d, nn.conv3d)[axes - 1], axes, sizes, (stride, padding, dilation, groups), groups,
        Layer(layout, bias, batch_norm, eps, activation), dtype,
    )  # fmt: skip


def conv_transpose(
    axes: int,
    sizes: tuple[int, ...],
    *,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    output_padding: te.Ints = 0,
    groups: int = 1,
    dilation: te.Ints = 1,
    layout: str = "",
    bias: bool = False,
    batch_norm: bool = False,
    eps: float = 1e-5,
    activation: Activation = "none",
    dtype: str = "float32",
) -> te.TensorRef:
    """{Rank}-dimensional transposed convolution, with the epilogue of a layer.

    ``out[n, o, {out_at}] = activation(norm(bias[o] + sum of input[n, c, {at}] * weight[c, o, {taps}]))``
    over all channels, elements and taps for which ``i*stride + r*dilation - padding == {meets}.

    Inputs in call order: ``input`` (n, ci, {space}), ``weight`` (ci, co/groups, {kernel}); where asked for,
    ``bias`` (co,); for ``batch_norm``, ``running_mean``, ``running_var``, ``bn_weight``, ``bn_bias`` (co,).
    Output: (n, co, {out}) with
    ``{first}o = ({first} - 1)*stride - 2*padding + dilation*(k{first} - 1) + output_padding + 1``.
    With ``layout={last}``: (n, {space}, ci), ({kernel}, ci, co/groups), giving (n, {out}, co).

    ``stride``, ``padding``, ``output_padding`` and ``dilation`` hold for all spatial axes, or one for each (``2,1``).
    ``norm`` and groups are those of ``{conv}``. 16-bit reals are computed in float32 and rounded once.
    """
    return convolution(
        (nn.conv_transpose1d, nn.conv_transpose2d)[axes - 1], axes, sizes,
        (stride, padding, output_padding, groups, dilation), groups,
        Layer(layout, bias, batch_norm, eps, activation), dtype, transposed=True,
    )  # fmt: skip


def convolution(
    fn: Callable[..., te.TensorRef],
    axes: int,
    sizes: tuple[int, ...],
    window: tuple[te.Ints, ...],
    groups: int,
    layer: Layer,
    dtype: str,
    transposed: bool = False,
) -> te.TensorRef:
    """``fn``, of ``nn``, on inputs of the sizes named by :func:`size_names`, with the layer's epilogue.

    ``window``: ``fn``'s arguments after the bias, in its order.
    """
    n, ci, *spatial, co = sizes[: axes + 3]
    kernel = sizes[axes + 3 :]
    check_groups(fn.__name__, groups, ci, co)
    x = te.input("input", image(layer.layout, n, ci, spatial), dtype)
    last = (ci, co // groups) if transposed else (ci // groups, co)
    first = last if transposed else last[::-1]
    weight = te.input("weight", (*kernel, *last) if layer.layout in CHANNELS_LAST else (*first, *kernel), dtype)
    added = te.input("bias", (co,), dtype) if layer.bias else None
    return layer.finished(fn(x, weight, added, *window, layout=layer.layout), co, dtype)


def size_names(axes: int) -> tuple[str, ...]:
    """Names of the sizes of a convolution, plain or transposed: batch, channels, space, features, kernel."""
    names = AXES[-axes:]
    return ("n", "ci", *names, "co", *(f"k{a}" for a in names))


def infer_convolution(
    op: str,
    names: Sequence[str],
    shapes: Shapes,
    *,
    groups: int,
    layout: str,
    bias: bool,
    batch_norm: bool,
    transposed: bool = False,
) -> Found:
    """Sizes by ``names``, as :func:`size_names` returns them, from the inputs' shapes."""
    check_ranks(op, shapes, [(len(names) + 1) // 2] * 2)
    n, ci, sizes = split_image(layout, shapes[0])
    last = layout in CHANNELS_LAST
    channels, kernel = (shapes[1][-2:], shapes[1][:-2]) if last else (shapes[1][:2], shapes[1][2:])
    if transposed:
        cw, og = channels
        if ci != cw:
            raise UsageError(f"{op}: input has {ci} channels and weight takes {cw}", "They must agree")
        co = og * groups
    else:
        cw, co = channels if last else channels[::-1]
    check_groups(op, groups, ci, co)
    if not transposed and ci != cw * groups:
        raise UsageError(
            f"{op}: input has {ci} channels, and weight takes {cw} in each of {groups} groups",
            "The input's channels are groups times the weight's",
        )
    expected(op, shapes[2:], [(co,)] * (bias + 4 * batch_norm))
    return dict(zip(names, (n, ci, *sizes, co, *kernel), strict=True))


def numpy_convolution(
    x: Array,
    weight: Array,
    *rest: Array,
    stride: te.Ints,
    padding: te.Ints,
    dilation: te.Ints,
    groups: int,
    precision: str = "ieee",
    **layer: Any,
) -> Array:
    """Convolution by one matrix product per tap, of the weights and a shifted view of the input; exact in any
    ``precision``."""
    del precision
    axes, after = x.ndim - 2, Layer(**layer)
    whole = padded(channels_first(x, after.layout), tuples(padding, axes))
    w = np.moveaxis(wide(weight), (-1, -2), (0, 1)) if after.layout in CHANNELS_LAST else wide(weight)
    co, cg, *kernel = w.shape
    n, step = len(x), tuples(stride, axes)
    out: Array | None = None
    for tap, window in shifted(whole, kernel, step, tuples(dilation, axes)):
        taps = np.ascontiguousarray(spatially(w, tap)).reshape(groups, co // groups, cg)
        sizes = window.shape[2:]
        product = np.matmul(taps, window.reshape(n, groups, cg, math.prod(sizes))).reshape(n, co, *sizes)
        out = product if out is None else out + product
    assert out is not None  # a window has elements
    return after.numpy_finished(out, x, rest)


def numpy_transposed(
    x: Array,
    weight: Array,
    *rest: Array,
    stride: te.Ints,
    padding: te.Ints,
    output_padding: te.Ints,
    groups: int,
    dilation: te.Ints,
    **layer: Any,
) -> Array:
    """Transposed convolution: every tap adds the input, times its weights, to the output elements that it reaches."""
    axes, after = x.ndim - 2, Layer(**layer)
    whole = channels_first(x, after.layout)
    w = np.moveaxis(wide(weight), (-2, -1), (0, 1)) if after.layout in CHANNELS_LAST else wide(weight)
    (n, ci, *sizes), (_, og, *kernel) = whole.shape, w.shape
    steps, gaps = tuples(stride, axes), tuples(dilation, axes)
    pads, extras = tuples(padding, axes), tuples(output_padding, axes)
    spans = [(h - 1) * s + d * (k - 1) + 1 for h, s, d, k in zip(sizes, steps, gaps, kernel, strict=True)]
    # If output_padding exceeds padding, the output has elements that no tap reaches.
    full = np.zeros((n, groups * og, *(a + e for a, e in zip(spans, extras, strict=True))), whole.dtype)
    check_window(kernel, sizes)
    flat = whole.reshape(n, groups, ci // groups, math.prod(sizes))
    for tap in itertools.product(*map(range, kernel)):
        taps = spatially(w, tap).reshape(groups, ci // groups, og)
        product = np.matmul(taps.swapaxes(1, 2), flat).reshape(n, groups * og, *sizes)
        parts = zip(tap, gaps, steps, sizes, strict=True)
        reached = spatially(full, [slice(r * d, r * d + s * (h - 1) + 1, s) for r, d, s, h in parts])
        reached += product
    inner = [slice(p, a + e - p) for a, p, e in zip(spans, pads, extras, strict=True)]
    return after.numpy_finished(spatially(full, inner), x, rest)


def _plain(axes: int, **example: Value) -> Operator:
    at, taps = "ijk"[:axes], "rst"[:axes]
    exact = "With ``precision=exact`` the sums are those stated here, in some order, and never by Winograd's tiles.\n"
    return over_axes(
        conv, axes, size_names(axes), example, numpy=numpy_convolution, infer=infer_convolution,
        without=() if axes == 2 else ("precision",), precision=exact if axes == 2 else "",
        at=", ".join(at), taps=", ".join(taps),
        reads=", ".join(f"{i}*stride + {r}*dilation - padding" for i, r in zip(at, taps, strict=True)),
    )  # fmt: skip


conv1d = _plain(1, n=1, ci=64, w=256, co=128, kw=3, stride=2, padding=1)
conv2d = _plain(2, n=1, ci=64, h=56, w=56, co=64, kh=3, kw=3, padding=1)
conv3d = _plain(3, n=1, ci=16, d=8, h=28, w=28, co=32, kd=3, kh=3, kw=3, padding=1)


def _transposed(axes: int, example: dict[str, Value], **text: str) -> Operator:
    return over_axes(
        conv_transpose, axes, size_names(axes), example, numpy=numpy_transposed,
        infer=partial(infer_convolution, transposed=True),
        at=", ".join("ij"[:axes]), taps=", ".join("rs"[:axes]), conv=f"conv{axes}d", **text,
    )  # fmt: skip


conv_transpose1d = _transposed(
    1, {"n": 1, "ci": 64, "w": 64, "co": 32, "kw": 4, "stride": 2, "padding": 1}, out_at="j", meets="j``"
)
conv_transpose2d = _transposed(
    2,
    {"n": 1, "ci": 64, "h": 16, "w": 16, "co": 32, "kh": 4, "kw": 4, "stride": 2, "padding": 1},
    out_at="y, z",
    meets="y``, and likewise along the other axis",
)


def _numpy_capsules(x: Array, weight: Array, *, stride: te.Ints, padding: te.Ints) -> Array:
    (top, left), w = tuples(padding, 2), wide(weight)
    whole = np.pad(wide(x), ((0, 0), (top, top), (left, left), (0, 0), (0, 0), (0, 0)))
    n, h, width, cap_h, cap_k, ci = whole.shape
    kh, kw, _, cap_w, _, co = w.shape
    rows = np.moveaxis(whole.reshape(n, h, width, cap_h * cap_k * ci), -1, 1)
    out: Array | None = None
    for (r, s), window in shifted(rows, (kh, kw), tuples(stride, 2), (1, 1)):
        ho, wo = window.shape[2:]
        left_side = np.moveaxis(window, 1, -1).reshape(n * ho * wo * cap_h, cap_k * ci)
        right_side = w[r, s].transpose(0, 2, 1, 3).reshape(cap_k * ci, cap_w * co)
        product = (left_side @ right_side).reshape(n, ho, wo, cap_h, cap_w, co)
        out = product if out is None else out + product
    assert out is not None  # a window has elements
    return rounded_like(out, x)


def _infer_capsules(shapes: Shapes) -> Found:
    check_ranks("capsule_conv2d", shapes, (6, 6))
    x, weight = shapes
    n, h, w, cap_h, cap_k, ci = x
    kh, kw, cap_kw, cap_w, cw, co = weight
    if (cap_k, ci) != (cap_kw, cw):
        raise UsageError(
            f"capsule_conv2d cannot multiply input {x} by weight {weight}",
            "cap_k and ci must agree: input (n, h, w, cap_h, cap_k, ci), weight (kh, kw, cap_k, cap_w, ci, co)",
        )
    return {
        "n": n, "h": h, "w": w, "ci": ci, "co": co, "kh": kh, "kw": kw, "cap_h": cap_h, "cap_k": cap_k, "cap_w": cap_w,
    }  # fmt: skip


@operator(
    numpy=_numpy_capsules,
    infer=_infer_capsules,
    dtypes=REALS,
    example={
        "n": 1, "h": 8, "w": 8, "ci": 16, "co": 16, "kh": 3, "kw": 3, "cap_h": 4, "cap_k": 4, "cap_w": 4, "padding": 1,
    },
)  # fmt: skip
def capsule_conv2d(
    n: int,
    h: int,
    w: int,
    ci: int,
    co: int,
    kh: int,
    kw: int,
    cap_h: int,
    cap_k: int,
    cap_w: int,
    *,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    dtype: str = "float32",
) -> te.TensorRef:
    """Two-dimensional convolution of capsules: channels hold matrices, which are multiplied.

    ``out[n, i, j, p, q, o] = sum over r, s, k, c of
    input[n, i*stride + r - padding, j*stride + s - padding, p, k, c] * weight[r, s, k, q, c, o]``, ``input`` being
    zero outside of its bounds.

    Inputs in call order: ``input`` (n, h, w, cap_h, cap_k, ci), ``weight`` (kh, kw, cap_k, cap_w, ci, co). Output:
    (n, ho, wo, cap_h, cap_w, co) with ``ho = (h + 2*padding - kh) // stride + 1``. ``stride`` and ``padding`` hold for
    both axes, or one for each. 16-bit reals are computed in float32 and rounded once.
    """
    x = te.input("input", (n, h, w, cap_h, cap_k, ci), dtype)
    weight = te.input("weight", (kh, kw, cap_k, cap_w, ci, co), dtype)
    return nn.cast(nn.capsule_conv2d(x, weight, stride, padding), dtype)
