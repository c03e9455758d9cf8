"""The table of operations that graphs know: what each computes, as a tensor expression, and who calls it what.

An operation is one entry (:func:`register`): a function of tensors and attributes under PyTorch's functional name and
with its parameters' names, and the kind of kernel it makes. What ATen and ONNX call it stands behind the entry, with a
handler (:mod:`~tilewright.graph.operations.handlers`) where their arguments are not the function's own.
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
"""``move``: elements in other places, none computed. ``rows``: reductions along axes, and what follows them."""

Number = Union[float, int, bool]

Operand = Union[te.TensorRef, te.Expr, Number, None]
"""What a statement receives: a tensor, the number of a constant of one element (with a type where no tensor beside it
has one), or ``None`` for an absent input."""

State = Callable[..., te.TensorRef]


@dataclass(frozen=True, eq=False)
class Operation:
    """``state(*operands, **attributes)`` is the computation.

    ``numbers``: whether constants of one element may be given as numbers. ``weight``: which input, if it is constant,
    kernels may rearrange. ``promotes``: from this operand on, importers convert operands of several element types to
    the one that PyTorch computes in.
    """

    name: str
    kind: Kind
    state: State
    numbers: bool = False
    weight: int | None = None
    promotes: int | None = None

    @cached_property
    def parameters(self) -> Mapping[str, bool]:
        """The statement's parameters in order: whether each is an operand (a tensor) or an attribute."""
        found = inspect.signature(self.state).parameters.values()
        return {p.name: any(t in str(p.annotation) for t in ("TensorRef", "Operand")) for p in found}


OPERATIONS: dict[str, Operation] = {}
"""Every operation by name: PyTorch's functional names."""


def register(
    name: str,
    kind: Kind,
    state: State,
    *,
    numbers: bool = False,
    weight: int | None = None,
    promotes: int | None = None,
) -> Operation:
    """Add an operation. Raises ``UsageError`` where the name is taken."""
    if name in OPERATIONS:
        raise UsageError(f"there is an operation {name!r} already", "Choose another name")
    OPERATIONS[name] = Operation(name, kind, state, numbers, weight, promotes)
    return OPERATIONS[name]


def register_all(kind: Kind, **states: State) -> None:
    """Add operations of one kind, by name."""
    for name, state in states.items():
        register(name, kind, state)


def infer(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    scalars: Sequence[Number | None],
    attributes: Mapping[str, Any],
) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of an operation's output. Raises ``UsageError`` for what does not fit."""
    places = count()
    operands = [None if s is None else operand(next(places), s.shape, s.dtype) for s in inputs]
    made = state(operation, operands, scalars, attributes)
    return made.shape, made.dtype


@lru_cache(maxsize=4096)
def operand(number: int, shape: tuple[int, ...], dtype: str) -> te.TensorRef:
    """What is given to statements as ``x{number}``: the same tensor each time, so that equal statements are one."""
    return replace(te.input(f"x{number}", shape, dtype), serial=number)


def state(
    operation: Operation,
    operands: Sequence[te.TensorRef | None],
    scalars: Sequence[Number | None],
    attributes: Mapping[str, Any],
) -> te.TensorRef:
    """The operation on these operands, its result in their type: the same tensor each time.

    ``scalars``: the numbers of operands that are constants of one element. Raises ``UsageError`` for what does not fit.
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
    """Which inputs are stated as numbers: constants of one element, beside a tensor of at least as many axes.

    A number takes the type of the tensor beside it; beside conditions alone it keeps its own.
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
