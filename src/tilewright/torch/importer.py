"""Imports PyTorch's FX graphs of ATen operators as graphs of named operations; unknown operators become opaque."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx import GraphModule, Node

from tilewright.core import Extent, TensorSpec, TilewrightError
from tilewright.extent import for_every_size, simplified_extent
from tilewright.graph import Graph
from tilewright.graph.importing import Importing
from tilewright.graph.ir import Array
from tilewright.graph.operations import ATEN, REFUSED, Left
from tilewright.graph.operations.handlers import Call, Symbolic, Value
from tilewright.torch.devices import has_kernels
from tilewright.torch.extents import length

aten = torch.ops.aten


@dataclass(frozen=True)
class Imported:
    """A graph and, by value, the FX node that gives it. ``left``: opaque operators, with the reason."""

    graph: Graph
    nodes: Mapping[str, Node]
    left: Mapping[str, str]


Extents = Mapping[Any, Extent]
"""Extents of PyTorch's symbols of sizes."""

NO_EXTENTS: Extents = MappingProxyType({})


def spec_of(node: Node, extents: Extents = NO_EXTENTS) -> TensorSpec | None:
    """The specification of a node's tensor; ``None`` for a value that is no dense tensor on a device with kernels.

    Symbolic sizes become ``extents``; without extents they have their value in the call that PyTorch traced.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not has_kernels(value.device) or value.layout is not torch.strided:
        return None
    shape = [_length(n, extents) for n in value.shape]
    if any(n is None or n < 1 for n in shape) or any((_number(s) or 0) < 0 for s in value.stride()):
        return None
    return TensorSpec(node.name, tuple(n for n in shape if n is not None), _dtype_name(value.dtype))


def _number(n: Any) -> int | None:
    """A size, or a symbolic size's value while tracing; ``None`` where that is not known."""
    if isinstance(n, int):
        return n
    known = n.node.hint if isinstance(n, torch.SymInt) else None
    return int(known) if known is not None else None


