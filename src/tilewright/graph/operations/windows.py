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
register("max_pool_positions", "window", nn.max_pool_positions)
register("adaptive_avg_pool", "window", nn.adaptive_avg_pool)
register("adaptive_max_pool", "window", nn.adaptive_max_pool)


@aten("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def _pooled(build: Build, call: Call) -> None:
    spatial = int(call.operator[len("max_pool")])
    largest = call.operator.startswith("max")
    operation = f"{'max' if largest else 'avg'}_pool{spatial}d" if not call.result else "max_pool_positions"
    own: dict[str, Any] = {k: _numbers(v) for k, v in call.arguments.items() if k != "input" and v is not None}
    _of_images(build, call, operation, spatial, own)


def _of_images(build: Build, call: Call, operation: str, spatial: int, own: dict[str, Any]) -> None:
    """The operation on the call's input: images, or one image without the axis that counts them."""
    x = call.operand("input")
    shape = build.shape(x)
    if len(shape) == spatial + 2:
        build.add(operation, [x], call.output, **own)
    else:
        made = build.add(operation, [build.reshaped(x, (1, *shape))], **own)
        build.reshaped(made, call.spec.shape, call.output)


def _numbers(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


@aten("adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive(build: Build, call: Call) -> None:
    if call.result:
        raise Left("it gives positions")
    size = tuple(call["output_size"])
    operation = "adaptive_max_pool" if "max" in call.operator else "adaptive_avg_pool"
    _of_images(build, call, operation, len(size), {"output_size": size})


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
