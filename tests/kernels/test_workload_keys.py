"""Keys of workloads: databases store them, so a change of an operator's code keeps them."""

from __future__ import annotations

import pytest

from tilewright.core import Value
from tilewright.kernels.operators import OPERATORS, get_operator

EXAMPLES = {
    "matmul": "6fbc0b151f36",
    "linear": "3eac1e53cd37",
    "batch_matmul": "9aa91835dd3e",
    "bmm": "9aa91835dd3e",
    "complex_matmul": "5de05c6ad340",
    "conv1d": "7f6d67fb9467",
    "conv2d": "614f780c1c66",
    "conv3d": "ca3ab92a8fa9",
    "conv_transpose1d": "1808d0c13dea",
    "conv_transpose2d": "04fcb98a8b0c",
    "capsule_conv2d": "3d50ebde7067",
    "max_pool1d": "65db520ba321",
    "max_pool2d": "21a1b1a46549",
    "max_pool3d": "520b3e1e0585",
    "avg_pool1d": "10e5bb0be877",
    "avg_pool2d": "98864c8805c3",
    "avg_pool3d": "eae3f1e1fb19",
    "batch_norm": "a012afddb841",
    "group_norm": "0e335be96076",
    "grouped_matmul": "36462a5d6b3c",
    "dequant_matmul": "6207f9835c63",
    "quantized_matmul": "68dfc6f7b10f",
    "scaled_mm": "0b44d73ae6fd",
    "einsum": "9a8d51892444",
    "attention": "b1e80f8e70e5",
    "tbs": "3b23be3e7a7c",
    "softmax": "4962c80e0f45",
    "log_softmax": "7344357ead37",
    "layer_norm": "a556a36b8392",
    "rms_norm": "4cc120aa823a",
    "softmax_backward": "d2a0f902a98b",
    "log_softmax_backward": "038b50b998d8",
    "layer_norm_backward": "e94f0f3f71c3",
    "rms_norm_backward": "d3256c29cb65",
    "sum": "d246384b09ea",
    "mean": "e2c25cf6768c",
    "var_mean": "20b29c5537b5",
    "prod": "9b8126c8bc4d",
    "amax": "f127eb4efb29",
    "amin": "f9aeaa3c573b",
    "argmax": "9dfb43e6875f",
    "argmin": "c5b71796e205",
    "norm": "49f999d8646f",
    "logsumexp": "d58003b5e3f5",
    "cumsum": "324d0dc8ebc1",
    "elementwise": "b1e29eacf4b2",
    "add": "ef49eeeea03e",
    "mul": "a0150be44c2c",
    "relu": "94469589a083",
    "gelu": "4ee2fcfa4400",
    "silu": "40e554d26789",
    "sigmoid": "53a9c903ed94",
    "permute": "4163bf39dbeb",
    "transpose": "79bd9f3bb994",
    "pad": "d7cf69cc0b8e",
    "cat": "02793eb118e1",
    "cast": "5664dcbe17f3",
    "embedding": "1427fb643c83",
}
"""Keys of the operators' examples, shortened."""

FORMS: tuple[tuple[str, dict[str, Value], str], ...] = (
    ("amax", {"dtype": "int8", "keepdim": True}, "21ee188998ca"),
    ("sum", {"dtype": "int32", "dim": ()}, "095992fb3f5c"),
    ("argmin", {"dtype": "bfloat16", "dim": ()}, "aba9d0b3c88b"),
    ("add", {"other_shape": "1024,1", "dtype": "float16"}, "5e899d08289d"),
    ("layer_norm_backward", {"weight": False, "dtype": "bfloat16"}, "a2027ef99452"),
    ("rms_norm_backward", {"normalized_shape": "1024,1024"}, "d7ef61eb0dd4"),
    ("conv1d", {"layout": "NWC", "bias": True, "batch_norm": True, "activation": "relu"}, "f2887094de90"),
    ("conv1d", {"groups": 8, "dilation": 2, "dtype": "float16"}, "933ce3d113d1"),
    ("conv_transpose1d", {"layout": "NWC", "bias": True, "output_padding": 1}, "54994cede70d"),
    ("conv_transpose1d", {"groups": 4, "dilation": 2, "activation": "gelu"}, "d8b19300916a"),
    ("max_pool1d", {"layout": "NWC", "dilation": 2}, "b3ff08e96deb"),
    ("avg_pool1d", {"layout": "NWC", "padding": 1, "count_include_pad": False, "dtype": "bfloat16"}, "55eb123acb6c"),
    ("conv2d", {"layout": "NHWC", "bias": True, "batch_norm": True, "activation": "relu"}, "9953445cecc0"),
    ("conv2d", {"groups": 8, "dilation": 2, "dtype": "float16"}, "9981208b8103"),
    ("conv2d", {"precision": "exact"}, "9d2de9376f95"),
    ("conv2d", {"stride": "2,1", "padding": "0,1"}, "823f3abe0074"),
    ("conv_transpose2d", {"layout": "NHWC", "bias": True, "output_padding": 1}, "7f3fedb36afc"),
    ("conv_transpose2d", {"groups": 4, "dilation": 2, "activation": "gelu"}, "4d06020d8af1"),
    ("max_pool2d", {"layout": "NHWC", "dilation": 2}, "ac5add81fa19"),
    ("avg_pool2d", {"layout": "NHWC", "padding": 1, "count_include_pad": False, "dtype": "bfloat16"}, "84d023ef0c90"),
    ("conv3d", {"layout": "NDHWC", "bias": True, "batch_norm": True, "activation": "relu"}, "e54b486b6286"),
    ("conv3d", {"groups": 8, "dilation": 2, "dtype": "float16"}, "146d147ade72"),
    ("max_pool3d", {"layout": "NDHWC", "dilation": 2}, "5311bcdc0881"),
    ("avg_pool3d", {"layout": "NDHWC", "padding": 1, "count_include_pad": False, "dtype": "bfloat16"}, "58a65a28b5ac"),
)
"""Parameters beside those of the example, and the shortened key, of operators that share a definition."""


def test_every_operator_has_a_known_key() -> None:
    assert EXAMPLES.keys() == set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_the_key_of_an_operators_example_stays(name: str) -> None:
    op = get_operator(name)
    assert op.workload(**op.example).key[:12] == EXAMPLES[name]


@pytest.mark.parametrize(("name", "more", "key"), FORMS)
def test_the_keys_of_operators_of_one_definition_stay(name: str, more: dict[str, Value], key: str) -> None:
    op = get_operator(name)
    assert op.workload(**{**op.example, **more}).key[:12] == key
