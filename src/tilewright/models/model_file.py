"""Reads ONNX files: checks them, resolves the sizes of dynamic axes, loads weights on demand, and reports faults in one
line."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, Union

import numpy as np

from tilewright.core import Extent, UsageError, cached_property
from tilewright.errors import nearest
from tilewright.extent import shape_at, symbolic_sizes
from tilewright.size_ranges import span_of

Array = np.ndarray[Any, Any]

OPSETS = (7, 28)
"""Versions of ONNX's operator set whose operators kernels may compute. Models keep their version; nothing is
converted."""

MOST_NODES = 1_000_000
"""Most operators of a model after its functions have been inlined."""

BESIDE = 1 << 30
"""Most bytes of nodes' constants that are loaded from external files; initializers stay in their files."""

STANDARD = ("", "ai.onnx")
"""Names of the domain of ONNX's own operators."""


def operator_name(node: Any) -> str:
    """A node's operator, prefixed with its domain unless that is ONNX's own."""
    return str(node.op_type) if node.domain in STANDARD else f"{node.domain}.{node.op_type}"


def onnx_module() -> Any:
    """The package ``onnx``. Raises ``UsageError`` where it is not installed."""
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.inliner
        import onnx.reference
        import onnx.shape_inference
    except ImportError as e:
        raise UsageError(f"models need the package onnx ({e})", "Run: pip install 'tilewright[onnx]'") from e
    return onnx


@dataclass(frozen=True, eq=False)
class Model:
    """A checked ``ModelProto`` in its own operator set.

    ``path``: the file that it was read from; external data lies next to it. ``shapes``: the inputs' shapes by name;
    each axis is a number, or an extent if its size is symbolic.
    """

    proto: Any
    path: Path | None
    shapes: Mapping[str, tuple[int, ...]]

    def opset(self, domain: str = "") -> int:
        """The version of a domain's operator set; 0 for a domain that the model does not import."""
        names = STANDARD if domain in STANDARD else (domain,)
        return next((s.version for s in self.proto.opset_import if s.domain in names), 0)

    @cached_property
    def symbolic_sizes(self) -> Mapping[str, Extent]:
        """The symbolic sizes by name."""
        return symbolic_sizes(n for shape in self.shapes.values() for n in shape)

    def at(self, sizes: Mapping[str, int]) -> Model:
        """The model at fixed values of its symbolic sizes."""
        return Model(self.proto, self.path, {name: shape_at(shape, sizes) for name, shape in self.shapes.items()})

    @property
    def named_sizes(self) -> dict[str, int]:
        """Sizes of the inputs' axes by name, for names that stand for a single size."""
        found: dict[str, set[int]] = {}
        for value in self.proto.graph.input:
            for dim, size in zip(value.type.tensor_type.shape.dim, self.shapes.get(value.name, ()), strict=False):
                if dim.dim_param and not isinstance(size, Extent):
                    found.setdefault(dim.dim_param, set()).add(size)
        return {name: sizes.pop() for name, sizes in found.items() if len(sizes) == 1}

    def array(self, tensor: Any) -> Array:
        """The array of a ``TensorProto``. External data is memory-mapped. Raises ``UsageError``."""
        onnx = onnx_module()
        folder = Path() if self.path is None else self.path.parent
        try:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                return self._external(onnx, tensor, folder)
            made: Array = onnx.numpy_helper.to_array(tensor)
        except (OSError, ValueError, TypeError, KeyError, onnx.checker.ValidationError) as e:
            raise UsageError(
                f"the weights {tensor.name} cannot be read: {e!s:.160}",
                "Export the model again, with its data beside it",
            ) from e
        return made

    def _external(self, onnx: Any, tensor: Any, folder: Path) -> Array:
        where = {e.key: e.value for e in tensor.external_data}
        file = folder / where.get("location", "")
        if not file.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{where['location']} lies outside of the model's folder")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        shape = tuple(tensor.dims)
        if dtype.name in ("int4", "uint4", "float4_e2m1fn", "int2", "uint2"):  # packed types, several elements a byte
            made: Array = onnx.numpy_helper.to_array(tensor, str(folder))
            return made
        if 0 in shape:
            return np.empty(shape, dtype)
        count = math.prod(shape) * dtype.itemsize
        mapped: Array = np.memmap(file, np.uint8, "r", int(where.get("offset", 0)), (count,))
        viewed: Array = mapped.view(dtype)
        return viewed.reshape(shape)


Size = Union[int, tuple[int, int]]
"""The size of an axis: a number, or the least and the greatest value of a symbolic size."""


