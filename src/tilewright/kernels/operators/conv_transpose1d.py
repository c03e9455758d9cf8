"""One-dimensional transposed convolution."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.convolution import convolution
from tilewright.kernels.operators.epilogue import Activation
from tilewright.kernels.operators.transposed import infer_transposed, numpy_transposed
from tilewright.kernels.operators.windowed import DTYPES

_SIZES = ("n", "ci", "w", "co", "kw")


@operator(
    numpy=numpy_transposed,
    infer=partial(infer_transposed, "conv_transpose1d", _SIZES),
    dtypes=DTYPES,
    example={"n": 1, "ci": 64, "w": 64, "co": 32, "kw": 4, "stride": 2, "padding": 1},
)
def conv_transpose1d(
    n: int,
    ci: int,
    w: int,
    co: int,
    kw: int,
    *,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    output_padding: te.Ints = 0,
    groups: int = 1,
    dilation: te.Ints = 1,
    layout: Literal["NCW", "NWC"] = "NCW",
    bias: bool = False,
    batch_norm: bool = False,
    eps: float = 1e-5,
    activation: Activation = "none",
    dtype: str = "float32",
) -> te.TensorRef:
    """One-dimensional transposed convolution, and what follows it in a layer.

    ``out[n, o, j] = activation(norm(bias[o] + sum of input[n, c, i] * weight[c, o, r]))``
    over all channels, elements and taps for which ``i*stride + r*dilation - padding == j``.

    Inputs in call order: ``input`` (n, ci, w), ``weight`` (ci, co/groups, kw); where asked for,
    ``bias`` (co,); for ``batch_norm``, ``running_mean``, ``running_var``, ``bn_weight``, ``bn_bias`` (co,).
    Output: (n, co, wo) with ``wo = (w - 1)*stride - 2*padding + dilation*(kw - 1) + output_padding + 1``.
    With ``layout=NWC``: (n, w, ci), (kw, ci, co/groups), giving (n, wo, co).

    ``stride``, ``padding``, ``output_padding`` and ``dilation`` hold for all spatial axes, or one for each (``2,1``).
    ``norm`` and groups are those of ``conv1d``. 16-bit reals are computed in float32 and rounded once.
    """
    return convolution(
        nn.conv_transpose1d, n, ci, (w,), co, (kw,), (stride, padding, output_padding, groups, dilation),
        groups=groups, layout=layout, bias=bias, batch_norm=batch_norm, eps=eps, activation=activation, dtype=dtype,
        transposed=True,
    )  # fmt: skip
