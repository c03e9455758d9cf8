"""What may follow a contraction element by element: bias, activation, residual.

``out = activation(value + bias) + residual``, each part optional; as an expression for operators,
and in NumPy for their independent implementations.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from tilewright.kernels import te
from tilewright.kernels.special import erf

Array = np.ndarray[Any, Any]
Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu"]

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


def activate(x: te.Expr, activation: Activation) -> te.Expr:
    """The activation of one value; ``gelu`` is the exact one, ``gelu_tanh`` its tanh approximation."""
    if activation == "relu":
        return te.maximum(x, 0.0)
    if activation == "gelu":
        return 0.5 * x * (1.0 + te.erf(x * _SQRT_HALF))
    if activation == "gelu_tanh":
        return 0.5 * x * (1.0 + te.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x**3)))
    if activation == "silu":
        return x / (1.0 + te.exp(-x))
    return x


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
            out = out * (0.5 + 0.5 * erf(out * kind(_SQRT_HALF))).astype(kind)
        elif activation == "gelu_tanh":
            inner = kind(_SQRT_2_OVER_PI) * (out + kind(0.044715) * out * out * out)
            out = kind(0.5) * out * (1 + np.tanh(inner))
        elif activation == "silu":
            out = out / (1 + np.exp(-out))
    return out + extra.pop(0) if residual else out
