"""Norms that are made of sums beside the elements: over neighbouring channels, of lengths, of groups."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.graph.operations.handlers import Attributes, Left, OnnxBuild, onnx
from tilewright.graph.operations.padding import padded, pads_of
from tilewright.graph.operations.table import register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS, NARROW
from tilewright.kernels.nn.element import value


def _local_response_norm(
    input: te.TensorRef, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> te.TensorRef:
    """``input / (k + alpha / size * squares)**beta``, the squares summed over ``size`` channels around each one."""
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
    """The ``norm_type``-th root of the sum of that power of the magnitudes in each window over the last axes."""
    rank = len(kernel_size)
    space = input.shape[-rank:]
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(space, kernel_size, stride, dilation, strict=True)]

    def powers(*i: te.Expr) -> te.Reduction:
        def power(*r: te.Expr) -> te.Expr:
            at = [x * s + t * d for x, s, t, d in zip(i[-rank:], stride, r, dilation, strict=True)]
            return te.abs(value(input[(*i[:-rank], *at)])) ** norm_type

        return te.sum(kernel_size, power)

    total = te.compute((*input.shape[:-rank], *sizes), powers)
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
    """A row of zeros stays one."""
    x = node.input[0]
    norm = _normed(build, x, (a.get("axis", -1) % len(build.shape(x)),), a.get("p", 2))
    nought = build.constant(np.zeros((), build.spec(x).dtype))
    made = build.add("div", [x, norm])
    build.add("where", [build.add("eq", [norm, nought]), nought, made], node.output[0])


@onnx("MeanVarianceNormalization")
def _onnx_mean_variance(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """In float32 at least: what is left of differences is small."""
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
    """Before operator set 21 weights are those of groups."""
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
    """Before operator set 13 over all axes from ``axis`` on, as if they were one."""
    x, shape, kind = node.input[0], build.shape(node.input[0]), build.spec(node.input[0]).dtype
    axis = a.get("axis", 1 if build.opset < 13 else -1)
    axis = axis + len(shape) if axis < 0 else axis
    flat = build.opset < 13
    rows = build.reshaped(x, (math.prod(shape[:axis]), math.prod(shape[axis:]))) if flat else x
    dim = 1 if flat else axis
    first = build.add("argmax", [rows], dim=(dim,))
    values = build.constant(np.array([0, 1], kind))
    made = build.add(
        "one_hot", [first, values], None if flat else node.output[0], num_classes=build.shape(rows)[dim], dim=dim
    )  # fmt: skip
    if flat:
        build.reshaped(made, shape, node.output[0])
