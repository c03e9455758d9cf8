"""Shapes and element types of a model's values: by ONNX's inference, by onnxruntime's, or as the file states them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilewright.core import Extent, TensorSpec, TilewrightError
from tilewright.extent import greatest, read_size
from tilewright.models.model_file import STANDARD, Array, Model, onnx_module
from tilewright.models.sessions import Session, captured, dtype_kind, dtype_name, part_of

FEW = 1024
"""Elements of a constant that inference is shown: axes, sizes, scales."""


class Types:
    """What is known of each value, node by node, in the order of the model.

    Only nodes are looked at whose inputs are: nothing is computed, so that no memory is taken for what a file claims.
    Where sizes stay open all is known for the greatest; ``lengths`` are whole numbers that follow from these.
    """

    def __init__(self, model: Model, constants: dict[str, Array], lengths: dict[str, Array]) -> None:
        self.onnx = onnx_module()
        self._fixed = constants
        self.model, self.constants = model, ChainMap(lengths, constants)
        self._sizes = model.at(greatest(model.open_sizes)).named_sizes
        self._known: dict[str, Any] = {}
        self._stated = {v.name: v.type for v in (*model.proto.graph.value_info, *model.proto.graph.output)}
        self._tensors: dict[str, Any] = {}

    def declare(self, value: Any, shape: tuple[int, ...]) -> TensorSpec | None:
        """An input of the model, its axes with their sizes."""
        kind = value.type.tensor_type.elem_type
        if kind not in self.onnx.TensorProto.DataType.values():
            return None
        self._known[value.name] = self.onnx.helper.make_tensor_type_proto(kind or 1, shape)
        return TensorSpec(value.name, shape, dtype_name(kind)) if kind else None

    def since(self, node: Any, opset: int) -> int:
        """Since which operator set a standard operator means what it means in ``opset``."""
        return int(self.onnx.defs.get_schema(node.op_type, opset, "").since_version)

    def infer(self, node: Any) -> Mapping[str, Any] | None:
        """``TypeProto``s of a node's outputs, as ONNX's schema has them; ``None`` where its inputs do not fit."""
        domain = "" if node.domain in STANDARD else node.domain
        try:
            schema = self.onnx.defs.get_schema(node.op_type, self.model.opset(domain), domain)
        except self.onnx.defs.SchemaError:
            return {}
        reads = [n for n in dict.fromkeys((*node.input, *captured(node))) if n]
        given = {n: t for n in reads if (t := self.of(n)) is not None}
        if len(given) < len(reads):
            return {}
        data = {n: self._tensor(n) for n in reads if n in self.constants and self.constants[n].size <= FEW}
        try:
            made: dict[str, Any] = self.onnx.shape_inference.infer_node_outputs(
                schema, node, given, data, opset_imports=list(self.model.proto.opset_import)
            )
        except Exception:  # its errors have no common class
            return None
        self._known.update(made)
        return made

    def settle(self, spec: TensorSpec) -> None:
        """A value of which more is known than inference says."""
        if self.spec(spec.name, self._known.get(spec.name)) is None:
            self._known[spec.name] = self.onnx.helper.make_tensor_type_proto(dtype_kind(spec.dtype), spec.shape)

    def of_outputs(self, node: Any) -> dict[str, TensorSpec | None]:
        """The outputs of a node that onnxruntime computes; ``None`` where that is known only when it runs.

        What ONNX does not infer onnxruntime does, of operators of its own too; the file's own word comes last.
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

    def open_type(self, spec: TensorSpec) -> Any:
        """A tensor's type; an axis that is no number has its expression as a name."""
        shape = [repr(n) if isinstance(n, Extent) else n for n in spec.shape]
        return self.onnx.helper.make_tensor_type_proto(dtype_kind(spec.dtype), shape)

    def open_output(self, node: Any, spec: TensorSpec, given: Mapping[str, Any]) -> TensorSpec | None:
        """An output of a node for every size, where ``spec`` has it for the greatest ones; ``None`` where ONNX's
        inference does not say. ``given``: types of what it reads, as :meth:`open_type` gives them."""
        domain = "" if node.domain in STANDARD else node.domain
        if None in given.values():
            return None
        data = {n: self._tensor(n) for n in given if n in self._fixed and self._fixed[n].size <= FEW}
        try:
            schema = self.onnx.defs.get_schema(node.op_type, self.model.opset(domain), domain)
            made = self.onnx.shape_inference.infer_node_outputs(
                schema, node, dict(given), data, opset_imports=list(self.model.proto.opset_import)
            )
        except Exception:  # its errors have no common class
            return None
        kind = made.get(spec.name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        dims = kind.tensor_type.shape.dim
        if len(dims) != len(spec.shape) or not all(d.HasField("dim_value") or d.dim_param for d in dims):
            return None
        shape = tuple(read_size(d.dim_param) if d.dim_param else d.dim_value for d in dims)
        return replace(spec, shape=shape) if tuple(map(int, shape)) == spec.shape else None

    def _asked(self, node: Any) -> dict[str, Any]:
        reads = [n for n in dict.fromkeys((*node.input, *captured(node))) if n]
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
        """A type that the file states, with the sizes given for its axes."""
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
            return None
        made = self.onnx.TypeProto()
        made.CopyFrom(kind)
        for dim in made.tensor_type.shape.dim:
            if dim.dim_param in self._sizes:
                dim.dim_value = self._sizes[dim.dim_param]
        return made

    def of(self, name: str) -> Any:
        """The ``TypeProto`` of a value; ``None`` where nothing is known of it."""
        if name not in self._known and name in self.constants:
            array = self.constants[name]
            kind = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            self._known[name] = self.onnx.helper.make_tensor_type_proto(kind, array.shape)
        return self._known.get(name)

    def _tensor(self, name: str) -> Any:
        if name not in self._tensors:
            self._tensors[name] = self.onnx.numpy_helper.from_array(self.constants[name], name)
        return self._tensors[name]

    @staticmethod
    def spec(name: str, kind: Any) -> TensorSpec | None:
        """A tensor's, where every axis has a size; ``None`` for others."""
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        dims = kind.tensor_type.shape.dim
        if not kind.tensor_type.elem_type or not all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims):
            return None
        return TensorSpec(name, tuple(d.dim_value for d in dims), dtype_name(kind.tensor_type.elem_type))
