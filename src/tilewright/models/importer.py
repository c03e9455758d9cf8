"""Imports an ONNX model as a graph: known operators under PyTorch's names, other operators as opaque nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.core import Extent, TensorSpec, TilewrightError, UsageError
from tilewright.dtypes import VALUES
from tilewright.extent import for_every_size, values_at, varies
from tilewright.graph import Graph, Node, distribute, fold_batch_norms
from tilewright.graph.importing import Importing
from tilewright.graph.operations import ONNX, REFUSED, Left
from tilewright.graph.operations.handlers import OnnxHandler
from tilewright.kernels.expression.expr import INTEGERS
from tilewright.models.expanding import Expanding
from tilewright.models.folding import Folding
from tilewright.models.inference import Types
from tilewright.models.lengths import Lengths, has_symbolic_lengths, lengths_of
from tilewright.models.model_file import OPSETS, Array, Model, onnx_module, operator_name
from tilewright.models.sessions import dtype_kind, dtype_name, reads_of

NOT_TAKEN = (Left, TilewrightError, ArithmeticError, LookupError, TypeError, ValueError)
"""Exceptions that handlers raise for nodes that they do not take."""

WRAPPING = ("Gemm", "MatMul")
"""Operators whose integer sums wrap around; product kernels do not guarantee that."""


@dataclass(frozen=True, eq=False)
class Imported:
    """A model as a graph. Values have the model's names, except for values that start with ``made``.

    ``stated``: the graph before batch norms were folded and elementwise operations moved to parts of concatenations.
    ``producer``: the number of the ONNX node that gives a value. ``left``: opaque ONNX operators, with the reason.
    ``unshaped``: values whose shape or type is known only at run time. ``folded``: constants by name, the model's own
    and folded ones. ``nodes``: the ONNX nodes, with functions, and branches and loops of known control flow, expanded.
    ``lengths``: values that follow from symbolic sizes alone, as expressions of them.
    """

    model: Model
    graph: Graph
    stated: Graph
    producer: Mapping[str, int]
    left: Mapping[str, str]
    unshaped: frozenset[str]
    folded: Mapping[str, Array]
    nodes: Sequence[Any]
    lengths: Mapping[str, Lengths]


LENGTHS = "lengths"
"""The opaque operation that gives values which follow from symbolic sizes."""

Made = tuple[str, dict[str, Any], tuple[int, ...], str]


class Importer(Importing):
    """The interface for handlers of ONNX operators: values by their ONNX names, and a graph builder.

    ``model``: as :func:`~tilewright.models.model_file.read_model` returns it. ``handlers``: by operator. ``leave``:
    nodes that stay with onnxruntime, by their first output, with the reason.
    """

    def __init__(
        self, model: Model, handlers: Mapping[str, OnnxHandler] = ONNX, leave: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self.handlers = handlers
        self.lengths: dict[str, Lengths] = {}
        self.made: dict[str, tuple[Made, ...]] = {}
        self._leave = leave or {}
        self.onnx = onnx_module()
        self.model = model
        self.unshaped: set[str] = set()
        self.left: dict[str, str] = {}
        self.opset = model.opset()
        self._greatest: dict[str, Array] = {}
        self.types = Types(model, self.constants, self._greatest)
        self._expanding = Expanding(model, self.constants, self._kind)
        self._nodes: list[Any] = []
        self._producer: dict[str, int] = {}
        self._whole = False
        self._read = {v.name for v in model.proto.graph.output}

    def run(self) -> Imported:
        """The model as a graph. Raises ``UsageError`` for inputs and weights that cannot be read."""
        graph = self.model.proto.graph
        for tensor in graph.initializer:
            self.known_as(tensor.name, self.model.array(tensor))
        for value in graph.input:
            if value.name not in self.constants:
                self._input(value)
        with Folding(self.model, self.constants, self._known_shape) as folding:
            for tensor in graph.sparse_initializer:
                self.known_as(tensor.values.name, folding.dense(tensor))
            self._several(graph.node, folding)
        outputs = [v.name for v in graph.output]
        unknown = next((n for n in outputs if n not in self.builder.values), None)
        if unknown is not None:
            raise UsageError(f"no operator computes the output {unknown}", "Export the model again")
        stated = self.builder.build(outputs)
        return Imported(
            self.model, distribute(fold_batch_norms(stated)), stated, self._producer, self.left,
            frozenset(self.unshaped), self.constants, self._nodes, self.lengths,
        )  # fmt: skip

    def _input(self, value: Any) -> None:
        shape = self.model.shapes[value.name]
        spec = self.types.declare(value, tuple(map(int, shape)))
        if spec is None:
            raise UsageError(f"the input {value.name} has no element type", "Export the model with one")
        self.builder.input(spec.name, shape, spec.dtype)

    def _several(self, nodes: Sequence[Any], folding: Folding) -> None:
        self._read.update(n for node in nodes for n in reads_of(node))
        for node in nodes:
            self._node(node, folding)

    def _node(self, node: Any, folding: Folding) -> None:
        inferred = self.types.infer(node)
        if self.model.symbolic_sizes and self._lengths(node, inferred):
            return
        folded = folding.fold(node, inferred)
        if folded is not None:
            for name, array in folded.items():
                self.known_as(name, array)
            return
        handler = self.handlers.get(operator_name(node))
        try:
            with self.builder.attempt():
                if node.output[0] in self._leave:
                    raise Left(self._leave[node.output[0]])
                if handler is None:
                    raise Left(REFUSED.get(operator_name(node), "the operator is not known"))
                self._check_known(node)
                before = len(self.builder.nodes)
                with for_every_size():
                    handler(self, node, self.attributes(node))
                self._check_made(node, inferred)
            self.made[node.output[0]] = tuple(self._made_of(n) for n in self.builder.nodes[before:])
            self._keep(node)
        except NOT_TAKEN as e:
            why = self._expanded(node, folding, getattr(e, "message", None) or str(e) or type(e).__name__)
            if why:
                self._opaque(node, why)

    def _lengths(self, node: Any, inferred: Mapping[str, Any] | None) -> bool:
        """Enters a node whose results follow from symbolic sizes, as expressions of them; whether the node is of that
        kind."""
        found = lengths_of(
            node, lambda n: self.lengths[n].values if n in self.lengths else self.constants.get(n), self._shape_of
        )
        kind = (inferred or {}).get(node.output[0])
        if found is None or kind is None or not kind.tensor_type.elem_type:
            return False
        (name,), dtype = node.output, dtype_name(kind.tensor_type.elem_type)
        if not has_symbolic_lengths(found):
            self.known_as(name, found.astype(dtype))
            return True
        self.lengths[name] = Lengths(found, dtype)
        self._greatest[name] = found.astype(dtype)
        self.builder.add_opaque(LENGTHS, [], [TensorSpec(name, found.shape, dtype)])
        return True

    def _made_of(self, node: Node) -> Made:
        """A node that a handler added, without its name: operation, attributes, shape and element type."""
        spec = self.spec(node.output)
        return node.operation, dict(node.attributes), spec.shape, spec.dtype

    def _expanded(self, node: Any, folding: Folding, why: str) -> str:
        """Replaces a node by its expansion. Returns an empty string, or the reason why the node stays as it is."""
        try:
            found = self._expanding.expand(node)
        except NOT_TAKEN:
            return why
        if found is None:
            return why
        whole, left, nodes = self._whole, dict(self.left), len(self._nodes)
        self._whole = whole or found.whole
        try:
            with self.builder.attempt():
                for name, array in found.constants.items():
                    self.known_as(name, array)
                self._several(found.nodes, folding)
        except Left as e:
            if whole or not found.whole:
                raise
            for name in [n for n in self.constants if n not in self.builder.values]:
                del self.constants[name]
            self.left = left
            del self._nodes[nodes:]
            return why if operator_name(node) in self.handlers else str(e)
        finally:
            self._whole = whole
        return ""

    # ----------------------------------------------------------------- interface of handlers

    def wanted(self, node: Any) -> list[str]:
        """The node's outputs that are read."""
        return [n for n in node.output if n and n in self._read]

    def known(self, name: str) -> Array:
        """A constant's array. Raises ``Left`` for other values."""
        if name not in self.constants:
            raise Left("an argument is known only when the model runs")
        return self.constants[name]

    def numbers(self, name: str) -> tuple[int, ...]:
        """A constant's integers; extents where they follow from symbolic sizes."""
        if name in self.lengths:
            return tuple(self.lengths[name].values.reshape(-1))
        return tuple(int(v) for v in self.known(name).reshape(-1))

    def attributes(self, node: Any) -> dict[str, Any]:
        """A node's attributes by name, with strings as ``str``."""
        get = self.onnx.helper.get_attribute_value
        return {a.name: _text(get(a)) for a in node.attribute}

    # ----------------------------------------------------------------- nodes that handlers do not state

    def _check_known(self, node: Any) -> None:
        if self.opset < OPSETS[0] and self.types.since(node, self.opset) != self.types.since(node, OPSETS[0]):
            raise Left(f"it means something else before operator set {OPSETS[0]}")
        for name in filter(None, node.input):
            if name in self.unshaped:
                raise Left("a shape is known only when the model runs")
            if name not in self.builder.values:
                raise Left("a value is not a tensor")
            if 0 in self.shape(name) and name not in self.constants:
                raise Left("a tensor is empty")
            if self.spec(name).dtype not in VALUES:
                raise Left(f"an input is {self.spec(name).dtype}")
        if node.op_type in WRAPPING and self.spec(node.input[0]).dtype in INTEGERS:
            raise Left("whole numbers wrap around, which kernels do not promise")

    def _check_made(self, node: Any, inferred: Mapping[str, Any] | None) -> None:
        """Raises ``Left`` where a handler's results differ from the shapes and element types that ONNX infers."""
        if inferred is None:
            raise Left("its shapes or types do not fit together")
        for name in self.wanted(node):
            spec, kind = self.spec(name), inferred.get(name)
            self.types.enter(spec)
            if kind is None or not kind.HasField("tensor_type"):
                continue
            wanted = kind.tensor_type
            if wanted.elem_type and wanted.elem_type != dtype_kind(spec.dtype):
                raise Left(f"kernels do not compute in {self.spec(node.input[0]).dtype}")
            dims = [d.dim_value if d.HasField("dim_value") else None for d in wanted.shape.dim]
            made = tuple(map(int, spec.shape))  # the greatest sizes
            if wanted.HasField("shape") and (
                len(dims) != len(made) or any(d not in (None, n) for d, n in zip(dims, made, strict=True))
            ):
                raise Left(f"it gives {made}, not {tuple(dims)}")

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        return self.shape(name) if name in self.builder.values and name not in self.unshaped else None

    def _known_shape(self, name: str) -> tuple[int, ...] | None:
        """A value's shape, if it has no symbolic dimension."""
        shape = self._shape_of(name)
        return None if shape is None or varies(shape) else shape

    def _kind(self, name: str) -> Any:
        """A value's ``TypeProto`` for every size; ``None`` for a value of unknown type."""
        if not self.model.symbolic_sizes or name not in self.builder.values:
            return self.types.of(name)
        return None if name in self.unshaped else self.types.symbolic_type(self.spec(name))

    def _keep(self, node: Any) -> None:
        self._producer.update((n, len(self._nodes)) for n in node.output if n)
        self._nodes.append(node)

    def _symbolic_output(self, node: Any, spec: TensorSpec, reads: Sequence[str]) -> TensorSpec | None:
        """The specification of an onnxruntime output with symbolic sizes; ``None`` if its shape is not known for every
        size."""
        stated = self.types.symbolic_output(node, spec, {n: self._kind(n) for n in reads})
        if stated is not None or any(n in self.unshaped or n not in self.builder.values for n in reads):
            return stated
        return self.types.fitted_output(node, spec, {n: self.spec(n) for n in reads}, self.lengths)

    def _opaque(self, node: Any, why: str) -> None:
        name = operator_name(node)
        if self._whole:
            raise Left(why if " of its " in why else f"{why} ({name} of its function)")
        self._keep(node)
        self.left.setdefault(name, why)
        outputs = []
        reads = reads_of(node)
        changes = any(n in self.lengths or n in self.unshaped or varies(self._shape_of(n)) for n in reads)
        for output, spec in self.types.of_outputs(node).items():
            if spec is not None and changes:
                spec = self._symbolic_output(node, spec, reads)
            if spec is None:
                self.unshaped.add(output)
            outputs.append(spec or TensorSpec(output, (), "unknown"))
        if outputs:
            self.builder.add_opaque(f"onnx::{name}", [n for n in reads if n in self.builder.values], outputs)


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(v) for v in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value


