"""Activation functions, of one value and of every element of a tensor."""

from __future__ import annotations

import math
from typing import Literal

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.dims import pointwise

Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu"]
"""Activations that may follow a product or a convolution. ``gelu`` is exact, ``gelu_tanh`` its tanh approximation."""

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


def activate(x: te.Expr, activation: Activation | Literal["sigmoid"]) -> te.Expr:
    """The activation of one value."""
    if activation == "relu":
        return te.maximum(x, 0.0)
    if activation == "gelu":
        return 0.5 * x * (1.0 + te.erf(x * SQRT_HALF))
    if activation == "gelu_tanh":
        return 0.5 * x * (1.0 + te.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x**3)))
    if activation == "silu":
        return x / (1.0 + te.exp(-x))
    if activation == "sigmoid":
        return 1.0 / (1.0 + te.exp(-x))
    return x


def relu(input: te.TensorRef) -> te.TensorRef:
    """``max(x, 0)`` of every element of ``input``, of any shape; NaN stays NaN."""
    return pointwise(input, lambda x: activate(x, "relu"))


def gelu(input: te.TensorRef, *, approximate: Literal["none", "tanh"] = "none") -> te.TensorRef:
    """``x * Phi(x)`` of every element of ``input``, of any shape; ``Phi`` is the normal distribution function.

    ``approximate``: ``none`` computes ``Phi`` by erf, ``tanh`` by a tanh of a cubic. Raises ``UsageError`` for another
    word.
    """
    if approximate not in ("none", "tanh"):
        raise UsageError(f"nn.gelu: approximate cannot be {approximate!r}", "Use none or tanh")
    return pointwise(input, lambda x: activate(x, "gelu_tanh" if approximate == "tanh" else "gelu"))


def silu(input: te.TensorRef) -> te.TensorRef:
    """``x * sigmoid(x)`` of every element of ``input``, of any shape."""
    return pointwise(input, lambda x: activate(x, "silu"))


def sigmoid(input: te.TensorRef) -> te.TensorRef:
    """``1 / (1 + exp(-x))`` of every element of ``input``, of any shape."""
    return pointwise(input, lambda x: activate(x, "sigmoid"))


def tanh(input: te.TensorRef) -> te.TensorRef:
    """Hyperbolic tangent of every element of ``input``, of any shape."""
    return pointwise(input, te.tanh)
