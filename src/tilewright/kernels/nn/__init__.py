"""Functions on tensors from which operators are composed, named as in ``torch.nn.functional``.

>>> from tilewright import nn, operator, te
>>> @operator
... def block(n: int, c: int, h: int, w: int):
...     x, weight = te.input("input", (n, c, h, w)), te.input("weight", (c, c, 3, 3))
...     return nn.relu(nn.conv2d(x, weight, padding=1))
>>> block.workload(n=1, c=8, h=14, w=14).output.shape
(1, 8, 14, 14)

Each takes and returns ``te.TensorRef``s; what it computes is one or a few stages, which templates fuse. 16-bit reals
are computed in float32 and the result is float32: ``nn.cast(y, "float16")`` rounds it, in the stage that gives it.
"""

from __future__ import annotations

from typing import NoReturn

# Activations and element types
from tilewright.kernels.nn.activation import gelu as gelu
from tilewright.kernels.nn.activation import relu as relu
from tilewright.kernels.nn.activation import sigmoid as sigmoid
from tilewright.kernels.nn.activation import silu as silu
from tilewright.kernels.nn.activation import tanh as tanh

# Products, reductions, rows, layouts, attention
from tilewright.kernels.nn.attention import scaled_dot_product_attention as scaled_dot_product_attention

# Convolutions, pooling, batch norm
from tilewright.kernels.nn.capsule import capsule_conv2d as capsule_conv2d
from tilewright.kernels.nn.complex import complex_matmul as complex_matmul
from tilewright.kernels.nn.complex import conj as conj
from tilewright.kernels.nn.conv import conv1d as conv1d
from tilewright.kernels.nn.conv import conv2d as conv2d
from tilewright.kernels.nn.conv import conv3d as conv3d
from tilewright.kernels.nn.conv_transpose import conv_transpose1d as conv_transpose1d
from tilewright.kernels.nn.conv_transpose import conv_transpose2d as conv_transpose2d
from tilewright.kernels.nn.conv_transpose import conv_transpose3d as conv_transpose3d
from tilewright.kernels.nn.einsum import einsum as einsum
from tilewright.kernels.nn.element import cast as cast
from tilewright.kernels.nn.elementwise import add as add
from tilewright.kernels.nn.elementwise import elementwise as elementwise
from tilewright.kernels.nn.elementwise import mul as mul
from tilewright.kernels.nn.gradient import layer_norm_backward as layer_norm_backward
from tilewright.kernels.nn.gradient import log_softmax_backward as log_softmax_backward
from tilewright.kernels.nn.gradient import rms_norm_backward as rms_norm_backward
from tilewright.kernels.nn.gradient import softmax_backward as softmax_backward
from tilewright.kernels.nn.layout import cat as cat
from tilewright.kernels.nn.layout import embedding as embedding
from tilewright.kernels.nn.layout import index_add as index_add
from tilewright.kernels.nn.layout import pad as pad
from tilewright.kernels.nn.layout import permute as permute
from tilewright.kernels.nn.layout import transpose as transpose
from tilewright.kernels.nn.linear import bmm as bmm
from tilewright.kernels.nn.linear import grouped_matmul as grouped_matmul
from tilewright.kernels.nn.linear import linear as linear
from tilewright.kernels.nn.linear import matmul as matmul
from tilewright.kernels.nn.norm_inference import batch_norm as batch_norm
from tilewright.kernels.nn.normalize import group_norm as group_norm
from tilewright.kernels.nn.normalize import layer_norm as layer_norm
from tilewright.kernels.nn.normalize import rms_norm as rms_norm
from tilewright.kernels.nn.pool import adaptive_avg_pool as adaptive_avg_pool
from tilewright.kernels.nn.pool import adaptive_max_pool as adaptive_max_pool
from tilewright.kernels.nn.pool import adaptive_max_pool_positions as adaptive_max_pool_positions
from tilewright.kernels.nn.pool import avg_pool1d as avg_pool1d
from tilewright.kernels.nn.pool import avg_pool2d as avg_pool2d
from tilewright.kernels.nn.pool import avg_pool3d as avg_pool3d
from tilewright.kernels.nn.pool import max_pool1d as max_pool1d
from tilewright.kernels.nn.pool import max_pool2d as max_pool2d
from tilewright.kernels.nn.pool import max_pool3d as max_pool3d
from tilewright.kernels.nn.pool import max_pool_positions as max_pool_positions
from tilewright.kernels.nn.quantize import dequant_matmul as dequant_matmul
from tilewright.kernels.nn.quantize import quantized_matmul as quantized_matmul
from tilewright.kernels.nn.quantize import requantize as requantize
from tilewright.kernels.nn.quantize import scaled_mm as scaled_mm
from tilewright.kernels.nn.reduce import amax as amax
from tilewright.kernels.nn.reduce import amin as amin
from tilewright.kernels.nn.reduce import argmax as argmax
from tilewright.kernels.nn.reduce import argmin as argmin
from tilewright.kernels.nn.reduce import cumprod as cumprod
from tilewright.kernels.nn.reduce import cumsum as cumsum
from tilewright.kernels.nn.reduce import logsumexp as logsumexp
from tilewright.kernels.nn.reduce import mean as mean
from tilewright.kernels.nn.reduce import norm as norm
from tilewright.kernels.nn.reduce import prod as prod
from tilewright.kernels.nn.reduce import sum as sum
from tilewright.kernels.nn.reduce import var_mean as var_mean
from tilewright.kernels.nn.softmax import log_softmax as log_softmax
from tilewright.kernels.nn.softmax import softmax as softmax


def __dir__() -> list[str]:
    return sorted(n for n, v in globals().items() if getattr(v, "__module__", "").startswith(__name__) and n[0] != "_")


def __getattr__(name: str) -> NoReturn:
    from tilewright.errors import NoFunction

    raise NoFunction("nn", name, __dir__())
