"""Pooling, which reduces windows, and padding as ONNX states it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tilewright.extent import larger, varies
from tilewright.graph.operations.handlers import Array, Build, Call, Left, OnnxBuild, aten, frozen, onnx
from tilewright.graph.operations.table import register_all
from tilewright.kernels import nn

register_all(
    "window", max_pool1d=nn.max_pool1d, max_pool2d=nn.max_pool2d, max_pool3d=nn.max_pool3d, avg_pool1d=nn.avg_pool1d,
    avg_pool2d=nn.avg_pool2d, avg_pool3d=nn.avg_pool3d, max_pool_positions=nn.max_pool_positions,
    adaptive_avg_pool=nn.adaptive_avg_pool, adaptive_max_pool=nn.adaptive_max_pool,
    adaptive_max_pool_positions=nn.adaptive_max_pool_positions,
)  # fmt: skip


@aten("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def _pooled(build: Build, call: Call) -> None:
    spatial = int(call.operator[len("max_pool")])
    largest = call.operator.startswith("max")
    operation = f"{'max' if largest else 'avg'}_pool{spatial}d" if not call.result else "max_pool_positions"
    own: dict[str, Any] = {k: frozen(v) for k, v in call.arguments.items() if k != "input" and v is not None}
    _of_images(build, call, operation, spatial, own)


def _of_images(build: Build, call: Call, operation: str, spatial: int, own: dict[str, Any]) -> None:
    """Adds the operation on the call's input: a batch of images, or one image without a batch axis."""
    x = call.operand("input")
    shape = build.shape(x)
    if len(shape) == spatial + 2:
        build.add(operation, [x], call.output, **own)
    else:
        made = build.add(operation, [build.reshaped(x, (1, *shape))], **own)
        build.reshaped(made, call.spec.shape, call.output)


