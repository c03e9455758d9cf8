"""Activation functions between the layers of networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.graph.operations.elementwise import expm1
from tilewright.graph.operations.handlers import Build, Call, Left, OnnxBuild, aten, onnx, onnx_named
from tilewright.graph.operations.pointwise import pointwise, register_named, register_unary, unary
from tilewright.graph.operations.table import register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import const
from tilewright.kernels.nn.activation import activate


def _gelu(input: te.TensorRef, approximate: str = "none") -> te.TensorRef:
    if approximate not in ("none", "tanh"):
        raise UsageError(f"gelu: approximate cannot be {approximate!r}", "Use none or tanh")
    return pointwise("gelu", (input,), lambda x: activate(x, "gelu_tanh" if approximate == "tanh" else "gelu"))


def _elu(input: te.TensorRef, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> te.TensorRef:
    def bent(x: te.Expr) -> te.Expr:
        below = te.minimum(x, 0.0) if input_scale == 1 else te.minimum(x, 0.0) * input_scale
        y = te.select(x > 0, x, expm1(below) * alpha)
        return y if scale == 1 else y * scale

    return pointwise("elu", (input,), bent)


def _hardsigmoid(input: te.TensorRef, alpha: float = 1 / 6, beta: float = 0.5) -> te.TensorRef:
    return pointwise("hardsigmoid", (input,), lambda x: te.minimum(te.maximum(x * alpha + beta, 0.0), 1.0))


def _log_sigmoid(x: te.Expr) -> te.Expr:
    return te.minimum(x, 0.0) - te.log1p(te.exp(-te.abs(x)))


def _mish(x: te.Expr) -> te.Expr:
    """``x * tanh(log(1 + exp(x)))``; its tanh equals ``(e*e + 2*e) / (e*e + 2*e + 2)`` with ``e = exp(x)``."""
    e = te.exp(te.minimum(x, 20.0))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


def _selu(x: te.Expr) -> te.Expr:
    """Klambauer et al., "Self-Normalizing Neural Networks" (2017)."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * te.select(x > 0, x, alpha * expm1(te.minimum(x, 0.0)))


def _leaky(input: te.TensorRef, negative_slope: float = 0.01) -> te.TensorRef:
    return pointwise("leaky_relu", (input,), lambda x: te.select(x > 0, x, x * negative_slope))


def _celu(input: te.TensorRef, alpha: float = 1.0) -> te.TensorRef:
    return pointwise("celu", (input,), lambda x: te.select(x > 0, x, alpha * expm1(te.minimum(x, 0.0) * (1.0 / alpha))))


def _threshold(input: te.TensorRef, threshold: float, value: float) -> te.TensorRef:
    return pointwise("threshold", (input,), lambda x: te.select(x <= threshold, const(value, x.dtype), x))


def _softshrink(input: te.TensorRef, lambd: float = 0.5) -> te.TensorRef:
    def shrunk(x: te.Expr) -> te.Expr:
        return te.select(x > lambd, x - lambd, te.select(x < -lambd, x + lambd, x * 0.0))

    return pointwise("softshrink", (input,), shrunk)


def _hardshrink(input: te.TensorRef, lambd: float = 0.5) -> te.TensorRef:
    def shrunk(x: te.Expr) -> te.Expr:
        return te.select((x >= -lambd) & (x <= lambd), const(0.0, x.dtype), x)

    return pointwise("hardshrink", (input,), shrunk)


def _softplus(input: te.TensorRef, beta: float = 1.0, threshold: float = 20.0) -> te.TensorRef:
    def soft(x: te.Expr) -> te.Expr:
        z = x if beta == 1 else x * beta
        y = te.maximum(z, 0.0) + te.log1p(te.exp(-te.abs(z)))
        return y if beta == 1 else te.select(z > threshold, x, y * (1.0 / beta))

    return pointwise("softplus", (input,), soft)


register_unary((
    ("sigmoid", lambda x: activate(x, "sigmoid"), True, "Sigmoid"),
    ("relu", lambda x: activate(x, "relu"), True, "Relu"),
    ("silu", lambda x: activate(x, "silu"), True, None),
    ("mish", _mish, True, "Mish"),
    ("selu", _selu, True, None),
    ("hardswish", lambda x: x * te.minimum(te.maximum(x * (1 / 6) + 0.5, 0.0), 1.0), True, "HardSwish"),
))  # fmt: skip

register("logsigmoid", "elementwise", unary("logsigmoid", _log_sigmoid), numbers=True)
SOFTSIGN = register("softsign", "elementwise", unary("softsign", lambda x: x / (1.0 + te.abs(x))), numbers=True)
onnx_named(SOFTSIGN, "Softsign")

register_named("gelu", _gelu, onnx="Gelu", approximate=("approximate", "none"))
register_named("leaky_relu", _leaky, onnx="LeakyRelu", negative_slope=("alpha", 0.01))
ELU = register_named("elu", _elu, onnx="Elu", alpha=("alpha", 1.0))
onnx_named(ELU, "Selu", alpha=("alpha", 1.6732631921768188), scale=("gamma", 1.0507010221481323))
register_named("celu", _celu, onnx="Celu", alpha=("alpha", 1.0))
register_named("threshold", _threshold)
register_named("softshrink", _softshrink)
register_named("hardshrink", _hardshrink)
register_named("hardsigmoid", _hardsigmoid, onnx="HardSigmoid", alpha=("alpha", 0.2), beta=("beta", 0.5))
register_named("softplus", _softplus, onnx="Softplus")


@aten("log_sigmoid_forward")
def _log_sigmoid_forward(build: Build, call: Call) -> None:
    call.only_first("what the backward pass reads")
    build.add("logsigmoid", [call.operand("input")], call.output)


@onnx("Shrink")
def _onnx_shrink(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    lambd, bias = a.get("lambd", 0.5), a.get("bias", 0.0)
    if bias not in (0.0, lambd):
        raise Left("its bias")
    build.add("softshrink" if bias else "hardshrink", node.input, node.output[0], lambd=lambd)


@onnx("ThresholdedRelu")
def _onnx_threshold(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x = node.input[0]
    zero, alpha = (build.constant(np.asarray(v)) for v in (0.0, a.get("alpha", 1.0)))
    build.add("where", [build.add("gt", [x, alpha]), x, zero], node.output[0])  # NaN gives 0, not NaN as in PyTorch
