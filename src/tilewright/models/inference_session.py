"""``InferenceSession``: a model with tuned kernels behind onnxruntime's interface."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core import TilewrightError, UsageError
from tilewright.errors import nearest
from tilewright.forking import ForkLock
from tilewright.measure.comparing import Comparison
from tilewright.models.computed import UnexpectedShape
from tilewright.models.extract import extracted
from tilewright.models.forms import fastest
from tilewright.models.importer import imported
from tilewright.models.io_binding import IOBinding, is_ort_value, memory_of, ort_value
from tilewright.models.model_file import Array, Model, Size, read_model, read_proto, size_of
from tilewright.models.network import Network
from tilewright.models.parts import place_of
from tilewright.models.sessions import NAMES, Session, dtype_name, dtype_of, part_of, runtime
from tilewright.runtime.slots import BOUND

PROVIDERS = ("TilewrightExecutionProvider", "CPUExecutionProvider")

NETWORKS = 8
"""Most networks of fixed sizes that a session keeps, least recently used dropped first."""

WRITTEN = {numpy: written for written, numpy in NAMES.items()}
"""onnxruntime's names of element types, by NumPy's."""


@dataclass(frozen=True)
class NodeArg:
    """An input or output as onnxruntime describes it: ``type`` as ``tensor(float)``, symbolic axes by name or
    ``None``."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """The metadata in a model's file."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class InferenceSession:
    """An ONNX model with onnxruntime's interface: ``run(output_names, input_feed)``.

    Stored kernels of the database ``db`` (default: ``$TILEWRIGHT_DB``, else the user's own) run their tasks.
    onnxruntime runs the remaining operators. Both use ``threads`` threads (default: ``intra_op_num_threads`` of
    ``sess_options``, else 1).

    ``target``, ``device``: where kernels run, as ``tilewright run`` takes them: ``target="cuda"`` for the first GPU,
    ``device="cuda:1"`` for another GPU. onnxruntime stays on the processor. Inputs and outputs are arrays of the host.

    ``compare``: keep kernels only where the model is not slower with them. When a network is built it is timed on drawn
    inputs: with all kernels, with some of them left out, and with onnxruntime alone. That takes about two seconds, or
    about 40 calls where that is longer. :attr:`comparison` is the outcome.

    ``sizes``: sizes of the model's symbolic axes by name, as ``tilewright extract --size`` takes them: a number, or the
    least and the greatest size as ``(1, 32)`` or ``"1..32"``. One network, built at once, then serves the whole range,
    with prepacked weights and memory for the greatest sizes. For sizes outside of it, and without ``sizes``, the first
    call builds a network for its own sizes; the last 8 networks are kept. Calls from several threads are safe.

    Raises ``UsageError`` for a model that cannot be read, arguments that do not fit (they are named as onnxruntime
    names them) and providers without ``CPUExecutionProvider``. Raises ``TargetUnavailable`` for a missing device,
    ``OutOfMemory`` where the device has no room for the model, and ``DatabaseError`` for a ``db`` that cannot be used.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
        *,
        db: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        target: str = "auto",
        device: str = "auto",
        sizes: Mapping[str, Size | str] | None = None,
        compare: bool = True,
    ) -> None:
        names = [p if isinstance(p, str) else p[0] for p in providers or PROVIDERS]
        if "CPUExecutionProvider" not in names:
            raise UsageError(f"the providers are {names}, and the session runs on the CPU", f"Name {PROVIDERS[1]}")
        self._options = sess_options
        own = getattr(sess_options, "intra_op_num_threads", 0)
        self._threads = threads if threads is not None else own or 1
        self._db, self._compare = db, compare
        self._target, self._device = place_of(target, device)
        path = None if isinstance(path_or_bytes, bytes) else Path(path_or_bytes)
        self._model = Model(read_proto(path_or_bytes), path, {})
        graph = self._model.proto.graph
        initialized = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
        self._declared = [v for v in graph.input if v.name not in initialized]
        self._inputs = {v.name: _described(v) for v in self._declared}
        self._names = [v.name for v in graph.output]
        self._outputs: list[NodeArg] | None = None
        self._networks: OrderedDict[Shapes, Network] = OrderedDict()
        self._recent: tuple[Shapes, Network] | None = None  # for calls of equal shapes, without the lock
        self._taken: set[Shapes] = set()  # shapes that the network of symbolic sizes takes
        self._open: Network | None = None
        self._lock = ForkLock()
        smallest = {n: tuple(_size(d) or 1 for d in arg.shape) for n, arg in self._inputs.items()}
        read_model(self._model, self._sizes(smallest))  # reports an unreadable model here, not in the first call
        self._dtypes = {n: _dtype(arg) for n, arg in self._inputs.items()}
        if sizes is not None:
            given = {name: size_of(name, size) for name, size in sizes.items()}
            self._open = self._of(read_model(self._model, given))
        elif all(_size(d) for arg in self._inputs.values() for d in arg.shape):
            self.network(smallest)

    # ----------------------------------------------------------------- descriptions, as of onnxruntime's sessions

    def get_inputs(self) -> list[NodeArg]:
        """Name, type and shape of each input."""
        return list(self._inputs.values())

    def get_outputs(self) -> list[NodeArg]:
        """Name, type and shape of each output."""
        with self._lock:
            if self._outputs is None:
                self._outputs = self._described_outputs()
        return list(self._outputs)

    def get_providers(self) -> list[str]:
        """The execution providers: tuned kernels, and onnxruntime on the CPU."""
        return list(PROVIDERS)

    def get_session_options(self) -> Any:
        """The options that the session was made with, or onnxruntime's defaults."""
        return runtime().SessionOptions() if self._options is None else self._options

    def get_modelmeta(self) -> ModelMetadata:
        """The file's metadata: producer, version, and entries of the exporter."""
        p = self._model.proto
        return ModelMetadata(
            p.producer_name, p.graph.name, p.domain, p.doc_string, p.graph.doc_string, p.model_version,
            {e.key: e.value for e in p.metadata_props},
        )  # fmt: skip

    # ----------------------------------------------------------------- running

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Array]:
        """Returns the named outputs in their order; all outputs for ``None`` or an empty list."""
        network = self._known(input_feed) if isinstance(input_feed, dict) else None
        if network is not None and network.file is not None:
            outputs = network.file.at_once(output_names or None, input_feed)
            if outputs is not None:
                return outputs
        wanted = self.wanted(output_names)  # from here on, inputs that do not fit are reported
        as_they_are = network is not None and all(
            type(a) is np.ndarray and a.dtype is self._dtypes.get(n) for n, a in input_feed.items()
        )
        made = None
        if network is not None and as_they_are:
            with suppress(UnexpectedShape):  # then by a network for these shapes alone
                made = network.run(input_feed)
        made = self.computed(input_feed) if made is None else made
        return [made[n] for n in wanted]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Returns the named outputs as ``OrtValue``s; inputs are ``OrtValue``s too."""
        return [ort_value(a) for a in self.run(output_names, input_dict_ort_values)]

    def io_binding(self) -> IOBinding:
        """A new binding of inputs and outputs to memory."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Reads the inputs that are bound, and writes the outputs that are bound."""
        if iobinding.session is not self:
            raise UsageError("the binding is another session's", "Make it with this session's io_binding()")
        iobinding.run()

    def wanted(self, names: Sequence[str] | None) -> list[str]:
        """The requested outputs. Raises ``UsageError`` for names that the model does not have."""
        known = self._names
        if isinstance(names, str):
            raise UsageError(f"the output names are the text {names!r}", f"Give a list: [{names!r}]")
        unknown = next((n for n in names or () if n not in known), None)
        if unknown is not None:
            raise UsageError(
                f"Invalid output name: {unknown}", f"{nearest(unknown, known)}The model has {', '.join(known)}"
            )
        return list(names or known)

    def computed(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        """All outputs by name. Raises ``UsageError`` for inputs that do not fit."""
        if not isinstance(feed, Mapping):
            raise UsageError(f"the input feed is a {type(feed).__name__}", "Give arrays by name: {'x': array}")
        for name in feed:
            self.input(name)
        missing = [n for n in self._inputs if n not in feed]
        if missing:
            raise UsageError(
                f"Required inputs ({missing}) are missing from input feed ({list(feed)})", "Give an array for each"
            )
        given = {n: self._array(arg, feed[n]) for n, arg in self._inputs.items()}
        shapes = {n: a.shape for n, a in given.items()}
        try:
            return self.network(shapes).run(given)
        except UnexpectedShape:
            return self._of_size(shapes).run(given)

    def input(self, name: str) -> NodeArg:
        """An input by name. Raises ``UsageError`` for an unknown name."""
        if name not in self._inputs:
            known = f"{nearest(name, self._inputs)}The model has {', '.join(self._inputs) or 'none'}"
            raise UsageError(f"Invalid input name: {name}", known)
        return self._inputs[name]

    def _array(self, arg: NodeArg, value: Any) -> Array:
        """A value as an array of the input's type. Raises ``UsageError`` for a value of another type."""
        if isinstance(value, np.ndarray):
            array = value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
        elif isinstance(value, (list, tuple)):
            array = _array(arg, value)
        elif is_ort_value(value):
            array = memory_of(value)
        else:
            raise UsageError(f"the input {arg.name} is a {type(value).__name__}", f"Give an array of {arg.type}")
        wanted = self._dtypes[arg.name]
        if array.dtype != wanted and dtype_of(array) != wanted:
            own = dtype_of(array)
            raise UsageError(
                f"Unexpected input data type for {arg.name}. Actual: (tensor({WRITTEN.get(own, own)})), "
                f"expected: ({arg.type})", f"Convert it with .astype({wanted!s})"
            )  # fmt: skip
        return array

    # ----------------------------------------------------------------- networks

    @property
    def comparison(self) -> Comparison | None:
        """The form that is kept, with its speed-up over the remaining forms; ``None`` without a comparison.

        It belongs to the network of ``sizes``, or else to the network that was used last.
        """
        with self._lock:
            used = self._open or next(reversed(self._networks.values()), None)
        return None if used is None else used.comparison

    def network(self, shapes: Mapping[str, tuple[int, ...]]) -> Network:
        """The network for inputs of these shapes, one shape for each input in the model's order. The first call builds
        it.

        Its ``served`` lists the parts that kernels compute, ``left`` the parts of onnxruntime; ``form`` and
        ``comparison`` say why. Raises ``UsageError`` for shapes that do not fit.
        """
        if self._open is not None and self._open.takes(shapes):
            if len(self._taken) >= BOUND:
                self._taken.clear()
            self._taken.add(tuple(shapes.values()))
            return self._open
        return self._of_size(shapes)

    def _known(self, feed: dict[str, Any]) -> Network | None:
        """The network that was built for inputs of these shapes; ``None`` without one."""
        key: Any = tuple([getattr(feed.get(n), "shape", None) for n in self._inputs])
        recent = self._recent
        if recent is not None and recent[0] == key:
            return recent[1]
        try:
            if key in self._taken:
                return self._open
            with self._lock:
                self._networks.move_to_end(key)
                self._recent = key, self._networks[key]
                return self._networks[key]
        except (KeyError, TypeError):  # no network yet, or a value that is no array
            return None

    def _of_size(self, shapes: Mapping[str, tuple[int, ...]]) -> Network:
        """The network of exactly these shapes, built if necessary."""
        key = tuple(shapes.values())
        with self._lock:
            found = self._networks.get(key)
            if found is None:
                for name, shape in shapes.items():
                    _check_shape(self.input(name), shape)
                found = self._networks[key] = self._of(read_model(self._model, self._sizes(shapes)))
                while len(self._networks) > NETWORKS:
                    self._networks.popitem(last=False)
            self._networks.move_to_end(key)
            self._recent = key, found
            return found

    def _of(self, model: Model) -> Network:
        from tilewright.runtime import Library

        found = extracted(imported(model), self._target)
        with Library(
            self._db, threads=self._threads, missing_ok=self._db is None, count_misses=False, watch=False
        ) as library:
            return fastest(found, library, self._threads, self._compare, device=self._device)

    def _sizes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """The sizes of symbolic axes, by input and axis number."""
        return {
            f"{name}.{place}": size
            for name, shape in shapes.items()
            for place, size in enumerate(shape)
            if not _size(self._inputs[name].shape[place])
        }

    def _described_outputs(self) -> list[NodeArg]:
        """The outputs as onnxruntime describes them, or as the file does if onnxruntime cannot run the model."""
        graph = self._model.proto.graph
        weights = {t.name: self._model.array(t) for t in graph.initializer}
        try:
            made, large = part_of(self._model, graph.node, self._declared, self._names, weights)
            del made.graph.output[:]
            made.graph.output.extend(graph.output)
            return [NodeArg(*o) for o in Session(made, large, optimised=False).signature()]
        except TilewrightError:
            return [_described(v) for v in graph.output]


Shapes = tuple[tuple[int, ...], ...]


def _described(value: Any) -> NodeArg:
    """The description of a tensor's ``ValueInfoProto``."""
    kind = value.type.tensor_type
    dtype = dtype_name(kind.elem_type) if kind.elem_type else ""
    dims = [int(d.dim_value) if d.HasField("dim_value") else d.dim_param or None for d in kind.shape.dim]
    return NodeArg(value.name, f"tensor({WRITTEN.get(dtype, dtype)})", dims)


def _size(dim: int | str | None) -> int:
    """The size of an axis; 0 for a symbolic axis."""
    return dim if isinstance(dim, int) else 0


def _dtype(arg: NodeArg) -> Any:
    """An input's element type in NumPy; the word ``string`` for strings, which NumPy has several types for."""
    name = NAMES.get(arg.type[7:-1], arg.type[7:-1])
    if not name:
        raise UsageError(f"the input {arg.name} has no element type", "Export the model with one")
    return name if name == "string" else np.dtype(name)


def _array(arg: NodeArg, values: Sequence[Any]) -> Array:
    """Lists of numbers or strings as an array."""
    dtype = _dtype(arg)
    try:
        return np.array(values, object if dtype == "string" else dtype)
    except (TypeError, ValueError, OverflowError) as e:
        raise UsageError(f"the input {arg.name} is not an array: {e}", f"Give an array of {arg.type}") from e


def _check_shape(arg: NodeArg, shape: tuple[int, ...]) -> None:
    """Raises ``UsageError`` where an input of this shape does not fit."""
    if len(shape) != len(arg.shape):
        raise UsageError(
            f"Invalid rank for input: {arg.name} Got: {len(shape)} Expected: {len(arg.shape)}",
            f"Give an array of shape {arg.shape}",
        )
    places = enumerate(zip(shape, arg.shape, strict=True))
    wrong = [f"index: {k} Got: {n} Expected: {d}" for k, (n, d) in places if _size(d) and n != d]
    if wrong:
        raise UsageError(
            f"Got invalid dimensions for input: {arg.name} for the following indices {', '.join(wrong)}",
            f"Give an array of shape {arg.shape}",
        )
