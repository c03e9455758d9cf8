"""The operations that graphs know: how each is stated as a tensor expression, and what kind of kernel it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union

from tilewright.core import OperatorError, TensorSpec, UsageError
from tilewright.graph import elementwise, layout
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import INDEX, NARROW, const
from tilewright.kernels.nn.element import computed, value

Kind = Literal["elementwise", "move", "gather", "contraction", "window", "rows", "attention"]
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
    kernels may rearrange.
    """

    name: str
    kind: Kind
    state: State
    numbers: bool = False
    weight: int | None = None


OPERATIONS: dict[str, Operation] = {}
"""Every operation by name: PyTorch's functional names."""


def register(name: str, kind: Kind, state: State, *, numbers: bool = False, weight: int | None = None) -> Operation:
    """Add an operation. Raises ``UsageError`` where the name is taken."""
    if name in OPERATIONS:
        raise UsageError(f"there is an operation {name!r} already", "Choose another name")
    OPERATIONS[name] = Operation(name, kind, state, numbers, weight)
    return OPERATIONS[name]


def infer(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    scalars: Sequence[Number | None],
    attributes: Mapping[str, Any],
) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of an operation's output. Raises ``UsageError`` for what does not fit."""
    numbered = as_numbers(operation, inputs, scalars)
    operands: list[Operand] = [
        None if s is None else n if n is not None else te.input(f"x{k}", s.shape, s.dtype)
        for k, (s, n) in enumerate(zip(inputs, numbered, strict=True))
    ]
    made = state(operation, operands, attributes)
    return made.shape, made.dtype


def as_numbers(
    operation: Operation, inputs: Sequence[TensorSpec | None], scalars: Sequence[Number | None]
) -> list[Number | te.Expr | None]:
    """Which inputs are stated as numbers: constants of one element, beside a tensor of at least as many axes.

    A number takes the type of the tensor beside it; beside conditions alone it keeps its own.
    """
    beside = [s for s, n in zip(inputs, scalars, strict=True) if s is not None and n is None]
    if not operation.numbers or not beside:
        return [None] * len(inputs)
    most = max(len(s.shape) for s in beside)
    conditions = all(s.dtype == "bool" for s in beside)

    def number(spec: TensorSpec | None, given: Number | None) -> Number | te.Expr | None:
        if spec is None or given is None or len(spec.shape) > most:
            return None
        if not conditions:
            return given
        own = spec.dtype == computed(spec.dtype) and spec.dtype != "bool"
        return const(given, spec.dtype) if own else None

    return [number(s, n) for s, n in zip(inputs, scalars, strict=True)]


def state(operation: Operation, operands: Sequence[Operand], attributes: Mapping[str, Any]) -> te.TensorRef:
    """The operation on these operands, its result in their type. Raises ``UsageError`` for what does not fit."""
    try:
        made = operation.state(*operands, **attributes)
    except (TypeError, OperatorError) as error:
        raise UsageError(f"{operation.name}: {error}", "See the function of that name in PyTorch") from error
    first = next((o.dtype for o in operands if isinstance(o, te.TensorRef) and o.dtype != "bool"), "")
    rounded = first in NARROW and made.dtype == "float32" and operation.name != "to"
    return nn.cast(made, first) if rounded else made


# --------------------------------------------------------------------------- built in


def _conv(rank: int) -> State:
    function = (nn.conv1d, nn.conv2d, nn.conv3d)[rank - 1]

    def conv(
        input: te.TensorRef, weight: te.TensorRef, bias: te.TensorRef | None = None, **attributes: Any
    ) -> te.TensorRef:
        return function(input, weight, bias, **attributes)

    return conv


def _batch_norm(
    input: te.TensorRef,
    running_mean: te.TensorRef,
    running_var: te.TensorRef,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    eps: float = 1e-5,
    dim: int = 1,
) -> te.TensorRef:
    return nn.batch_norm(input, running_mean, running_var, weight, bias, eps=eps, dim=dim)


