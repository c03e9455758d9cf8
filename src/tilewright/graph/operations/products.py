"""Products, convolutions, attention and Einstein summation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.graph.operations.handlers import Attributes, Build, Call, Left, OnnxBuild, aten, aten_named, onnx
from tilewright.graph.operations.pointwise import element
from tilewright.graph.operations.table import register
from tilewright.graph.operations.windows import convolved, kernel_of, padded, pads_of
from tilewright.kernels import nn, te
from tilewright.kernels.nn.dims import value


def _matmul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """``nn.matmul`` that also broadcasts batches of one element in place, as the attention matcher expects."""
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
    weight = build.transposed_source(y)
    build.add("matmul" if weight is None else "linear", [x, y if weight is None else weight], call.output)


@aten("addmm", "baddbmm", "addmv")
def _added(build: Build, call: Call) -> None:
    """``beta * input + alpha * (a @ b)``; ``input`` is not read where ``beta`` is 0."""
    names = [n for n in call.arguments if n not in ("input", "alpha", "beta")]
    bias, x, y = (call.operand(n) for n in ("input", *names))
    alpha, beta = call["alpha"], call["beta"]
    weight = build.transposed_source(y) if len(build.shape(y)) == 2 else None
    if weight is not None and alpha == beta == 1 and build.shape(bias) == call.spec.shape[1:]:
        build.add("linear", [x, weight, bias], call.output)
        return
    _scaled_sum(build, partial(_product, build, x, y), bias if beta else "", alpha, beta, call.output)


@aten("mv", "dot")
def _with_vector(build: Build, call: Call) -> None:
    names = [n for n in call.arguments if n != "input"]
    _product(build, call.operand("input"), call.operand(names[0]), call.output)


def _product(build: Build, x: str, y: str, output: str | None) -> str:
    """The product of matrices or vectors, with ``numpy.matmul``'s rules for one axis."""
    a, b = build.shape(x), build.shape(y)
    if len(a) > 1 and len(b) > 1:
        return build.add("matmul", [x, y], output)
    x = build.reshaped(x, (1, *a)) if len(a) == 1 else x
    y = build.reshaped(y, (*b, 1)) if len(b) == 1 else y
    made = build.add("matmul", [x, y])
    *batch, m, n = build.shape(made)
    return build.reshaped(made, (*batch, *([m] if len(a) > 1 else []), *([n] if len(b) > 1 else [])), output)


