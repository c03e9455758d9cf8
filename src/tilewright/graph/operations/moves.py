"""Operations that move elements and compute none: reshapes, other orders of axes, slices, concatenations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.graph.operations.handlers import Build, Call, Left, OnnxBuild, aten, axes_of, onnx
from tilewright.graph.operations.table import register
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import INDEX, const
from tilewright.kernels.nn.dims import broadcast, one_dim, stretched

VIEWS = ("reshape",)
"""The elements of the input in the same order: no kernel is needed."""


def _reshape(input: te.TensorRef, shape: Sequence[int]) -> te.TensorRef:
    """Runs of axes with equal products are matched, so that indices need no more divisions than they must."""
    new, old = tuple(shape), input.shape
    if math.prod(new) != math.prod(old):
        raise UsageError(f"reshape: {old} does not become {new}", "The numbers of elements agree")
    pieces = _pieces(old, new)

    def point(*i: te.Expr) -> te.Expr:
        index: list[te.Expr] = [const(0, INDEX)] * len(old)
        for olds, news in pieces:
            flat: te.Expr | None = None
            for d in news:
                flat = i[d] if flat is None else flat * new[d] + i[d]
            if flat is None:
                continue
            inner = 1
            for d in reversed(olds):
                whole = flat if inner == 1 else flat // inner
                index[d] = whole if d == olds[0] else whole % old[d]
                inner *= old[d]
        return input[tuple(index)]

    return te.compute(new, point)


def _pieces(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Axes above 1 in runs of equal products, as short as possible."""
    a = [d for d, n in enumerate(old) if n > 1]
    b = [d for d, n in enumerate(new) if n > 1]
    out = []
    while a or b:
        olds, news = [a.pop(0)], [b.pop(0)]
        x, y = old[olds[0]], new[news[0]]
        while x != y:
            if x < y:
                olds.append(a.pop(0))
                x *= old[olds[-1]]
            else:
                news.append(b.pop(0))
                y *= new[news[-1]]
        out.append((olds, news))
    return out


def _expand(input: te.TensorRef, shape: Sequence[int]) -> te.TensorRef:
    broadcast("expand", "input", input.shape, shape)
    return te.compute(tuple(shape), lambda *i: stretched(input, i))


