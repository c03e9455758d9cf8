"""What may follow a contraction element by element: bias, activation, residual.

``out = activation(value + bias) + residual``, each part optional; as an expression for operators,
and in NumPy for their independent implementations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.kernels.expression.numerics import erf
from tilewright.kernels.nn.activation import SQRT_2_OVER_PI, SQRT_HALF, Activation, activate

__all__ = ["Activation", "Array", "activate", "numpy_epilogue"]

Array = np.ndarray[Any, Any]


def numpy_epilogue(
    out: Array,
    rest: tuple[Array, ...],
    bias: bool,
    activation: Activation,
    residual: bool,
    bias_axis: int = -1,
) -> Array:
    """The same on arrays, in their dtype; ``rest`` holds the bias and the residual that are asked for."""
    extra = list(rest)
    if len(extra) != bias + residual:
        raise ValueError(f"expected {bias + residual} arrays after the operands, got {len(extra)}")
    if bias:
        shape = [1] * out.ndim
        shape[bias_axis] = -1
        out = out + extra.pop(0).reshape(shape)
    kind = out.dtype.type
    with np.errstate(over="ignore", invalid="ignore"):  # NaN and infinity pass through
        if activation == "relu":
            out = np.maximum(out, 0)
        elif activation == "gelu":
            out = out * (0.5 + 0.5 * erf(out * kind(SQRT_HALF))).astype(kind)
        elif activation == "gelu_tanh":
            inner = kind(SQRT_2_OVER_PI) * (out + kind(0.044715) * out * out * out)
            out = kind(0.5) * out * (1 + np.tanh(inner))
        elif activation == "silu":
            out = out / (1 + np.exp(-out))
    return out + extra.pop(0) if residual else out
