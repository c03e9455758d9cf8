"""Repeated, regrouped and reversed elements, and tensors that follow from shapes or numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.extent import bounds, varies
from tilewright.graph.operations.handlers import (
    Array,
    Attributes,
    Build,
    Call,
    Left,
    OnnxBuild,
    aten,
    onnx,
    onnx_named,
    refuse,
)
from tilewright.graph.operations.table import register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import BITS, INDEX, INTEGERS

AS_IT_RUNS = "it is known only when the model runs"


def _tile(input: te.TensorRef, dims: Sequence[int]) -> te.TensorRef:
    """``input`` repeated ``dims[d]`` times along each axis ``d``; axes of one element are prepended where ``dims`` has
    more."""
    more = len(dims) - len(input.shape)
    if more < 0 or any(n < 1 for n in dims):
        raise UsageError(f"tile: dims={tuple(dims)} of {input.shape}", "Give a number of at least 1 for each axis")
    sizes = (*(1,) * more, *input.shape)

    def point(*i: te.Expr) -> te.Expr:
        return input[tuple(x % n if k != 1 else x for x, n, k in list(zip(i, sizes, dims, strict=True))[more:])]

    return te.compute(tuple(n * k for n, k in zip(sizes, dims, strict=True)), point)


def _reverse_sequence(
    input: te.TensorRef, lengths: te.TensorRef, batch_dim: int = 1, time_dim: int = 0
) -> te.TensorRef:
    """``input`` with the first ``lengths[b]`` elements of sequence ``b`` reversed."""
    if lengths.dtype not in INTEGERS or lengths.shape != (input.shape[batch_dim],) or batch_dim == time_dim:
        raise UsageError(f"reverse_sequence: lengths {lengths.shape} of {input.shape}", "Give a whole number for each")

    def point(*i: te.Expr) -> te.Expr:
        last = te.cast(lengths[i[batch_dim]], INDEX) - 1
        reversed_index = tuple(last - x if d == time_dim else x for d, x in enumerate(i))
        return te.select(i[time_dim] <= last, input[reversed_index], input[i])

    return te.compute(input.shape, point)


register("tile", "move", _tile)
REVERSE = register("reverse_sequence", "gather", _reverse_sequence)
onnx_named(REVERSE, "ReverseSequence", batch_dim=("batch_axis", 1), time_dim=("time_axis", 0))


def _regrouped(
    build: Build, x: str, split: Sequence[int], dims: Sequence[int], joined: Sequence[int], output: str
) -> None:
    """Reshapes a value to ``split``, permutes its axes by ``dims`` and reshapes the result to ``joined``."""
    build.reshaped(build.add("permute", [build.reshaped(x, split)], dims=tuple(dims)), joined, output)


# --------------------------------------------------------------------------- ATen


@aten("repeat", "tile")
def _aten_repeat(build: Build, call: Call) -> None:
    given = call["repeats" if "repeats" in call.arguments else "dims"]
    dims = (1,) * (len(build.shape(call.operand("input"))) - len(given)) + tuple(given)
    build.add("tile", [call.operand("input")], call.output, dims=dims)


@aten("pixel_shuffle", "pixel_unshuffle")
def _aten_pixels(build: Build, call: Call) -> None:
    x = call.operand("input")
    *batch, c, h, w = build.shape(x)
    b = len(batch)
    ahead = tuple(range(b))
    if call.operator == "pixel_shuffle":
        r = call["upscale_factor"]
        split, dims = (c // r**2, r, r, h, w), (b, b + 3, b + 1, b + 4, b + 2)
    else:
        r = call["downscale_factor"]
        split, dims = (c, h // r, r, w // r, r), (b, b + 2, b + 4, b + 1, b + 3)
    _regrouped(build, x, (*batch, *split), (*ahead, *dims), call.spec.shape, call.output)


# --------------------------------------------------------------------------- ONNX


@onnx("Tile")
def _onnx_tile(build: OnnxBuild, node: Any, a: Attributes) -> None:
    build.add("tile", node.input[:1], node.output[0], dims=build.numbers(node.input[1]))


@onnx("DepthToSpace", "SpaceToDepth")
def _onnx_depth(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """Depth to space, or back. ``CRD``: channels stand before the block's rows and columns; ``DCR``: behind them."""
    n, c, h, w = build.shape(node.input[0])
    r = a["blocksize"]
    channels_first = a.get("mode", "DCR") == "CRD"
    if node.op_type == "SpaceToDepth":
        dims = (0, 1, 3, 5, 2, 4) if channels_first else (0, 3, 5, 1, 2, 4)
        split, joined = (n, c, h // r, r, w // r, r), (n, c * r * r, h // r, w // r)
    elif channels_first:
        split, dims, joined = (n, c // r**2, r, r, h, w), (0, 1, 4, 2, 5, 3), (n, c // r**2, h * r, w * r)
    else:
        split, dims, joined = (n, r, r, c // r**2, h, w), (0, 3, 4, 1, 5, 2), (n, c // r**2, h * r, w * r)
    _regrouped(build, node.input[0], split, dims, joined, node.output[0])


@onnx("CenterCropPad")
def _onnx_center(build: OnnxBuild, node: Any, a: Attributes) -> None:
    shape = build.shape(node.input[0])
    pairs = [(0, 0)] * len(shape)
    for d, wanted in zip(a.get("axes", range(len(shape))), build.numbers(node.input[1]), strict=True):
        more = wanted - shape[d]
        before = more // 2 if more > 0 else -(-more // 2)
        pairs[d] = (before, more - before)
    flat = tuple(n for pair in reversed(pairs) for n in pair)
    build.add("pad", node.input[:1], node.output[0], pad=flat)


@onnx("Dropout")
def _onnx_dropout(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """Passes the input on. Raises ``Left`` for a model in training mode, which operator sets from 12 on can state."""
    training = node.input[2] if len(node.input) > 2 else ""
    if training and build.known(training).item():
        ratio = build.known(node.input[1]).item() if node.input[1] else 0.5
        if ratio:
            raise Left("it drops at random")
    x = node.input[0]
    wanted = build.wanted(node)
    if node.output[0] in wanted or not wanted:
        build.same(x, node.output[0])
    if len(node.output) > 1 and node.output[1] in wanted:
        if build.opset < 12:
            raise Left("what its mask is, the standard does not say")
        one = build.constant(np.ones((1,) * len(build.shape(x)), bool))
        build.add("expand", [one], node.output[1], shape=build.shape(x))


@onnx("Compress")
def _onnx_compress(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """The elements of an axis, or of the flattened input, at which a constant condition holds."""
    x = node.input[0]
    if "axis" not in a:
        x = build.reshaped(x, (math.prod(build.shape(x)),))
    axis = a.get("axis", 0) % len(build.shape(x))
    places = build.constant(np.flatnonzero(build.known(node.input[1])))
    build.add("index_select", [x, places], node.output[0], dim=axis)


@onnx("ConstantOfShape")
def _onnx_filled(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """A filled tensor with symbolic sizes; the folding of constants computes fixed shapes."""
    shape = build.numbers(node.input[0])
    if not varies(shape):
        raise Left(AS_IT_RUNS)
    number = build.onnx.numpy_helper.to_array(a["value"]) if "value" in a else np.zeros(1, np.float32)
    one = build.constant(number.reshape((1,) * len(shape)))
    build.add("expand", [one], node.output[0], shape=shape)


@onnx("Range")
def _onnx_range(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """A range of integers up to a symbolic size: a slice of the constant range up to the greatest size."""
    (begin,), (end,), (step,) = map(build.numbers, node.input)
    dtype, most = build.spec(node.input[0]).dtype, bounds(end)[1]
    if not varies(end) or varies(begin, step) or step != 1 or dtype not in INTEGERS or most - begin > MOST:
        raise Left(AS_IT_RUNS)
    every = build.constant(np.arange(begin, most).astype(dtype))
    build.add("slice", [every], node.output[0], dim=0, start=0, end=end - begin)


@onnx(
    "Shape", "Size", "Constant", "EyeLike", "BlackmanWindow", "HammingWindow", "HannWindow",
    "MelWeightMatrix",
)  # fmt: skip
def _onnx_known(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """Operators that constant folding computes; a node that it did not fold is left to onnxruntime."""
    raise Left(AS_IT_RUNS)


refuse("how many elements there are is known only when the model runs", "NonZero", "NonMaxSuppression", "Unique")
refuse("it sorts", "TopK")
refuse("it reads files of images", "ImageDecoder")
refuse(
    "no kernel is written for it yet",
    "Col2Im",
    "DFT",
    "DeformConv",
    "Det",
    "MaxRoiPool",
    "MaxUnpool",
    "RoiAlign",
    "STFT",
)
refuse("its condition is known only when the model runs", "If")
refuse("how many rounds it takes is known only when the model runs, or is very many", "Loop", "Scan")


# --------------------------------------------------------------------------- generated tensors


MOST = 1 << 20
"""Most elements of a generated tensor, such as a range, that is kept as a constant."""

refuse(
    "random numbers are PyTorch's", "rand", "randn", "rand_like", "randn_like", "randint", "bernoulli.p", "bernoulli",
    "normal_functional", "native_dropout", "multinomial", "randperm",
)  # fmt: skip
refuse("sorting is PyTorch's", "sort", "sort.stable", "topk", "kthvalue", "median.dim", "mode", "argsort")
refuse("its shape depends on values", "nonzero", "masked_select", "unique_dim", "_unique2", "bincount")


def _keep(build: Build, call: Call, array: Array) -> None:
    spec = call.spec
    if spec.dtype in BITS:
        raise Left(f"NumPy has no {spec.dtype}")
    build.known_as(call.output, np.broadcast_to(array.astype(spec.dtype), spec.shape))


@aten(
    "full",
    "full_like",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "scalar_tensor",
    "new_full",
    "new_zeros",
    "new_ones",
)
def _filled(build: Build, call: Call) -> None:
    name = call.operator.removesuffix("_like").removeprefix("new_")
    number = {"zeros": 0, "ones": 1}.get(name)
    if number is None:
        number = call["s" if name == "scalar_tensor" else "fill_value"]
    if not isinstance(number, int | float):
        raise Left("it is filled with a tensor")
    _keep(build, call, np.asarray(number))


@aten("arange", "arange.start", "arange.start_step")
def _counted(build: Build, call: Call) -> None:
    if math.prod(call.spec.shape) > MOST:
        raise Left("it is large")
    start, step = call.arguments.get("start", 0), call.arguments.get("step", 1)
    (count,) = call.spec.shape
    _keep(build, call, start + step * np.arange(count))


@aten("eye", "eye.m")
def _diagonal(build: Build, call: Call) -> None:
    if math.prod(call.spec.shape) > MOST:
        raise Left("it is large")
    rows, columns = call.spec.shape
    _keep(build, call, np.eye(rows, columns))