# --------------------------------------------------------------------------- symbolic sizes

# A model with symbolic sizes is imported once for all sizes, and compared with imports at fixed sizes.


SHARES = (0.0, 0.55)
"""Positions in the ranges of sizes at which a model is imported again for comparison."""

OTHERWISE = "it is stated otherwise for some of the sizes"


def imported(model: Model) -> Imported:
    """The model as a graph. Raises ``UsageError`` for inputs and weights that cannot be read.

    Each operator is stated by one expression for all sizes. It is left to onnxruntime in two cases: a comparison of
    sizes has no answer for the whole range, or the import at fixed sizes states the operator differently.
    """
    leave: dict[str, str] = {}
    while True:
        importer = Importer(model, leave=leave)
        found = importer.run()
        wrong = {n for sizes in tried(model.symbolic_sizes) for n in _different(importer, model, sizes)} - leave.keys()
        if not wrong:
            return found
        leave.update(dict.fromkeys(wrong, OTHERWISE))


def tried(extents: Mapping[str, Extent]) -> Iterator[dict[str, int]]:
    """Sizes at which a model is imported for comparison; a size above 1 wherever possible, as 1 is a special case."""
    if extents:
        for share in SHARES:
            yield {n: max(e.low + round(share * (e.high - e.low)), min(2, e.high)) for n, e in extents.items()}


def _different(importer: Importer, model: Model, sizes: Mapping[str, int]) -> Iterator[str]:
    """The first outputs of nodes that are stated differently at these sizes."""
    other = Importer(model.at(sizes))
    other.run()
    for name, made in importer.made.items():
        theirs = other.made.get(name)
        if theirs is None and name in other.constants:
            continue
        if theirs is None or repr(values_at(made, sizes)) != repr(theirs):
            yield name
