"""Reductions along axes and operations built on them: sums, argmax, norms, softmax, cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.graph.operations.handlers import Attributes, Build, Call, Left, OnnxBuild, aten, axes_of, onnx
from tilewright.graph.operations.table import State, register, register_all
from tilewright.graph.operations.windows import padded, pads_of
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import FLOATS, INDEX, NARROW, compare, const
from tilewright.kernels.nn.dims import several_dims, value
from tilewright.kernels.nn.reduce import cummax, cummax_positions, cummin, cummin_positions
from tilewright.kernels.nn.sizes import Windows


def _weighted(norm: State) -> State:
    """A norm that takes its weights as operands after its input."""

    def apply(
        input: te.TensorRef, weight: te.TensorRef | None = None, bias: te.TensorRef | None = None, **own: Any
    ) -> te.TensorRef:
        return norm(input, weight=weight, **({} if bias is None else {"bias": bias}), **own)

    return apply


def _norm(input: te.TensorRef, p: float = 2.0, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
    """The vector norm of order ``p``: 0 counts nonzero elements, infinity and -infinity take the largest and smallest
    magnitude."""
    if p in (1.0, 2.0, math.inf):
        return nn.norm(input, {1.0: "1", 2.0: "2"}.get(p, "inf"), dim, keepdim)  # type: ignore[arg-type]
    size = te.compute(input.shape, lambda *i: te.abs(value(input[i])))
    if p == -math.inf:
        return nn.amin(size, dim, keepdim)
    if p == 0:
        return nn.sum(te.compute(size.shape, lambda *i: te.select(size[i] == 0, 0.0, 1.0)), dim, keepdim)
    total = nn.sum(te.compute(size.shape, lambda *i: te.pow(size[i], p)), dim, keepdim)
    return te.compute(total.shape, lambda *i: te.pow(total[i], 1 / p))


def _truth(reduce: Callable[..., te.TensorRef]) -> State:
    """Whether any or all elements along the axes are nonzero; ``reduce`` is ``amax`` or ``amin``."""

    def truth(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
        ones = te.compute(input.shape, lambda *i: te.select(compare("ne", input[i], const(0, input.dtype)), 1, 0))
        found = reduce(ones, dim, keepdim)
        return te.compute(found.shape, lambda *i: found[i] != 0, dtype="bool")

    return truth


def _variance(
    input: te.TensorRef, dim: te.Ints = (), correction: float = 1, keepdim: bool = False, root: bool = False
) -> te.TensorRef:
    """The variance along the axes, or with ``root`` the standard deviation."""
    if correction != int(correction):
        raise UsageError(f"var: correction={correction}", "Write a whole number")
    found = nn.var_mean(input, dim, int(correction), keepdim)[0]
    return te.compute(found.shape, lambda *i: te.sqrt(found[i])) if root else found


def _standardised(
    input: te.TensorRef,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    *,
    dim: te.Ints,
    eps: float,
) -> te.TensorRef:
    """``(input - mean) / sqrt(var + eps)`` along the axes: a batch norm by the input's own statistics.

    ``weight`` and ``bias``: for each element of axis 1.
    """
    var, mean = nn.var_mean(input, dim, 0, True)
    dims = several_dims("mean_var_norm", dim, len(input.shape))

    def point(*i: te.Expr) -> te.Expr:
        row = tuple(const(0, INDEX) if d in dims else x for d, x in enumerate(i))
        y = (value(input[i]) - mean[row]) * te.rsqrt(var[row] + eps)
        y = y if weight is None else y * value(weight[i[1]])
        return y if bias is None else y + value(bias[i[1]])

    return te.compute(input.shape, point)


register_all(
    "rows", sum=nn.sum, mean=nn.mean, prod=nn.prod, amax=nn.amax, amin=nn.amin, argmax=nn.argmax, argmin=nn.argmin,
    logsumexp=nn.logsumexp, cumsum=nn.cumsum, cumprod=nn.cumprod, cummax=cummax, cummin=cummin,
    cummax_positions=cummax_positions, cummin_positions=cummin_positions, norm=_norm, any=_truth(nn.amax),
    all=_truth(nn.amin), var=_variance, mean_var_norm=_standardised, softmax=nn.softmax, log_softmax=nn.log_softmax,
    softmax_backward=nn.softmax_backward, log_softmax_backward=nn.log_softmax_backward,
    layer_norm=_weighted(nn.layer_norm), rms_norm=_weighted(nn.rms_norm), group_norm=_weighted(nn.group_norm),
)  # fmt: skip
register("batch_norm", "elementwise", nn.batch_norm)


# --------------------------------------------------------------------------- ATen


@aten("_softmax", "_log_softmax")
def _aten_softmax(build: Build, call: Call) -> None:
    if call["half_to_float"]:
        raise Left("it gives another element type")
    build.add(call.operator.removeprefix("_"), [call.operand("input")], call.output, dim=call["dim"])


@aten("_softmax_backward_data", "_log_softmax_backward_data")
def _aten_softmax_backward(build: Build, call: Call) -> None:
    if call["input_dtype"] != call.spec.dtype:
        raise Left("it gives another element type")
    operation = call.operator.removeprefix("_").removesuffix("_data")
    operands = [call.operand("grad_output"), call.operand("output")]
    build.add(operation, operands, call.output, dim=call["dim"])


def _dims(call: Call, rank: int) -> tuple[int, ...]:
    """The axes that a call names, or all axes."""
    dims = call["dim"] if "dim" in call.arguments else None
    dims = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    return tuple(d % rank for d in dims)


def _reduce(build: Build, call: Call, operation: str, x: str, **own: Any) -> None:
    """A reduction over the call's axes; a tensor without axes is reduced as an axis of one element."""
    shape = build.shape(x) or (1,)
    x = x if build.shape(x) else build.reshaped(x, shape)
    keepdim = bool(call.arguments.get("keepdim", False))
    own |= {"dim": _dims(call, len(shape)), "keepdim": keepdim}
    if len(build.shape(x)) == len(call.spec.shape) or not keepdim:
        build.add(operation, [x], call.output, **own)
    else:
        build.reshaped(build.add(operation, [x], **own), call.spec.shape, call.output)


