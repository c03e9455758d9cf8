"""From an ONNX model to a graph: known operators under PyTorch's names, the others opaque."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.core import TensorSpec, TilewrightError, UsageError
from tilewright.graph import Graph, GraphBuilder, fold_batch_norms
from tilewright.kernels.expression.expr import DTYPES
from tilewright.models.model_file import onnx_module

Array = np.ndarray[Any, Any]

LARGEST_FOLDED = 1 << 24
"""Elements of a constant that is computed from constants."""


class Left(Exception):
    """The operator is left to onnxruntime, for this reason."""


@dataclass(frozen=True, eq=False)
class Imported:
    """A model as a graph. ``model``: the ``ModelProto``, whose values the graph's names are, those in ``made`` apart.

    ``producer``: the number of the ONNX node that gives a value. ``left``: ONNX operators that are opaque, and why.
    ``unshaped``: values whose shape or type is not known before the model runs. ``folded``: values of the model that
    are known now, its own constants among them.
    """

    model: Any
    graph: Graph
    producer: Mapping[str, int]
    left: Mapping[str, str]
    unshaped: frozenset[str]
    folded: Mapping[str, Array]


class Importer:
    """What handlers of operators work with: values by their ONNX names, and a builder.

    ``model`` is what :func:`~tilewright.models.model_file.read_model` gave; ``handlers`` are those of
    :mod:`~tilewright.models.operators`.
    """

    def __init__(self, model: Any, handlers: Mapping[str, Handler]) -> None:
        self.handlers = handlers
        self.onnx = onnx_module()
        self.model = model
        self.builder = GraphBuilder()
        self.constants: dict[str, Array] = {}
        self.unshaped: set[str] = set()
        self.left: dict[str, str] = {}
        self.opset = next(s.version for s in model.opset_import if s.domain in ("", "ai.onnx"))
        self.inferred = {v.name: v for v in (*model.graph.value_info, *model.graph.output, *model.graph.input)}
        self._made = 0

    def run(self) -> Imported:
        """The model as a graph."""
        graph = self.model.graph
        for tensor in graph.initializer:
            self.constant(tensor.name, self.onnx.numpy_helper.to_array(tensor))
        for value in graph.input:
            if value.name not in self.constants:
                spec = self.inferred_spec(value.name)
                if spec is None:
                    raise UsageError(
                        f"the input {value.name} is no tensor of a known type and size",
                        f"Known are {', '.join(DTYPES)}",
                    )
                self.builder.input(spec.name, spec.shape, spec.dtype)
        producer: dict[str, int] = {}
        for number, node in enumerate(graph.node):
            for name in node.output:
                if name:
                    producer[name] = number
            if self._fold(node):
                continue
            handler = self.handlers.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            try:
                if handler is None:
                    raise Left("the operator is not known")
                if any(n in self.unshaped for n in node.input):
                    raise Left("a shape is known only when the model runs")
                self._check_known(node)
                handler(self, node, self.attributes(node))
            except (Left, TilewrightError, KeyError, ValueError, IndexError) as e:
                self._opaque(node, getattr(e, "message", None) or str(e) or type(e).__name__)
        outputs = [v.name for v in graph.output]
        for name in outputs:
            if name in self.constants:
                self.builder.values.setdefault(name, self.spec(name))
        built = fold_batch_norms(self.builder.build(outputs))
        return Imported(self.model, built, producer, self.left, frozenset(self.unshaped), self.constants)

    # ----------------------------------------------------------------- for handlers

    def constant(self, name: str, array: Array) -> str:
        self.constants[name] = array
        if array.dtype.name in DTYPES:
            self.builder.constant(name, np.ascontiguousarray(array).reshape(array.shape))
        else:
            self.unshaped.add(name)
        return name

    def fresh(self, array: Array) -> str:
        """A constant that the model does not have."""
        self._made += 1
        return self.constant(f"made/{self._made}", array)

    def spec(self, name: str) -> TensorSpec:
        return self.builder.values[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.spec(name).shape

    def known(self, name: str) -> Array:
        """What a constant holds. Raises ``Left``."""
        if name not in self.constants:
            raise Left("an argument is known only when the model runs")
        return self.constants[name]

    def numbers(self, name: str) -> tuple[int, ...]:
        """A constant's whole numbers."""
        return tuple(int(v) for v in self.known(name).reshape(-1))

    def add(self, operation: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        return self.builder.add(operation, inputs, attributes, output=output)

    def same(self, name: str, output: str) -> str:
        """A value under another name."""
        return self.add("reshape", [name], output, shape=self.shape(name))

    def attributes(self, node: Any) -> dict[str, Any]:
        get = self.onnx.helper.get_attribute_value
        return {a.name: get(a) for a in node.attribute}

    # ----------------------------------------------------------------- what is not stated

    def inferred_spec(self, name: str) -> TensorSpec | None:
        """Shape and dtype as ONNX's shape inference has them; ``None`` where it does not know."""
        value = self.inferred.get(name)
        if value is None or not value.type.HasField("tensor_type"):
            return None
        kind = value.type.tensor_type
        if not kind.elem_type or not kind.HasField("shape"):
            return None
        dims = tuple(d.dim_value if d.HasField("dim_value") else 0 for d in kind.shape.dim)
        dtype = self.onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
        return TensorSpec(name, dims, dtype) if all(dims) and dtype in DTYPES else None

    def _check_known(self, node: Any) -> None:
        for name in node.input:
            if name and name not in self.builder.values:
                raise Left("a value is no tensor")
            if name and 0 in self.shape(name) and not self._lists(name):
                raise Left("a tensor is empty")

    def _lists(self, name: str) -> bool:
        """Whether a value is a constant of whole numbers: axes or sizes, of which there may be none."""
        return name in self.constants and self.constants[name].dtype.kind == "i"

    def _opaque(self, node: Any, why: str) -> None:
        name = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        self.left.setdefault(name, why)
        outputs = []
        for output in node.output:
            if not output or output in self.builder.values:
                continue
            spec = self.inferred_spec(output)
            if spec is None:
                self.unshaped.add(output)
                spec = TensorSpec(output, (), "float32")
            outputs.append(spec)
        reads = [n for n in (*node.input, *captured(node)) if n in self.builder.values]
        if outputs:
            self.builder.add_opaque(f"onnx::{name}", reads, outputs)

    def _fold(self, node: Any) -> bool:
        """Compute what follows from constants and shapes now; whether it did."""
        reads = [n for n in node.input if n]
        if node.op_type == "Shape" and reads and reads[0] in self.builder.values and reads[0] not in self.unshaped:
            shape, known = np.array(self.shape(reads[0]), np.int64), self.attributes(node)
            self.constant(node.output[0], shape[known.get("start", 0) : known.get("end", len(shape))])
            return True
        if any(n not in self.constants for n in reads) or node.op_type.startswith("Random") or len(node.output) == 0:
            return False
        if any(a.HasField("g") for a in node.attribute) or node.domain not in ("", "ai.onnx"):
            return False
        helper = self.onnx.helper
        outputs = [n for n in node.output if n]
        graph = helper.make_graph(
            [node],
            "folded",
            [self._typed(n) for n in dict.fromkeys(reads)],
            [helper.make_empty_tensor_value_info(n) for n in outputs],
        )
        model = helper.make_model(graph, opset_imports=list(self.model.opset_import))
        try:
            made = self.onnx.reference.ReferenceEvaluator(model).run(None, {n: self.constants[n] for n in reads})
        except Exception:  # an operator that the reference lacks is computed when the model runs
            return False
        if any(not isinstance(a, np.ndarray | np.generic) or np.size(a) > LARGEST_FOLDED for a in made):
            return False
        for name, array in zip(outputs, made, strict=True):
            self.constant(name, np.asarray(array))
        return True

    def _typed(self, name: str) -> Any:
        array = self.constants[name]
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        return self.onnx.helper.make_tensor_value_info(name, kind, array.shape)


def captured(node: Any) -> list[str]:
    """Values from outside that a node's subgraphs read."""
    found: list[str] = []
    for a in node.attribute:
        for graph in [a.g] if a.HasField("g") else a.graphs:
            own = {t.name for t in graph.initializer} | {v.name for v in graph.input}
            own |= {o for n in graph.node for o in n.output}
            for n in graph.node:
                found += [x for x in (*n.input, *captured(n)) if x and x not in own]
            found += [v.name for v in graph.output if v.name not in own]
    return found


Handler = Callable[[Importer, Any, dict[str, Any]], object]