@aten("adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive(build: Build, call: Call) -> None:
    size = tuple(call["output_size"])
    operation = "adaptive_max_pool" if "max" in call.operator else "adaptive_avg_pool"
    operation = f"{operation}_positions" if call.result else operation
    _of_images(build, call, operation, len(size), {"output_size": size})


@onnx("MaxPool", "AveragePool")
def _onnx_pool(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    kernel = list(a["kernel_shape"])
    rank = len(kernel)
    largest = node.op_type == "MaxPool"
    if rank not in (1, 2, 3):
        raise Left(f"it has {rank} spatial axes")
    gaps, strides = a.get("dilations", [1] * rank), a.get("strides", [1] * rank)
    if not largest and any(d != 1 for d in gaps):
        raise Left("dilations")
    sizes = build.shape(node.input[0])[2:]
    before, after = pads_of(build, node, a, kernel)
    axes = [
        _Axis(n, k, s, d, b, e, bool(a.get("ceil_mode")))
        for n, k, s, d, b, e in zip(sizes, kernel, strides, gaps, before, after, strict=True)
    ]
    behind = [e + x.overhang for e, x in zip(after, axes, strict=True)]
    half = tuple(x.span // 2 for x in axes)
    x, padding = padded(build, node.input[0], before, behind, -math.inf if largest else 0.0, half)
    how: dict[str, Any] = {"kernel_size": tuple(kernel), "stride": tuple(strides), "padding": padding}
    if largest:
        how["dilation"] = tuple(gaps)
        if len(node.output) > 1 and node.output[1] in build.wanted(node):
            if x != node.input[0]:
                raise Left("it gives positions and pads unevenly")
            _onnx_positions(build, node, how, by_columns=bool(a.get("storage_order", 0)))
        build.add(f"max_pool{rank}d", [x], node.output[0], **how)
        return
    counted = bool(a.get("count_include_pad"))
    if not any(x.overhang for x in axes) and (counted or x == node.input[0]):
        build.add(f"avg_pool{rank}d", [x], node.output[0], count_include_pad=counted, **how)
        return
    mean = build.add(f"avg_pool{rank}d", [x], **how)
    share = math.prod(kernel) / reduce(np.multiply.outer, [x.elements(counted) for x in axes])
    build.add("mul", [mean, build.constant(share.astype(build.spec(mean).dtype))], node.output[0])


def _onnx_positions(build: OnnxBuild, node: Any, how: dict[str, Any], by_columns: bool) -> None:
    """``MaxPool``'s second output: positions among all elements of the input, counted across images and channels.

    ``by_columns``: positions count with the first spatial axis innermost.
    """
    images, channels, *space = build.shape(node.input[0])
    if varies(images, channels, *space):
        raise Left("it gives positions, and the sizes of its input are open")
    at = build.add("max_pool_positions", [node.input[0]], **how)
    if by_columns and len(space) > 1:
        order = np.arange(math.prod(space)).reshape(space[::-1]).transpose().reshape(-1)
        at = build.add("index_select", [build.constant(order), at], dim=0)
    before = np.arange(images * channels) * math.prod(space)
    build.add("add", [at, build.constant(before.reshape(images, channels, *[1] * len(space)))], node.output[1])


@dataclass(frozen=True)
class _Axis:
    """The pooling windows along one axis of ``size`` elements, padded by ``before`` and ``after``.

    ``up``: as ONNX's ``ceil_mode``, a window that begins before the padding behind is kept although it does not fit.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    up: bool

    @property
    def span(self) -> int:
        """Number of elements from a window's first to its last."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def count(self) -> int:
        """Number of windows."""
        room = self.before + self.size + self.after - self.span
        count = room // self.stride + 1
        whole = not self.up or self.stride == 1
        return count if whole or not room % self.stride or count * self.stride >= self.before + self.size else count + 1

    @property
    def overhang(self) -> int:
        """Number of elements by which the last window reaches past the padding; 0 without windows."""
        if not self.up or self.stride == 1:
            return 0
        last = (self.count - 1) * self.stride - self.before
        return larger(0, last + self.span - self.size - self.after) if self.count > 0 else 0

    def elements(self, counted: bool) -> Array:
        """Number of elements of each window inside the input or, if ``counted``, inside the input and its padding."""
        if varies(self.size):
            raise Left("the share of padding in a window depends on the size")
        starts = np.arange(self.count) * self.stride - self.before
        first, end = (-self.before, self.size + self.after) if counted else (0, self.size)
        count: Array = np.minimum(starts + self.kernel, end) - np.maximum(starts, first)
        return count


# --------------------------------------------------------------------------- padding


def pads_of(build: OnnxBuild, node: Any, a: dict[str, Any], kernel: list[int]) -> tuple[list[int], list[int]]:
    """Padding before and after each spatial axis.

    Raises :class:`Left` where ``auto_pad`` would be negative: ONNX does not say which elements windows then skip, and
    runtimes differ.
    """
    rank = len(kernel)
    auto = a.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = list(a.get("pads", [0] * 2 * rank))
        return pads[:rank], pads[rank:]
    if auto == "VALID":
        return [0] * rank, [0] * rank
    strides, gaps = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    before, after = [], []
    for n, k, s, d in zip(build.shape(node.input[0])[2:], kernel, strides, gaps, strict=True):
        span = d * (k - 1) + 1
        total = (-(-n // s) - 1) * s + span - n
        if total < -1 if not varies(n) else span < s - 1:
            raise Left("auto_pad is negative")
        total = larger(total, 0)
        small, large = total // 2, total - total // 2
        before.append(small if auto == "SAME_UPPER" else large)
        after.append(large if auto == "SAME_UPPER" else small)
    return before, after


def padded(
    build: OnnxBuild, x: str, before: list[int], after: list[int], value: float, most: tuple[int, ...] = ()
) -> tuple[str, tuple[int, ...]]:
    """The input with its padding materialised where it is uneven or above ``most``, and the padding left for the
    operation."""
    both = [0 if varies(b, e) else min(b, e) for b, e in zip(before, after, strict=True)]
    if before == after and not varies(before) and all(b <= m for b, m in zip(both, most, strict=False)):
        return x, tuple(both)
    flat = [n for b, e in reversed(list(zip(before, after, strict=True))) for n in (b, e)]
    return build.add("pad", [x], pad=tuple(flat), value=value), (0,) * len(both)


def kernel_of(build: OnnxBuild, weight: str) -> list[int]:
    """A convolution's spatial window sizes. Raises :class:`Left` for more than three spatial axes."""
    kernel = list(build.shape(weight)[2:])
    if len(kernel) not in (1, 2, 3):
        raise Left(f"it has {len(kernel)} spatial axes")
    return kernel


def convolved(
    build: OnnxBuild, a: dict[str, Any], operands: Sequence[str], padding: tuple[int, ...], output: str | None
) -> str:
    """The convolution of padded operands; ``padding``: the padding that the convolution itself adds."""
    ones = [1] * len(padding)
    return build.add(
        f"conv{len(padding)}d", operands, output, stride=tuple(a.get("strides", ones)), padding=padding,
        dilation=tuple(a.get("dilations", ones)), groups=a.get("group", 1),
    )  # fmt: skip
