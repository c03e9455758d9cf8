"""Recurrent layers after their input products: an operation computes all steps of a layer in one direction.

Operands are ``gates, weight, bias, h0``, and ``c0`` of an LSTM (``kernels/nn/recurrent``). Each operation returns the
states after every step, (states, steps, rows, features).

``torch/recurrent.py`` rewrites PyTorch's layers to ``tilewright.recurrent``. ONNX's nodes also compute the input
product here. Gates are put into PyTorch's order. ONNX layers with clipping, peepholes, coupled gates, unusual
activations or sequences of different lengths are left to onnxruntime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.graph.operations.handlers import Attributes, Build, Call, Left, OnnxBuild, aten, joined, onnx
from tilewright.graph.operations.table import register
from tilewright.kernels.nn import recurrent as nn

Node = Any

register("rnn", "recurrent", nn.rnn, weight=1)
register("gru", "recurrent", nn.gru, weight=1)
register("lstm", "recurrent", nn.lstm, weight=1)


@aten("tilewright.recurrent")
def _aten_recurrent(build: Build, call: Call) -> None:
    kind = str(call["kind"])
    operation, _, nonlinearity = kind.partition("_")
    names = ("gates", "weight", "bias", "h0", *(("c0",) if operation == "lstm" else ()))
    own = {"nonlinearity": nonlinearity} if nonlinearity else {}
    build.add(operation, [call.operand(n) for n in names], call.output, reverse=call["reverse"], **own)


# --------------------------------------------------------------------------- ONNX


@dataclass(frozen=True)
class Kind:
    """A kind of layer.

    ``gates``: the position of each of PyTorch's gates in ONNX's order. ``activations``: the default activations.
    """

    operation: str
    gates: tuple[int, ...]
    activations: tuple[str, ...]


KINDS = {
    "RNN": Kind("rnn", (0,), ("Tanh",)),
    "GRU": Kind("gru", (1, 0, 2), ("Sigmoid", "Tanh")),
    "LSTM": Kind("lstm", (0, 2, 3, 1), ("Sigmoid", "Tanh", "Tanh")),
}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""For each direction of a layer, whether its steps run from the last to the first."""


@onnx("RNN", "GRU", "LSTM")
def _onnx_recurrent(build: OnnxBuild, node: Node, a: Attributes) -> None:
    """A node of any of :data:`KINDS`, in one or both directions, with the outputs that are read."""
    kind = KINDS[node.op_type]
    inputs: list[str] = [*node.input, *("",) * (8 - len(node.input))]
    x, w, r, b, lengths, h0, c0, peepholes = inputs
    reverse = DIRECTIONS.get(a.get("direction", "forward"))
    if reverse is None:
        raise Left("its direction is not known")
    attributes = _attributes(node, kind, a, len(reverse))
    _check(build, a, x, lengths, peepholes)
    steps, rows, _ = build.shape(x)
    features = build.shape(r)[2]
    if a.get("hidden_size", features) != features:
        raise Left("its hidden_size is not its weights'")
    outputs: list[list[str]] = [[], [], []]
    for d, back in enumerate(reverse):
        first = [_direction(build, h, d) for h in ((h0, c0) if kind.operation == "lstm" else (h0,))]
        gates, bias = _gates(build, kind, (x, w, b), d, attributes)
        operands = [gates, _ordered(build, kind, r, d), bias, *first]
        states = build.add(kind.operation, operands, None, reverse=back, **attributes)
        count = build.shape(states)[0]
        y = states if count == 1 else build.add("slice", [states], dim=0, start=0, end=1)
        outputs[0].append(build.reshaped(y, (steps, 1, rows, features)))
        at = 0 if back else steps - 1
        for c in range(count):
            last = build.add("slice", [states], dim=1, start=at, end=at + 1)
            last = last if count == 1 else build.add("slice", [last], dim=0, start=c, end=c + 1)
            outputs[1 + c].append(build.reshaped(last, (1, rows, features)))
    wanted = build.wanted(node)
    for name, parts, dim in zip(node.output, outputs, (1, 0, 0), strict=False):
        if name in wanted:
            joined(build, parts, dim, name)


def _attributes(node: Node, kind: Kind, a: Attributes, directions: int) -> dict[str, Any]:
    """The operation's attributes. Raises ``Left`` for activations that a plain layer does not have."""
    given = tuple(a.get("activations", ())) or kind.activations * directions
    if kind.operation == "rnn" and len(set(given)) == 1 and given[0] in ("Tanh", "Relu"):
        return {"nonlinearity": given[0].lower()}
    if given != kind.activations * directions:
        raise Left(f"its activations are {', '.join(given)}")
    return {"reset_after": bool(a.get("linear_before_reset", 0))} if kind.operation == "gru" else {}


def _check(build: OnnxBuild, a: Attributes, x: str, lengths: str, peepholes: str) -> None:
    found = {
        "it clips": a.get("clip"), "it couples gates": a.get("input_forget"), "its batch is first": a.get("layout"),
        "it has peepholes": peepholes,
    }  # fmt: skip
    reason = next((text for text, holds in found.items() if holds), None)
    if reason is not None:
        raise Left(reason)
    if lengths and not (lengths in build.constants and (build.known(lengths) == build.shape(x)[0]).all()):
        raise Left("its sequences have lengths of their own")


def _ordered(build: OnnxBuild, kind: Kind, name: str, d: int, place: int = 0, places: int = 1) -> str:
    """Weights of direction ``d``, or block ``place`` of ``places`` of its biases, in PyTorch's order of gates."""
    count = len(kind.gates)
    size = build.shape(name)[1] // (count * places)
    starts = [(place * count + gate) * size for gate in kind.gates]
    if name in build.constants:
        whole = build.known(name)[d]
        return build.constant(np.concatenate([whole[s : s + size] for s in starts]))
    one = _direction(build, name, d)
    parts = [build.add("slice", [one], dim=0, start=s, end=s + size) for s in starts]
    return build.add("cat", parts, dim=0) if count > 1 else parts[0]


def _direction(build: OnnxBuild, name: str, d: int) -> str:
    """The initial state, or the weights, of direction ``d``."""
    if not name:
        return ""
    shape = build.shape(name)
    one = name if shape[0] == 1 else build.add("slice", [name], dim=0, start=d, end=d + 1)
    return build.reshaped(one, shape[1:])


def _gates(
    build: OnnxBuild, kind: Kind, tensors: tuple[str, str, str], d: int, attributes: Mapping[str, Any]
) -> tuple[str, str]:
    """The input products of all steps, and the bias that each step adds.

    The state's bias is added in the step only where a reset gate multiplies the state's product.
    """
    x, w, b = tensors
    weight = _ordered(build, kind, w, d)
    if not b:
        return build.add("linear", [x, weight]), ""
    of_input, of_state = (_ordered(build, kind, b, d, place, 2) for place in range(2))
    if attributes.get("reset_after"):
        return build.add("linear", [x, weight, of_input]), of_state
    if b in build.constants:
        both = build.constant(build.constants[of_input] + build.constants[of_state])
    else:
        both = build.add("add", [of_input, of_state])
    return build.add("linear", [x, weight, both]), ""
