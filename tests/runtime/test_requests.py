"""What calls of frameworks' operators ask for, of tensors by shape, dtype and layout."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.kernels.operators import get_operator
from tilewright.runtime.requests import NoRequest, Tensor, request, similar

A, B = Tensor((4, 6), "float32"), Tensor((6, 5), "float32")
WINDOW = ((2, 1), (1,), (1,), 1)


@pytest.mark.parametrize(
    ("name", "args", "op", "params", "places"),
    [
        ("matmul", (A, B), "matmul", {"m": 4, "n": 5, "k": 6}, (0, 1)),
        ("matmul", (A, Tensor((6, 5), "float32", dense=False, transposed=True)), "matmul",
         {"m": 4, "n": 5, "k": 6, "trans_b": True}, (0, 1)),
        ("matmul", (Tensor((2, 4, 6), "float32"), B), "matmul", {"m": 8, "n": 5, "k": 6}, (0, 1)),
        ("bmm", (Tensor((2, 4, 6), "float32"), Tensor((2, 6, 5), "float32")), "batch_matmul",
         {"b": 2, "m": 4, "n": 5, "k": 6}, (0, 1)),
        ("linear", (A, Tensor((5, 6), "float32"), Tensor((5,), "float32")), "matmul",
         {"m": 4, "n": 5, "k": 6, "trans_b": True, "bias": True}, (0, 1, 2)),
        ("conv2d", (Tensor((1, 3, 8, 8), "float32"), Tensor((5, 3, 3, 3), "float32"), None, *WINDOW), "conv2d",
         {"n": 1, "ci": 3, "h": 8, "w": 8, "co": 5, "kh": 3, "kw": 3, "stride": "2,1", "padding": 1}, (0, 1)),
        ("softmax", (A, 1), "softmax", {"shape": "4,6", "dim": -1}, (0,)),
        ("layer_norm", (A, (6,), None, Tensor((6,), "float32"), 1e-5), "layer_norm",
         {"shape": "4,6", "normalized_shape": "6", "weight": False, "bias": True}, (0, 3)),
        ("scaled_dot_product_attention", (*[Tensor((2, 5, 8), "float32")] * 3, None, True, None, False), "attention",
         {"b": 2, "h": 1, "lq": 5, "lk": 5, "d": 8, "is_causal": True}, (0, 1, 2)),
    ],
)  # fmt: skip
def test_calls_ask_for_built_in_operators(
    name: str, args: tuple[Any, ...], op: str, params: dict[str, Any], places: tuple[int, ...]
) -> None:
    asked = request(name, args)
    assert asked.workload == get_operator(op).workload(**params, dtype="float32")
    assert asked.places == places


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("matmul", (A, Tensor((5, 6), "float32")), "shape"),
        ("matmul", (A, Tensor((6, 5), "float64")), "dtype"),
        ("matmul", (Tensor((4, 6), "int8"), Tensor((6, 5), "int8")), "dtype"),
        ("matmul", (Tensor((0, 6), "float32"), B), "empty"),
        ("matmul", (A, Tensor((6, 5), "float32", dense=False)), "strides"),
        ("matmul", (A, Tensor((6, 5), "float32", dense=False, plain=False)), "type"),
        ("softmax", (A, 2), "shape"),
        ("rms_norm", (Tensor((4, 6), "float16"), (6,), None, None), "arguments"),
        ("scaled_dot_product_attention", (*[Tensor((2, 5, 8), "float32")] * 3, A, False, None, False), "arguments"),
    ],
)
def test_calls_that_no_operator_takes_say_why(name: str, args: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(NoRequest, match=f"^{reason}$"):
        request(name, args)


def test_norms_of_16_bits_may_have_wider_weights() -> None:
    x, weight = Tensor((4, 6), "bfloat16"), Tensor((6,), "float32")
    asked = request("rms_norm", (x, (6,), weight, 1e-6))
    assert [(s.shape, s.dtype) for s in asked.workload.inputs] == [((4, 6), "bfloat16"), ((6,), "float32")]
    assert asked.places == (0, 2)
    with pytest.raises(NoRequest, match="dtype"):
        request("linear", (x, Tensor((5, 6), "float32"), None))


def test_shapes_of_a_call_are_told_whatever_its_dtypes() -> None:
    shapes = ((4, 6), (6, 5))
    told = similar("matmul", [Tensor(s, "int32") for s in shapes])
    assert told is not None
    assert (told[0], told[1]) == ("matmul", list(shapes))
    assert similar("matmul", (A, A)) is None
