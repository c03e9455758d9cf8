"""PyTorch's graphs (FX, of ATen's operators) as graphs of ours; what is unknown is opaque."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node

from tilewright.core import OperatorError, TensorSpec, UsageError
from tilewright.graph import Graph, GraphBuilder

aten = torch.ops.aten


@dataclass(frozen=True)
class Imported:
    """A graph and, by value, the FX node that gives it."""

    graph: Graph
    nodes: Mapping[str, Node]


def spec_of(node: Node) -> TensorSpec | None:
    """What is known of the tensor that a node gives, in this processor's memory.

    Where sizes change, those of the call that PyTorch made the graph for.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.layout is not torch.strided:
        return None
    shape = [_number(n) for n in value.shape]
    if any(n is None or n < 1 for n in shape) or any((_number(s) or 0) < 0 for s in value.stride()):
        return None
    return TensorSpec(node.name, tuple(n for n in shape if n is not None), str(value.dtype).removeprefix("torch."))


def _number(n: Any) -> int | None:
    """A size, or what it was when the graph was made; ``None`` where that is not known."""
    if isinstance(n, int):
        return n
    known = n.node.hint if isinstance(n, torch.SymInt) else None
    return int(known) if known is not None else None


def dense(node: Node) -> bool:
    """Whether a node's tensor lies row-major without gaps."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_contiguous() and not value.is_conj() and not value.is_neg()


def imported(module: GraphModule, weights: frozenset[str] = frozenset()) -> Imported | None:
    """The graph of a module, or ``None`` where it has no output that is a tensor.

    ``weights``: inputs that seldom change.
    """
    builder = _Importer(weights)
    outputs: list[str] = []
    for node in module.graph.nodes:
        if node.op == "output":
            outputs = list(dict.fromkeys(a.name for a in node.all_input_nodes))
        else:
            builder.add(node)
    return Imported(builder.builder.build(outputs), builder.nodes) if outputs else None


class _Importer:
    def __init__(self, weights: frozenset[str]) -> None:
        self.weights = weights
        self.builder = GraphBuilder()
        self.nodes: dict[str, Node] = {}

    def add(self, node: Node) -> None:
        self.nodes[node.name] = node
        spec = spec_of(node)
        if node.op in ("placeholder", "get_attr"):
            given = spec or TensorSpec(node.name, (1,), "float32")
            self.builder.input(node.name, given.shape, given.dtype, node.name in self.weights)
            return
        known = _KNOWN.get(node.target) if node.op == "call_function" else None
        if known is not None and spec is not None and self._state(node, spec, known):
            return
        reads = [n.name for n in node.all_input_nodes]
        made = spec or TensorSpec(node.name, (1,), "float32")
        self.builder.add_opaque(f"fx::{node.target}", reads, [TensorSpec(node.name, made.shape, made.dtype)])

    def _state(self, node: Node, spec: TensorSpec, known: Import) -> bool:
        """Whether the node was added as operations that give just what it gives."""
        statement = known(node, spec)
        if statement is None:
            return False
        for n in statement.reads:
            if spec_of(n) is None or self.nodes.get(n.name) is None:
                return False
        steps = statement.steps
        before = len(self.builder._nodes), dict(self.builder.values), dict(self.builder._constants)
        try:
            result = ""
            for k, (operation, operands, attributes) in enumerate(steps):
                names = [result if o is RESULT else self._operand(node, o) for o in operands]
                last = k == len(steps) - 1
                result = self.builder.add(
                    operation, names, attributes, output=node.name if last else f"{node.name}__{k}"
                )
            made = self.builder.values[result]
            if (made.shape, made.dtype) == (spec.shape, spec.dtype):
                return True
        except (UsageError, OperatorError, ValueError, TypeError, KeyError):
            pass
        count, self.builder.values, self.builder._constants = before
        del self.builder._nodes[count:]
        return False

    def _operand(self, node: Node, operand: Any) -> str:
        if operand is None:
            return ""
        if isinstance(operand, Node):
            return str(operand.name)
        name = f"{node.name}__number{len(self.builder._constants)}"
        return self.builder.constant(name, np.asarray(operand))


RESULT = object()
"""Stands among a step's operands for what the step before gave."""


@dataclass(frozen=True)
class Statement:
    """What a node does: operations with their operands (nodes, numbers, ``RESULT`` or ``None``) and attributes."""

    steps: Sequence[tuple[str, Sequence[Any], Mapping[str, Any]]]

    @property
    def reads(self) -> list[Node]:
        return [o for _, operands, _ in self.steps for o in operands if isinstance(o, Node)]


Import = Callable[[Node, TensorSpec], Statement | None]


