"""What ONNX's operators are in a graph, by name, in every operator set from 7 on.

The importer compares what a handler makes with ONNX's own inference. A handler that gives another shape or element type
(8-bit arithmetic, which kernels do in 32 bits) thereby leaves its node to onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.models.importer import Handler, Importer, Left

Node = Any
Attributes = dict[str, Any]
HANDLERS: dict[str, Handler] = {}
"""A handler adds nodes whose last gives the ONNX node's outputs, or raises ``Left``."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    def decorate(fn: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, fn))
        return fn

    return decorate


def _plain(operation: str, onnx_name: str) -> None:
    def handler(imp: Importer, node: Node, a: Attributes) -> None:
        if a:
            raise Left(f"its attribute {next(iter(a))} is not known")
        imp.add(operation, node.input, node.output[0])

    HANDLERS[onnx_name] = handler


for _name, _operation in {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Relu": "relu", "Sigmoid": "sigmoid",
    "Tanh": "tanh", "Erf": "erf", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Neg": "neg", "Abs": "abs",
    "Floor": "floor", "Sin": "sin", "Cos": "cos",
    "Reciprocal": "reciprocal", "HardSwish": "hardswish", "Softplus": "softplus", "Where": "where",
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge",
    "And": "logical_and", "Or": "logical_or", "Not": "logical_not",
}.items():  # fmt: skip
    _plain(_operation, _name)


@handles("Pow")
def _pow(imp: Importer, node: Node, a: Attributes) -> None:
    """An exponent of another type is a number beside the base, whose type the result has."""
    x, y = node.input
    if y in imp.constants and imp.constants[y].size == 1:
        y = imp.fresh(imp.constants[y].astype(imp.spec(x).dtype))
    imp.add("pow", [x, y], node.output[0])


@handles("Max", "Min", "Sum")
def _of_several(imp: Importer, node: Node, a: Attributes) -> None:
    operation = {"Max": "maximum", "Min": "minimum", "Sum": "add"}[node.op_type]
    if len(node.input) < 2:
        imp.same(node.input[0], node.output[0])
        return
    value = node.input[0]
    for k, other in enumerate(node.input[1:], 2):
        value = imp.add(operation, [value, other], node.output[0] if k == len(node.input) else None)


@handles("Gelu")
def _gelu(imp: Importer, node: Node, a: Attributes) -> None:
    imp.add("gelu", node.input, node.output[0], approximate=a.get("approximate", b"none").decode())


@handles("LeakyRelu")
def _leaky_relu(imp: Importer, node: Node, a: Attributes) -> None:
    imp.add("leaky_relu", node.input, node.output[0], negative_slope=a.get("alpha", 0.01))


@handles("Elu")
def _elu(imp: Importer, node: Node, a: Attributes) -> None:
    imp.add("elu", node.input, node.output[0], alpha=a.get("alpha", 1.0))


@handles("HardSigmoid")
def _hard_sigmoid(imp: Importer, node: Node, a: Attributes) -> None:
    imp.add("hardsigmoid", node.input, node.output[0], alpha=a.get("alpha", 0.2), beta=a.get("beta", 0.5))


GREATEST = {
    **{t: float(np.finfo(t).max) for t in ("float64", "float32", "float16")}, "bfloat16": 255 * 2.0**120
}  # fmt: skip
"""The greatest number of each type of reals."""


@handles("Clip")
def _clip(imp: Importer, node: Node, a: Attributes) -> None:
    """A bound that is not given is the type's least or greatest number, which infinities become."""
    most = GREATEST.get(imp.spec(node.input[0]).dtype)
    bounds: dict[str, Any] = {} if most is None else {"min": -most, "max": most}
    bounds |= {k: imp.known(n).item() for k, n in zip(("min", "max"), node.input[1:], strict=False) if n}
    bounds |= {k: a[k] for k in ("min", "max") if k in a}  # before operator set 11
    if bounds:
        imp.add("clamp", node.input[:1], node.output[0], **bounds)
    else:
        imp.same(node.input[0], node.output[0])