def _in_dtype(build: Build, call: Call) -> str:
    """The input, in the element type that the call asks to compute in."""
    x, dtype = call.operand("input"), call.arguments.get("dtype")
    return x if dtype is None or dtype == build.spec(x).dtype else build.add("to", [x], dtype=dtype)


_REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "argmin", "logsumexp", "max", "min")


@aten(*_REDUCTIONS, "sum.dim_IntList", "mean.dim", "prod.dim_int", "any.dim", "any.dims", "all.dim", "all.dims")
def _aten_reduction(build: Build, call: Call) -> None:
    """A reduction, over all axes where the call names no axes."""
    operation = {"max": "amax", "min": "amin"}.get(call.operator, call.operator)
    _reduce(build, call, operation, _in_dtype(build, call))


@aten("max.dim", "min.dim")
def _aten_extreme(build: Build, call: Call) -> None:
    """The extreme values, or the first position of each, by the requested result."""
    name = ("amax", "argmax") if call.operator == "max" else ("amin", "argmin")
    _reduce(build, call, name[call.result], call.operand("input"))


@aten("var.correction", "std.correction", "var_mean.correction")
def _aten_variance(build: Build, call: Call) -> None:
    x = call.operand("input")
    if call.result:
        _reduce(build, call, "mean", x)
        return
    correction = call.arguments.get("correction")
    own = {"correction": 1 if correction is None else correction, "root": call.operator == "std"}
    _reduce(build, call, "var", x, **own)


@aten("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar", "norm.ScalarOpt_dim_dtype")
def _aten_norm(build: Build, call: Call) -> None:
    order = call.arguments.get("ord", call.arguments.get("p"))
    _reduce(build, call, "norm", _in_dtype(build, call), p=2.0 if order is None else float(order))


@aten("cumsum", "cumprod", "cummax", "cummin")
def _aten_scan(build: Build, call: Call) -> None:
    operation = f"{call.operator}_positions" if call.result else call.operator
    build.add(operation, [_in_dtype(build, call)], call.output, dim=call["dim"])


def _statistics(build: Build, call: Call, x: str, dims: tuple[int, ...], eps: float) -> None:
    """A norm's further results: the mean along ``dims``, and ``1 / sqrt(variance + eps)``."""
    if call.result == 1:
        mean = build.add("mean", [x], dim=dims, keepdim=True)
        build.reshaped(mean, call.spec.shape, call.output)
        return
    var = build.add("var", [x], dim=dims, correction=0, keepdim=True)
    small = build.add("add", [var, build.constant(np.asarray(eps))])
    build.reshaped(build.add("rsqrt", [small]), call.spec.shape, call.output)


@aten("native_layer_norm")
def _aten_layer_norm(build: Build, call: Call) -> None:
    operands = [call.operand(n) for n in ("input", "weight", "bias")]
    shape, rank = tuple(call["normalized_shape"]), len(build.shape(operands[0]))
    if call.result:
        _statistics(build, call, operands[0], tuple(range(rank - len(shape), rank)), call["eps"])
    else:
        build.add("layer_norm", operands, call.output, normalized_shape=shape, eps=call["eps"])


