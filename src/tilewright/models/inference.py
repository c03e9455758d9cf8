"""Shapes and element types of a model's values, by ONNX's inference, by onnxruntime's, or as the file states them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.core import Extent, TensorSpec, TilewrightError
from tilewright.extent import Sizes, bounds, extents_among, greatest
from tilewright.models.lengths import Lengths
from tilewright.models.model_file import STANDARD, Array, Model, onnx_module
from tilewright.models.sessions import Session, dtype_kind, dtype_name, fixed_shape, part_of, reads_of

FEW = 1024
"""Most elements of a constant that is passed to shape inference, such as axes, sizes and scales."""

TRIED = 24
"""Number of steps from the least to the greatest size at which a shape is inferred."""

MOST_PARTS = 16
"""Largest multiplier and divisor in the expression that is fitted to a shape."""


class Types:
    """The known types of values, inferred node by node in the model's order.

    Inference computes no values, so a file cannot make it allocate memory. With symbolic sizes, types hold the greatest
    sizes; ``lengths`` are integers that follow from sizes.
    """

    def __init__(self, model: Model, constants: dict[str, Array], lengths: dict[str, Array]) -> None:
        self.onnx = onnx_module()
        self._fixed = constants
        self.model, self.constants = model, ChainMap(lengths, constants)
        self._sizes = model.at(greatest(model.symbolic_sizes)).named_sizes
        self._known: dict[str, Any] = {}
        self._stated = {v.name: v.type for v in (*model.proto.graph.value_info, *model.proto.graph.output)}
        self._tensors: dict[str, Any] = {}
        self._named: dict[str, Extent] = {}

    def declare(self, value: Any, shape: tuple[int, ...]) -> TensorSpec | None:
        """Enters an input of the model with its shape; ``None`` where its element type is missing or unknown."""
        kind = value.type.tensor_type.elem_type
        if kind not in self.onnx.TensorProto.DataType.values():
            return None
        self._known[value.name] = self.onnx.helper.make_tensor_type_proto(kind or 1, shape)
        return TensorSpec(value.name, shape, dtype_name(kind)) if kind else None

    def since(self, node: Any, opset: int) -> int:
        """The operator set that introduced the meaning that a standard operator has in ``opset``."""
        return int(self.onnx.defs.get_schema(node.op_type, opset, "").since_version)

    def infer(self, node: Any) -> Mapping[str, Any] | None:
        """``TypeProto``s of a node's outputs by ONNX's inference; empty where an input's type is unknown, ``None``
        where inputs do not fit."""
        domain = "" if node.domain in STANDARD else node.domain
        if not self.onnx.defs.has(node.op_type, domain):
            return {}
        reads = reads_of(node)
        given = {n: t for n in reads if (t := self.of(n)) is not None}
        if len(given) < len(reads):
            return {}
        data = self._shown(reads, self.constants)
        made = self._inferred(node, given, data)
        self._known.update(made or {})
        return made

    def enter(self, spec: TensorSpec) -> None:
        """Enters a value's type where inference did not find it."""
        if self.spec(spec.name, self._known.get(spec.name)) is None:
            self._known[spec.name] = self.onnx.helper.make_tensor_type_proto(dtype_kind(spec.dtype), spec.shape)

    def of_outputs(self, node: Any) -> dict[str, TensorSpec | None]:
        """The outputs of a node that onnxruntime computes; ``None`` for an output whose type is known only at run time.

        Sources in order: ONNX's inference, onnxruntime's own (also for its contributed operators), the file's
        statement.
        """
        names = [n for n in node.output if n]
        found = {n: self.spec(n, self._known.get(n)) for n in names}
        if None in found.values():
            asked = self._asked(node)
            for name in (n for n, s in found.items() if s is None):
                for kind in (asked.get(name), self._sized(self._stated.get(name))):
                    found[name] = found[name] or self.spec(name, kind)
                    if kind is not None and (name not in self._known or found[name] is not None):
                        self._known[name] = kind
        return found

    def symbolic_type(self, spec: TensorSpec) -> Any:
        """A tensor's type whose symbolic dimensions are named by their expressions."""
        shape = [repr(n) if isinstance(n, Extent) else n for n in spec.shape]
        self._named.update((repr(n), n) for n in spec.shape if isinstance(n, Extent))
        return self.onnx.helper.make_tensor_type_proto(dtype_kind(spec.dtype), shape)

    def symbolic_output(self, node: Any, spec: TensorSpec, given: Mapping[str, Any]) -> TensorSpec | None:
        """An output's specification with symbolic dimensions, by ONNX's inference; ``None`` where inference does not
        find them.

        ``spec``: the output at the greatest sizes. ``given``: types of the node's inputs, from :meth:`symbolic_type`.
        """
        if None in given.values():
            return None
        data = self._shown(given, self._fixed)
        kind = (self._inferred(node, given, data) or {}).get(spec.name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        dims = kind.tensor_type.shape.dim
        if len(dims) != len(spec.shape) or not all(d.HasField("dim_value") or d.dim_param in self._named for d in dims):
            return None
        shape = tuple(self._named[d.dim_param] if d.dim_param else d.dim_value for d in dims)
        return replace(spec, shape=shape) if tuple(map(int, shape)) == spec.shape else None

    def fitted_output(
        self, node: Any, spec: TensorSpec, shapes: Mapping[str, TensorSpec], lengths: Mapping[str, Lengths]
    ) -> TensorSpec | None:
        """An output's specification with each dimension fitted as an expression of its inputs' dimensions.

        ``None`` where no expression holds for all sizes that are tried. ``shapes``: of the inputs; ``lengths``: inputs
        whose numbers follow from symbolic sizes.
        """
        points = list(_points(self.model.symbolic_sizes))
        found = [self._shape_at(node, spec.name, shapes, lengths, sizes) for sizes in points]
        known = [shape for shape in found if shape is not None and len(shape) == len(spec.shape)]
        if len(known) < len(points):
            return None
        lengths_read = [lengths[n].values.reshape(-1) for n in shapes if n in lengths]
        pool = dict.fromkeys(extents_among([*(s.shape for s in shapes.values()), *map(tuple, lengths_read)]))
        made = [_fitted([s[d] for s in known], points, pool) for d in range(len(spec.shape))]
        shape = tuple(n for n in made if n is not None)
        return replace(spec, shape=shape) if tuple(bounds(n)[1] for n in shape) == spec.shape else None

    def _shape_at(
        self, node: Any, name: str, shapes: Mapping[str, TensorSpec], lengths: Mapping[str, Lengths], sizes: Sizes
    ) -> tuple[int, ...] | None:
        """An output's shape at these sizes, by ONNX's inference."""
        given = {n: self.symbolic_type(s.at(sizes)) for n, s in shapes.items()}
        data = self._shown(given, self._fixed)
        data |= {n: self.onnx.numpy_helper.from_array(lengths[n].at(sizes), n) for n in given if n in lengths}
        made = self._inferred(node, given, data)
        found = None if made is None else self.spec(name, made.get(name))
        return None if found is None else found.shape

    def _inferred(self, node: Any, given: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any] | None:
        """``TypeProto``s of a node's outputs by ONNX's inference; ``None`` where it fails."""
        domain = "" if node.domain in STANDARD else node.domain
        try:
            schema = self.onnx.defs.get_schema(node.op_type, self.model.opset(domain), domain)
            made: dict[str, Any] = self.onnx.shape_inference.infer_node_outputs(
                schema, node, dict(given), dict(data), opset_imports=list(self.model.proto.opset_import)
            )
        except Exception:  # ONNX's errors have no common class
            return None
        return made

    def _asked(self, node: Any) -> dict[str, Any]:
        reads = reads_of(node)
        outside = [n for n in reads if n not in self.constants]
        if any(self.of(n) is None for n in outside):
            return {}
        make = self.onnx.helper.make_value_info
        inputs = [make(n, self.of(n)) for n in outside]
        constants = {n: self.constants[n] for n in reads if n in self.constants}
        part = part_of(self.model, [node], inputs, [n for n in node.output if n], constants)
        try:
            session = Session(*part, optimised=False)
        except TilewrightError:
            return {}
        return {n: v.type for n, v in session.types().items()}

    def _sized(self, kind: Any) -> Any:
        """A type that the file states, with sizes put in for its named axes."""
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
            return None
        made = self.onnx.TypeProto()
        made.CopyFrom(kind)
        for dim in made.tensor_type.shape.dim:
            if dim.dim_param in self._sizes:
                dim.dim_value = self._sizes[dim.dim_param]
        return made

    def of(self, name: str) -> Any:
        """The ``TypeProto`` of a value; ``None`` for a value of unknown type."""
        if name not in self._known and name in self.constants:
            array = self.constants[name]
            kind = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            self._known[name] = self.onnx.helper.make_tensor_type_proto(kind, array.shape)
        return self._known.get(name)

    def _shown(self, names: Iterable[str], constants: Mapping[str, Array]) -> dict[str, Any]:
        """The ``TensorProto``s of the small constants among the named values, which inference may read."""
        return {n: self._tensor(n) for n in names if n in constants and constants[n].size <= FEW}

    def _tensor(self, name: str) -> Any:
        if name not in self._tensors:
            self._tensors[name] = self.onnx.numpy_helper.from_array(self.constants[name], name)
        return self._tensors[name]

    @staticmethod
    def spec(name: str, kind: Any) -> TensorSpec | None:
        """A tensor's specification; ``None`` where a dimension or the element type is unknown."""
        shape = fixed_shape(kind)
        if shape is None or min(shape, default=0) < 0 or not kind.tensor_type.elem_type:
            return None
        return TensorSpec(name, shape, dtype_name(kind.tensor_type.elem_type))


def _points(extents: Mapping[str, Extent]) -> Iterator[dict[str, int]]:
    """Sizes to try: each size from least to greatest with the remaining sizes in the middle, and all sizes at both
    ends."""
    middle = {n: (e.low + e.high) // 2 for n, e in extents.items()}
    for name, e in extents.items():
        step = max(1, (e.high - e.low) // TRIED)
        yield from ({**middle, name: size} for size in {*range(e.low, e.high + 1, step), e.high, e.high - 1})
    yield {n: e.low for n, e in extents.items()}
    yield greatest(extents)


def _fitted(lengths: Sequence[int], points: Sequence[Sizes], pool: Iterable[Extent]) -> int | None:
    """The constant, or ``(extent * times + term) // by``, that gives all of these lengths; ``None`` without a match."""
    if len(set(lengths)) == 1:
        return lengths[0]
    for e in pool:
        values = [e.at(sizes) for sizes in points]
        for by in range(1, MOST_PARTS + 1):
            for times in range(1, MOST_PARTS + 1):
                least = max(n * by - times * v for n, v in zip(lengths, values, strict=True))
                most = min(n * by - times * v + by - 1 for n, v in zip(lengths, values, strict=True))
                if least <= most:
                    return (e * times + least) // by
    return None