@handles("Cast")
def _cast(imp: Importer, node: Node, a: Attributes) -> None:
    dtype = imp.onnx.helper.tensor_dtype_to_np_dtype(a["to"]).name
    if "float8" in dtype or "float8" in imp.spec(node.input[0]).dtype:
        raise Left("8-bit reals are rounded in several ways")
    imp.add("to", node.input[:1], node.output[0], dtype=dtype)


@handles("Identity", "Dropout")
def _identity(imp: Importer, node: Node, a: Attributes) -> None:
    if len(imp.wanted(node)) > 1 or (len(node.input) > 2 and imp.known(node.input[2]).item()):
        raise Left("it drops at random")
    imp.same(node.input[0], node.output[0])


# --------------------------------------------------------------------------- products and convolutions


@handles("MatMul")
def _matmul(imp: Importer, node: Node, attributes: Attributes) -> None:
    x, y = node.input
    a, b = imp.shape(x), imp.shape(y)
    if len(a) > 1 and len(b) > 1:
        imp.add("matmul", [x, y], node.output[0])
        return
    x = imp.reshaped(x, (1, *a)) if len(a) == 1 else x
    y = imp.reshaped(y, (*b, 1)) if len(b) == 1 else y
    made = imp.add("matmul", [x, y])
    shape = list(imp.shape(made))
    if len(b) == 1:
        del shape[-1]
    if len(a) == 1:
        del shape[-1 if len(b) == 1 else -2]
    imp.reshaped(made, shape, node.output[0])


@handles("Gemm")
def _gemm(imp: Importer, node: Node, a: Attributes) -> None:
    x, y = node.input[:2]
    c = node.input[2] if len(node.input) > 2 else ""
    if a.get("transA"):
        x = imp.fresh(imp.constants[x].T) if x in imp.constants else imp.add("permute", [x], dims=(1, 0))
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    plain = c and beta == 1 and alpha == 1 and a.get("transB") and imp.shape(c) == (imp.shape(y)[0],)
    if plain:
        imp.add("linear", [x, y, c], node.output[0])
        return
    steps = 1 + (alpha != 1) + bool(c)
    name = iter([None] * (steps - 1) + [node.output[0]])
    value = imp.add("linear" if a.get("transB") else "matmul", [x, y], next(name))
    if alpha != 1:
        value = imp.add("mul", [value, imp.fresh(np.array(alpha, np.float32))], next(name))
    if c:
        if beta != 1 and c in imp.constants:
            c = imp.fresh((imp.constants[c] * np.float64(beta)).astype(imp.constants[c].dtype))
        elif beta != 1:
            c = imp.add("mul", [c, imp.fresh(np.array(beta, np.float32))])
        imp.add("add", [value, c], next(name))


def _pads(imp: Importer, node: Node, a: Attributes, kernel: list[int]) -> tuple[list[int], list[int]]:
    """Padding before and after each spatial axis."""
    rank = len(kernel)
    auto = a.get("auto_pad", b"NOTSET").decode()
    if auto in ("NOTSET", ""):
        pads = list(a.get("pads", [0] * 2 * rank))
        return pads[:rank], pads[rank:]
    if auto == "VALID":
        return [0] * rank, [0] * rank
    strides, gaps = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    before, after = [], []
    for n, k, s, d in zip(imp.shape(node.input[0])[2:], kernel, strides, gaps, strict=True):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        small, large = total // 2, total - total // 2
        before.append(small if auto == "SAME_UPPER" else large)
        after.append(large if auto == "SAME_UPPER" else small)
    return before, after


