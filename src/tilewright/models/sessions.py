"""onnxruntime sessions for whole models and parts of them; large weights are shared without copying, and bfloat16 runs
in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels.expression.expr import BITS
from tilewright.models.model_file import Array, Model, onnx_module, subgraphs

LARGE = 1 << 16
"""Bytes above which a constant is passed beside the model: protobuf messages end at 2 GiB."""

BFLOAT16 = {"bfloat16": "float32"}
"""Element types that are replaced: onnxruntime has few CPU kernels for bfloat16, and no NumPy arrays of it."""


@cache
def dtype_name(kind: int) -> str:
    """The NumPy name of an ONNX element type; ``string`` for strings."""
    onnx = onnx_module()
    if kind == onnx.TensorProto.STRING:
        return "string"
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind).name)


@cache
def dtype_kind(name: str) -> int:
    """ONNX's number of an element type, by its name."""
    kinds = (int(k) for k in onnx_module().TensorProto.DataType.values() if k)
    return next(k for k in kinds if dtype_name(k) == name)


def dtype_of(array: Array) -> str:
    """The name of an array's element type."""
    return "string" if array.dtype.kind in "OSU" else array.dtype.name


def tensor_value(name: str, dtype: str, shape: Sequence[int | None] | None) -> Any:
    """A ``ValueInfoProto`` of a tensor; ``None`` for an unknown shape or dimension."""
    return onnx_module().helper.make_tensor_value_info(name, dtype_kind(dtype), shape)


def reads_of(node: Any) -> list[str]:
    """Values that a node and its subgraphs read."""
    return [n for n in dict.fromkeys((*node.input, *captured(node))) if n]


def fixed_shape(kind: Any) -> tuple[int, ...] | None:
    """The shape that a tensor's ``TypeProto`` states; ``None`` where a size is missing, or for other types."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def captured(node: Any) -> list[str]:
    """Values from outside that a node's subgraphs read."""
    found: list[str] = []
    for graph in subgraphs(node):
        own = {t.name for t in graph.initializer} | {v.name for v in graph.input}
        own |= {o for n in graph.node for o in n.output}
        for n in graph.node:
            found += [x for x in (*n.input, *captured(n)) if x and x not in own]
        found += [v.name for v in graph.output if v.name not in own]
    return found


class NoKernel(UsageError):
    """onnxruntime has no kernel for an operator in the model's element types."""


