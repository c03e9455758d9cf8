"""Two-dimensional convolution (cross-correlation, as in deep learning)."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.convolution import convolution, infer_convolution, numpy_convolution
from tilewright.kernels.operators.epilogue import Activation
from tilewright.kernels.operators.windowed import DTYPES

_SIZES = ("n", "ci", "h", "w", "co", "kh", "kw")


@operator(
    numpy=numpy_convolution,
    infer=partial(infer_convolution, "conv2d", _SIZES),
    dtypes=DTYPES,
    example={"n": 1, "ci": 64, "h": 56, "w": 56, "co": 64, "kh": 3, "kw": 3, "padding": 1},
)
def conv2d(
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
    dilation: te.Ints = 1,
    groups: int = 1,
    layout: Literal["NCHW", "NHWC"] = "NCHW",
    bias: bool = False,
    batch_norm: bool = False,
    eps: float = 1e-5,
    activation: Activation = "none",
    precision: Literal["ieee", "exact"] = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """Two-dimensional convolution (cross-correlation), and what follows it in a layer.

    ``out[n, o, i, j] = activation(norm(bias[o] + sum over c, r, s of
    input[n, c, i*stride + r*dilation - padding, j*stride + s*dilation - padding] * weight[o, c, r, s]))``,
    ``input`` being zero outside of its bounds.

    Inputs in call order: ``input`` (n, ci, h, w), ``weight`` (co, ci/groups, kh, kw); where asked for,
    ``bias`` (co,); for ``batch_norm``, ``running_mean``, ``running_var``, ``bn_weight``, ``bn_bias`` (co,).
    Output: (n, co, ho, wo) with ``ho = (h + 2*padding - dilation*(kh - 1) - 1) // stride + 1``.
    With ``layout=NHWC``: (n, h, w, ci), (kh, kw, ci/groups, co), giving (n, ho, wo, co).

    ``stride``, ``padding`` and ``dilation`` hold for all spatial axes, or one for each (``2,1``). Output channel ``o``
    reads the ci/groups channels from ``o // (co/groups) * (ci/groups)`` on; ``groups=ci`` is a depthwise convolution.
    With ``precision=exact`` the sums are those stated here, in some order, and never by Winograd's tiles.
    ``norm(x) = (x - running_mean) / sqrt(running_var + eps) * bn_weight + bn_bias``. 16-bit reals are computed in
    float32 and rounded once.
    """
    return convolution(
        nn.conv2d, n, ci, (h, w), co, (kh, kw), (stride, padding, dilation, groups),
        groups=groups, layout=layout, bias=bias, batch_norm=batch_norm, eps=eps, activation=activation, dtype=dtype,
    )  # fmt: skip