def _padded(
    imp: Importer, x: str, before: list[int], after: list[int], value: float, most: tuple[int, ...] = ()
) -> tuple[str, tuple[int, ...]]:
    """The input with what padding is not the same on both sides, or more than ``most``, around it, and the rest."""
    both = [min(b, e) for b, e in zip(before, after, strict=True)]
    if before == after and all(b <= m for b, m in zip(both, most, strict=False)):
        return x, tuple(both)
    flat = [n for b, e in reversed(list(zip(before, after, strict=True))) for n in (b, e)]
    return imp.add("pad", [x], pad=tuple(flat), value=value), (0,) * len(both)


@handles("Conv")
def _conv(imp: Importer, node: Node, a: Attributes) -> None:
    kernel = list(imp.shape(node.input[1])[2:])
    rank = len(kernel)
    if rank not in (1, 2, 3):
        raise Left(f"it has {rank} spatial axes")
    x, padding = _padded(imp, node.input[0], *_pads(imp, node, a, kernel), 0.0)
    imp.add(
        f"conv{rank}d", [x, *node.input[1:]], node.output[0], stride=tuple(a.get("strides", [1] * rank)),
        padding=padding, dilation=tuple(a.get("dilations", [1] * rank)), groups=a.get("group", 1),
    )  # fmt: skip


# --------------------------------------------------------------------------- windows, reductions, norms


