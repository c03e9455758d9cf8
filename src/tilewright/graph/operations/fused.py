"""Fused operators of onnxruntime's optimisers and of exporters: products, norms and attentions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.graph.operations.handlers import ONNX, Attributes, Left, OnnxBuild, onnx
from tilewright.graph.operations.products import joined_heads, split_heads
from tilewright.graph.operations.table import register
from tilewright.kernels import te
from tilewright.kernels.nn.dims import value


def _rotary_embedding(
    input: te.TensorRef, cos: te.TensorRef, sin: te.TensorRef, interleaved: bool = False
) -> te.TensorRef:
    """Rotary embedding of ``input`` (b, heads, s, d) by ``cos`` and ``sin`` (b or 1, s, r / 2), with r up to d.

    Feature ``e`` is paired with feature ``e + r/2``, or with its neighbour if ``interleaved``. Features from r on stay
    unchanged.
    """
    (b, _, s, d), half = input.shape, cos.shape[-1]
    r = 2 * half
    if cos.shape not in ((b, s, half), (1, s, half)) or sin.shape != cos.shape or r > d:
        raise UsageError(f"rotary_embedding: cos {cos.shape} of {input.shape}", f"It is ({b}, {s}, up to {d // 2})")

    def point(p: te.Expr, h: te.Expr, i: te.Expr, e: te.Expr) -> te.Expr:
        place = (p if cos.shape[0] != 1 else te.minimum(p, 0), i, e // 2 % half if interleaved else e % half)
        other = e + 1 - e % 2 * 2 if interleaved else (e + half) % r
        first = te.cast(e % 2 if interleaved else e // half, "int32")
        rotated = value(input[p, h, i, other]) * value(sin[place])
        made = value(input[p, h, i, e]) * value(cos[place]) + te.select(first == 0, -rotated, rotated)
        return te.select(e < r, made, value(input[p, h, i, e]))

    return te.compute(input.shape, point)


register("rotary_embedding", "elementwise", _rotary_embedding)


# --------------------------------------------------------------------------- products and activations


def _scalar(build: OnnxBuild, x: str, number: float) -> str:
    return build.constant(np.asarray(number, build.spec(x).dtype))


@onnx("com.microsoft.FusedMatMul")
def _fused_matmul(build: OnnxBuild, node: Any, a: Attributes) -> None:
    if a.get("transBatchA") or a.get("transBatchB"):
        raise Left("it exchanges batches")
    operands = []
    for name, transposed in zip(node.input, (a.get("transA"), a.get("transB")), strict=True):
        rank = len(build.shape(name))
        if transposed and rank > 1:
            name = build.add("permute", [name], dims=(*range(rank - 2), rank - 1, rank - 2))
        operands.append(name)
    alpha = a.get("alpha", 1.0)
    made = build.add("matmul", operands, node.output[0] if alpha == 1 else None)
    if alpha != 1:
        build.add("mul", [made, _scalar(build, made, alpha)], node.output[0])


def _activated(build: OnnxBuild, x: str, kind: str, numbers: Sequence[float], output: str) -> None:
    given = dict(zip({"Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta")}.get(kind, ()), numbers, strict=False))
    operation = {"Clip": "clamp", "LeakyRelu": "leaky_relu"}.get(kind, kind.lower())
    if kind == "LeakyRelu":
        given = {"negative_slope": numbers[0] if numbers else 0.01}
    if kind not in ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"):
        raise Left(f"it ends with {kind}")
    build.add(operation, [x], output, **given)


@onnx("com.microsoft.FusedConv", "com.microsoft.FusedGemm")
def _fused_product(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """A convolution or product, an optional addend, and an activation."""
    inner = build.onnx.NodeProto()
    inner.CopyFrom(node)
    plain = node.op_type.removeprefix("Fused")
    made = f"{node.output[0]}/{plain}"
    added = node.input[3] if plain == "Conv" and len(node.input) > 3 else ""
    inner.output[:], inner.input[:] = [made], node.input[:3]
    while not inner.input[-1]:
        del inner.input[-1]
    ONNX[plain](build, inner, {k: v for k, v in a.items() if "activation" not in k})
    if added:
        made = build.add("add", [made, added])
    kind = a.get("activation", "")
    numbers = a.get("activation_params") or [a[k] for k in sorted(a) if k.startswith("activation_")]
    if kind:
        _activated(build, made, kind, list(numbers), node.output[0])
    else:
        build.same(made, node.output[0])


@onnx("com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.BiasGelu", "com.microsoft.QuickGelu")
def _gelus(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x = node.input[0]
    if len(node.input) > 1 and node.input[1]:
        x = build.add("add", node.input[:2])
    if node.op_type == "QuickGelu":
        gate = build.add("sigmoid", [build.add("mul", [x, _scalar(build, x, a.get("alpha", 1.702))])])
        build.add("mul", [x, gate], node.output[0])
        return
    build.add("gelu", [x], node.output[0], approximate="tanh" if node.op_type == "FastGelu" else "none")


# --------------------------------------------------------------------------- norms


@onnx("com.microsoft.SkipLayerNormalization", "com.microsoft.SkipSimplifiedLayerNormalization")
def _skip_norm(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """The norm of a sum; the sum may be an output too."""
    if [n for n in node.output[1:3] if n in build.wanted(node)]:
        raise Left("it gives means and deviations")
    x, operation = node.input[0], "rms_norm" if "Simplified" in node.op_type else "layer_norm"
    weights = 1 if operation == "rms_norm" else 2
    total = node.output[3] if len(node.output) > 3 and node.output[3] else None
    bias = (*node.input[2:], "", "")[weights]
    x = build.add("add", [x, node.input[1]], None if bias else total)
    x = build.add("add", [x, bias], total) if bias else x
    build.add(
        operation, [x, *node.input[2 : 2 + weights]], node.output[0], normalized_shape=build.shape(x)[-1:],
        eps=a.get("epsilon", 1e-5),
    )  # fmt: skip


@onnx("com.microsoft.EmbedLayerNormalization")
def _embed_norm(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """The layer norm of the sum of word, position and segment embeddings.

    The second output counts each sequence's words by its mask.
    """
    words, segments, word_table, place_table, segment_table, weight, bias, mask, places = (*node.input, "", "")[:9]
    b, s = build.shape(words)
    total = build.add("index_select", [word_table, words], dim=0)
    if places:
        total = build.add("add", [total, build.add("index_select", [place_table, places], dim=0)])
    else:
        total = build.add("add", [total, build.add("slice", [place_table], dim=0, start=0, end=s)])
    summed = node.output[2] if len(node.output) > 2 and node.output[2] else None
    if segments and segment_table:
        total = build.add("add", [total, build.add("index_select", [segment_table, segments], dim=0)], summed)
    elif summed:
        build.same(total, summed)
    build.add(
        "layer_norm", [total, weight, bias], node.output[0], normalized_shape=build.shape(total)[-1:],
        eps=a.get("epsilon", 1e-12),
    )  # fmt: skip
    if len(node.output) > 1 and node.output[1] in build.wanted(node):
        if mask:
            build.add("to", [build.add("sum", [mask], dim=(1,))], node.output[1], dtype="int32")
        else:
            build.same(build.constant(np.zeros(b, np.int32)), node.output[1])


# --------------------------------------------------------------------------- attention


def _mask(build: OnnxBuild, mask: str, keys: int, dtype: str, filled: float) -> str:
    """The addend to the scores, for an integer mask (b, keys), 0 where a key is masked out, or for key lengths (b,)."""
    shape = build.shape(mask)
    if len(shape) == 1:
        places = build.constant(np.arange(keys, dtype=np.int32).reshape(1, keys))
        kept = build.add("lt", [places, build.reshaped(mask, (shape[0], 1))])
    elif len(shape) == 2 and shape[1] == keys:
        kept = build.add("ne", [mask, build.constant(np.asarray(0, build.spec(mask).dtype))])
    else:
        raise Left(f"its mask is {shape}")
    kept = build.reshaped(kept, (shape[0], 1, 1, keys))
    nought, out = (build.constant(np.full((1, 1, 1, 1), v, dtype)) for v in (0, filled))
    return build.add("where", [kept, nought, out])


def _attended(
    build: OnnxBuild, a: Attributes, qkv: Sequence[str], mask: str, added: str, causal: bool, output: str
) -> None:
    """The attention of split heads. ``mask``: as :func:`_mask` takes it; ``added``: an addend to the scores; both may
    be ``""``."""
    keys, kind = build.shape(qkv[1])[2], build.spec(qkv[0]).dtype
    masked = _mask(build, mask, keys, kind, a.get("mask_filter_value", -10000.0)) if mask else ""
    masks = [m for m in (masked, added) if m]
    operands = [*qkv, build.add("add", masks)] if len(masks) > 1 else [*qkv, *masks]
    mixed = build.add("scaled_dot_product_attention", operands, is_causal=causal, scale=a.get("scale") or None)
    joined_heads(build, mixed, output)


def _only_first(build: OnnxBuild, node: Any) -> None:
    if [n for n in node.output[1:] if n and n in build.wanted(node)]:
        raise Left("it gives keys and values for the next step")


@onnx("com.microsoft.Attention")
def _attention(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, weight, bias, mask, past, added, *more = (*node.input, "", "", "", "")[:7]
    if past or any(more) or a.get("do_rotary"):
        raise Left("it has a past, or turns its keys")
    _only_first(build, node)
    heads = a["num_heads"]
    total = build.shape(weight)[1]
    sizes = list(a.get("qkv_hidden_sizes") or [total // 3] * 3)
    projected = build.add("matmul", [x, weight])
    projected = build.add("add", [projected, bias]) if bias else projected
    parts, start = [], 0
    for n in sizes:
        part = build.add("slice", [projected], dim=2, start=start, end=start + n)
        parts.append(split_heads(build, part, heads))
        start += n
    _attended(build, a, parts, mask, added, bool(a.get("unidirectional")), node.output[0])


@onnx("com.microsoft.MultiHeadAttention")
def _multi_head_attention(build: OnnxBuild, node: Any, a: Attributes) -> None:
    q, k, v, bias, mask, added, *past = (*node.input, *[""] * 8)[:8]
    if any(past) or any(node.input[8:]):
        raise Left("it has a past")
    if not k or not v or len(build.shape(q)) != 3:
        raise Left("its operands are packed into one")
    _only_first(build, node)
    heads, start, parts = a["num_heads"], 0, []
    for x in (q, k, v):
        if len(build.shape(x)) == 4:  # heads are split and the bias is added already
            parts.append(x)
            continue
        width = build.shape(x)[2]
        if bias:
            x = build.add("add", [x, build.add("slice", [bias], dim=0, start=start, end=start + width)])
        parts.append(split_heads(build, x, heads))
        start += width
    _attended(build, a, parts, mask, added, bool(a.get("unidirectional")), node.output[0])


@onnx("com.microsoft.GroupQueryAttention")
def _group_query_attention(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """The prefill step: all keys are given, and no past keys are read."""
    q, k, v, past_k, past_v, lengths, _, cos, sin = (*node.input, *[""] * 4)[:9]
    if past_k or past_v or not k or any(node.input[9:]):
        raise Left("it has a past, or is packed into one")
    unknown = set(a) - {"num_heads", "kv_num_heads", "scale", "do_rotary", "rotary_interleaved", "local_window_size"}
    if unknown or a.get("local_window_size", -1) != -1:
        raise Left("its window, or softcap")
    s = build.shape(q)[1]
    if any(n != s - 1 for n in build.numbers(lengths)):
        raise Left("its sequences differ in length")
    names = (*node.output, "", "")
    rotary = bool(a.get("do_rotary"))
    query = split_heads(build, q, a["num_heads"])
    key = split_heads(build, k, a["kv_num_heads"], None if rotary else names[1] or None)
    if rotary:
        angles = [
            build.reshaped(build.add("slice", [t], dim=0, start=0, end=s), (1, s, build.shape(t)[1]))
            for t in (cos, sin)
        ]
        interleaved = bool(a.get("rotary_interleaved"))
        query = build.add("rotary_embedding", [query, *angles], interleaved=interleaved)
        key = build.add("rotary_embedding", [key, *angles], names[1] or None, interleaved=interleaved)
    val = split_heads(build, v, a["kv_num_heads"], names[2] or None)
    _attended(build, a, [query, key, val], "", "", True, names[0])


@onnx("RotaryEmbedding", "com.microsoft.RotaryEmbedding")
def _rotary(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """Rotary embedding.

    The standard operator takes positions as its last input; without positions the angles are given for each token.
    """
    if node.domain:
        x, places, cos, sin = node.input
        if a.get("scale", 1.0) != 1 or a.get("is_packed_batching"):
            raise Left("its scale, or packed batches")
    else:
        x, cos, sin, places = (*node.input, "")[:4]
    shape = build.shape(x)
    s = shape[2] if len(shape) == 4 else shape[1]
    width = a.get("rotary_embedding_dim", 0)
    if len(shape) == 4:
        heads = x
    else:
        count = a.get("num_heads", 0)
        if not count:
            if not node.domain or width:
                raise Left("its number of heads is not stated")
            count = shape[2] // (2 * build.shape(cos)[1])
        heads = split_heads(build, x, count)
    angles = []
    for table in (cos, sin):
        if places:
            if build.shape(places) == (1,):  # the position of the first token
                first = int(build.known(places).item())
                table = build.add("slice", [table], dim=0, start=first, end=first + s)
                table = build.reshaped(table, (1, s, build.shape(table)[1]))
            else:
                table = build.add("index_select", [table, places], dim=0)
        if width and build.shape(table)[-1] != width // 2:
            table = build.add("slice", [table], dim=2, start=0, end=width // 2)
        angles.append(table)
    interleaved = bool(a.get("interleaved"))
    output = node.output[0] if len(shape) == 4 else None
    made = build.add("rotary_embedding", [heads, *angles], output, interleaved=interleaved)
    if output is None:
        joined_heads(build, made, node.output[0])
