"""An ONNX model of ``examples/networks.py`` as a PyTorch module, in the form in which it would be written there.

Operator by operator, with the model's weights. What PyTorch has as one operation is one: products with constant weights
are ``nn.Linear``, batch norms are folded into convolutions, and erf's GELU, the gated SiLU and softmax attention call
``gelu``, ``silu`` and ``scaled_dot_product_attention``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import onnx
import torch
from onnx import numpy_helper
from torch import fx, nn
from torch.fx.experimental.optimization import fuse
from torch.nn import functional as F

Values = dict[str, Any]
"""By ONNX's names: nodes of the graph, and constants as tensors."""


def module_of(model: onnx.ModelProto) -> fx.GraphModule:
    """A module in eval mode whose arguments are the model's inputs, in order, and whose result is a tuple."""
    made: fx.GraphModule = fuse(_Builder(model).build().eval(), inplace=True)
    _rewritten(made)
    return made


class _Builder:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.root = nn.Module()
        self.graph = fx.Graph()
        self.values: Values = {}
        self.modules = 0

    def build(self) -> fx.GraphModule:
        graph = self.model.graph
        for tensor in graph.initializer:
            self.values[tensor.name] = torch.from_numpy(numpy_helper.to_array(tensor).copy())
        for value in graph.input:
            self.values[value.name] = self.graph.placeholder(value.name)
        for node in graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            handler = OPERATORS.get(node.op_type)
            if handler is None:
                raise SystemExit(f"no PyTorch form of the operator {node.op_type}: add it to benchmarks/onnx_torch.py")
            made = handler(self, *(self.values[n] if n else None for n in node.input), **attributes)
            outputs = [made] if len(node.output) == 1 else [self.call(operator.getitem, made, k)
                                                            for k in range(len(node.output))]  # fmt: skip
            self.values.update(zip(node.output, outputs, strict=True))
        self.graph.output(tuple(self.values[v.name] for v in graph.output))
        return fx.GraphModule(self.root, self.graph)

    # ----------------------------------------------------------------- for handlers

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """A call in the graph; constant tensors become buffers."""
        return self.graph.call_function(function, tuple(map(self.placed, args)), kwargs)

    def layer(self, made: nn.Module, x: Any) -> fx.Node:
        """A call of a layer, which becomes a part of the module."""
        self.modules += 1
        name = f"layer{self.modules}"
        self.root.add_module(name, made)
        return self.graph.call_module(name, (self.placed(x),))

    def placed(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.dim() == 0:
                return value.item()
            self.modules += 1
            name = f"constant{self.modules}"
            self.root.register_buffer(name, value)
            return self.graph.get_attr(name)
        return [self.placed(v) for v in value] if isinstance(value, list) else value


def _numbers(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(v) for v in value.reshape(-1))


def _linear(b: _Builder, x: Any, weight: torch.Tensor, bias: torch.Tensor | None = None) -> fx.Node:
    """``weight``: as PyTorch has it, outputs by inputs."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    layer.weight = nn.Parameter(weight.contiguous(), requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return b.layer(layer, x)


def _conv(b: _Builder, x: Any, weight: torch.Tensor, bias: torch.Tensor | None = None, *, kernel_shape: Any,
          pads: Any = (0, 0, 0, 0), strides: Any = (1, 1), group: int = 1) -> fx.Node:  # fmt: skip
    layer = nn.Conv2d(
        weight.shape[1] * group, weight.shape[0], tuple(kernel_shape), tuple(strides), _symmetric(pads), groups=group,
        bias=bias is not None,
    )  # fmt: skip
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return b.layer(layer, x)


def _symmetric(pads: Any) -> tuple[int, ...]:
    half = len(pads) // 2
    if tuple(pads[:half]) != tuple(pads[half:]):
        raise SystemExit(f"PyTorch pads both ends alike, not {tuple(pads)}")
    return tuple(pads[:half])


def _batch_norm(b: _Builder, x: Any, weight: Any, bias: Any, mean: Any, var: Any, *, epsilon: float = 1e-5) -> fx.Node:
    layer = nn.BatchNorm2d(len(weight), eps=epsilon)
    layer.load_state_dict({"weight": weight, "bias": bias, "running_mean": mean, "running_var": var}, strict=False)
    return b.layer(layer.requires_grad_(False), x)


def _matmul(b: _Builder, x: Any, y: Any) -> fx.Node:
    if isinstance(y, torch.Tensor) and y.dim() == 2:
        return _linear(b, x, y.T)
    return b.call(torch.matmul, x, y)


def _gemm(b: _Builder, x: Any, weight: torch.Tensor, bias: torch.Tensor, *, transB: int = 0) -> fx.Node:
    return _linear(b, x, weight if transB else weight.T, bias)


def _add(b: _Builder, x: Any, y: Any) -> Any:
    """A vector that is added to a product is the layer's bias."""
    if isinstance(x, fx.Node) and x.op == "call_module" and not x.users and isinstance(y, torch.Tensor):
        layer = b.root.get_submodule(str(x.target))
        if isinstance(layer, nn.Linear) and layer.bias is None and y.shape == (layer.out_features,):
            layer.bias = nn.Parameter(y, requires_grad=False)
            return x
    return b.call(operator.add, x, y)


def _gather(b: _Builder, table: Any, index: Any, *, axis: int = 0) -> fx.Node:
    if not (axis == 0 and isinstance(table, torch.Tensor) and table.dim() == 2):
        raise SystemExit("Gather is of rows of a constant table alone")
    return b.call(F.embedding, index, table)


def _max_pool(b: _Builder, x: Any, *, kernel_shape: Any, strides: Any, pads: Any) -> fx.Node:
    return b.layer(nn.MaxPool2d(tuple(kernel_shape), tuple(strides), _symmetric(pads)), x)


def _binary(function: Callable[..., Any]) -> Callable[..., fx.Node]:
    return lambda b, x, y: b.call(function, x, y)


def _unary(function: Callable[..., Any]) -> Callable[..., fx.Node]:
    return lambda b, x: b.call(function, x)


OPERATORS: dict[str, Callable[..., Any]] = {
    "Conv": _conv, "BatchNormalization": _batch_norm, "MatMul": _matmul, "Gemm": _gemm, "Add": _add, "Gather": _gather,
    "MaxPool": _max_pool,
    "Relu": _unary(torch.relu), "Erf": _unary(torch.erf), "Sqrt": _unary(torch.sqrt), "Neg": _unary(operator.neg),
    "Sigmoid": _unary(torch.sigmoid),
    "Mul": _binary(operator.mul), "Div": _binary(operator.truediv), "Pow": _binary(operator.pow),
    "Clip": lambda b, x, low, high: b.layer(nn.Hardtanh(float(low), float(high)), x),
    "GlobalAveragePool": lambda b, x: b.layer(nn.AdaptiveAvgPool2d(1), x),
    "Flatten": lambda b, x: b.call(torch.flatten, x, 1),
    "Reshape": lambda b, x, shape: b.call(torch.reshape, x, _numbers(shape)),
    "Transpose": lambda b, x, perm: b.call(torch.permute, x, tuple(perm)),
    "Unsqueeze": lambda b, x, axes: b.call(torch.unsqueeze, x, *_numbers(axes)),
    "Expand": lambda b, x, shape: b.call(torch.broadcast_to, x, _numbers(shape)),
    "Concat": lambda b, *x, axis: b.call(torch.cat, list(x), axis),
    "Split": lambda b, x, axis: b.call(torch.chunk, x, 2, axis),
    "Softmax": lambda b, x, axis: b.call(torch.softmax, x, axis),
    "ReduceMean": lambda b, x, axes, keepdims: b.call(torch.mean, x, tuple(axes), bool(keepdims)),
    "LayerNormalization": lambda b, x, weight, bias, axis, epsilon=1e-5: b.call(
        F.layer_norm, x, tuple(weight.shape), weight, bias, epsilon
    ),
}  # fmt: skip


# --------------------------------------------------------------------------- operations that PyTorch has as one

ROOT2 = torch.tensor(2**0.5).item()


def _gelu(x: Any) -> Any:
    return F.gelu(x)


def _silu(x: Any) -> Any:
    return F.silu(x)


def _rewritten(made: fx.GraphModule) -> None:
    numbers = {n.args[1] for n in made.graph.nodes if n.target in (operator.mul, operator.truediv)}
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (lambda x: x * (torch.erf(x / ROOT2) + 1.0) * 0.5, _gelu),
        (lambda x: x * torch.sigmoid(x), _silu),
    ]
    for number in (n for n in numbers if isinstance(n, float)):
        pairs += _attention(number)
    for pattern, replacement in pairs:
        fx.subgraph_rewriter.replace_pattern(made, pattern, replacement)


def _attention(number: float) -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Attention as the networks write it: scores divided by ``number`` and masked, or multiplied by it."""

    def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = torch.matmul(q, torch.permute(k, (0, 1, 3, 2))) / number
        return torch.matmul(torch.softmax(scores + mask, -1), v)

    def plain(q: Any, k: Any, v: Any) -> Any:
        scores = torch.matmul(q, torch.permute(k, (0, 1, 3, 2))) * number
        return torch.matmul(torch.softmax(scores, -1), v)

    attention = F.scaled_dot_product_attention
    return [
        (masked, lambda q, k, v, mask: attention(q, k, v, attn_mask=mask, scale=1.0 / number)),
        (plain, lambda q, k, v: attention(q, k, v, scale=number)),
    ]