class Session:
    """A model in onnxruntime; ``run(inputs)`` takes arrays by name and returns outputs by name.

    ``large``: weights that are kept out of the ``ModelProto``. ``path``: its file, read instead of ``proto``.
    ``sizes``: sizes of its axes, by name. Raises ``UsageError`` where onnxruntime is not installed or refuses the
    model, ``NoKernel`` where it lacks kernels.
    """

    def __init__(
        self, proto: Any, large: Mapping[str, Array] | None = None, threads: int = 1, *, optimised: bool = True,
        path: Path | None = None, sizes: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self._narrow: frozenset[str] = frozenset()
        if _uses(proto, dtype_kind("bfloat16")):
            inferred = onnx_module().shape_inference.infer_shapes(proto).graph
            values = [v for v in (*inferred.input, *inferred.output) if v.type.HasField("tensor_type")]
            self._narrow = frozenset(v.name for v in values if dtype_name(v.type.tensor_type.elem_type) == "bfloat16")
            (proto, large), path = retyped(proto, large or {}, BFLOAT16), None
        source = proto.SerializeToString() if path is None else str(path)
        self._session = _session(source, large or {}, threads, optimised, sizes or {})
        self.outputs = tuple(o.name for o in self._session.get_outputs())
        written = {o.name: NAMES.get(o.type[7:-1], "") for o in self._session.get_outputs()}
        self._bits = {n: np.dtype(t) for n, t in written.items() if BITS.get(t) == "uint8"}

    @classmethod
    def of_file(cls, model: Model, threads: int = 1, *, optimised: bool = True) -> Session:
        """The whole model in its file's form, optimised for the sizes that it is run with."""
        graph = model.proto.graph
        if model.path is None or not _uses(model.proto, dtype_kind("bfloat16")):
            return cls(model.proto, None, threads, optimised=optimised, path=model.path, sizes=model.named_sizes)
        weights = {t.name: model.array(t) for t in graph.initializer}
        given = [v for v in graph.input if v.name not in weights]
        made = part_of(model, graph.node, given, [v.name for v in graph.output], weights)
        return cls(*made, threads, optimised=optimised, sizes=model.named_sizes)

    def types(self) -> dict[str, Any]:
        """The types of the outputs, as ``ValueInfoProto``s with the shapes that onnxruntime knows."""
        made = {o.name: _value(o.name, o.type, o.shape) for o in self._session.get_outputs()}
        for name in self._narrow & made.keys():
            made[name].type.tensor_type.elem_type = dtype_kind("bfloat16")
        return made

    def signature(self) -> list[tuple[str, str, list[int | str | None]]]:
        """Name, type and shape of each output as onnxruntime states them, symbolic axes by name or ``None``."""
        return [
            (o.name, "tensor(bfloat16)" if o.name in self._narrow else o.type, list(o.shape))
            for o in self._session.get_outputs()
        ]

    def at_once(self, names: Sequence[str] | None, given: Mapping[str, Array]) -> list[Array] | None:
        """The named outputs, or all, of NumPy arrays that need no conversion.

        ``None`` for other inputs, and for inputs that onnxruntime refuses; :meth:`run` then reports the error.
        """
        if self._narrow or self._bits or not all(type(a) is np.ndarray and a.dtype.isnative for a in given.values()):
            return None
        try:
            made: list[Array] = self._session.run(names, given)
        except Exception:  # onnxruntime's errors have no common class
            return None
        return made

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs. Raises ``UsageError`` where onnxruntime refuses the inputs."""
        narrow: Any = np.dtype("bfloat16") if self._narrow else None
        feeds = {n: a.view(narrow).astype(np.float32) if n in self._narrow else a for n, a in given.items()}
        try:
            made = self._session.run(list(self.outputs), feeds)
        except Exception as e:  # onnxruntime's errors have no common class
            raise UsageError(
                f"onnxruntime cannot run the model: {_said(e)}", "Give inputs of other sizes or values"
            ) from e
        values = dict(zip(self.outputs, made, strict=True))
        values |= {n: a.view(self._bits[n]) for n, a in values.items() if n in self._bits}
        return values | {n: values[n].astype(narrow) for n in self._narrow & values.keys()}


def runtime() -> Any:
    """The package ``onnxruntime``. Raises ``UsageError`` where it is not installed."""
    try:
        import onnxruntime
    except ImportError as e:
        raise UsageError(
            f"running models needs the package onnxruntime ({e})", "Run: pip install 'tilewright[onnx]'"
        ) from e
    return onnxruntime


def _session(
    source: str | bytes, large: Mapping[str, Array], threads: int, optimised: bool, sizes: Mapping[str, int]
) -> Any:
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    if large:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(a) for a in large.values()]
        options.add_external_initializers(list(large), values)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime's errors have no common class
        if type(e).__name__ == "NotImplemented":
            raise NoKernel(
                f"onnxruntime has no kernel: {_said(e)}", "Tune the model's tasks, so that kernels of ours compute them"
            ) from e
        raise UsageError(
            f"onnxruntime refuses the model: {_said(e)}", "Export it again, for the sizes that it is run with"
        ) from e


def _said(error: Exception) -> str:
    """onnxruntime's message without its codes, in one line."""
    text = " ".join(str(error).split())
    return f"{text.rpartition(' : ')[2] or text:.200}"


def part_of(
    model: Model, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[str], constants: Mapping[str, Array]
) -> tuple[Any, dict[str, Array]]:
    """Nodes as a model in their own operator set, and the weights that are too large to be stored in it.

    ``inputs``: ``ValueInfoProto``s. ``constants``: the constants that the nodes read, by name.
    """
    onnx = onnx_module()
    large = {n: a for n, a in constants.items() if a.nbytes > LARGE and _shared(a)}
    tensors = [
        _elsewhere(onnx, n, a) if n in large else onnx.numpy_helper.from_array(a, n) for n, a in constants.items()
    ]
    empty = [onnx.helper.make_empty_tensor_value_info(n) for n in outputs]
    graph = onnx.helper.make_graph(list(nodes), "part", list(inputs), empty, tensors)
    made = onnx.helper.make_model(
        graph, opset_imports=list(model.proto.opset_import), ir_version=max(model.proto.ir_version, 4)
    )
    made.functions.extend(model.proto.functions)
    return made, {n: np.ascontiguousarray(a) for n, a in large.items()}


def _shared(array: Array) -> bool:
    """Whether an array can be shared with a session; bfloat16 is converted to float32 before."""
    return (array.dtype.kind in "fiub" and array.dtype.isbuiltin == 1) or array.dtype.name in BFLOAT16


def _elsewhere(onnx: Any, name: str, array: Array) -> Any:
    """The ``TensorProto`` of a weight that a session receives beside the model."""
    kind = dtype_kind(array.dtype.name)
    made = onnx.TensorProto(name=name, data_type=kind, dims=array.shape, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "memory"), ("offset", "0"), ("length", str(array.nbytes))):
        made.external_data.add(key=key, value=value)
    return made


