"""Inputs and outputs of an ``InferenceSession`` bound to memory, with onnxruntime's interface."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels.expression.expr import BITS
from tilewright.models.model_file import Array
from tilewright.models.sessions import dtype_kind, dtype_name, dtype_of, runtime


class Bindable(Protocol):
    """The session's methods that a binding calls."""

    def input(self, name: str) -> Any:
        """An input by name."""

    def wanted(self, names: Sequence[str] | None) -> list[str]:
        """The requested outputs."""

    def computed(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        """All outputs by name."""


class IOBinding:
    """The memory that a run of a session reads and writes; a session's ``io_binding()`` makes it.

    Memory that is bound must live as long as the binding. Outputs without bound memory get new arrays in every run.
    Raises ``UsageError`` for names that the model does not have, and for devices other than the CPU.
    """

    def __init__(self, session: Bindable) -> None:
        self.session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}  # the target: an OrtValue, a view of memory, or None
        self._made: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Reads an input from this array, as it is when the session runs."""
        self._inputs[self.session.input(name).name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """Reads an input from an ``OrtValue``."""
        self._inputs[self.session.input(name).name] = ortvalue

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Reads an input from the memory at an address. ``element_type``: NumPy's type, or ONNX's number of it."""
        _check_device(device_type)
        self._inputs[self.session.input(name).name] = _view(buffer_ptr, element_type, shape)

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """Writes an output to the memory at an address, or to a new array without an address."""
        _check_device(device_type)
        (name,) = self.session.wanted([name])
        if buffer_ptr is None:
            self._outputs[name] = None
        elif element_type is None or shape is None:
            raise UsageError(f"the memory of {name} has no element_type or no shape", "Give both with buffer_ptr")
        else:
            self._outputs[name] = _view(buffer_ptr, element_type, shape)

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Writes an output to an ``OrtValue``."""
        (name,) = self.session.wanted([name])
        self._outputs[name] = ortvalue

    def synchronize_inputs(self) -> None:
        """Does nothing: copies to the CPU have ended when they return."""

    def synchronize_outputs(self) -> None:
        """Does nothing: a run has ended when it returns."""

    def clear_binding_inputs(self) -> None:
        """Removes the bindings of inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Removes the bindings of outputs, and the last run's outputs."""
        self._outputs.clear()
        self._made.clear()

    def get_outputs(self) -> list[Any]:
        """The outputs of the last run as ``OrtValue``s, in the order in which they were bound."""
        return [ort_value(v) for v in self._made.values()]

    def copy_outputs_to_cpu(self) -> list[Array]:
        """Copies of the outputs of the last run, in the order in which they were bound."""
        return [(memory_of(v) if is_ort_value(v) else v).copy() for v in self._made.values()]

    def run(self) -> None:
        """Runs the session; its ``run_with_iobinding`` calls this."""
        if not self._outputs:
            raise UsageError("At least one output should be requested", "Bind one: bind_output(name)")
        made = self.session.computed(self._inputs)
        self._made = {}
        for name, place in self._outputs.items():
            self._made[name] = made[name] if place is None else place
            if place is not None:
                _write(name, made[name], memory_of(place) if is_ort_value(place) else place)


def is_ort_value(value: Any) -> bool:
    """Whether a value is an ``OrtValue`` of onnxruntime."""
    return isinstance(value, runtime().OrtValue)


def ort_value(value: Any) -> Any:
    """An ``OrtValue`` of an array's memory; an ``OrtValue`` is returned as it is."""
    if is_ort_value(value):
        return value
    dtype, make = dtype_of(value), runtime().OrtValue
    if dtype in BITS or value.dtype.isbuiltin != 1:  # onnxruntime takes NumPy's own types only
        bits = value.view(np.dtype(f"uint{8 * value.dtype.itemsize}"))
        return make.ortvalue_from_numpy_with_onnx_type(bits, dtype_kind(dtype))
    return make.ortvalue_from_numpy(value)


def memory_of(value: Any) -> Array:
    """A view of the memory of an ``OrtValue`` that holds a tensor. Raises ``UsageError`` for other contents."""
    if not value.is_tensor() or value.device_name() != "cpu":
        raise UsageError("the OrtValue holds no tensor on the CPU", "Make it with OrtValue.ortvalue_from_numpy")
    if value.element_type() == dtype_kind("string"):
        texts: Array = value.numpy()
        return texts
    return _view(value.data_ptr(), value.element_type(), value.shape())


def _view(address: int, element_type: Any, shape: Sequence[int]) -> Array:
    dtype = np.dtype(dtype_name(element_type) if isinstance(element_type, int) else element_type)
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.empty(tuple(shape), dtype)
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    found: Array = np.frombuffer(memory, np.uint8).view(dtype).reshape(tuple(shape))
    return found


def _write(name: str, made: Array, place: Array) -> None:
    if made.shape != place.shape:
        raise UsageError(
            f"the memory of the output {name} has shape {place.shape} but the computed output shape for this run is "
            f"{made.shape}", "Bind memory of that shape, or none"
        )  # fmt: skip
    if made.dtype != place.dtype:
        raise UsageError(f"the memory of the output {name} is of {place.dtype}, and the output is {made.dtype}",
                         "Bind memory of that type")  # fmt: skip
    place[...] = made


def _check_device(device: str) -> None:
    if device != "cpu":
        raise UsageError(f"the session runs on the CPU, and {device!r} is another device", "Bind memory of the CPU")
