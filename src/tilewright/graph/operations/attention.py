"""Attention."""

from __future__ import annotations

from tilewright.graph.operations.handlers import Build, Call, Left, aten
from tilewright.graph.operations.table import register
from tilewright.kernels import nn

register("scaled_dot_product_attention", "attention", nn.scaled_dot_product_attention)


ATTENTIONS = {
    "_scaled_dot_product_flash_attention_for_cpu": "attn_mask",
    "_scaled_dot_product_flash_attention": None,
    "_scaled_dot_product_efficient_attention": "attn_bias",
    "_scaled_dot_product_cudnn_attention": "attn_bias",
    "_scaled_dot_product_fused_attention_overrideable": "attn_bias",
}
"""What PyTorch makes of an attention, by device and backend, and what each calls its mask."""

_FROM_THE_END = {"_scaled_dot_product_flash_attention", "_scaled_dot_product_cudnn_attention"}
"""Causal ones in which the last query, not the first, sees as many keys as its number says."""


@aten(*ATTENTIONS)
def _fused(build: Build, call: Call) -> None:
    if call["dropout_p"]:
        raise Left("it drops at random")
    if call.result:
        raise Left("it gives sums for the backward pass")
    name = ATTENTIONS[call.operator]
    operands = [call.operand(n) for n in ("query", "key", "value", *([name] if name else ())) if call.operand(n)]
    lengths = [build.shape(v)[-2] for v in operands[:2]]
    if call["is_causal"] and call.operator in _FROM_THE_END and lengths[0] != lengths[1]:
        raise Left("its last query sees all keys")
    build.add("scaled_dot_product_attention", operands, call.output, is_causal=call["is_causal"], scale=call["scale"])


@aten("_transformer_encoder_layer_fwd")
def _encoder_layer(build: Build, call: Call) -> None:
    """A whole layer of an encoder in inference (``torch.nn.TransformerEncoderLayer``)."""
    if call.arguments["mask"] is not None:
        raise Left("it has a mask")
    x = call.operand("src")
    shape = build.shape(x)
    if len(shape) != 3:
        raise Left("its input is no batch of sequences")
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
        each = []
        for k in range(3):
            part = build.add("slice", [made], dim=2, start=k * width, end=(k + 1) * width)
            split = build.reshaped(part, (*shape[:2], heads, width // heads))
            each.append(build.add("permute", [split], dims=(0, 2, 1, 3)))
        out = build.add("scaled_dot_product_attention", each)
        return linear(build.reshaped(build.add("permute", [out], dims=(0, 2, 1, 3)), shape), "proj")

    def fed(value: str) -> str:
        hidden = build.add("gelu" if call["use_gelu"] else "relu", [linear(value, "ffn", "_1")])
        return linear(hidden, "ffn", "_2")

    if ahead:
        x = build.add("add", [x, attended(normal(x, 1))])
        build.add("add", [x, fed(normal(x, 2))], call.output)
    else:
        x = normal(build.add("add", [x, attended(x)]), 1)
        normal(build.add("add", [x, fed(x)]), 2, call.output)