def size_of(name: str, given: object) -> Size:
    """A size of an axis from a number, two numbers, or their text as commands take it. Raises ``UsageError``."""
    if isinstance(given, str):
        given = span_of(given) or (int(given) if given.isdecimal() else given)
    if isinstance(given, list | tuple) and len(given) == 2 and all(map(_whole, given)):
        return int(given[0]), int(given[1])
    if _whole(given):
        return int(given)
    raise UsageError(f"{name}={given} is not a size", f"Write a number, or a range: {name}=1..8")


def _whole(given: object) -> TypeGuard[int]:
    return isinstance(given, int | np.integer) and not isinstance(given, bool)


def read_model(path: str | os.PathLike[str] | Model, sizes: Mapping[str, Size] | None = None) -> Model:
    """The model in a file, or a model that was read for other sizes, with the shapes of its inputs.

    ``sizes``: sizes of dynamic axes, by name. Raises ``UsageError`` for a missing or damaged file, and for an operator
    set that is too new. Raises it also for an axis without a size, an invalid range, and a size of an unknown axis.
    """
    if isinstance(path, Model):
        return prepared(path.proto, sizes, path.path)
    return prepared(read_proto(path), sizes, Path(path))


def read_proto(source: str | os.PathLike[str] | bytes) -> Any:
    """The checked ``ModelProto`` of a file or of its bytes, with local functions inlined. Raises ``UsageError``."""
    onnx = onnx_module()
    file = Path("the model" if isinstance(source, bytes) else source)
    if not isinstance(source, bytes) and not file.is_file():
        raise UsageError(f"there is no file {file}", "Name an ONNX model")
    try:
        if isinstance(source, bytes):
            proto = onnx.load_model_from_string(source)
        else:
            proto = onnx.load(str(file), load_external_data=False)
        read = 0
        for tensor in _inner_tensors(proto.graph):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                where = {e.key: e.value for e in tensor.external_data}
                read += int(where.get("length", 0)) or (file.parent / where.get("location", "")).stat().st_size
                if read > BESIDE:
                    raise ValueError(f"constants of its nodes take more than {BESIDE >> 20} MiB of other files")
                onnx.external_data_helper.load_external_data_for_tensor(tensor, str(file.parent))
                tensor.data_location = onnx.TensorProto.DEFAULT
                del tensor.external_data[:]
        onnx.checker.check_model(_skeleton(onnx, proto))
        if proto.functions:
            if (count := _inlined(proto)) > MOST_NODES:
                raise ValueError(f"its functions stand for {count:.3g} operators, and {MOST_NODES:,} are the most")
            proto = onnx.inliner.inline_local_functions(proto)
        for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_value < 0:  # some exporters write a dynamic axis so
                    dim.ClearField("dim_value")
    except OSError as e:
        raise UsageError(f"cannot read {file}: {e.strerror or e}", "Name an ONNX model with its data beside it") from e
    except Exception as e:  # protobuf's and the checker's errors have no common class
        line = next((x for x in str(e).splitlines() if x.strip()), type(e).__name__)
        raise UsageError(f"{file} is not a valid ONNX model: {line.rstrip('.'):.200}", "Export it again") from e
    return proto


def prepared(proto: Any, sizes: Mapping[str, Size] | None = None, path: Path | None = None) -> Model:
    """A checked ``ModelProto`` with the sizes of its inputs, as :func:`read_model` returns it."""
    given, file = dict(sizes or {}), "the model" if path is None else str(path)
    version = Model(proto, path, {}).opset()
    if version > OPSETS[1]:
        raise UsageError(f"{file} uses operator set {version}", f"Export it with {OPSETS[0]} to {OPSETS[1]}")
    initialized = {t.name for t in proto.graph.initializer} | {t.values.name for t in proto.graph.sparse_initializer}
    inputs = [v for v in proto.graph.input if v.name not in initialized]
    named: dict[str, set[str]] = {}  # dynamic axes, each with its inputs and axis numbers
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            raise UsageError(
                f"{file}: the input {value.name} is not a tensor", "Export the model with tensors as inputs"
            )
        if not value.type.tensor_type.HasField("shape"):
            raise UsageError(f"{file}: the input {value.name} has no shape", "Export the model with one")
        for place, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 1:
                named.setdefault(dim.dim_param or f"{value.name}.{place}", set()).add(f"{value.name}.{place}")
    strange = next((n for n in given if n not in named and not any(n in places for places in named.values())), None)
    if strange is not None:
        known = f"It has {', '.join(sorted(named))}" if named else "All its sizes are fixed"
        raise UsageError(f"{file} has no axis called {strange!r}", f"{nearest(strange, named)}{known}")
    axes = {v.name: list(enumerate(v.type.tensor_type.shape.dim)) for v in inputs}
    absent: dict[str, str] = {}
    for v, dims in axes.items():
        for k, d in dims:
            if _own(d) < 0 and (name := _axis(v, k, d, given)) not in given:
                absent.setdefault(name, f"axis {k} of the input {v}")
    if absent:
        (first, where), more = next(iter(absent.items())), len(absent) - 1
        have = f"{where} has" if not more else f"{where} and {more} other {'axes' if more > 1 else 'axis'} have"
        each = " ".join(f"{name}=1" for name in absent)
        raise UsageError(
            f"{file}: {have} no fixed size",
            f"Write {each} after the model, with your {'sizes' if more else 'size'}; {first}=1..8 keeps a range",
        )
    shapes = {v: tuple(_size(v, k, d, given) for k, d in dims) for v, dims in axes.items()}
    return Model(proto, path, shapes)