def _length(n: Any, extents: Extents) -> int | None:
    """A size; with ``extents``, a symbolic size as an expression of them. ``None`` where the size is unknown or
    unbounded."""
    if not extents or not isinstance(n, torch.SymInt):
        return _number(n)
    try:
        return simplified_extent(length(n.node.expr, extents))
    except LookupError:
        return None


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dense(node: Node) -> bool:
    """Whether a node's tensor is stored row-major without gaps."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_contiguous() and not value.is_conj() and not value.is_neg()


def imported(
    module: GraphModule, weights: frozenset[str] = frozenset(), extents: Extents = NO_EXTENTS
) -> Imported | None:
    """The graph of a module; ``None`` for a module without tensor outputs.

    ``weights``: inputs that seldom change. ``extents``: symbolic sizes that stay symbolic; remaining sizes have their
    value in the call that PyTorch traced.
    """
    importer = _Importer(weights, extents)
    outputs: list[str] = []
    for node in module.graph.nodes:
        if node.op == "output":
            outputs = list(dict.fromkeys(a.name for a in node.all_input_nodes))
        else:
            importer.read(node)
    return Imported(importer.builder.build(outputs), importer.nodes, importer.left) if outputs else None


class _Importer(Importing):
    def __init__(self, weights: frozenset[str], extents: Extents) -> None:
        super().__init__()
        self.weights, self.extents = weights, extents
        self.nodes: dict[str, Node] = {}
        self.left: dict[str, str] = {}

    def read(self, node: Node) -> None:
        self.nodes[node.name] = node
        spec = spec_of(node, self.extents)
        if node.op in ("placeholder", "get_attr") or _brought(node):
            given = spec or TensorSpec(node.name, (1,), "float32")
            self.builder.input(node.name, given.shape, given.dtype, node.name in self.weights)
            return
        source, result = _result(node)
        try:
            with self.builder.attempt(), for_every_size():
                self._state(node, source, result, spec)
        except (Left, TilewrightError, ArithmeticError, LookupError, TypeError, ValueError) as e:
            self._opaque(node, source, spec, getattr(e, "message", None) or str(e) or type(e).__name__)

    def transposed_source(self, name: str) -> str | None:
        node = self.nodes.get(name)
        source: Any = node.args[0] if node is not None and node.args else None
        if not isinstance(source, Node) or not dense(source) or len(source.meta["val"].shape) != 2:
            return None
        assert node is not None
        rest: Any = node.args[1:]
        turns = node.target is aten.t.default or (node.target is aten.permute.default and list(rest[0]) == [1, 0])
        return source.name if turns else None

    def _state(self, node: Node, source: Node, result: int, spec: TensorSpec | None) -> None:
        """Adds operations that compute exactly what the node computes. Raises :class:`Left`, and the handler's
        exceptions."""
        handler = ATEN.get(name_of(source))
        if handler is None:
            raise Left(REFUSED.get(name_of(source), "the operator is not known"))
        if spec is None:
            raise Left("it gives no tensor that has elements on a device with kernels")
        if source.target is aten.clone.default and not dense(node):
            raise Left("it copies into another order")
        if source.target is aten.as_strided.default and not all(dense(n) for n in source.all_input_nodes):
            raise Left("its input does not lie row-major")
        read = [n for n in source.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
        if any(spec_of(n) is None for n in read):
            raise Left("it reads no tensor that has elements on a device with kernels")
        numbers = self._numbers([n for n in read if n.meta["val"].device != node.meta["val"].device])
        arguments, given = _arguments(source, self.extents, numbers)
        operator_name = name_of(source).partition(".")[0]
        handler(self, Call(operator_name, arguments, given, result, spec, node.name))
        made = self.spec(node.name)
        if (made.shape, made.dtype) != (spec.shape, spec.dtype):
            raise Left(f"it gives {spec.dtype} of shape {spec.shape}, not {made.dtype} of shape {made.shape}")

    def _numbers(self, elsewhere: list[Node]) -> dict[str, str]:
        """One-element tensors on the processor, as constants: operators on every device accept them.

        Raises :class:`Left` for other tensors on another device.
        """
        found = {}
        for node in elsewhere:
            number = _number_of(node)
            if number is None:
                raise Left("its tensors are on several devices")
            found[node.name] = self.constant(number)
        return found

    def _opaque(self, node: Node, source: Node, spec: TensorSpec | None, why: str) -> None:
        if isinstance(node.meta.get("val"), torch.Tensor):
            self.left.setdefault(name_of(source), why)
        reads = [n.name for n in node.all_input_nodes]
        made = spec or TensorSpec(node.name, (1,), "float32")
        self.builder.add_opaque(f"fx::{node.target}", reads, [TensorSpec(node.name, made.shape, made.dtype)])


def _brought(node: Node) -> bool:
    """Whether a node copies an input of the graph to another device, before anything is computed."""
    source = node.args[0] if node.target in _COPIES and node.args else None
    if not isinstance(source, Node) or not isinstance(source.meta.get("val"), torch.Tensor):
        return False
    return source.meta["val"].device != node.meta["val"].device and _given(source)


def _given(node: Node) -> bool:
    """Whether a node is an input of the graph, or a copy of an input."""
    while node.op == "call_function" and node.target in _COPIES:
        (node,) = node.all_input_nodes
    return node.op in ("placeholder", "get_attr")


def _number_of(node: Node) -> Array | None:
    """The number that a node gives, if it is a constant of the graph."""
    while node.target is aten.lift_fresh_copy.default:
        (node,) = node.all_input_nodes
    held = getattr(node.graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
    if not isinstance(held, torch.Tensor) or isinstance(held, FakeTensor) or held.dim() or not held.is_cpu:
        return None
    with unset_fake_temporarily():
        return None if held.dtype is torch.bfloat16 else held.detach().numpy()


_COPIES = {aten._to_copy.default, aten.lift_fresh_copy.default, torch.ops.prims.device_put.default}


def overload_name(operator: Any) -> str:
    """An ATen operator's name with its overload (``add.Tensor``); without the overload if it is the default."""
    if not isinstance(operator, torch._ops.OpOverload):
        return str(operator)
    return str(operator).removeprefix("aten.").removesuffix(".default")


def name_of(node: Node) -> str:
    """The name of a node's operator; see :func:`overload_name`."""
    return overload_name(node.target)


def _result(node: Node) -> tuple[Node, int]:
    """The node that computes a value, and the value's index among that node's results."""
    if node.target is operator.getitem:
        source, place = node.args
        if isinstance(source, Node) and isinstance(place, int) and source.op == "call_function":
            return source, place
    return node, 0


def _arguments(node: Node, extents: Extents, numbers: Mapping[str, str]) -> tuple[dict[str, Any], frozenset[str]]:
    """A node's arguments by name, with defaults filled in, and the names of arguments that differ from their defaults.

    ``numbers``: the constants that replace one-element tensors, by the tensors' names.
    """
    target: Any = node.target
    found, given = {}, set()
    for k, a in enumerate(target._schema.arguments):
        name = "input" if a.name == "self" else a.name
        default = a.default_value if a.has_default_value() else None
        if k < len(node.args) and not a.kwarg_only:
            value: Any = node.args[k]
        else:
            value = node.kwargs.get(a.name, default)
        if value is not default and (isinstance(value, Node) or value != default):
            given.add(name)
        found[name] = _argument(value, extents, numbers)
    return found, frozenset(given)


def _argument(value: Any, extents: Extents, numbers: Mapping[str, str]) -> Any:
    if isinstance(value, Node):
        given = value.meta.get("val")
        if isinstance(given, torch.SymInt):
            with suppress(LookupError):
                return length(given.node.expr, extents)
        return Value(numbers.get(value.name, value.name)) if isinstance(given, torch.Tensor) else Symbolic()
    if isinstance(value, torch.dtype):
        return _dtype_name(value)
    if isinstance(value, list | tuple):
        return [_argument(v, extents, numbers) for v in value]
    return value
