"""Attentions of 16-bit operands, which Tensor Cores multiply: odd sizes, masks, shared heads, rows to be filled up."""

from __future__ import annotations

from collections.abc import Callable

from attention_programs import attention, cached, causal, documents, keep, of_operator, short, soft_cap, window

from tilewright.core import Value
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter


def real_bias(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *extra: te.TensorRef) -> te.Expr:
    return score + te.cast(extra[0][g, i, j], "float32")


HALVES: dict[str, Callable[[], Program]] = {
    "half_plain": lambda: attention(lq=37, lk=50, d=16, dv=16, dtype="float16"),
    "half_causal": lambda: attention(h=1, lq=70, lk=70, d=32, dv=24, dtype="bfloat16", modify=causal),
    "half_grouped": lambda: attention(b=2, h=4, hk=2, lq=5, lk=19, d=10, dv=6, dtype="bfloat16"),
    "half_window": lambda: attention(h=1, lq=40, lk=40, d=8, dv=8, dtype="float16", modify=window),
    "half_documents": lambda: attention(h=1, lq=41, lk=41, d=24, dv=40, dtype="bfloat16", modify=documents),
    "half_cap": lambda: attention(lq=17, lk=33, d=16, dv=12, dtype="bfloat16", modify=soft_cap),
    "half_bias": lambda: attention(
        lq=35, lk=18, d=16, dv=2, dtype="float16", modify=real_bias,
        inputs=lambda: (te.input("bias", (2, 35, 18), "float16"),),
    ),
    "half_keep": lambda: attention(
        b=2, d=48, dv=16, dtype="bfloat16", modify=keep, inputs=lambda: (te.input("keep", (2, 37), "bool"),)
    ),
    "half_lengths": lambda: attention(
        b=3, d=16, dv=8, dtype="float16", modify=short, inputs=lambda: (te.input("n", (3,), "int32", low=1, high=37),)
    ),
    "half_cached": lambda: attention(
        b=2, h=1, lq=9, lk=300, d=16, dv=8, dtype="bfloat16", modify=cached, rounded=True,
        inputs=lambda: (te.input("n", (2,), "int32", low=9, high=300),),
    ),
    "half_paged": lambda: of_operator(
        b=2, h=4, hk=2, lq=3, lk=60, d=16, page=10, pages=17, lengths=True, is_causal=True, dtype="bfloat16"
    ),
    "half_divided": lambda: attention(d=16, dv=16, dtype="float16", divide_first=True),
    "half_rounded": lambda: attention(lq=37, lk=50, d=16, dv=16, dtype="bfloat16", rounded=True),
    "half_rounded_causal": lambda: attention(
        h=1, lq=70, lk=70, d=32, dv=24, dtype="float16", modify=causal, rounded=True
    ),
    "half_rounded_keep": lambda: attention(
        b=2, d=48, dv=16, dtype="bfloat16", modify=keep, rounded=True, inputs=lambda: (te.input("keep", (2, 37), "bool"),)
    ),
    "half_long": lambda: attention(lq=9, lk=1001, d=16, dv=6, dtype="float16"),
    "half_long_causal": lambda: attention(
        h=1, lq=9, lk=300, d=16, dv=8, dtype="bfloat16", modify=causal, rounded=True
    ),
    "half_rounded_cap": lambda: attention(lq=17, lk=33, d=16, dv=12, dtype="float16", modify=soft_cap, rounded=True),
}  # fmt: skip
"""Builders by name."""
enter("half attention", HALVES)

GROUPS: dict[str, Callable[[], Program]] = {
    **{name: HALVES[f"half_{name}"] for name in ("causal", "documents", "rounded", "rounded_causal")},
    "shared": lambda: attention(b=2, h=4, hk=2, lq=40, lk=70, d=24, dv=72, dtype="bfloat16", rounded=True),
    "packed": lambda: attention(b=2, h=3, lq=70, lk=70, d=72, dv=72, dtype="float16", rounded=True, packed=True),
    "cap": lambda: attention(lq=37, lk=33, d=16, dv=8, dtype="bfloat16", modify=soft_cap, rounded=True),
    "bias": lambda: attention(
        lq=35, lk=50, d=16, dv=8, dtype="float16", modify=real_bias,
        inputs=lambda: (te.input("bias", (2, 35, 50), "float16"),),
    ),
    "keep": lambda: attention(
        b=2, lq=37, d=48, dv=16, dtype="bfloat16", modify=keep, rounded=True,
        inputs=lambda: (te.input("keep", (2, 37), "bool"),),
    ),
    "lengths": lambda: attention(
        b=2, h=1, lq=40, lk=130, d=16, dv=8, dtype="float16", modify=short, rounded=True,
        inputs=lambda: (te.input("n", (2,), "int32", low=1, high=130),),
    ),
    "paged": lambda: of_operator(
        b=2, h=2, hk=1, lq=40, lk=72, d=80, page=24, pages=7, lengths=True, is_causal=True, dtype="bfloat16"
    ),
    "large_pages": lambda: of_operator(b=2, h=2, hk=1, lq=40, lk=256, d=16, dv=8, page=128, dtype="float16"),
    "long": lambda: attention(h=1, lq=40, lk=300, d=16, dv=8, dtype="float16", modify=window),
    "residual": lambda: attention(
        lq=33, lk=64, d=8, dv=8, dtype="bfloat16", finish=lambda y, p, g, i, c, x: y * 0.5 + x[g, i, c],
        inputs=lambda: (te.input("x", (2, 33, 8)),),
    ),
}  # fmt: skip
"""Those that warp groups multiply too: more queries than two warps have, rows of whole 16 bytes."""

ONE_GROUP: dict[str, Value] = {
    "warps": 4, "tiles": 1, "BK": 32, "stages": 2, "q_registers": False, "min_blocks": 1, "groups": 1,
    "ping_pong": False, "overlap": False,
}  # fmt: skip
"""Knobs of a small kernel of one warp group."""
