"""Pooling: reductions of windows."""

from __future__ import annotations

import math
from typing import Any

from tilewright.graph.operations.handlers import Build, Call, Left, OnnxBuild, aten, onnx
from tilewright.graph.operations.padding import padded, pads_of
from tilewright.graph.operations.table import register
from tilewright.kernels import nn

for _rank, _largest, _mean in (
    (1, nn.max_pool1d, nn.avg_pool1d), (2, nn.max_pool2d, nn.avg_pool2d), (3, nn.max_pool3d, nn.avg_pool3d),
):  # fmt: skip
    register(f"max_pool{_rank}d", "window", _largest)
    register(f"avg_pool{_rank}d", "window", _mean)


@aten("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(build: Build, call: Call) -> None:
    if call.result:
        raise Left("it gives positions")
    _pooled(build, call, "max_pool", "dilation")


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(build: Build, call: Call) -> None:
    if call.arguments.get("divisor_override") is not None:
        raise Left("its divisor is given")
    _pooled(build, call, "avg_pool", "count_include_pad")


def _pooled(build: Build, call: Call, operation: str, more: str) -> None:
    x = call.operand("input")
    rank = len(call["kernel_size"])
    shape = build.shape(x)
    if call["ceil_mode"]:
        raise Left("ceil_mode")
    given = {k: call[k] for k in ("kernel_size", "stride", "padding", more) if k in call.arguments}
    own: dict[str, Any] = {k: tuple(v) if isinstance(v, list | tuple) else v for k, v in given.items()}
    if len(shape) == rank + 2:
        build.add(f"{operation}{rank}d", [x], call.output, **own)
        return
    made = build.add(f"{operation}{rank}d", [build.reshaped(x, (1, *shape))], **own)
    build.reshaped(made, call.spec.shape, call.output)


@onnx("MaxPool", "AveragePool")
def _onnx_pool(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    kernel = list(a["kernel_shape"])
    rank = len(kernel)
    largest = node.op_type == "MaxPool"
    if len(build.wanted(node)) > 1 or rank not in (1, 2, 3):
        raise Left("it gives positions" if rank in (1, 2, 3) else f"it has {rank} spatial axes")
    if a.get("ceil_mode") or (not largest and any(d != 1 for d in a.get("dilations", ()))):
        raise Left("ceil_mode or dilations")
    before, after = pads_of(build, node, a, kernel)
    counted = bool(a.get("count_include_pad"))
    if not largest and not counted and (before != after or any(2 * b > k for b, k in zip(before, kernel, strict=True))):
        raise Left("padding that is not the same on both sides, or more than half of the window")
    half = tuple((d * (k - 1) + 1) // 2 for k, d in zip(kernel, a.get("dilations", [1] * rank), strict=True))
    x, padding = padded(build, node.input[0], before, after, -math.inf if largest else 0.0, half)
    more: dict[str, Any] = (
        {"dilation": tuple(a.get("dilations", [1] * rank))} if largest else {"count_include_pad": counted}
    )
    build.add(
        f"{'max' if largest else 'avg'}_pool{rank}d", [x], node.output[0], kernel_size=tuple(kernel),
        stride=tuple(a.get("strides", [1] * rank)), padding=padding, **more,
    )  # fmt: skip
