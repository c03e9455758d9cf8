"""Handlers of ATen and ONNX operators; a handler adds the graph operations that compute a node's outputs.

:data:`ATEN` and :data:`ONNX` hold the handlers by name. An importer compares the shape and element type of a handler's
result with PyTorch's or ONNX's statement. Where they differ, the node stays with PyTorch or onnxruntime.
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
    """Raised with a reason: the operator stays with PyTorch or onnxruntime."""


class Value(str):
    """The name of a graph's value, as opposed to strings and numbers among the arguments."""


class Symbolic:
    """The placeholder among arguments for a number that each call gives."""


class Build(Protocol):
    """A graph under construction, as handlers see it."""

    @property
    def constants(self) -> Mapping[str, Array]:
        """Values that are constant at import."""

    def add(self, operation: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """Adds a node and returns its output's name."""

    def constant(self, array: Array) -> str:
        """Adds a constant that is not in the program and returns its name."""

    def known_as(self, name: str, array: Array) -> str:
        """Adds a value of the program as a constant and returns its name."""

    def spec(self, name: str) -> TensorSpec: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def reshaped(self, name: str, shape: Sequence[int], output: str | None = None) -> str:
        """A value in another shape."""

    def same(self, name: str, output: str) -> str:
        """A value under another name."""

    def transposed_source(self, name: str) -> str | None:
        """The row-major matrix whose transpose a value is, or ``None``: weights are read in their stored layout."""


# --------------------------------------------------------------------------- ATen


@dataclass(frozen=True)
class Call:
    """A call of an ATen operator: ``operator``, without its overload.

    ``arguments``: by the schema's names (``self`` is ``input``); tensors as :class:`Value`, numbers that each call
    gives as :class:`Symbolic`, element types by name. ``given``: names of arguments that differ from their defaults.
    ``result``: index of the requested result, 0 for an operator with one result. ``spec``: the result's shape and
    element type; ``output``: its name.
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
        if isinstance(found, Symbolic) or (
            isinstance(found, list | tuple) and any(isinstance(x, Symbolic) for x in found)
        ):
            raise Left(f"{name} changes from call to call")
        return found

    def operand(self, name: str) -> str:
        """A tensor's name, ``""`` for an absent tensor."""
        found = self.arguments[name]
        return "" if found is None else str(found)

    def only_first(self, others: str) -> None:
        """Raises :class:`Left` where a later result than the first is requested; ``others`` names those results."""
        if self.result:
            raise Left(f"it gives {others}")

    def allow(self, *names: str) -> None:
        """Raises :class:`Left` where an argument outside of ``names`` differs from its default."""
        more = sorted(self.given.difference(names))
        if more:
            raise Left(f"its argument {more[0]} is not known")


def _enter(table: dict[str, Any], names: Sequence[str], handler: object) -> None:
    """Adds a handler under ``names``. Raises ``UsageError`` for a name that has a handler already."""
    if taken := [n for n in names if n in table]:
        raise UsageError(f"there is a handler of {taken[0]!r} already", "Name an operator in one place")
    table.update(dict.fromkeys(names, handler))


AtenHandler = Callable[[Build, Call], object]

ATEN: dict[str, AtenHandler] = {}
"""Handlers by the overload's name, such as ``add.Tensor``; a default overload has the operator's name alone."""


def aten(*names: str) -> Callable[[AtenHandler], AtenHandler]:
    """Registers a handler, whose last node computes ``call.output``."""

    def decorate(handler: AtenHandler) -> AtenHandler:
        _enter(ATEN, names, handler)
        return handler

    return decorate


def aten_named(operation: Operation, *names: str, **own: str) -> None:
    """Registers ``operation`` for ATen operators with equal parameters; ``own``: ATen's name of a parameter, if it
    differs."""
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
    """An argument as an attribute; lists become tuples."""
    return tuple(value) if isinstance(value, list) else value


def operand(build: Build, value: Union[Value, Number, None]) -> str:
    """A tensor's name, or the name of a new constant that holds the number."""
    if value is None:
        return ""
    return str(value) if isinstance(value, Value) else build.constant(np.asarray(value))


# --------------------------------------------------------------------------- ONNX


class OnnxBuild(Build, Protocol):
    """A graph built from an ONNX model, with values under the model's names. ``onnx`` is the package."""

    opset: int
    onnx: Any

    def known(self, name: str) -> Array:
        """A constant's array. Raises :class:`Left` for other values."""

    def numbers(self, name: str) -> tuple[int, ...]:
        """A constant's integers. Raises :class:`Left` for other values."""

    def wanted(self, node: Any) -> list[str]:
        """The node's outputs that are read."""


Attributes = dict[str, Any]
OnnxHandler = Callable[[Any, Any, Attributes], object]

ONNX: dict[str, OnnxHandler] = {}
"""Handlers by the operator's name, with its domain unless it is ONNX's own: ``com.microsoft.FusedMatMul``."""


def onnx(*names: str) -> Callable[[OnnxHandler], OnnxHandler]:
    """Registers a handler of a node and its attributes, with strings as ``str``.

    The last nodes that the handler adds compute the node's outputs.
    """

    def decorate(handler: OnnxHandler) -> OnnxHandler:
        _enter(ONNX, names, handler)
        return handler

    return decorate


def onnx_named(operation: Operation, *names: str, **own: tuple[str, Any]) -> None:
    """Registers ``operation`` for ONNX operators with equal inputs; ``own``: a parameter's ONNX attribute and its
    default."""

    def handler(build: OnnxBuild, node: Any, attributes: Attributes) -> None:
        unknown = sorted(set(attributes).difference(name for name, _ in own.values()))
        if unknown:
            raise Left(f"its attribute {unknown[0]} is not known")
        given = {p: attributes.get(name, default) for p, (name, default) in own.items()}
        build.add(operation.name, node.input, node.output[0], **given)

    _enter(ONNX, names, handler)


def axes_of(build: OnnxBuild, node: Any, a: dict[str, Any]) -> tuple[int, ...] | None:
    """The axes, from the attribute of old operator sets or the input of newer ones; ``None`` where they are not
    given."""
    if "axes" in a:
        return tuple(a["axes"])
    return build.numbers(node.input[1]) if len(node.input) > 1 and node.input[1] else None


def joined(build: Build, parts: Sequence[str], dim: int, output: str) -> None:
    """Concatenates parts along an axis."""
    if len(parts) == 1:
        build.same(parts[0], output)
    else:
        build.add("cat", parts, output, dim=dim)


REFUSED: dict[str, str] = {}
"""Why an operator stays with PyTorch or onnxruntime, by its name."""


def refuse(why: str, *names: str) -> None:
    REFUSED.update(dict.fromkeys(names, why))
