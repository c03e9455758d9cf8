"""Products and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.graph.operations.elementwise import element
from tilewright.graph.operations.handlers import Build, Call, Left, OnnxBuild, aten, aten_named, onnx
from tilewright.graph.operations.padding import padded, pads_of
from tilewright.graph.operations.table import register
from tilewright.kernels import nn, te
from tilewright.kernels.nn.element import value


def _conv(rank: int) -> Callable[..., te.TensorRef]:
    function = (nn.conv1d, nn.conv2d, nn.conv3d)[rank - 1]

    def conv(
        input: te.TensorRef, weight: te.TensorRef, bias: te.TensorRef | None = None, **attributes: Any
    ) -> te.TensorRef:
        return function(input, weight, bias, **attributes)

    return conv


def _matmul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """``nn.matmul``, which reads batches of one element in place too: attentions are recognised by such reads."""
    shape = nn.matmul(input, other).shape  # checks
    k = input.shape[-1]
    batch = shape[:-2]

    def product(*i: te.Expr) -> te.Reduction:
        *p, row, column = i
        return te.sum(
            k,
            lambda r: (
                value(element(input, (*p, row, r), (*batch, shape[-2], k)))
                * value(element(other, (*p, r, column), (*batch, k, shape[-1])))
            ),
        )

    return te.compute(shape, product)


MATMUL = register("matmul", "contraction", _matmul, weight=1)
aten_named(MATMUL, "bmm", other="mat2")
register("linear", "contraction", nn.linear, weight=1)
for _rank in (1, 2, 3):
    register(f"conv{_rank}d", "contraction", _conv(_rank), weight=1)


# --------------------------------------------------------------------------- ATen


@aten("mm")
def _mm(build: Build, call: Call) -> None:
    x, y = call.operand("input"), call.operand("mat2")
    weight = build.turned(y)
    build.add("matmul" if weight is None else "linear", [x, y if weight is None else weight], call.output)


@aten("addmm")
def _addmm(build: Build, call: Call) -> None:
    call.allow("input", "mat1", "mat2")
    bias, x, y = (call.operand(n) for n in ("input", "mat1", "mat2"))
    weight = build.turned(y)
    if weight is not None and build.shape(bias) == call.spec.shape[1:]:
        build.add("linear", [x, weight, bias], call.output)
        return
    build.add("add", [build.add("matmul", [x, y]), bias], call.output)


@aten("convolution")
def _convolution(build: Build, call: Call) -> None:
    if call["transposed"]:
        raise Left("it is transposed")
    rank = len(call.spec.shape) - 2
    window = {k: tuple(call[k]) for k in ("stride", "padding", "dilation")}
    wide = {k: v if len(v) == rank else v * rank for k, v in window.items()}
    operands = [call.operand(n) for n in ("input", "weight", "bias")]
    build.add(f"conv{rank}d", operands, call.output, **wide, groups=call["groups"])


# --------------------------------------------------------------------------- ONNX


@onnx("MatMul")
def _onnx_matmul(build: OnnxBuild, node: Any, attributes: dict[str, Any]) -> None:
    x, y = node.input
    a, b = build.shape(x), build.shape(y)
    if len(a) > 1 and len(b) > 1:
        build.add("matmul", [x, y], node.output[0])
        return
    x = build.reshaped(x, (1, *a)) if len(a) == 1 else x
    y = build.reshaped(y, (*b, 1)) if len(b) == 1 else y
    made = build.add("matmul", [x, y])
    shape = list(build.shape(made))
    if len(b) == 1:
        del shape[-1]
    if len(a) == 1:
        del shape[-1 if len(b) == 1 else -2]
    build.reshaped(made, shape, node.output[0])


@onnx("Gemm")
def _onnx_gemm(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x, y = node.input[:2]
    c = node.input[2] if len(node.input) > 2 else ""
    if a.get("transA"):
        x = build.constant(build.constants[x].T) if x in build.constants else build.add("permute", [x], dims=(1, 0))
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    plain = c and beta == 1 and alpha == 1 and a.get("transB") and build.shape(c) == (build.shape(y)[0],)
    if plain:
        build.add("linear", [x, y, c], node.output[0])
        return
    steps = 1 + (alpha != 1) + bool(c)
    name = iter([None] * (steps - 1) + [node.output[0]])
    value = build.add("linear" if a.get("transB") else "matmul", [x, y], next(name))
    if alpha != 1:
        value = build.add("mul", [value, build.constant(np.array(alpha, np.float32))], next(name))
    if c:
        if beta != 1 and c in build.constants:
            c = build.constant((build.constants[c] * np.float64(beta)).astype(build.constants[c].dtype))
        elif beta != 1:
            c = build.add("mul", [c, build.constant(np.array(beta, np.float32))])
        build.add("add", [value, c], next(name))


@onnx("Conv")
def _onnx_conv(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    kernel = list(build.shape(node.input[1])[2:])
    rank = len(kernel)
    if rank not in (1, 2, 3):
        raise Left(f"it has {rank} spatial axes")
    x, padding = padded(build, node.input[0], *pads_of(build, node, a, kernel), 0.0)
    build.add(
        f"conv{rank}d", [x, *node.input[1:]], node.output[0], stride=tuple(a.get("strides", [1] * rank)),
        padding=padding, dilation=tuple(a.get("dilations", [1] * rank)), groups=a.get("group", 1),
    )  # fmt: skip
