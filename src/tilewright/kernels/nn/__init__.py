"""Functions on tensors from which operators are composed, named as in ``torch.nn.functional``.

>>> from tilewright import nn, operator, te
>>> @operator
... def block(n: int, c: int, h: int, w: int):
...     x, weight = te.input("input", (n, c, h, w)), te.input("weight", (c, c, 3, 3))
...     return nn.relu(nn.conv2d(x, weight, padding=1))
>>> block.workload(n=1, c=8, h=14, w=14).output.shape
(1, 8, 14, 14)

Each function takes and returns ``te.TensorRef``s. Its computation has one or a few stages, which templates fuse. 16-bit
reals are computed in float32 and the result is float32: ``nn.cast(y, "float16")`` rounds the result in its last stage.
"""

from __future__ import annotations

from typing import NoReturn

from tilewright.kernels.nn.activation import gelu, relu, sigmoid, silu, tanh
from tilewright.kernels.nn.attention import scaled_dot_product_attention
from tilewright.kernels.nn.conv import capsule_conv2d, conv1d, conv2d, conv3d
from tilewright.kernels.nn.conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from tilewright.kernels.nn.dims import cast
from tilewright.kernels.nn.formula import add, elementwise, mul
from tilewright.kernels.nn.layout import cat, embedding, index_add, pad, permute, transpose
from tilewright.kernels.nn.linear import bmm, complex_matmul, conj, einsum, grouped_matmul, linear, matmul
from tilewright.kernels.nn.normalize import (
    batch_norm,
    group_norm,
    layer_norm,
    layer_norm_backward,
    log_softmax,
    log_softmax_backward,
    rms_norm,
    rms_norm_backward,
    softmax,
    softmax_backward,
)
from tilewright.kernels.nn.pool import (
    adaptive_avg_pool,
    adaptive_max_pool,
    adaptive_max_pool_positions,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_positions,
)
from tilewright.kernels.nn.quantize import dequant_matmul, quantized_matmul, requantize, scaled_mm
from tilewright.kernels.nn.reduce import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    logsumexp,
    mean,
    norm,
    prod,
    sum,
    var_mean,
)

__all__ = [
    "adaptive_avg_pool", "adaptive_max_pool", "adaptive_max_pool_positions", "add", "amax", "amin", "argmax",
    "argmin", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bmm", "capsule_conv2d", "cast", "cat",
    "complex_matmul", "conj", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "cumprod", "cumsum", "dequant_matmul", "einsum", "elementwise", "embedding", "gelu",
    "group_norm", "grouped_matmul", "index_add", "layer_norm", "layer_norm_backward", "linear", "log_softmax",
    "log_softmax_backward", "logsumexp", "matmul", "max_pool1d", "max_pool2d", "max_pool3d", "max_pool_positions",
    "mean", "mul", "norm", "pad", "permute", "prod", "quantized_matmul", "relu", "requantize", "rms_norm",
    "rms_norm_backward", "scaled_dot_product_attention", "scaled_mm", "sigmoid", "silu", "softmax",
    "softmax_backward", "sum", "tanh", "transpose", "var_mean",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> NoReturn:
    from tilewright.errors import NoFunction

    raise NoFunction("nn", name, __dir__())
