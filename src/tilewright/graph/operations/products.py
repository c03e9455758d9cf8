"""Products and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.graph.operations.handlers import Build, Call, OnnxBuild, aten, aten_named, onnx
from tilewright.graph.operations.padding import convolved, kernel_of, padded, pads_of
from tilewright.graph.operations.pointwise import element
from tilewright.graph.operations.table import register
from tilewright.kernels import nn, te
from tilewright.kernels.nn.element import value


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
for _state in (
    nn.conv1d, nn.conv2d, nn.conv3d, nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d,
):  # fmt: skip
    register(_state.__name__, "contraction", _state, weight=1)


# --------------------------------------------------------------------------- ATen


@aten("mm")
def _mm(build: Build, call: Call) -> None:
    x, y = call.operand("input"), call.operand("mat2")
    weight = build.turned(y)
    build.add("matmul" if weight is None else "linear", [x, y if weight is None else weight], call.output)


@aten("addmm", "baddbmm", "addmv")
def _added(build: Build, call: Call) -> None:
    """``beta * input + alpha * (a @ b)``; ``input`` does not count where ``beta`` is 0."""
    names = [n for n in call.arguments if n not in ("input", "alpha", "beta")]
    bias, x, y = (call.operand(n) for n in ("input", *names))
    alpha, beta = call["alpha"], call["beta"]
    weight = build.turned(y) if len(build.shape(y)) == 2 else None
    if weight is not None and alpha == beta == 1 and build.shape(bias) == call.spec.shape[1:]:
        build.add("linear", [x, weight, bias], call.output)
        return
    made = _product(build, x, y, None if alpha != 1 or beta else call.output)
    if alpha != 1:
        made = build.add("mul", [made, build.constant(np.asarray(alpha))], None if beta else call.output)
    if beta:
        scaled = bias if beta == 1 else build.add("mul", [bias, build.constant(np.asarray(beta))])
        build.add("add", [made, scaled], call.output)


@aten("mv", "dot")
def _with_vector(build: Build, call: Call) -> None:
    names = [n for n in call.arguments if n != "input"]
    _product(build, call.operand("input"), call.operand(names[0]), call.output)


def _product(build: Build, x: str, y: str, output: str | None) -> str:
    """The product of matrices, or of a matrix or vector with a vector."""
    if len(build.shape(y)) > 1:
        return build.add("matmul", [x, y], output)
    rows = build.shape(x)[:-1]
    a = x if rows else build.reshaped(x, (1, *build.shape(x)))
    made = build.add("matmul", [a, build.reshaped(y, (*build.shape(y), 1))])
    return build.reshaped(made, rows, output)


@aten("convolution")
def _convolution(build: Build, call: Call) -> None:
    rank = len(call.spec.shape) - 2
    transposed = call["transposed"]
    names = ("stride", "padding", "dilation", *(("output_padding",) if transposed else ()))
    window = {k: tuple(call[k]) for k in names}
    wide = {k: v if len(v) == rank else v * rank for k, v in window.items()}
    operands = [call.operand(n) for n in ("input", "weight", "bias")]
    operation = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    build.add(operation, operands if operands[2] else operands[:2], call.output, **wide, groups=call["groups"])


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
    kernel = kernel_of(build, node.input[1])
    x, padding = padded(build, node.input[0], *pads_of(build, node, a, kernel), 0.0)
    convolved(build, a, [x, *node.input[1:]], padding, node.output[0])


@onnx("ConvTranspose")
def _onnx_conv_transpose(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    kernel = kernel_of(build, node.input[1])
    rank = len(kernel)
    sizes = build.shape(node.input[0])[2:]
    strides, gaps = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    extra = list(a.get("output_padding", [0] * rank))
    whole = [
        (n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(sizes, strides, gaps, kernel, extra, strict=True)
    ]
    auto = a.get("auto_pad", b"NOTSET").decode()
    wanted = a.get("output_shape") or (
        [n * s for n, s in zip(sizes, strides, strict=True)] if auto[:4] == "SAME" else None
    )
    pads = list(a.get("pads", [0] * 2 * rank))
    before, after = pads[:rank], pads[rank:]
    if wanted:
        total = [w - n for w, n in zip(whole, wanted[-rank:], strict=True)]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        before, after = (large, small) if auto != "SAME_UPPER" else (small, large)
    # The operation cuts off as much behind as in front: what is missing there is padding of the output, or cut off too.
    cut = [b - e for b, e in zip(before, after, strict=True)]
    more = [max(0, c) for c in cut]
    operands = list(node.input)
    trailing = [max(0, -c) for c in cut]
    made = build.add(
        f"conv_transpose{rank}d", operands, None if any(trailing) else node.output[0], stride=tuple(strides),
        padding=tuple(before), dilation=tuple(gaps), groups=a.get("group", 1),
        output_padding=tuple(e + m for e, m in zip(extra, more, strict=True)),
    )  # fmt: skip
    if any(trailing):
        flat = tuple(n for t in reversed(trailing) for n in (0, -t))
        build.add("pad", [made], node.output[0], pad=flat, value=0.0)