def _layer_norm(
    input: te.TensorRef,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    *,
    normalized_shape: Sequence[int],
    eps: float = 1e-5,
) -> te.TensorRef:
    return nn.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def _rms_norm(
    input: te.TensorRef, weight: te.TensorRef | None = None, *, normalized_shape: Sequence[int], eps: float = 1e-6
) -> te.TensorRef:
    return nn.rms_norm(input, tuple(normalized_shape), weight, eps)


def _group_norm(
    input: te.TensorRef,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> te.TensorRef:
    return nn.group_norm(input, num_groups, weight, bias, eps)


def _reduction(function: Callable[..., te.TensorRef]) -> State:
    def reduced(input: te.TensorRef, dim: te.Ints = (), keepdim: bool = False) -> te.TensorRef:
        return function(input, dim, keepdim)

    return reduced


def _attention(
    query: te.TensorRef,
    key: te.TensorRef,
    value: te.TensorRef,
    attn_mask: te.TensorRef | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> te.TensorRef:
    return nn.scaled_dot_product_attention(query, key, value, attn_mask, is_causal, scale)


def _embedding(input: te.TensorRef, weight: te.TensorRef, *, wrap: bool = False) -> te.TensorRef:
    """``wrap``: negative numbers count from the last row, as ONNX has it."""
    made = nn.embedding(input, weight)  # checks
    rows = weight.shape[0]
    if not wrap:
        return made
    return te.compute(made.shape, lambda *i: weight[(te.cast(input[i[:-1]], INDEX) + rows) % rows, i[-1]])


def _matmul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """``nn.matmul``, which reads batches of one element in place too: attentions are recognised by such reads."""
    shape = nn.matmul(input, other).shape  # checks
    k = input.shape[-1]
    batch = shape[:-2]

    def product(*i: te.Expr) -> te.Reduction:
        *p, row, column = i
        return te.sum(
            k,
            lambda r: (
                value(elementwise.element(input, (*p, row, r), (*batch, shape[-2], k)))
                * value(elementwise.element(other, (*p, r, column), (*batch, k, shape[-1])))
            ),
        )

    return te.compute(shape, product)


def _built_in() -> None:
    for name, function in elementwise.FUNCTIONS.items():
        register(name, "elementwise", function, numbers=True)
    register("batch_norm", "elementwise", _batch_norm)
    for name, function in layout.FUNCTIONS.items():
        register(name, "move", function)
    register("embedding", "gather", _embedding)
    register("matmul", "contraction", _matmul, weight=1)
    register("linear", "contraction", nn.linear, weight=1)
    for rank in (1, 2, 3):
        register(f"conv{rank}d", "contraction", _conv(rank), weight=1)
    for name, pool in (
        ("max_pool1d", nn.max_pool1d), ("max_pool2d", nn.max_pool2d), ("max_pool3d", nn.max_pool3d),
        ("avg_pool1d", nn.avg_pool1d), ("avg_pool2d", nn.avg_pool2d), ("avg_pool3d", nn.avg_pool3d),
    ):  # fmt: skip
        register(name, "window", pool)
    for name, reduction in (
        ("sum", nn.sum), ("mean", nn.mean), ("prod", nn.prod), ("amax", nn.amax), ("amin", nn.amin),
        ("argmax", nn.argmax), ("argmin", nn.argmin), ("logsumexp", nn.logsumexp),
    ):  # fmt: skip
        register(name, "rows", _reduction(reduction))
    register("cumsum", "rows", nn.cumsum)
    register("softmax", "rows", nn.softmax)
    register("log_softmax", "rows", nn.log_softmax)
    register("softmax_backward", "rows", nn.softmax_backward)
    register("log_softmax_backward", "rows", nn.log_softmax_backward)
    register("layer_norm", "rows", _layer_norm)
    register("rms_norm", "rows", _rms_norm)
    register("group_norm", "rows", _group_norm)
    register("scaled_dot_product_attention", "attention", _attention)


_built_in()

__all__ = ["OPERATIONS", "Kind", "Operand", "Operation", "as_numbers", "infer", "register", "state"]