def _scaled_sum(
    build: Build, product: Callable[[str | None], str], bias: str, alpha: float, beta: float, output: str
) -> None:
    """``alpha * product + beta * bias``; without the sum where ``bias`` is ``""``.

    ``product``: adds the product's node under the given output name, or under a fresh name for ``None``.
    """
    made = product(None if alpha != 1 or bias else output)
    if alpha != 1:
        made = build.add("mul", [made, build.constant(np.asarray(alpha))], None if bias else output)
    if not bias:
        return
    if beta != 1 and bias in build.constants:
        bias = build.constant((build.constants[bias] * np.float64(beta)).astype(build.constants[bias].dtype))
    elif beta != 1:
        bias = build.add("mul", [bias, build.constant(np.asarray(beta))])
    build.add("add", [made, bias], output)


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
def _onnx_matmul(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, y = node.input
    _product(build, x, y, node.output[0])


@onnx("Gemm")
def _onnx_gemm(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x, y = node.input[:2]
    c = node.input[2] if len(node.input) > 2 else ""
    if a.get("transA"):
        x = build.constant(build.constants[x].T) if x in build.constants else build.add("permute", [x], dims=(1, 0))
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    if c and beta == 1 and alpha == 1 and a.get("transB") and build.shape(c) == (build.shape(y)[0],):
        build.add("linear", [x, y, c], node.output[0])
    else:
        product = partial(build.add, "linear" if a.get("transB") else "matmul", [x, y])
        _scaled_sum(build, product, c, alpha, beta, node.output[0])


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
    auto = a.get("auto_pad", "NOTSET")
    wanted = a.get("output_shape") or (
        [n * s for n, s in zip(sizes, strides, strict=True)] if auto[:4] == "SAME" else None
    )
    pads = list(a.get("pads", [0] * 2 * rank))
    before, after = pads[:rank], pads[rank:]
    if wanted:
        total = [w - n for w, n in zip(whole, wanted[-rank:], strict=True)]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        before, after = (large, small) if auto != "SAME_UPPER" else (small, large)
    # The operation crops equally at both ends. A surplus in front becomes output padding; a surplus behind is cut off
    # by a pad.
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


# --------------------------------------------------------------------------- attention


register("scaled_dot_product_attention", "attention", nn.scaled_dot_product_attention)


ATTENTIONS = {
    "_scaled_dot_product_flash_attention_for_cpu": "attn_mask",
    "_scaled_dot_product_flash_attention": None,
    "_scaled_dot_product_efficient_attention": "attn_bias",
    "_scaled_dot_product_cudnn_attention": "attn_bias",
    "_scaled_dot_product_fused_attention_overrideable": "attn_bias",
}
"""PyTorch's fused attention operators by device and backend, each with the name of its mask argument."""

_FROM_THE_END = {"_scaled_dot_product_flash_attention", "_scaled_dot_product_cudnn_attention"}
"""Operators whose causal mask aligns the last query, not the first, with the keys' end."""


@aten(*ATTENTIONS)
def _fused(build: Build, call: Call) -> None:
    if call["dropout_p"]:
        raise Left("it drops at random")
    call.only_first("sums for the backward pass")
    name = ATTENTIONS[call.operator]
    operands = [call.operand(n) for n in ("query", "key", "value", *([name] if name else ())) if call.operand(n)]
    lengths = [build.shape(v)[-2] for v in operands[:2]]
    if call["is_causal"] and call.operator in _FROM_THE_END and lengths[0] != lengths[1]:
        raise Left("its last query sees all keys")
    build.add("scaled_dot_product_attention", operands, call.output, is_causal=call["is_causal"], scale=call["scale"])


def split_heads(build: Build, x: str, heads: int, output: str | None = None) -> str:
    """Reshapes (b, s, heads * d) to (b, heads, s, d)."""
    b, s, width = build.shape(x)
    return build.add("permute", [build.reshaped(x, (b, s, heads, width // heads))], output, dims=(0, 2, 1, 3))


def joined_heads(build: Build, x: str, output: str | None = None) -> str:
    """Reshapes (b, heads, s, d) to (b, s, heads * d)."""
    b, heads, s, d = build.shape(x)
    return build.reshaped(build.add("permute", [x], dims=(0, 2, 1, 3)), (b, s, heads * d), output)


@aten("_transformer_encoder_layer_fwd")
def _encoder_layer(build: Build, call: Call) -> None:
    """An inference encoder layer (``torch.nn.TransformerEncoderLayer``) as products, attention, norms and
    activation."""
    if call.arguments["mask"] is not None:
        raise Left("it has a mask")
    x = call.operand("src")
    shape = build.shape(x)
    if len(shape) != 3:
        raise Left("its input is not a batch of sequences")
    heads, width = call["num_heads"], shape[-1]
    ahead, eps = call["norm_first"], call["eps"]

    def linear(value: str, name: str, part: str = "") -> str:
        weight, bias = (call.operand(f"{name}_{kind}{part}") for kind in ("weight", "bias"))
        return build.add("linear", [value, weight, bias])

    def normal(value: str, number: int, output: str | None = None) -> str:
        own = [call.operand(f"norm_{kind}_{number}") for kind in ("weight", "bias")]
        return build.add("layer_norm", [value, *own], output, normalized_shape=(width,), eps=eps)

    def attended(value: str) -> str:
        made = linear(value, "qkv")
        parts = (build.add("slice", [made], dim=2, start=k * width, end=(k + 1) * width) for k in range(3))
        out = build.add("scaled_dot_product_attention", [split_heads(build, p, heads) for p in parts])
        return linear(joined_heads(build, out), "proj")

    def fed(value: str) -> str:
        hidden = build.add("gelu" if call["use_gelu"] else "relu", [linear(value, "ffn", "_1")])
        return linear(hidden, "ffn", "_2")

    if ahead:
        x = build.add("add", [x, attended(normal(x, 1))])
        build.add("add", [x, fed(normal(x, 2))], call.output)
    else:
        x = normal(build.add("add", [x, attended(x)]), 1)
        normal(build.add("add", [x, fed(x)]), 2, call.output)


# --------------------------------------------------------------------------- Einstein summation


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _einsum(*operands: te.TensorRef, equation: str) -> te.TensorRef:
    return nn.einsum(equation, *operands)


register("einsum", "contraction", _einsum)


@onnx("Einsum")
def _onnx_einsum(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """Einstein summation. An ellipsis stands for the axes that the letters do not name, which broadcast."""
    text = "".join(a["equation"].split())
    left, arrow, right = text.partition("->")
    terms, operands = left.split(","), list(node.input)
    if "." in text:
        ranks = [len(build.shape(x)) - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True)]
        most = max(r for r, t in zip(ranks, terms, strict=True) if "." in t)
        free = [c for c in LETTERS if c not in text][:most]
        if not arrow:
            letters = left.replace("...", "").replace(",", "")
            right = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        terms = [t.replace("...", "".join(free[most - r :])) for t, r in zip(terms, ranks, strict=True)]
        right = right.replace("...", "".join(free))
        arrow = "->"
    sizes: dict[str, int] = {}
    for t, x in zip(terms, operands, strict=True):
        for c, n in zip(t, build.shape(x), strict=True):
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    for k, (t, x) in enumerate(zip(terms, operands, strict=True)):
        ones = [d for d, (c, n) in enumerate(zip(t, build.shape(x), strict=True)) if n != sizes[c]]
        if ones:  # an axis of one element broadcasts
            operands[k] = build.reshaped(x, [n for d, n in enumerate(build.shape(x)) if d not in ones])
            terms[k] = "".join(c for d, c in enumerate(t) if d not in ones)
    build.add("einsum", operands, node.output[0], equation=",".join(terms) + arrow + right)