@handles("MaxPool", "AveragePool")
def _pool(imp: Importer, node: Node, a: Attributes) -> None:
    kernel = list(a["kernel_shape"])
    rank = len(kernel)
    largest = node.op_type == "MaxPool"
    if len(imp.wanted(node)) > 1 or rank not in (1, 2, 3):
        raise Left("it gives positions" if rank in (1, 2, 3) else f"it has {rank} spatial axes")
    if a.get("ceil_mode") or (not largest and any(d != 1 for d in a.get("dilations", ()))):
        raise Left("ceil_mode or dilations")
    before, after = _pads(imp, node, a, kernel)
    counted = bool(a.get("count_include_pad"))
    if not largest and not counted and (before != after or any(2 * b > k for b, k in zip(before, kernel, strict=True))):
        raise Left("padding that is not the same on both sides, or more than half of the window")
    half = tuple((d * (k - 1) + 1) // 2 for k, d in zip(kernel, a.get("dilations", [1] * rank), strict=True))
    x, padding = _padded(imp, node.input[0], before, after, -math.inf if largest else 0.0, half)
    more: dict[str, Any] = (
        {"dilation": tuple(a.get("dilations", [1] * rank))} if largest else {"count_include_pad": counted}
    )
    imp.add(
        f"{'max' if largest else 'avg'}_pool{rank}d", [x], node.output[0], kernel_size=tuple(kernel),
        stride=tuple(a.get("strides", [1] * rank)), padding=padding, **more,
    )  # fmt: skip


@handles("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(imp: Importer, node: Node, a: Attributes) -> None:
    dims = tuple(range(2, len(imp.shape(node.input[0]))))
    operation = "mean" if node.op_type == "GlobalAveragePool" else "amax"
    imp.add(operation, node.input, node.output[0], dim=dims, keepdim=True)


def _axes(imp: Importer, node: Node, a: Attributes) -> tuple[int, ...] | None:
    """Axes, which were an attribute and became an input, where they are given."""
    if "axes" in a:
        return tuple(a["axes"])
    return imp.numbers(node.input[1]) if len(node.input) > 1 and node.input[1] else None


@handles("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
def _reduce(imp: Importer, node: Node, a: Attributes) -> None:
    axes = _axes(imp, node, a) or ()
    if not axes and a.get("noop_with_empty_axes"):
        imp.same(node.input[0], node.output[0])
        return
    x = node.input[0]
    if imp.spec(x).dtype not in ("float32", "float64"):
        raise Left(f"its input is {imp.spec(x).dtype}")
    operation = {
        "ReduceMean": "mean",
        "ReduceSum": "sum",
        "ReduceMax": "amax",
        "ReduceMin": "amin",
        "ReduceProd": "prod",
    }
    dims = axes or tuple(range(len(imp.shape(x))))
    imp.add(operation[node.op_type], [x], node.output[0], dim=dims, keepdim=bool(a.get("keepdims", 1)))


@handles("Softmax", "LogSoftmax")
def _softmax(imp: Importer, node: Node, a: Attributes) -> None:
    """Before operator set 13 over all axes from ``axis`` on, as if they were one."""
    x, shape = node.input[0], imp.shape(node.input[0])
    operation = "softmax" if node.op_type == "Softmax" else "log_softmax"
    axis = a.get("axis", 1 if imp.opset < 13 else -1)
    axis = axis + len(shape) if axis < 0 else axis
    if imp.opset >= 13 or axis == len(shape) - 1:
        imp.add(operation, [x], node.output[0], dim=axis)
        return
    rows = imp.reshaped(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
    imp.reshaped(imp.add(operation, [rows], dim=1), shape, node.output[0])


@handles("LayerNormalization", "RMSNormalization")
def _layer_norm(imp: Importer, node: Node, a: Attributes) -> None:
    if len(imp.wanted(node)) > 1:
        raise Left("it gives means and deviations")
    shape = imp.shape(node.input[0])
    axis = a.get("axis", -1) % len(shape)
    operation = "layer_norm" if node.op_type == "LayerNormalization" else "rms_norm"
    imp.add(operation, node.input, node.output[0], normalized_shape=shape[axis:], eps=a.get("epsilon", 1e-5))


@handles("BatchNormalization")
def _batch_norm(imp: Importer, node: Node, a: Attributes) -> None:
    x, weight, bias, mean, var = node.input
    if a.get("training_mode") or len(imp.wanted(node)) > 1:
        raise Left("it trains")
    if not a.get("spatial", 1):
        raise Left("it has statistics for every position")
    imp.add("batch_norm", [x, mean, var, weight, bias], node.output[0], eps=a.get("epsilon", 1e-5))


@handles("InstanceNormalization")
def _instance_norm(imp: Importer, node: Node, a: Attributes) -> None:
    channels = imp.shape(node.input[0])[1]
    imp.add("group_norm", node.input, node.output[0], num_groups=channels, eps=a.get("epsilon", 1e-5))


# --------------------------------------------------------------------------- moves


@handles("Reshape")
def _reshape(imp: Importer, node: Node, a: Attributes) -> None:
    old = imp.shape(node.input[0])
    wanted = list(imp.numbers(node.input[1]))
    if not a.get("allowzero"):
        wanted = [old[d] if n == 0 else n for d, n in enumerate(wanted)]
    if -1 in wanted:
        place = wanted.index(-1)
        wanted[place] = math.prod(old) // math.prod(n for n in wanted if n != -1)
    imp.reshaped(node.input[0], wanted, node.output[0])


@handles("Flatten")
def _flatten(imp: Importer, node: Node, a: Attributes) -> None:
    old = imp.shape(node.input[0])
    axis = a.get("axis", 1)
    axis = axis + len(old) if axis < 0 else axis
    imp.reshaped(node.input[0], (math.prod(old[:axis]), math.prod(old[axis:])), node.output[0])


@handles("Squeeze", "Unsqueeze")
def _squeeze(imp: Importer, node: Node, a: Attributes) -> None:
    old = imp.shape(node.input[0])
    axes = _axes(imp, node, a)
    if node.op_type == "Squeeze":
        gone = {d % len(old) for d in axes} if axes is not None else {d for d, n in enumerate(old) if n == 1}
        shape = tuple(n for d, n in enumerate(old) if d not in gone)
    else:
        rank = len(old) + len(axes or ())
        ones = {d % rank for d in axes or ()}
        rest = iter(old)
        shape = tuple(1 if d in ones else next(rest) for d in range(rank))
    imp.reshaped(node.input[0], shape, node.output[0])


@handles("Transpose")
def _transpose(imp: Importer, node: Node, a: Attributes) -> None:
    rank = len(imp.shape(node.input[0]))
    imp.add("permute", node.input, node.output[0], dims=tuple(a.get("perm", range(rank)[::-1])))


@handles("Concat")
def _concat(imp: Importer, node: Node, a: Attributes) -> None:
    if len(node.input) == 1:
        imp.same(node.input[0], node.output[0])
    else:
        imp.add("cat", node.input, node.output[0], dim=a["axis"])


@handles("Split")
def _split(imp: Importer, node: Node, a: Attributes) -> None:
    x = node.input[0]
    axis = a.get("axis", 0) % len(imp.shape(x))
    size = imp.shape(x)[axis]
    if "split" in a:  # before operator set 13
        parts = tuple(a["split"])
    elif len(node.input) > 1 and node.input[1]:
        parts = imp.numbers(node.input[1])
    else:
        each = -(-size // len(node.output))
        parts = tuple(min(each, size - k * each) for k in range(len(node.output)))
    start = 0
    for part, output in zip(parts, node.output, strict=True):
        if output:
            imp.add("slice", [x], output, dim=axis, start=start, end=start + part)
        start += part


@handles("Slice")
def _slice(imp: Importer, node: Node, a: Attributes) -> None:
    x = node.input[0]
    shape = imp.shape(x)
    if "starts" in a:  # before operator set 10
        starts, ends = tuple(a["starts"]), tuple(a["ends"])
        given = [a.get("axes"), None]
    else:
        starts, ends = imp.numbers(node.input[1]), imp.numbers(node.input[2])
        given = [imp.numbers(n) if n else None for n in (*node.input[3:5], "", "")]
    axes, steps = given[0] or tuple(range(len(starts))), given[1] or (1,) * len(starts)
    if any(s < 1 for s in steps):
        raise Left("it steps backwards")
    taken = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis %= len(shape)
        begin, stop, _ = slice(start, end, step).indices(shape[axis])
        if (begin, stop, step) != (0, shape[axis], 1):
            taken.append((axis, begin, stop, step))
    for k, (axis, begin, stop, step) in enumerate(taken):
        output = node.output[0] if k == len(taken) - 1 else None
        x = imp.add("slice", [x], output, dim=axis, start=begin, end=stop, step=step)
    if not taken:
        imp.same(x, node.output[0])


@handles("Expand")
def _expand(imp: Importer, node: Node, a: Attributes) -> None:
    shape = np.broadcast_shapes(imp.shape(node.input[0]), imp.numbers(node.input[1]))
    imp.add("expand", node.input[:1], node.output[0], shape=tuple(int(n) for n in shape))


@handles("Gather")
def _gather(imp: Importer, node: Node, a: Attributes) -> None:
    table, index = node.input
    shape = imp.shape(table)
    axis = a.get("axis", 0) % len(shape)
    if index in imp.constants and imp.known(index).size == 1:
        at = int(imp.known(index).item())
        at += shape[axis] if at < 0 else 0
        row = imp.add("slice", [table], dim=axis, start=at, end=at + 1)
        out = (*shape[:axis], *imp.shape(index), *shape[axis + 1 :])
        imp.reshaped(row, out, node.output[0])
        return
    if axis or len(shape) != 2 or table not in imp.constants:
        raise Left("only rows of a constant table are gathered")
    imp.add("embedding", [index, table], node.output[0], wrap=True)


@handles("Pad")
def _pad(imp: Importer, node: Node, a: Attributes) -> None:
    if a.get("mode", b"constant") != b"constant" or (len(node.input) > 3 and node.input[3]):
        raise Left("its mode, or axes")
    pads = tuple(a["pads"]) if "pads" in a else imp.numbers(node.input[1])  # an attribute before operator set 11
    rank = len(pads) // 2
    value = imp.known(node.input[2]).item() if len(node.input) > 2 and node.input[2] else a.get("value", 0)
    flat = tuple(n for d in reversed(range(rank)) for n in (pads[d], pads[rank + d]))
    imp.add("pad", node.input[:1], node.output[0], pad=flat, value=value)
