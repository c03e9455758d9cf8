"""Attention."""

from __future__ import annotations

from tilewright.graph.operations.handlers import Build, Call, Left, aten
from tilewright.graph.operations.table import register
from tilewright.kernels import nn, te


def _attention(
    query: te.TensorRef,
    key: te.TensorRef,
    value: te.TensorRef,
    attn_mask: te.TensorRef | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> te.TensorRef:
    return nn.scaled_dot_product_attention(query, key, value, attn_mask, is_causal, scale)


register("scaled_dot_product_attention", "attention", _attention)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def _flash(build: Build, call: Call) -> None:
    if call["dropout_p"]:
        raise Left("it drops at random")
    if call.result:
        raise Left("it gives sums for the backward pass")
    operands = [call.operand(n) for n in ("query", "key", "value", "attn_mask")]
    build.add(
        "scaled_dot_product_attention", operands if operands[3] else operands[:3], call.output,
        is_causal=call["is_causal"], scale=call["scale"],
    )  # fmt: skip
