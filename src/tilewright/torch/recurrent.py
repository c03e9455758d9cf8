"""Rewrites ``nn.RNN``, ``nn.GRU`` and ``nn.LSTM`` in Dynamo graphs, before PyTorch decomposes them.

PyTorch turns a layer into one operator of several results, or into the operators of every step. Here each layer and
direction becomes the input product of all steps and ``torch.ops.tilewright.recurrent``, which a kernel computes. If a
layer has no kernel, the graph stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import GraphModule, Node

from tilewright.torch.devices import has_kernels

_registering: Any = torch.library
_library = _registering.Library("tilewright", "FRAGMENT")
_library.define(
    "recurrent(Tensor gates, Tensor weight, Tensor? bias, Tensor h0, Tensor? c0, str kind, bool reverse) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
OPERATOR = torch.ops.tilewright.recurrent.default
"""The states after every step, (states, steps, rows, features), from input products (steps, rows, gates x features)."""

KINDS = ("rnn_tanh", "rnn_relu", "gru", "lstm")
"""PyTorch's functions of recurrent layers."""


class Unplaced(Exception):
    """Raised for a graph with a recurrent layer that no kernel computes."""


def check_placed(graph: GraphModule) -> None:
    """Raises :class:`Unplaced` where the operator of a layer's steps is left in a graph."""
    if any(n.target is OPERATOR for n in graph.graph.nodes):
        raise Unplaced


def lowered(module: GraphModule, inputs: Sequence[Any]) -> GraphModule | None:
    """The graph with its layers as input products and steps; ``None`` for a graph without layers, or in training.

    Layers with dropout, projections or packed sequences stay PyTorch's, and layers with dynamic sizes do.
    """
    trained = torch.is_grad_enabled() and any(isinstance(i, torch.Tensor) and i.requires_grad for i in inputs)
    functions = {getattr(torch, kind): kind for kind in KINDS}
    nodes = [n for n in module.graph.nodes if n.op == "call_function" and n.target in functions and _plain(n)]
    if trained or not nodes:
        return None
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    outputs = graph.graph_copy(module.graph, copies)  # the argument of the output node
    graph.output(outputs)
    for node in nodes:
        copies[node].target, copies[node].args = layers, (functions[node.target], *copies[node].args)
    return GraphModule(module, graph)


def _plain(node: Node) -> bool:
    if len(node.args) != 9 or node.kwargs:
        return False
    given: Sequence[Any] = node.args
    x, hx, params, has_biases, count, dropout, train, both, _ = given
    known = isinstance(has_biases, bool) and isinstance(params, Sequence) and isinstance(count, int)
    if not known or (dropout and train) or not isinstance(x, Node):
        return False
    states = hx if isinstance(hx, Sequence) else (hx,)
    tensors = [t.meta.get("example_value") if isinstance(t, Node) else None for t in (x, *states, *params)]
    plain = all(
        isinstance(t, torch.Tensor) and has_kernels(t.device) and t.dtype in (torch.float32, torch.float64)
        and all(isinstance(n, int) and n > 0 for n in t.shape)
        for t in tensors
    )  # fmt: skip
    return plain and len(params) == count * (2 if both else 1) * (4 if has_biases else 2)


def layers(
    kind: str, input: torch.Tensor, hx: Any, params: Sequence[torch.Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """The results of PyTorch's function ``kind`` with these arguments."""
    first = tuple(hx) if kind == "lstm" else (hx,)
    directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
    x = input.transpose(0, 1).contiguous() if batch_first else input
    last: list[list[torch.Tensor]] = [[] for _ in first]
    for layer in range(num_layers):
        outputs = []
        for d in range(directions):
            n = layer * directions + d
            w_ih, w_hh, *biases = params[n * each : (n + 1) * each]
            b_ih, b_hh = biases or (None, None)
            start = [s[n] for s in first]
            h0, c0 = start if kind == "lstm" else (start[0], None)
            states = torch.ops.tilewright.recurrent(F.linear(x, w_ih, b_ih), w_hh, b_hh, h0, c0, kind, d == 1)
            outputs.append(states[0])
            for found, state in zip(last, states, strict=True):
                found.append(state[0 if d == 1 else -1])
        x = torch.cat(outputs, -1) if directions > 1 else outputs[0]
    y = x.transpose(0, 1) if batch_first else x
    return (y, *(torch.stack(found) for found in last))


# --------------------------------------------------------------------------- without a kernel


def _step(kind: str, gate: torch.Tensor, inner: torch.Tensor, h: torch.Tensor, c: Any) -> tuple[torch.Tensor, ...]:
    if kind == "lstm":
        i, f, g, o = (gate + inner).chunk(4, 1)
        cell = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = gate.chunk(3, 1), inner.chunk(3, 1)
        z = (xz + hz).sigmoid()
        return ((1 - z) * (xn + (xr + hr).sigmoid() * hn).tanh() + z * h,)
    function: Callable[[torch.Tensor], torch.Tensor] = torch.tanh if kind == "rnn_tanh" else torch.relu
    return (function(gate + inner),)


def _run(
    gates: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, h0: torch.Tensor, c0: torch.Tensor | None,
    kind: str, reverse: bool,
) -> torch.Tensor:  # fmt: skip
    """The operator without a kernel, step by step; it runs only while graphs are traced."""
    out = _fake(gates, weight, bias, h0, c0, kind, reverse)
    state: tuple[Any, ...] = (h0, c0)
    for t in reversed(range(len(gates))) if reverse else range(len(gates)):
        state = _step(kind, gates[t], F.linear(state[0], weight, bias), state[0], state[-1])
        for k, part in enumerate(state):
            out[k, t] = part
    return out


def _fake(
    gates: torch.Tensor, weight: torch.Tensor, bias: Any, h0: torch.Tensor, c0: Any, kind: str, reverse: bool
) -> torch.Tensor:
    return gates.new_empty((2 if kind == "lstm" else 1, gates.shape[0], gates.shape[1], weight.shape[1]))


_library.impl("recurrent", _run, "CompositeExplicitAutograd")
_registering.register_fake("tilewright::recurrent", _fake, lib=_library)