def _own(dim: Any) -> int:
    """An axis' own size; below 0 for a dynamic axis."""
    return int(dim.dim_value) if dim.HasField("dim_value") else -1


def _axis(value: str, place: int, dim: Any, sizes: Mapping[str, Size]) -> str:
    """The name under which an axis' size is given: its input and axis number if that is given, else its own name."""
    at = f"{value}.{place}"
    return at if at in sizes else str(dim.dim_param) or at


def _size(value: str, place: int, dim: Any, sizes: Mapping[str, Size]) -> int:
    """The size of an axis: its own, or the given size. A dynamic axis written as 0 takes the given size too."""
    if _own(dim) > 0:
        return _own(dim)
    name = _axis(value, place, dim, sizes)
    found = sizes.get(name, 0)
    if isinstance(found, tuple):
        return extent(name, *found)
    if found < 0:
        raise UsageError(f"the size of {name} is {found}", "Give the number of elements, 0 or more")
    return found


def extent(name: str, low: int, high: int) -> int:
    """A symbolic size from ``low`` to ``high``, both included; a number if they are equal. Raises ``UsageError``."""
    if not 1 <= low <= high:
        ordered = f"{max(1, min(low, high))}..{max(1, low, high)}"
        raise UsageError(
            f"{name}={low}..{high} is not a range", f"Write the least size first, at least 1: {name}={ordered}"
        )
    return Extent(high, low, name) if low < high else low


def subgraphs(node: Any) -> Iterator[Any]:
    """The subgraphs of a node."""
    for a in node.attribute:
        yield from [a.g] if a.HasField("g") else a.graphs


def _inner_tensors(graph: Any) -> Iterator[Any]:
    """The constants in nodes' attributes and in their subgraphs."""
    for node in graph.node:
        for attribute in node.attribute:
            yield from [attribute.t] if attribute.HasField("t") else attribute.tensors
        for inner in subgraphs(node):
            yield from inner.initializer
            yield from _inner_tensors(inner)


def _inlined(proto: Any) -> int:
    """Number of operators after inlining the model's functions, which may call each other."""
    bodies = {(f.domain, f.name): f.node for f in proto.functions}
    counts: dict[tuple[str, str], int] = {}

    def of(nodes: Any) -> int:
        total = 0
        for node in nodes:
            name = (node.domain, node.op_type)
            if name in bodies and name not in counts:
                counts[name] = MOST_NODES + 1  # a function that calls itself
                counts[name] = of(bodies[name])
            total += counts.get(name, 1) + sum(of(g.node) for g in subgraphs(node))
        return total

    return of(proto.graph.node)


def _skeleton(onnx: Any, proto: Any) -> Any:
    """A copy of the model without weights, for ONNX's checker; missing types of inputs and outputs are filled in."""
    made = onnx.ModelProto()
    made.ir_version = proto.ir_version
    made.opset_import.extend(proto.opset_import)
    made.functions.extend(proto.functions)
    graph, own = made.graph, proto.graph
    graph.name = own.name or "graph"
    graph.node.extend(own.node)
    graph.input.extend(own.input)
    graph.output.extend(own.output)
    for tensor in (*own.initializer, *(t.values for t in own.sparse_initializer)):
        graph.initializer.append(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type or 1, dims=[0]))
    for value in (*graph.input, *graph.output):
        if value.type.WhichOneof("value") in (None, "tensor_type"):
            value.type.tensor_type.elem_type = value.type.tensor_type.elem_type or 1
            value.type.tensor_type.shape.SetInParent()
    return made