def arguments(node: Node) -> dict[str, Any]:
    """A node's arguments by name, defaults filled in."""
    target: Any = node.target
    found = {}
    for k, a in enumerate(target._schema.arguments):
        if k < len(node.args) and not a.kwarg_only:
            found[a.name] = node.args[k]
        else:
            found[a.name] = node.kwargs.get(a.name, a.default_value if a.has_default_value() else None)
    return found


def _one(operation: str, *operands: str, **attributes: str) -> Import:
    """An operation whose operands and attributes are arguments of these names."""

    def made(node: Node, spec: TensorSpec) -> Statement | None:
        given = arguments(node)
        named = {k: given[v] for k, v in attributes.items()}
        if any(isinstance(v, Node) for v in named.values()):
            return None
        return Statement([(operation, [given[o] for o in operands], named)])

    return made


def _binary(operation: str) -> Import:
    def made(node: Node, spec: TensorSpec) -> Statement | None:
        given = arguments(node)
        if given.get("alpha", 1) != 1 and not isinstance(given["alpha"], (int, float)):
            return None
        scaled = {"alpha": given["alpha"]} if given.get("alpha", 1) != 1 else {}
        return Statement([(operation, [given["self"], given["other"]], scaled)])

    return made


def _shape(operation: str) -> Import:
    def made(node: Node, spec: TensorSpec) -> Statement | None:
        return Statement([(operation, [arguments(node)["self"]], {"shape": spec.shape})])

    return made


