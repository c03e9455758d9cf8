"""Tilewright for JAX: functions with gradients, under ``jit`` and ``vmap``, that tuned kernels answer.

Importing it imports JAX.
"""

from __future__ import annotations

from tilewright.jax.operators import (
    batch_matmul,
    call,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    layer_norm,
    linear,
    log_softmax,
    matmul,
    rms_norm,
    scaled_dot_product_attention,
    softmax,
)
from tilewright.jax.serving import library, use

__all__ = [
    "batch_matmul", "call", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "layer_norm",
    "library", "linear", "log_softmax", "matmul", "rms_norm", "scaled_dot_product_attention", "softmax", "use",
]  # fmt: skip
