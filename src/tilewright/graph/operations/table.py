"""The table of graph operations: each operation's computation as a tensor expression, and its names in ATen and ONNX.

:func:`register` adds an operation: a function of tensors and attributes with PyTorch's functional name and parameter
names, and its kind of kernel. Names in ATen and ONNX follow the entry. A handler
(:mod:`~tilewright.graph.operations.handlers`) converts arguments where they differ from the function's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any, Literal, Union

from tilewright.caching import ByText
from tilewright.core import OperatorError, TensorSpec, UsageError, cached_property
from tilewright.extent import for_every_size
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import NARROW, const
from tilewright.kernels.nn.dims import computed

Kind = Literal["elementwise", "move", "gather", "contraction", "window", "rows", "attention", "recurrent"]
"""``move``: copies elements to other positions without computing. ``rows``: reductions along axes, and their
epilogues."""

Number = Union[float, int, bool]

Operand = Union[te.TensorRef, te.Expr, Number, None]
"""An operand of a statement: a tensor, the value of a one-element constant, or ``None`` for an absent input.

The value is a typed expression where no tensor operand gives it a type.
"""

State = Callable[..., te.TensorRef]


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation; ``state(*operands, **attributes)`` returns its computation.

    ``numbers``: whether one-element constants may be given as numbers. ``weight``: index of the input that kernels may
    rearrange, if it is constant. ``promotes``: importers convert the operands from this index on to PyTorch's promoted
    element type.
    """

    name: str
    kind: Kind
    state: State
    numbers: bool = False
    weight: int | None = None
    promotes: int | None = None

    @cached_property
    def parameters(self) -> Mapping[str, bool]:
        """The statement's parameters in order, with ``True`` for operands (tensors) and ``False`` for attributes."""
        found = inspect.signature(self.state).parameters.values()
        return {p.name: any(t in str(p.annotation) for t in ("TensorRef", "Operand")) for p in found}


OPERATIONS: dict[str, Operation] = {}
"""Every operation, by PyTorch's functional name."""


def register(
    name: str,
    kind: Kind,
    state: State,
    *,
    numbers: bool = False,
    weight: int | None = None,
    promotes: int | None = None,
) -> Operation:
    """Adds an operation. Raises ``UsageError`` where the name is taken."""
    if name in OPERATIONS:
        raise UsageError(f"there is an operation {name!r} already", "Choose another name")
    OPERATIONS[name] = Operation(name, kind, state, numbers, weight, promotes)
    return OPERATIONS[name]


def register_all(kind: Kind, **states: State) -> None:
    """Adds operations of one kind, by name."""
    for name, state in states.items():
        register(name, kind, state)


def infer(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    scalars: Sequence[Number | None],
    attributes: Mapping[str, Any],
) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of an operation's output. Raises ``UsageError`` for operands or attributes that do not fit."""
    places = count()
    operands = [None if s is None else operand(next(places), s.shape, s.dtype) for s in inputs]
    made = state(operation, operands, scalars, attributes)
    return made.shape, made.dtype


@lru_cache(maxsize=4096)
def operand(number: int, shape: tuple[int, ...], dtype: str) -> te.TensorRef:
    """The tensor ``x{number}``, an operand of statements. Caching returns one object, so that equal statements are one
    too."""
    return replace(te.input(f"x{number}", shape, dtype), serial=number)


def state(
    operation: Operation,
    operands: Sequence[te.TensorRef | None],
    scalars: Sequence[Number | None],
    attributes: Mapping[str, Any],
) -> te.TensorRef:
    """The operation's result tensor, in the operands' type; equal calls return one cached object.

    ``scalars``: the values of operands that are one-element constants. Raises ``UsageError`` for operands or attributes
    that do not fit.
    """
    return _stated(operation, tuple(operands), ByText((list(scalars), dict(attributes))))


@lru_cache(maxsize=4096)
def _stated(
    operation: Operation, operands: tuple[te.TensorRef | None, ...], given: ByText[tuple[Any, ...]]
) -> te.TensorRef:
    scalars, attributes = given.value
    numbers = _as_numbers(operation, operands, scalars)
    taken: list[Operand] = [o if n is None else n for o, n in zip(operands, numbers, strict=True)]
    try:
        with for_every_size():
            made = operation.state(*taken, **attributes)
    except (TypeError, OperatorError) as error:
        raise UsageError(f"{operation.name}: {error}", "See the function of that name in PyTorch") from error
    first = next((o.dtype for o in taken if isinstance(o, te.TensorRef) and o.dtype != "bool"), "")
    rounded = first in NARROW and made.dtype == "float32" and operation.name != "to"
    return nn.cast(made, first) if rounded else made


def _as_numbers(
    operation: Operation, inputs: Sequence[te.TensorRef | None], scalars: Sequence[Number | None]
) -> list[Number | te.Expr | None]:
    """The values of inputs that are stated as numbers, ``None`` for the remaining inputs.

    A number is a one-element constant next to a tensor of at least its rank. It takes that tensor's type, or keeps its
    own type if all tensors are conditions.
    """
    beside = [s for s, n in zip(inputs, scalars, strict=True) if s is not None and n is None]
    if not operation.numbers or not beside:
        return [None] * len(inputs)
    most = max(len(s.shape) for s in beside)
    conditions = all(s.dtype == "bool" for s in beside)

    def number(spec: te.TensorRef | None, given: Number | None) -> Number | te.Expr | None:
        if spec is None or given is None or len(spec.shape) > most:
            return None
        if not conditions:
            return given
        own = spec.dtype == computed(spec.dtype) and spec.dtype != "bool"
        return const(given, spec.dtype) if own else None

    return [number(s, n) for s, n in zip(inputs, scalars, strict=True)]