@aten("_fused_rms_norm")
def _aten_rms_norm(build: Build, call: Call) -> None:
    call.only_first("roots for the backward pass")
    eps = call["eps"]
    if eps is None:
        raise Left("its eps is PyTorch's to choose")
    operands = [call.operand(n) for n in ("input", "weight")]
    shape = tuple(call["normalized_shape"])
    build.add("rms_norm", operands, call.output, normalized_shape=shape, eps=eps)


@aten("native_group_norm")
def _aten_group_norm(build: Build, call: Call) -> None:
    operands = [call.operand(n) for n in ("input", "weight", "bias")]
    if call.result:
        rows = (call["N"], call["group"], call["C"] // call["group"] * call["HxW"])
        _statistics(build, call, build.reshaped(operands[0], rows), (2,), call["eps"])
    else:
        build.add("group_norm", operands, call.output, num_groups=call["group"], eps=call["eps"])


@aten("_native_batch_norm_legit_no_training")
def _aten_batch_norm(build: Build, call: Call) -> None:
    call.only_first("statistics")
    operands = [call.operand(n) for n in ("input", "running_mean", "running_var", "weight", "bias")]
    build.add("batch_norm", operands, call.output, eps=call["eps"])


@aten("_native_batch_norm_legit.no_stats", "_native_batch_norm_legit_functional", "_native_batch_norm_legit")
def _aten_batch_norm_training(build: Build, call: Call) -> None:
    """A batch norm by the input's own statistics; a batch of one image becomes a group norm of single channels."""
    x, weight, bias = (call.operand(n) for n in ("input", "weight", "bias"))
    shape = build.shape(x)
    if not call["training"]:
        raise Left("it does not train")
    dims = (0, *range(2, len(shape)))
    if call.result in (1, 2):
        _statistics(build, call, x, dims, call["eps"])
    elif call.result > 2:
        raise Left("it gives running statistics")
    elif shape[0] == 1 and len(shape) > 2:
        build.add("group_norm", [x, weight, bias], call.output, num_groups=shape[1], eps=call["eps"])
    else:
        build.add("mean_var_norm", [x, weight, bias], call.output, dim=dims, eps=call["eps"])


# --------------------------------------------------------------------------- ONNX


@onnx("GlobalAveragePool", "GlobalMaxPool")
def _onnx_global_pool(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    dims = tuple(range(2, len(build.shape(node.input[0]))))
    operation = "mean" if node.op_type == "GlobalAveragePool" else "amax"
    build.add(operation, node.input, node.output[0], dim=dims, keepdim=True)


_ONNX_REDUCTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ReduceMean": ("mean", {}), "ReduceSum": ("sum", {}), "ReduceMax": ("amax", {}), "ReduceMin": ("amin", {}),
    "ReduceProd": ("prod", {}), "ReduceLogSumExp": ("logsumexp", {}), "ReduceL1": ("norm", {"p": 1.0}),
    "ReduceL2": ("norm", {"p": 2.0}), "ReduceSumSquare": ("sum", {}), "ReduceLogSum": ("sum", {}),
}  # fmt: skip


@onnx(*_ONNX_REDUCTIONS)
def _onnx_reduce(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    axes = axes_of(build, node, a) or ()
    operation, own = _ONNX_REDUCTIONS[node.op_type]
    x = node.input[0]
    if not axes and a.get("noop_with_empty_axes"):
        if node.op_type in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"):
            raise Left("it reduces no axis")
        build.same(x, node.output[0])
        return
    if build.spec(x).dtype not in FLOATS or build.spec(x).dtype in NARROW:
        raise Left(f"its input is {build.spec(x).dtype}")
    if node.op_type == "ReduceSumSquare":
        x = build.add("square", [x])
    dims = axes or tuple(range(len(build.shape(x))))
    logarithm = node.op_type == "ReduceLogSum"
    made = build.add(
        operation, [x], None if logarithm else node.output[0], dim=dims, keepdim=bool(a.get("keepdims", 1)), **own
    )
    if logarithm:
        build.add("log", [made], node.output[0])


@onnx("ArgMax", "ArgMin")
def _onnx_position(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    if a.get("select_last_index"):
        raise Left("it takes the last of equals")
    operation = node.op_type.lower()
    build.add(operation, node.input, node.output[0], dim=(a.get("axis", 0),), keepdim=bool(a.get("keepdims", 1)))


@onnx("CumSum")
def _onnx_cumsum(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """A cumulative sum. ``reverse`` sums from the end; ``exclusive`` leaves the element itself out."""
    x, rank = node.input[0], len(build.shape(node.input[0]))
    dim = int(build.known(node.input[1]).item()) % rank
    if build.spec(x).dtype not in ("float32", "float64"):
        raise Left(f"its input is {build.spec(x).dtype}")
    size = build.shape(x)[dim]
    if a.get("exclusive"):
        around = [0, 0] * (rank - 1 - dim) + ([-1, 1] if a.get("reverse") else [1, -1])
        if size == 1:
            raise Left("nothing is before the only element")
        x = build.add("pad", [x], pad=tuple(around), value=0.0)
    if not a.get("reverse"):
        build.add("cumsum", [x], node.output[0], dim=dim)
        return
    flipped = build.add("cumsum", [build.add("flip", [x], dims=(dim,))], dim=dim)
    build.add("flip", [flipped], node.output[0], dims=(dim,))


@onnx("Softmax", "LogSoftmax")
def _onnx_softmax(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """Softmax; before operator set 13 over the flattened axes from ``axis`` on."""
    operation = "softmax" if node.op_type == "Softmax" else "log_softmax"
    rows, dim, output = _as_rows(build, node, a)
    made = build.add(operation, [rows], output, dim=dim)
    if output is None:
        build.reshaped(made, build.shape(node.input[0]), node.output[0])


def _as_rows(build: OnnxBuild, node: Any, a: dict[str, Any], kept: bool = True) -> tuple[str, int, str | None]:
    """A node's input, the axis to reduce, and the output's name, if the input's shape was kept.

    Before operator set 13 the axes before ``axis``, and the axes from it on, are flattened; a last axis that is
    ``kept`` stays.
    """
    x, shape = node.input[0], build.shape(node.input[0])
    axis = a.get("axis", 1 if build.opset < 13 else -1)
    axis = axis + len(shape) if axis < 0 else axis
    if build.opset >= 13 or (kept and axis == len(shape) - 1):
        return x, axis, node.output[0]
    return build.reshaped(x, (math.prod(shape[:axis]), math.prod(shape[axis:]))), 1, None


@onnx("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
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


# --------------------------------------------------------------------------- norms over windows, axes and groups

# Sums of squares or powers over neighbouring channels, windows, axes and groups.


def _local_response_norm(
    input: te.TensorRef, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> te.TensorRef:
    """``input / (k + alpha / size * squares)**beta``, with ``squares`` summed over ``size`` channels around each
    channel."""
    if input.dtype not in FLOATS or len(input.shape) < 2:
        raise UsageError(f"local_response_norm: {input.dtype} of {input.shape}", "It takes reals with channels")
    before, channels = (size - 1) // 2, input.shape[1]

    def squares(*i: te.Expr) -> te.Reduction:
        def square(r: te.Expr) -> te.Expr:
            c = i[1] + r - before
            x = value(input[(i[0], c, *i[2:])])
            return te.select((c >= 0) & (c < channels), x * x, 0.0)

        return te.sum(size, square)

    total = te.compute(input.shape, squares)

    def point(*i: te.Expr) -> te.Expr:
        return value(input[i]) / te.pow(total[i] * (alpha / size) + k, beta)

    return te.compute(input.shape, point)


def _lp_pool(
    input: te.TensorRef,
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    norm_type: int,
) -> te.TensorRef:
    """The ``norm_type``-norm of each window over the last axes."""
    rank = len(kernel_size)
    windows = Windows.over("lp_pool", input.shape[-rank:], kernel_size, stride, 0, dilation)

    def powers(*i: te.Expr) -> te.Reduction:
        def power(*r: te.Expr) -> te.Expr:
            return te.abs(value(input[(*i[:-rank], *windows.at(i[-rank:], r))])) ** norm_type

        return te.sum(kernel_size, power)

    total = te.compute((*input.shape[:-rank], *windows.counts), powers)
    return te.compute(total.shape, lambda *i: _root(total[i], norm_type))


def _root(x: te.Expr, p: int) -> te.Expr:
    return x if p == 1 else te.sqrt(x) if p == 2 else te.pow(x, 1.0 / p)


register("local_response_norm", "window", _local_response_norm)
register("lp_pool", "window", _lp_pool)


def _normed(build: OnnxBuild, x: str, dims: tuple[int, ...], p: int, output: str | None = None) -> str:
    """The ``p``-norm over axes, which stay as axes of one element."""
    if p not in range(1, 9):
        raise Left(f"its norm is the {p}th")
    powered = build.add("abs", [x])
    if p > 1:
        powered = build.add("pow", [powered, build.constant(np.asarray(float(p), build.spec(x).dtype))])
    total = build.add("sum", [powered], output if p == 1 else None, dim=dims, keepdim=True)
    if p == 1:
        return total
    if p == 2:
        return build.add("sqrt", [total], output)
    return build.add("pow", [total, build.constant(np.asarray(1 / p, build.spec(x).dtype))], output)


@onnx("LRN")
def _onnx_lrn(build: OnnxBuild, node: Any, a: Attributes) -> None:
    build.add(
        "local_response_norm", node.input, node.output[0], size=a["size"], alpha=a.get("alpha", 1e-4),
        beta=a.get("beta", 0.75), k=a.get("bias", 1.0),
    )  # fmt: skip


@onnx("LpPool")
def _onnx_lp_pool(build: OnnxBuild, node: Any, a: Attributes) -> None:
    kernel = list(a["kernel_shape"])
    rank, p = len(kernel), a.get("p", 2)
    if a.get("ceil_mode") or p not in range(1, 9):
        raise Left("ceil_mode, or its norm")
    before, after = pads_of(build, node, a, kernel)
    x, _ = padded(build, node.input[0], before, after, 0.0, (0,) * rank)
    build.add(
        "lp_pool", [x], node.output[0], kernel_size=tuple(kernel), stride=tuple(a.get("strides", [1] * rank)),
        dilation=tuple(a.get("dilations", [1] * rank)), norm_type=p,
    )  # fmt: skip


@onnx("GlobalLpPool")
def _onnx_global_lp_pool(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x = node.input[0]
    _normed(build, x, tuple(range(2, len(build.shape(x)))), a.get("p", 2), node.output[0])


@onnx("LpNormalization")
def _onnx_lp_norm(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """Divides rows by their norms; a row of zeros stays zero."""
    x = node.input[0]
    norm = _normed(build, x, (a.get("axis", -1) % len(build.shape(x)),), a.get("p", 2))
    nought = build.constant(np.zeros((), build.spec(x).dtype))
    made = build.add("div", [x, norm])
    build.add("where", [build.add("eq", [norm, nought]), nought, made], node.output[0])


@onnx("MeanVarianceNormalization")
def _onnx_mean_variance(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """``(x - mean) / deviation``, computed in float32 or wider, as differences cancel."""
    x = node.input[0]
    rank, kind = len(build.shape(x)), build.spec(x).dtype
    dims = tuple(d % rank for d in a.get("axes", (0, 2, 3)))
    narrow = kind in NARROW
    x, wide = (build.add("to", [x], dtype="float32"), "float32") if narrow else (x, kind)
    apart = build.add("sub", [x, build.add("mean", [x], dim=dims, keepdim=True)])
    variance = build.add("mean", [build.add("mul", [apart, apart])], dim=dims, keepdim=True)
    deviation = build.add("sqrt", [variance])
    least = build.constant(np.asarray(1e-9, wide))
    made = build.add("div", [apart, build.add("add", [deviation, least])], None if narrow else node.output[0])
    if narrow:
        build.add("to", [made], node.output[0], dtype=kind)


@onnx("GroupNormalization")
def _onnx_group_norm(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """A group norm; before operator set 21 weights are given per group."""
    x, *weights = node.input
    channels, groups = build.shape(x)[1], a["num_groups"]
    if build.opset < 21:
        each = channels // groups
        weights = [
            build.reshaped(build.add("expand", [build.reshaped(w, (groups, 1))], shape=(groups, each)), (channels,))
            for w in weights
        ]
    build.add("group_norm", [x, *weights], node.output[0], num_groups=groups, eps=a.get("epsilon", 1e-5))


@onnx("Mean")
def _onnx_mean(build: OnnxBuild, node: Any, a: Attributes) -> None:
    value = node.input[0]
    for other in node.input[1:]:
        value = build.add("add", [value, other])
    count = build.constant(np.asarray(len(node.input), build.spec(node.input[0]).dtype))
    build.add("div", [value, count], node.output[0])


@onnx("Hardmax")
def _onnx_hardmax(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """A one-hot of the first maximum; before operator set 13 over the flattened axes from ``axis`` on."""
    rows, dim, output = _as_rows(build, node, a, kept=False)
    first = build.add("argmax", [rows], dim=(dim,))
    values = build.constant(np.array([0, 1], build.spec(rows).dtype))
    made = build.add("one_hot", [first, values], output, num_classes=build.shape(rows)[dim], dim=dim)
    if output is None:
        build.reshaped(made, build.shape(node.input[0]), node.output[0])
