"""Reductions along axes, and what follows them: sums, positions, norms, softmax, cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.graph.operations.handlers import Build, Call, Left, OnnxBuild, aten, axes_of, onnx
from tilewright.graph.operations.table import State, register
from tilewright.kernels import nn, te


def _batch_norm(
    input: te.TensorRef,
    running_mean: te.TensorRef,
    running_var: te.TensorRef,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    eps: float = 1e-5,
    dim: int = 1,
) -> te.TensorRef:
    return nn.batch_norm(input, running_mean, running_var, weight, bias, eps=eps, dim=dim)


def _layer_norm(
    input: te.TensorRef,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float = 1e-5,
) -> te.TensorRef:
    return nn.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def _rms_norm(
    input: te.TensorRef, weight: te.TensorRef | None = None, *, normalized_shape: Sequence[int], eps: float = 1e-6
) -> te.TensorRef:
    return nn.rms_norm(input, tuple(normalized_shape), weight, eps)


def _group_norm(
    input: te.TensorRef,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> te.TensorRef:
    return nn.group_norm(input, num_groups, weight, bias, eps)


def _reduction(function: Callable[..., te.TensorRef]) -> State:
    def reduced(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
        return function(input, dim, keepdim)

    return reduced


for _name, _function in (
    ("sum", nn.sum), ("mean", nn.mean), ("prod", nn.prod), ("amax", nn.amax), ("amin", nn.amin),
    ("argmax", nn.argmax), ("argmin", nn.argmin), ("logsumexp", nn.logsumexp),
):  # fmt: skip
    register(_name, "rows", _reduction(_function))
register("cumsum", "rows", nn.cumsum)
for _name, _state in (
    ("softmax", nn.softmax), ("log_softmax", nn.log_softmax),
    ("softmax_backward", nn.softmax_backward), ("log_softmax_backward", nn.log_softmax_backward),
):  # fmt: skip
    register(_name, "rows", _state)
register("batch_norm", "elementwise", _batch_norm)
register("layer_norm", "rows", _layer_norm)
register("rms_norm", "rows", _rms_norm)
register("group_norm", "rows", _group_norm)


# --------------------------------------------------------------------------- ATen


@aten("_softmax", "_log_softmax")
def _aten_softmax(build: Build, call: Call) -> None:
    if call["half_to_float"]:
        raise Left("it gives another element type")
    operation = "softmax" if "log" not in call.operator else "log_softmax"
    build.add(operation, [call.operand("input")], call.output, dim=call["dim"])


@aten("_softmax_backward_data", "_log_softmax_backward_data")
def _aten_softmax_backward(build: Build, call: Call) -> None:
    if call["input_dtype"] != call.spec.dtype:
        raise Left("it gives another element type")
    operation = "softmax_backward" if "log" not in call.operator else "log_softmax_backward"
    operands = [call.operand("grad_output"), call.operand("output")]
    build.add(operation, operands, call.output, dim=call["dim"])


@aten("sum", "sum.dim_IntList", "mean", "mean.dim", "amax", "amin")
def _aten_reduction(build: Build, call: Call) -> None:
    """Over all axes where none is named."""
    x = call.operand("input")
    rank = len(build.shape(x))
    if call.arguments.get("dtype") is not None:
        raise Left("it gives another element type")
    if not rank:
        raise Left("there is one element")
    dims = call["dim"] if "dim" in call.arguments else None
    dims = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    keepdim = bool(call.arguments.get("keepdim", False))
    build.add(call.operator, [x], call.output, dim=tuple(d % rank for d in dims), keepdim=keepdim)


def _first(call: Call, what: str) -> None:
    """Raises ``Left`` where another result than the first is asked for."""
    if call.result:
        raise Left(f"it gives {what}")


@aten("native_layer_norm")
def _aten_layer_norm(build: Build, call: Call) -> None:
    _first(call, "means and deviations")
    operands = [call.operand(n) for n in ("input", "weight", "bias")]
    shape = tuple(call["normalized_shape"])
    build.add("layer_norm", operands, call.output, normalized_shape=shape, eps=call["eps"])


@aten("native_group_norm")
def _aten_group_norm(build: Build, call: Call) -> None:
    _first(call, "means and deviations")
    operands = [call.operand(n) for n in ("input", "weight", "bias")]
    build.add("group_norm", operands, call.output, num_groups=call["group"], eps=call["eps"])


@aten("_native_batch_norm_legit_no_training")
def _aten_batch_norm(build: Build, call: Call) -> None:
    _first(call, "statistics")
    operands = [call.operand(n) for n in ("input", "running_mean", "running_var", "weight", "bias")]
    build.add("batch_norm", operands, call.output, eps=call["eps"])


# --------------------------------------------------------------------------- ONNX


@onnx("GlobalAveragePool", "GlobalMaxPool")
def _onnx_global_pool(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    dims = tuple(range(2, len(build.shape(node.input[0]))))
    operation = "mean" if node.op_type == "GlobalAveragePool" else "amax"
    build.add(operation, node.input, node.output[0], dim=dims, keepdim=True)


@onnx("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
def _onnx_reduce(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    axes = axes_of(build, node, a) or ()
    if not axes and a.get("noop_with_empty_axes"):
        build.same(node.input[0], node.output[0])
        return
    x = node.input[0]
    if build.spec(x).dtype not in ("float32", "float64"):
        raise Left(f"its input is {build.spec(x).dtype}")
    operation = {
        "ReduceMean": "mean",
        "ReduceSum": "sum",
        "ReduceMax": "amax",
        "ReduceMin": "amin",
        "ReduceProd": "prod",
    }
    dims = axes or tuple(range(len(build.shape(x))))
    build.add(operation[node.op_type], [x], node.output[0], dim=dims, keepdim=bool(a.get("keepdims", 1)))


@onnx("Softmax", "LogSoftmax")
def _onnx_softmax(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """Before operator set 13 over all axes from ``axis`` on, as if they were one."""
    x, shape = node.input[0], build.shape(node.input[0])
    operation = "softmax" if node.op_type == "Softmax" else "log_softmax"
    axis = a.get("axis", 1 if build.opset < 13 else -1)
    axis = axis + len(shape) if axis < 0 else axis
    if build.opset >= 13 or axis == len(shape) - 1:
        build.add(operation, [x], node.output[0], dim=axis)
        return
    rows = build.reshaped(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
    build.reshaped(build.add(operation, [rows], dim=1), shape, node.output[0])


@onnx("LayerNormalization", "RMSNormalization")
def _onnx_layer_norm(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    if len(build.wanted(node)) > 1:
        raise Left("it gives means and deviations")
    shape = build.shape(node.input[0])
    axis = a.get("axis", -1) % len(shape)
    operation = "layer_norm" if node.op_type == "LayerNormalization" else "rms_norm"
    build.add(operation, node.input, node.output[0], normalized_shape=shape[axis:], eps=a.get("epsilon", 1e-5))


@onnx("BatchNormalization")
def _onnx_batch_norm(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x, weight, bias, mean, var = node.input
    if a.get("training_mode") or len(build.wanted(node)) > 1:
        raise Left("it trains")
    if not a.get("spatial", 1):
        raise Left("it has statistics for every position")
    build.add("batch_norm", [x, mean, var, weight, bias], node.output[0], eps=a.get("epsilon", 1e-5))


@onnx("InstanceNormalization")
def _onnx_instance_norm(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    channels = build.shape(node.input[0])[1]
    build.add("group_norm", node.input, node.output[0], num_groups=channels, eps=a.get("epsilon", 1e-5))
