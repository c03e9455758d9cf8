"""Transposed convolutions over one and two spatial axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.sizes import check_groups
from tilewright.kernels.operator import Operator
from tilewright.kernels.operators.convolution import convolution, size_names
from tilewright.kernels.operators.epilogue import Activation, Array
from tilewright.kernels.operators.precision import wide
from tilewright.kernels.operators.windowed import (
    CHANNELS_LAST,
    channels_first,
    check_ranks,
    check_rest,
    check_window,
    numpy_finished,
    over_axes,
    spatially,
    split_image,
    tuples,
)


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
    """{Rank}-dimensional transposed convolution, and what follows it in a layer.

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
        (stride, padding, output_padding, groups, dilation), groups=groups, layout=layout, bias=bias,
        batch_norm=batch_norm, eps=eps, activation=activation, dtype=dtype, transposed=True,
    )  # fmt: skip


def infer_transposed(
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
        weight = (*weight[-2:], *weight[:-2])
    cw, og, *kernel = weight
    if ci != cw:
        raise UsageError(f"{op}: input has {ci} channels and weight takes {cw}", "They must agree")
    co = og * groups
    check_groups(op, groups, ci, co)
    check_rest(op, shapes[2:], co, bias, batch_norm)
    return dict(zip(names, (n, ci, *sizes, co, *kernel), strict=True))


def numpy_transposed(
    x: Array,
    weight: Array,
    *rest: Array,
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
) -> Array:
    """Every tap adds the input, times its weights, to the places of the output that it reaches."""
    axes = x.ndim - 2
    image, w = channels_first(x, layout), wide(weight)
    if layout in CHANNELS_LAST:
        w = np.moveaxis(w, (-2, -1), (0, 1))
    (n, ci, *sizes), (_, og, *kernel) = image.shape, w.shape
    steps, gaps = tuples(stride, axes), tuples(dilation, axes)
    pads, extras = tuples(padding, axes), tuples(output_padding, axes)
    spans = [(h - 1) * s + d * (k - 1) + 1 for h, s, d, k in zip(sizes, steps, gaps, kernel, strict=True)]
    # Beyond what the taps reach, a larger output_padding than padding leaves places that nothing is added to.
    full = np.zeros((n, groups * og, *(a + e for a, e in zip(spans, extras, strict=True))), image.dtype)
    check_window(kernel, sizes)
    flat = image.reshape(n, groups, ci // groups, math.prod(sizes))
    for tap in itertools.product(*map(range, kernel)):
        taps = spatially(w, tap).reshape(groups, ci // groups, og)
        product = np.matmul(taps.swapaxes(1, 2), flat).reshape(n, groups * og, *sizes)
        parts = zip(tap, gaps, steps, sizes, strict=True)
        reached = spatially(full, [slice(r * d, r * d + s * (h - 1) + 1, s) for r, d, s, h in parts])
        reached += product
    inner = [slice(p, a + e - p) for a, p, e in zip(spans, pads, extras, strict=True)]
    return numpy_finished(
        spatially(full, inner), x, rest, layout=layout, bias=bias, batch_norm=batch_norm, eps=eps, activation=activation
    )


def _operator(axes: int, example: dict[str, Value], **text: str) -> Operator:
    return over_axes(
        conv_transpose, axes, size_names(axes), example, numpy=numpy_transposed, infer=infer_transposed,
        at=", ".join("ij"[:axes]), taps=", ".join("rs"[:axes]), conv=f"conv{axes}d", **text,
    )  # fmt: skip


conv_transpose1d = _operator(
    1, {"n": 1, "ci": 64, "w": 64, "co": 32, "kw": 4, "stride": 2, "padding": 1}, out_at="j", meets="j``"
)
conv_transpose2d = _operator(
    2,
    {"n": 1, "ci": 64, "h": 16, "w": 16, "co": 32, "kh": 4, "kw": 4, "stride": 2, "padding": 1},
    out_at="y, z",
    meets="y``, and likewise along the other axis",
)