def _transpose(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    source = spec_of(given["self"])
    if source is None:
        return None
    rank = len(source.shape)
    dims = list(range(rank))
    first, second = (0, 1) if "dim0" not in given else (given["dim0"] % rank, given["dim1"] % rank)
    if rank > 1:
        dims[first], dims[second] = dims[second], dims[first]
    return Statement([("permute", [given["self"]], {"dims": tuple(dims)})])


def _permute(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    return Statement([("permute", [given["self"]], {"dims": tuple(d % len(spec.shape) for d in given["dims"])})])


def _addmm(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    if given["beta"] != 1 or given["alpha"] != 1:
        return None
    weight = _turned(given["mat2"])
    bias = spec_of(given["self"])
    if weight is not None and bias is not None and bias.shape == spec.shape[1:]:
        return Statement([("linear", [given["mat1"], weight, given["self"]], {})])
    return Statement([("matmul", [given["mat1"], given["mat2"]], {}), ("add", [RESULT, given["self"]], {})])


def _mm(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    weight = _turned(given["mat2"])
    if weight is not None:
        return Statement([("linear", [given["self"], weight], {})])
    return Statement([("matmul", [given["self"], given["mat2"]], {})])


def _turned(node: Node) -> Node | None:
    """The matrix that a node is the transpose of: a layer's weight is read as it lies."""
    source: Any = node.args[0] if node.args else None
    if not isinstance(source, Node) or not dense(source) or len(node.meta["val"].shape) != 2:
        return None
    rest: Any = node.args[1:]
    turns = node.target is aten.t.default or (node.target is aten.permute.default and list(rest[0]) == [1, 0])
    return source if turns else None


def _convolution(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    window = {k: tuple(given[k]) for k in ("stride", "padding", "dilation")}
    if given["transposed"] or any(not isinstance(v, int) for t in window.values() for v in t):
        return None
    rank = len(spec.shape) - 2
    wide = {k: v if len(v) == rank else v * rank for k, v in window.items()}
    operands = [given["input"], given["weight"], given["bias"]]
    return Statement([(f"conv{rank}d", operands, {**wide, "groups": given["groups"]})])


def _softmax(operation: str) -> Import:
    def made(node: Node, spec: TensorSpec) -> Statement | None:
        given = arguments(node)
        return None if given["half_to_float"] else Statement([(operation, [given["self"]], {"dim": given["dim"]})])

    return made


def _softmax_backward(operation: str) -> Import:
    def made(node: Node, spec: TensorSpec) -> Statement | None:
        given = arguments(node)
        same = str(given["input_dtype"]) == f"torch.{spec.dtype}"
        return (
            Statement([(operation, [given["grad_output"], given["output"]], {"dim": given["dim"]})]) if same else None
        )

    return made


def _reduction(operation: str) -> Import:
    def made(node: Node, spec: TensorSpec) -> Statement | None:
        given = arguments(node)
        source = spec_of(given["self"])
        if given.get("dtype") is not None or source is None or not source.shape:
            return None
        dims = given.get("dim")
        dims = list(range(len(source.shape))) if dims is None or dims == [] else dims
        dims = tuple(d % len(source.shape) for d in ([dims] if isinstance(dims, int) else dims))
        return Statement([(operation, [given["self"]], {"dim": dims, "keepdim": bool(given.get("keepdim", False))})])

    return made


def _first(node: Node, spec: TensorSpec) -> Statement | None:
    """The first result of an operator with several, where nothing reads the others."""
    source, place = node.args
    if place != 0 or not isinstance(source, Node) or source.op != "call_function":
        return None
    state = _FIRST.get(source.target)
    if state is None or any(u.args[1] != 0 for u in source.users):
        return None
    return state(source, spec)


def _layer_norm(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    own = {"normalized_shape": tuple(given["normalized_shape"]), "eps": given["eps"]}
    return Statement([("layer_norm", [given["input"], given["weight"], given["bias"]], own)])


def _group_norm(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    own = {"num_groups": given["group"], "eps": given["eps"]}
    return Statement([("group_norm", [given["input"], given["weight"], given["bias"]], own)])


def _batch_norm(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    names = ("input", "running_mean", "running_var", "weight", "bias")
    return Statement([("batch_norm", [given[n] for n in names], {"eps": given["eps"]})])


def _max_pool(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    if given["ceil_mode"]:
        return None
    window = {k: tuple(given[k]) for k in ("kernel_size", "stride", "padding", "dilation")}
    return Statement([("max_pool2d", [given["self"]], window)]) if len(spec.shape) == 4 else None


def _avg_pool(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    if given["ceil_mode"] or given["divisor_override"] is not None or len(spec.shape) != 4:
        return None
    window = {k: tuple(given[k]) for k in ("kernel_size", "stride", "padding")}
    return Statement([("avg_pool2d", [given["self"]], {**window, "count_include_pad": given["count_include_pad"]})])


def _attention(node: Node, spec: TensorSpec) -> Statement | None:
    given = arguments(node)
    if given["dropout_p"]:
        return None
    own = {"is_causal": given["is_causal"], "scale": given["scale"]}
    operands = [given["query"], given["key"], given["value"], given["attn_mask"]]
    return Statement([("scaled_dot_product_attention", operands, own)])


def _known() -> dict[Any, Import]:
    found: dict[Any, Import] = {
        aten.mm.default: _mm,
        aten.bmm.default: _one("matmul", "self", "mat2"),
        aten.addmm.default: _addmm,
        aten.convolution.default: _convolution,
        aten._softmax.default: _softmax("softmax"),
        aten._log_softmax.default: _softmax("log_softmax"),
        aten._softmax_backward_data.default: _softmax_backward("softmax_backward"),
        aten._log_softmax_backward_data.default: _softmax_backward("log_softmax_backward"),
        aten.t.default: _transpose,
        aten.transpose.int: _transpose,
        aten.permute.default: _permute,
        aten.avg_pool2d.default: _avg_pool,
        aten.clamp.default: _one("clamp", "self", min="min", max="max"),
        aten.hardtanh.default: _one("clamp", "self", min="min_val", max="max_val"),
        aten.gelu.default: _one("gelu", "self", approximate="approximate"),
    }
    for target in (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default):
        found[target] = _shape("reshape")
    found[aten.squeeze.dim] = found[aten.squeeze.dims] = _shape("reshape")
    found[aten.expand.default] = _shape("expand")
    found[aten.clone.default] = _clone
    found[aten._to_copy.default] = _to_copy
    for name in ("add", "sub", "mul", "div"):
        for overload in ("Tensor", "Scalar"):
            found[getattr(getattr(aten, name), overload)] = _binary(name)
    found[aten.maximum.default], found[aten.minimum.default] = _binary("maximum"), _binary("minimum")
    for name in (
        "neg",
        "abs",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "tanh",
        "sigmoid",
        "relu",
        "silu",
        "erf",
        "sin",
        "cos",
        "log1p",
    ):
        found[getattr(aten, name).default] = _one(name, "self")
    for overload in ("Tensor_Tensor", "Tensor_Scalar", "Scalar"):
        found[getattr(aten.pow, overload)] = _one("pow", "self", "exponent")
    found[aten.sum.dim_IntList], found[aten.mean.dim] = _reduction("sum"), _reduction("mean")
    found[aten.amax.default], found[aten.amin.default] = _reduction("amax"), _reduction("amin")
    found[operator.getitem] = _first
    return found


def _clone(node: Node, spec: TensorSpec) -> Statement | None:
    """A copy in row-major order: the same elements."""
    return _shape("reshape")(node, spec) if dense(node) else None


def _to_copy(node: Node, spec: TensorSpec) -> Statement | None:
    """A copy in another type, as autocast makes them, lying as PyTorch's does."""
    given = arguments(node)
    if given["dtype"] is None or given["pin_memory"]:
        return None
    return Statement([("to", [given["self"]], {"dtype": spec.dtype})])


def _several() -> dict[Any, Import]:
    names = {
        "native_layer_norm": _layer_norm,
        "native_group_norm": _group_norm,
        "_native_batch_norm_legit_no_training": _batch_norm,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "max_pool2d_with_indices": _max_pool,
    }
    return {getattr(aten, n).default: state for n, state in names.items() if hasattr(aten, n)}


_KNOWN = _known()
_FIRST = _several()
