"""Multiply-adds that every kernel of a program computes."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.kernels.arithmetic import arithmetic
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator

HEADS = {"b": 2, "h": 4, "lq": 96, "lk": 160, "d": 64, "dtype": "bfloat16"}
PAIRS = 2 * 4 * 96 * 160


@pytest.mark.parametrize(
    ("op", "params", "products"),
    [
        ("matmul", {"m": 64, "n": 32, "k": 128, "bias": True, "activation": "gelu"}, (64 * 32 * 128,)),
        ("scaled_mm", {"m": 64, "n": 128, "k": 256, "trans_b": True}, (64 * 128 * 256,)),
        ("dequant_matmul", {"m": 16, "n": 64, "k": 128}, (16 * 64 * 128,)),
        ("grouped_matmul", {"m": 64, "n": 32, "k": 16, "groups": 4}, (64 * 32 * 16,)),
        ("conv2d", {"n": 2, "ci": 8, "h": 9, "w": 7, "co": 4, "kh": 3, "kw": 3, "padding": 1}, (2 * 4 * 63 * 72,)),
        ("attention", {**HEADS}, (PAIRS * 64, PAIRS * 64)),
        ("attention", {**HEADS, "mask": "bool"}, (PAIRS * 64, PAIRS * 64)),
        ("attention", {**HEADS, "lengths": True, "page": 32}, (0, 0)),
        ("softmax", {"shape": (64, 64)}, ()),
        ("max_pool2d", {"n": 1, "c": 3, "h": 9, "w": 9, "kernel_size": 3}, ()),
    ],
)
def test_products_are_counted_and_what_stands_around_them_is_not(
    op: str, params: dict[str, Any], products: tuple[int, ...]
) -> None:
    found = arithmetic(Program.loads(get_operator(op).workload(**params).program))
    assert found.products == products
    assert found.flops == 2 * sum(products)


def test_of_a_causal_attention_the_pairs_that_a_query_sees_are_counted() -> None:
    found = arithmetic(Program.loads(get_operator("attention").workload(**{**HEADS, "lk": 96}, is_causal=True).program))
    assert found.share == pytest.approx(97 / 192)
    assert found.products[0] == pytest.approx(found.share * 2 * 4 * 96 * 96 * 64)
