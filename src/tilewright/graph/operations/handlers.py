"""What ATen's and ONNX's names mean: handlers, which add the operations of a graph that give what a node gives.

:data:`ATEN` and :data:`ONNX` hold them by name. An importer compares what a handler made with the shape and element
type that PyTorch or ONNX state, and leaves the node to them where it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Union

import numpy as np

from tilewright.core import TensorSpec, UsageError
from tilewright.graph.operations.table import Number, Operation

Array = np.ndarray[Any, Any]


class Left(Exception):
    """An operator is left to PyTorch or onnxruntime, for this reason."""


class Value(str):
    """The name of a graph's value, among arguments that may be numbers or texts."""


class Open:
    """Stands among arguments for a number that each call gives."""


class Build(Protocol):
    """A graph that an importer builds, as handlers see it."""

    @property
    def constants(self) -> Mapping[str, Array]:
        """Values that are known now."""

    def add(self, operation: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """A node of an operation; its output's name."""

    def constant(self, array: Array) -> str:
        """A constant of ours; its name."""

    def known_as(self, name: str, array: Array) -> str:
        """A value of the program that is known now."""

    def spec(self, name: str) -> TensorSpec: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def reshaped(self, name: str, shape: Sequence[int], output: str | None = None) -> str:
        """A value in another shape."""

    def same(self, name: str, output: str) -> str:
        """A value under another name."""

    def turned(self, name: str) -> str | None:
        """The matrix that a value is the transpose of, where that lies row-major: weights are read as they lie."""


# --------------------------------------------------------------------------- ATen


@dataclass(frozen=True)
class Call:
    """A call of an ATen operator: ``operator``, without its overload.

    ``arguments``: by the schema's names (``self`` is ``input``), tensors as :class:`Value`, numbers that each call
    gives as :class:`Open`, element types by name; ``given``: the names of arguments that differ from their defaults.
    ``result``: which of several results is asked for, 0 where there is one; ``spec``: its shape and element type;
    ``output``: its name.
    """

    operator: str
    arguments: Mapping[str, Any]
    given: frozenset[str]
    result: int
    spec: TensorSpec
    output: str

    def __getitem__(self, name: str) -> Any:
        """An argument. Raises :class:`Left` where a number in it changes from call to call."""
        found = self.arguments[name]
        if isinstance(found, Open) or (isinstance(found, list | tuple) and any(isinstance(x, Open) for x in found)):
            raise Left(f"{name} changes from call to call")
        return found

    def operand(self, name: str) -> str:
        """A tensor's name, ``""`` where it is not given."""
        found = self.arguments[name]
        return "" if found is None else str(found)

    def only_first(self, others: str) -> None:
        """Raises :class:`Left` where another result than the first is asked for; ``others``: what those are."""
        if self.result:
            raise Left(f"it gives {others}")

    def allow(self, *names: str) -> None:
        """Raises :class:`Left` where another argument than these has a value of its own."""
        more = sorted(self.given.difference(names))
        if more:
            raise Left(f"its argument {more[0]} is not known")


def _enter(table: dict[str, Any], names: Sequence[str], handler: object) -> None:
    """Raises ``UsageError`` for a name that has a handler."""
    if taken := [n for n in names if n in table]:
        raise UsageError(f"there is a handler of {taken[0]!r} already", "Name an operator in one place")
    table.update(dict.fromkeys(names, handler))


AtenHandler = Callable[[Build, Call], object]

ATEN: dict[str, AtenHandler] = {}
"""By the overload's name: ``add.Tensor``; a default overload's is the operator's alone."""


def aten(*names: str) -> Callable[[AtenHandler], AtenHandler]:
    """Register a handler, whose last node gives ``call.output``."""

    def decorate(handler: AtenHandler) -> AtenHandler:
        _enter(ATEN, names, handler)
        return handler

    return decorate


def aten_named(operation: Operation, *names: str, **own: str) -> None:
    """These operators are ``operation``, parameter by parameter; ``own``: what ATen calls a parameter, if otherwise."""
    _enter(ATEN, names, _by_name(operation, own))


def _by_name(operation: Operation, own: Mapping[str, str]) -> AtenHandler:
    def handler(build: Build, call: Call) -> None:
        names = {p: own.get(p, p) for p in operation.parameters}
        call.allow(*names.values())
        operands: list[str] = []
        attributes: dict[str, Any] = {}
        for parameter, is_operand in operation.parameters.items():
            if names[parameter] not in call.arguments:
                continue
            value = call[names[parameter]]
            if is_operand:
                operands.extend(operand(build, v) for v in (value if isinstance(value, list | tuple) else [value]))
            elif isinstance(value, Value):
                raise Left(f"{names[parameter]} is a tensor")
            elif value is not None:
                attributes[parameter] = frozen(value)
        while operands and not operands[-1]:
            operands.pop()
        build.add(operation.name, operands, call.output, **attributes)

    return handler


def frozen(value: Any) -> Any:
    """An argument as an attribute: a list as a tuple."""
    return tuple(value) if isinstance(value, list) else value


def operand(build: Build, value: Union[Value, Number, None]) -> str:
    """A tensor's name, or that of a constant with the number's value."""
    if value is None:
        return ""
    return str(value) if isinstance(value, Value) else build.constant(np.asarray(value))


# --------------------------------------------------------------------------- ONNX


class OnnxBuild(Build, Protocol):
    """A graph that is made of an ONNX model, values under the model's names. ``onnx`` is the package."""

    opset: int
    onnx: Any

    def known(self, name: str) -> Array:
        """What a constant holds. Raises :class:`Left`."""

    def numbers(self, name: str) -> tuple[int, ...]:
        """A constant's whole numbers. Raises :class:`Left`."""

    def wanted(self, node: Any) -> list[str]:
        """The node's outputs that something reads."""


Attributes = dict[str, Any]
OnnxHandler = Callable[[Any, Any, Attributes], object]

ONNX: dict[str, OnnxHandler] = {}
"""By the operator's name; those of other domains as ``com.microsoft.FusedMatMul``."""


def onnx(*names: str) -> Callable[[OnnxHandler], OnnxHandler]:
    """Register a handler of the node and its attributes, texts as ``str``.

    The last nodes that it adds give the node's outputs.
    """

    def decorate(handler: OnnxHandler) -> OnnxHandler:
        _enter(ONNX, names, handler)
        return handler

    return decorate


def onnx_named(operation: Operation, *names: str, **own: tuple[str, Any]) -> None:
    """These operators are ``operation``, input by input; ``own``: a parameter's attribute in ONNX, and its default."""

    def handler(build: OnnxBuild, node: Any, attributes: Attributes) -> None:
        unknown = sorted(set(attributes).difference(name for name, _ in own.values()))
        if unknown:
            raise Left(f"its attribute {unknown[0]} is not known")
        given = {p: attributes.get(name, default) for p, (name, default) in own.items()}
        build.add(operation.name, node.input, node.output[0], **given)

    _enter(ONNX, names, handler)


def axes_of(build: OnnxBuild, node: Any, a: dict[str, Any]) -> tuple[int, ...] | None:
    """Axes, which were an attribute and became an input, where they are given."""
    if "axes" in a:
        return tuple(a["axes"])
    return build.numbers(node.input[1]) if len(node.input) > 1 and node.input[1] else None


def joined(build: Build, parts: Sequence[str], dim: int, output: str) -> None:
    """Parts along an axis, one behind the other."""
    if len(parts) == 1:
        build.same(parts[0], output)
    else:
        build.add("cat", parts, output, dim=dim)


REFUSED: dict[str, str] = {}
"""Why operators stay with PyTorch or onnxruntime, by name."""


def refuse(why: str, *names: str) -> None:
    REFUSED.update(dict.fromkeys(names, why))