def _slice(input: te.TensorRef, dim: int, start: int, end: int, step: int = 1) -> te.TensorRef:
    """Elements ``start``, ``start + step``, ... below ``end``, counted from 0, within the axis."""
    d = one_dim("slice", dim, len(input.shape))
    size = input.shape[d]
    if step < 1 or not 0 <= start < min(end, size):
        raise UsageError(f"slice: {start}:{end}:{step} takes nothing of an axis of {size}", "Take one element at least")
    count = -(-(min(end, size) - start) // step)
    shape = (*input.shape[:d], count, *input.shape[d + 1 :])
    return te.compute(shape, lambda *i: input[(*i[:d], i[d] * step + start, *i[d + 1 :])])


def _cat(*tensors: te.TensorRef, dim: int = 0) -> te.TensorRef:
    return nn.cat(tensors, dim)


def _permute(input: te.TensorRef, dims: Sequence[int]) -> te.TensorRef:
    return nn.permute(input, tuple(dims))


def _pad(input: te.TensorRef, pad: Sequence[int], value: float = 0.0) -> te.TensorRef:
    return nn.pad(input, tuple(pad), value)


for _name, _state in (
    ("reshape", _reshape), ("permute", _permute), ("expand", _expand), ("slice", _slice), ("cat", _cat), ("pad", _pad),
):  # fmt: skip
    register(_name, "move", _state)


# --------------------------------------------------------------------------- ATen


@aten(
    "view", "_unsafe_view", "reshape", "unsqueeze", "squeeze.dim", "squeeze.dims", "squeeze", "_reshape_copy", "alias"
)
def _viewed(build: Build, call: Call) -> None:
    build.reshaped(call.operand("input"), call.spec.shape, call.output)


@aten("clone", "contiguous", "lift_fresh_copy", "detach")
def _copied(build: Build, call: Call) -> None:
    """The same elements; how they lie is the importer's to say."""
    build.same(call.operand("input"), call.output)


@aten("expand")
def _expanded(build: Build, call: Call) -> None:
    build.add("expand", [call.operand("input")], call.output, shape=call.spec.shape)


@aten("t", "transpose.int")
def _transposed(build: Build, call: Call) -> None:
    rank = len(build.shape(call.operand("input")))
    dims = list(range(rank))
    if rank > 1:
        first, second = (0, 1) if "dim0" not in call.arguments else (call["dim0"] % rank, call["dim1"] % rank)
        dims[first], dims[second] = dims[second], dims[first]
    build.add("permute", [call.operand("input")], call.output, dims=tuple(dims))


@aten("permute")
def _permuted(build: Build, call: Call) -> None:
    rank = len(call.spec.shape)
    build.add("permute", [call.operand("input")], call.output, dims=tuple(d % rank for d in call["dims"]))


# --------------------------------------------------------------------------- ONNX


@onnx("Reshape")
def _onnx_reshape(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    old = build.shape(node.input[0])
    wanted = list(build.numbers(node.input[1]))
    if not a.get("allowzero"):
        wanted = [old[d] if n == 0 else n for d, n in enumerate(wanted)]
    if -1 in wanted:
        place = wanted.index(-1)
        wanted[place] = math.prod(old) // math.prod(n for n in wanted if n != -1)
    build.reshaped(node.input[0], wanted, node.output[0])


@onnx("Flatten")
def _onnx_flatten(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    old = build.shape(node.input[0])
    axis = a.get("axis", 1)
    axis = axis + len(old) if axis < 0 else axis
    build.reshaped(node.input[0], (math.prod(old[:axis]), math.prod(old[axis:])), node.output[0])


@onnx("Squeeze", "Unsqueeze")
def _onnx_squeeze(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    old = build.shape(node.input[0])
    axes = axes_of(build, node, a)
    if node.op_type == "Squeeze":
        gone = {d % len(old) for d in axes} if axes is not None else {d for d, n in enumerate(old) if n == 1}
        shape = tuple(n for d, n in enumerate(old) if d not in gone)
    else:
        rank = len(old) + len(axes or ())
        ones = {d % rank for d in axes or ()}
        rest = iter(old)
        shape = tuple(1 if d in ones else next(rest) for d in range(rank))
    build.reshaped(node.input[0], shape, node.output[0])


@onnx("Transpose")
def _onnx_transpose(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    rank = len(build.shape(node.input[0]))
    build.add("permute", node.input, node.output[0], dims=tuple(a.get("perm", range(rank)[::-1])))


@onnx("Concat")
def _onnx_concat(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    if len(node.input) == 1:
        build.same(node.input[0], node.output[0])
    else:
        build.add("cat", node.input, node.output[0], dim=a["axis"])


@onnx("Split")
def _onnx_split(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x = node.input[0]
    axis = a.get("axis", 0) % len(build.shape(x))
    size = build.shape(x)[axis]
    if "split" in a:  # before operator set 13
        parts = tuple(a["split"])
    elif len(node.input) > 1 and node.input[1]:
        parts = build.numbers(node.input[1])
    else:
        each = -(-size // len(node.output))
        parts = tuple(min(each, size - k * each) for k in range(len(node.output)))
    start = 0
    for part, output in zip(parts, node.output, strict=True):
        if output:
            build.add("slice", [x], output, dim=axis, start=start, end=start + part)
        start += part


@onnx("Slice")
def _onnx_slice(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x = node.input[0]
    shape = build.shape(x)
    if "starts" in a:  # before operator set 10
        starts, ends = tuple(a["starts"]), tuple(a["ends"])
        given = [a.get("axes"), None]
    else:
        starts, ends = build.numbers(node.input[1]), build.numbers(node.input[2])
        given = [build.numbers(n) if n else None for n in (*node.input[3:5], "", "")]
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
        x = build.add("slice", [x], output, dim=axis, start=begin, end=stop, step=step)
    if not taken:
        build.same(x, node.output[0])


@onnx("Expand")
def _onnx_expand(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    shape = np.broadcast_shapes(build.shape(node.input[0]), build.numbers(node.input[1]))
    build.add("expand", node.input[:1], node.output[0], shape=tuple(int(n) for n in shape))


@onnx("Pad")
def _onnx_pad(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    if a.get("mode", b"constant") != b"constant" or (len(node.input) > 3 and node.input[3]):
        raise Left("its mode, or axes")
    pads = tuple(a["pads"]) if "pads" in a else build.numbers(node.input[1])  # an attribute before operator set 11
    rank = len(pads) // 2
    value = build.known(node.input[2]).item() if len(node.input) > 2 and node.input[2] else a.get("value", 0)
    flat = tuple(n for d in reversed(range(rank)) for n in (pads[d], pads[rank + d]))
    build.add("pad", node.input[:1], node.output[0], pad=flat, value=value)
