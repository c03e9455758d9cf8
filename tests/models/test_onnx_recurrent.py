"""ONNX's recurrent layers beside onnxruntime: what kernels compute of them, and what is left, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from test_onnx_nodes import interpreted  # noqa: E402

from tilewright.models.extract import Extracted, extracted  # noqa: E402
from tilewright.models.importer import Importer  # noqa: E402
from tilewright.models.model_file import prepared  # noqa: E402

STEPS, ROWS, INPUTS, FEATURES = 5, 2, 3, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def model(
    operator: str, *, first: bool = True, outputs: tuple[str, ...] = ("Y", "Y_h", "Y_c"), lengths: Any = None,
    peepholes: bool = False, given: tuple[str, ...] = (), **attributes: Any,
) -> Any:  # fmt: skip
    """A model of one layer. ``given``: weights that each call gives; the others are constants."""
    rng, h = np.random.default_rng(0), onnx.helper
    directions, wide = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[operator] * FEATURES
    shapes = {
        "X": (STEPS, ROWS, INPUTS), "W": (directions, wide, INPUTS), "R": (directions, wide, FEATURES),
        "B": (directions, 2 * wide), "h0": (directions, ROWS, FEATURES), "c0": (directions, ROWS, FEATURES),
        "P": (directions, 3 * FEATURES), "Y": (STEPS, directions, ROWS, FEATURES),
        "Y_h": (directions, ROWS, FEATURES), "Y_c": (directions, ROWS, FEATURES),
    }  # fmt: skip
    states = ("h0", "c0")[: 1 + (operator == "LSTM")] if first else ()
    names = ["X", "W", "R", "B", "lengths" if lengths is not None else "", *states]
    if peepholes:
        names += [""] * (7 - len(names)) + ["P"]
    constants = {n: rng.uniform(-0.5, 0.5, shapes[n]).astype(np.float32) for n in "WRBP" if n in names}
    if lengths is not None:
        constants["lengths"] = np.array(lengths, np.int32)
    wanted = outputs if operator == "LSTM" else outputs[:2]
    node = h.make_node(operator, names, wanted, hidden_size=FEATURES, **attributes)
    real = onnx.TensorProto.FLOAT
    inputs = [h.make_tensor_value_info(n, real, shapes[n]) for n in ("X", *states, *given)]
    results = [h.make_tensor_value_info(n, real, shapes[n]) for n in wanted if n]
    kept = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items() if n not in given]
    graph = h.make_graph([node], "layer", inputs, results, kept)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9)


def taken(proto: Any) -> Extracted:
    return extracted(Importer(prepared(proto)).run())


FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "lstm_both_ways": ("LSTM", {"direction": "bidirectional"}),
    "lstm_cell_alone": ("LSTM", {"outputs": ("", "", "Y_c"), "direction": "reverse"}),
    "lstm_from_zeros": ("LSTM", {"first": False, "outputs": ("Y",)}),
    "lstm_whole_lengths": ("LSTM", {"lengths": [STEPS, STEPS]}),
    "lstm_given_weights": ("LSTM", {"given": ("W", "R", "B"), "direction": "bidirectional"}),
    "gru": ("GRU", {"direction": "bidirectional"}),
    "gru_reset_after": ("GRU", {"linear_before_reset": 1, "direction": "reverse"}),
    "rnn": ("RNN", {"direction": "bidirectional"}),
    "rnn_relu": ("RNN", {"activations": ["Relu", "Relu"], "direction": "bidirectional"}),
}


@pytest.mark.parametrize("name", FORMS)
def test_layers_mean_what_onnxruntime_computes(name: str) -> None:
    operator, how = FORMS[name]
    proto = model(operator, **how)
    found, rng = taken(proto), np.random.default_rng(1)
    assert not found.imported.left
    directions = 2 if how.get("direction") == "bidirectional" else 1
    assert sum(g.family == "recurrent" for g in found.groups) == directions
    inputs = {s.name: rng.uniform(-1, 1, s.shape).astype(np.float32) for s in found.imported.graph.inputs}
    want = ort.InferenceSession(proto.SerializeToString()).run(None, inputs)
    got = interpreted(found, inputs)
    for value, expected in zip(proto.graph.output, want, strict=True):
        np.testing.assert_allclose(got[value.name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "how", "why"),
    [
        ("LSTM", {"clip": 3.0}, "it clips"),
        ("LSTM", {"input_forget": 1}, "it couples gates"),
        ("LSTM", {"peepholes": True}, "it has peepholes"),
        ("LSTM", {"lengths": [STEPS, 3]}, "its sequences have lengths of their own"),
        ("GRU", {"activations": ["Tanh", "Tanh"]}, "its activations are Tanh, Tanh"),
        ("RNN", {"activations": ["Tanh", "Relu"], "direction": "bidirectional"}, "its activations are Tanh, Relu"),
    ],
)
def test_what_a_plain_layer_has_not_is_left_with_its_reason(operator: str, how: dict[str, Any], why: str) -> None:
    assert dict(taken(model(operator, **how)).imported.left) == {operator: why}