def _value(name: str, text: str, shape: Any) -> Any:
    """The ``ValueInfoProto`` of a type in onnxruntime's notation, such as ``seq(tensor(float))``.

    onnxruntime shows no axes for an unknown shape.
    """
    helper = onnx_module().helper

    def kind(written: str, dims: Any) -> Any:
        outer, _, inner = written[:-1].partition("(")
        if outer == "seq":
            return helper.make_sequence_type_proto(kind(inner, None))
        if outer == "optional":
            return helper.make_optional_type_proto(kind(inner, None))
        known = [n if isinstance(n, int) else None for n in dims or ()] or None
        return helper.make_tensor_type_proto(dtype_kind(NAMES.get(inner, inner)), known)

    return helper.make_value_info(name, kind(text, shape))


NAMES = {
    "float": "float32", "double": "float64", "float4e2m1": "float4_e2m1fn", "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}  # fmt: skip
"""onnxruntime's names of element types that differ from NumPy's."""


# --------------------------------------------------------------------------- replaced element types


def _uses(proto: Any, kind: int) -> bool:
    """Whether a model contains an element type: weights, declared types, or attributes."""

    def in_graph(graph: Any) -> bool:
        values = (*graph.input, *graph.output, *graph.value_info)
        return (
            any(t.data_type == kind for t in graph.initializer)
            or any(v.type.tensor_type.elem_type == kind for v in values if v.type.HasField("tensor_type"))
            or any(_says(a, kind) for n in graph.node for a in n.attribute)
            or any(in_graph(inner) for n in graph.node for inner in subgraphs(n))
        )

    return in_graph(proto.graph)


def _says(attribute: Any, kind: int) -> bool:
    return (attribute.HasField("t") and attribute.t.data_type == kind) or (
        attribute.name in TYPE_ATTRIBUTES and attribute.i == kind
    )


TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "stash_type", "softmax_precision")
"""Attributes of ONNX's operators that name an element type."""


def retyped(proto: Any, large: Mapping[str, Array], change: Mapping[str, str]) -> tuple[Any, Mapping[str, Array]]:
    """A model with element types replaced as ``change`` says, constants converted."""
    onnx = onnx_module()
    kinds = {dtype_kind(a): dtype_kind(b) for a, b in change.items()}
    made = onnx.ModelProto()
    made.CopyFrom(proto)

    def tensor(t: Any) -> None:
        if t.data_type in kinds:
            if t.data_location == onnx.TensorProto.EXTERNAL:
                t.CopyFrom(_elsewhere(onnx, t.name, large[t.name]))
            else:
                array = onnx.numpy_helper.to_array(t).astype(change[dtype_name(t.data_type)])
                t.CopyFrom(onnx.numpy_helper.from_array(array, t.name))

    def graph(g: Any) -> None:
        for t in g.initializer:
            tensor(t)
        for v in (*g.input, *g.output, *g.value_info):
            if v.type.HasField("tensor_type"):
                kind = v.type.tensor_type
                kind.elem_type = kinds.get(kind.elem_type, kind.elem_type)
        for n in g.node:
            for a in n.attribute:
                if a.HasField("t"):
                    tensor(a.t)
                elif a.name in TYPE_ATTRIBUTES:
                    a.i = kinds.get(a.i, a.i)
            for inner in subgraphs(n):
                graph(inner)

    large = {n: a.astype(change.get(a.dtype.name, a.dtype), copy=False) for n, a in large.items()}
    graph(made.graph)
    return made, large
