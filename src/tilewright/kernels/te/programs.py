"""The normalised program of an operator's definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.core import OperatorError, UsageError
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.te.tensors import TensorRef, Tracing, check_elements, tracing

MAX_OUTPUTS = 8
"""Largest number of tensors that an operator returns."""


def program(
    output: TensorRef | Sequence[TensorRef], inputs: Sequence[TensorRef] | None = None
) -> tuple[Program, tuple[str, ...]]:
    """The normalised program of a definition, and the names of its inputs in call order.

    ``output``: the tensor that the operator returns, or the tensors, in the order in which calls return them.
    ``inputs`` fixes the call order; without ``inputs``, the order is that of their declaration. Raises
    ``OperatorError`` for an input returned unchanged, a tensor returned twice, two inputs of one name, and an input
    that ``inputs`` lacks.
    """
    outputs = [output] if isinstance(output, TensorRef) else list(output)
    for n, ref in enumerate(outputs):
        if ref.definition is None:
            raise OperatorError("the operator returns an input unchanged", "Return a te.compute(...)")
        if any(ref is o for o in outputs[:n]):
            raise OperatorError("the operator returns one tensor twice", "Return each tensor once")
        check_elements(ref.shape, f"the result {ref.label}")
    order, found = list[TensorRef](), list[TensorRef]()

    def visit(ref: TensorRef) -> None:
        if any(ref is r for r in (*order, *found)):
            return
        if ref.definition is None:
            found.append(ref)
            return
        for node in ref.definition.stage("", ref.shape, ref.dtype).loads():
            if isinstance(node.value, TensorRef):
                visit(node.value)
        order.append(ref)

    for ref in outputs:
        visit(ref)
    args = [a.memory or a for a in inputs] if inputs is not None else sorted(found, key=lambda r: r.serial)
    for ref in found:
        if not any(ref is a for a in args):
            raise OperatorError(f"input {ref.label} is read but not among the operator's inputs")
    labels = [a.label for a in args]
    if len(set(labels)) != len(labels):
        raise OperatorError(f"two inputs have the same name: {', '.join(labels)}")
    names = {id(a): f"x{n}" for n, a in enumerate(args)}
    names |= {id(r): f"s{n}" for n, r in enumerate(order)}

    def rename(e: Expr) -> Expr:
        return e.map(lambda n: ex.load(names[id(n.value)], n.dtype, n.args) if n.op == "load" else None)

    stages = tuple(
        d.stage("", r.shape, r.dtype).renamed(names[id(r)], rename) for r in order if (d := r.definition) is not None
    )
    reach = {k: v for s in stages if s.step is not None for k, v in s.step.weights(s.reduce[0]).items()}
    tensors = tuple(_tensor(names[id(a)], a, reach.get(names[id(a)])) for a in args)
    results = tuple(names[id(r)] for r in outputs) if len(outputs) > 1 else ()
    return Program(tensors, stages, results), tuple(labels)


def _tensor(name: str, a: TensorRef, reach: float | None) -> Tensor:
    """An input of a program; ``reach``: largest magnitude to try if the input has no declared range."""
    low, high = (-reach, reach) if reach is not None and a.low is None and a.high is None else (a.low, a.high)
    return Tensor(name, a.shape, a.dtype, a.constant, low, high)


def trace(
    define: Callable[[], TensorRef | Sequence[TensorRef]], dtype: str = "float32", constants: Sequence[str] = ()
) -> tuple[Program, tuple[str, ...]]:
    """The normalised program of the tensors that ``define`` returns, and the names of its inputs, in declaration order.

    ``dtype`` is the type of inputs and monoids that name none; ``constants`` names inputs that are constant. Raises
    ``OperatorError`` for a return value that is no tensor, and for an input that is never read.
    """
    declared: list[TensorRef] = []
    token = tracing.set(Tracing(dtype, frozenset(constants), declared))
    try:
        output: object = define()
    finally:
        tracing.reset(token)
    outputs: list[Any] = list(output) if isinstance(output, tuple | list) else [output]
    if not 1 <= len(outputs) <= MAX_OUTPUTS:
        raise OperatorError(
            f"the operator returns {len(outputs)} tensors", f"Return one te.compute(...), or up to {MAX_OUTPUTS}"
        )
    strange = next((o for o in outputs if not isinstance(o, TensorRef)), None)
    if strange is not None or output is None:
        raise OperatorError(f"the operator returns {type(strange).__name__}, not a tensor", "Return a te.compute(...)")
    result, labels = program(outputs, declared)
    read = {str(e.value) for s in result.stages for e in s.loads()}
    for tensor, label in zip(result.inputs, labels, strict=True):
        if tensor.name not in read:
            raise OperatorError(f"input {label} is never read", "Remove its te.input, or read it")
    for name in constants:
        if name not in labels:
            raise UsageError(f"constant={name} names no input", f"The inputs are {', '.join(labels)}")
    return result, labels
