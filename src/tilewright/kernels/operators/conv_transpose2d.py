"""Two-dimensional transposed convolution."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.convolution import convolution
from tilewright.kernels.operators.epilogue import Activation
from tilewright.kernels.operators.transposed import infer_transposed, numpy_transposed
from tilewright.kernels.operators.windowed import DTYPES

_SIZES = ("n", "ci", "h", "w", "co", "kh", "kw")


@operator(
    numpy=numpy_transposed,
    infer=partial(infer_transposed, "conv_transpose2d", _SIZES),
    dtypes=DTYPES,
    example={"n": 1, "ci": 64, "h": 16, "w": 16, "co": 32, "kh": 4, "kw": 4, "stride": 2, "padding": 1},
)
def conv_transpose2d(
    n: int,
    ci: int,
    h: int,
    w: int,
    co: int,
    kh: int,
    kw: int,
    *,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    output_padding: te.Ints = 0,
    groups: int = 1,
    dilation: te.Ints = 1,
    layout: Literal["NCHW", "NHWC"] = "NCHW",
    bias: bool = False,
    batch_norm: bool = False,
    eps: float = 1e-5,
    activation: Activation = "none",
    dtype: str = "float32",
) -> te.TensorRef:
    """Two-dimensional transposed convolution, and what follows it in a layer.

    ``out[n, o, y, z] = activation(norm(bias[o] + sum of
    input[n, c, i, j] * weight[c, o, r, s]))`` over all channels, elements and taps for which
    ``i*stride + r*dilation - padding == y``, and likewise along the other axis.

    Inputs in call order: ``input`` (n, ci, h, w), ``weight`` (ci, co/groups, kh, kw); where asked for,
    ``bias`` (co,); for ``batch_norm``, ``running_mean``, ``running_var``, ``bn_weight``, ``bn_bias`` (co,).
    Output: (n, co, ho, wo) with ``ho = (h - 1)*stride - 2*padding + dilation*(kh - 1) + output_padding + 1``.
    With ``layout=NHWC``: (n, h, w, ci), (kh, kw, ci, co/groups), giving (n, ho, wo, co).

    ``stride``, ``padding``, ``output_padding`` and ``dilation`` hold for all spatial axes, or one for each (``2,1``).
    ``norm`` and groups are those of ``conv2d``. 16-bit reals are computed in float32 and rounded once.
    """
    return convolution(
        nn.conv_transpose2d, n, ci, (h, w), co, (kh, kw), (stride, padding, output_padding, groups, dilation),
        groups=groups, layout=layout, bias=bias, batch_norm=batch_norm, eps=eps, activation=activation, dtype=dtype,
        transposed=True,
    )  # fmt: skip
