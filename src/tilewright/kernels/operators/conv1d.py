"""One-dimensional convolution (cross-correlation, as in deep learning)."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.convolution import convolution, infer_convolution, numpy_convolution
from tilewright.kernels.operators.epilogue import Activation
from tilewright.kernels.operators.windowed import DTYPES

_SIZES = ("n", "ci", "w", "co", "kw")


@operator(
    numpy=numpy_convolution,
    infer=partial(infer_convolution, "conv1d", _SIZES),
    dtypes=DTYPES,
    example={"n": 1, "ci": 64, "w": 256, "co": 128, "kw": 3, "stride": 2, "padding": 1},
)
def conv1d(
    n: int,
    ci: int,
    w: int,
    co: int,
    kw: int,
    *,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    groups: int = 1,
    layout: Literal["NCW", "NWC"] = "NCW",
    bias: bool = False,
    batch_norm: bool = False,
    eps: float = 1e-5,
    activation: Activation = "none",
    dtype: str = "float32",
) -> te.TensorRef:
    """One-dimensional convolution (cross-correlation), and what follows it in a layer.

    ``out[n, o, i] = activation(norm(bias[o] + sum over c, r of
    input[n, c, i*stride + r*dilation - padding] * weight[o, c, r]))``,
    ``input`` being zero outside of its bounds.

    Inputs in call order: ``input`` (n, ci, w), ``weight`` (co, ci/groups, kw); where asked for,
    ``bias`` (co,); for ``batch_norm``, ``running_mean``, ``running_var``, ``bn_weight``, ``bn_bias`` (co,).
    Output: (n, co, wo) with ``wo = (w + 2*padding - dilation*(kw - 1) - 1) // stride + 1``.
    With ``layout=NWC``: (n, w, ci), (kw, ci/groups, co), giving (n, wo, co).

    ``stride``, ``padding`` and ``dilation`` hold for all spatial axes, or one for each (``2,1``). Output channel ``o``
    reads the ci/groups channels from ``o // (co/groups) * (ci/groups)`` on; ``groups=ci`` is a depthwise convolution.
    ``norm(x) = (x - running_mean) / sqrt(running_var + eps) * bn_weight + bn_bias``. 16-bit reals are computed in
    float32 and rounded once.
    """
    return convolution(
        nn.conv1d, n, ci, (w,), co, (kw,), (stride, padding, dilation, groups),
        groups=groups, layout=layout, bias=bias, batch_norm=batch_norm, eps=eps, activation=activation, dtype=dtype,
    )  # fmt: skip
