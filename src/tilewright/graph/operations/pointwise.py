"""Functions of elements, stretched to one shape as in NumPy, numbers among their operands; and the types of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

from tilewright.core import TensorSpec, UsageError
from tilewright.graph.operations.handlers import aten_named, onnx_named
from tilewright.graph.operations.table import Number, Operation, State, register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, const
from tilewright.kernels.nn.dims import value

Element = Union[te.Expr, float, int, bool]
Operand = Union[te.TensorRef, te.Expr, float, int, bool]

Unary = tuple[str, Callable[[te.Expr], te.Expr], bool, str | None]
"""A function's name, the function, whether it takes reals alone, and ONNX's name."""


def broadcast_shape(op: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all stretch to. Raises ``UsageError``."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out = tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))
    if any(n not in (1, m) for s in padded for n, m in zip(s, out, strict=True)):
        shown = " and ".join(map(str, shapes))
        raise UsageError(f"{op}: {shown} do not stretch to one shape", "Each axis has the same size or 1")
    return out


def element(x: te.TensorRef, index: tuple[te.Expr, ...], shape: tuple[int, ...]) -> te.Expr:
    """The element of ``x`` that belongs to an index into ``shape``, to which it stretches; in place where it can be."""
    skipped = len(index) - len(x.shape)
    own = zip(x.shape, index[skipped:], shape[skipped:], strict=True)
    return x[tuple(i if n == m else const(0, INDEX) for n, i, m in own)]


def pointwise(
    op: str, operands: tuple[Operand, ...], fn: Callable[..., Element], dtype: str | None = None
) -> te.TensorRef:
    """``fn`` of the elements of ``operands``, narrow types in a wider one; ``dtype``: of the result, if another.

    A number takes the type of the tensors beside it. The tensors' dtypes agree, conditions apart.
    """
    tensors = [o for o in operands if isinstance(o, te.TensorRef)]
    shape = broadcast_shape(op, [t.shape for t in tensors])
    kinds = {t.dtype for t in tensors if t.dtype != "bool"}
    if len(kinds) > 1:
        raise UsageError(f"{op}: the operands are {' and '.join(sorted(kinds))}", "Give all one type")
    narrow = tensors[0].dtype if dtype is None else dtype

    def point(*i: te.Expr) -> Element:
        return fn(*(value(element(o, i, shape)) if isinstance(o, te.TensorRef) else o for o in operands))

    made = te.compute(shape, point, dtype=dtype)
    kept = dtype or narrow in (made.dtype, "bool")
    return made if kept else te.compute(shape, point, dtype=narrow)


def ceil(x: te.Expr) -> te.Expr:
    return -te.floor(-x)


def trunc(x: te.Expr) -> te.Expr:
    return te.select(x < 0.0, ceil(x), te.floor(x))


def unary(
    name: str, fn: Callable[[te.Expr], te.Expr], reals: bool = True, dtype: str | None = None
) -> Callable[..., te.TensorRef]:
    def apply(input: te.TensorRef) -> te.TensorRef:
        if reals and input.dtype not in FLOATS:
            raise UsageError(f"{name}: input is {input.dtype}", f"It takes {', '.join(FLOATS)}")
        return pointwise(name, (input,), fn, dtype)

    return apply


def register_unary(functions: Iterable[Unary]) -> None:
    """Functions of one element that PyTorch calls by our name."""
    for name, function, reals, onnx in functions:
        register_named(name, unary(name, function, reals), onnx=onnx)


def register_named(
    name: str,
    state: State,
    *aten: str,
    onnx: str | None = None,
    promotes: int | None = None,
    **own: tuple[str, Any],
) -> Operation:
    """A function of elements that ATen calls by these names, or by ours, and ONNX by another, with its attributes."""
    made = register(name, "elementwise", state, numbers=True, promotes=promotes)
    aten_named(made, *(aten or (name,)))
    if onnx:
        onnx_named(made, onnx, **own)
    return made


# --------------------------------------------------------------------------- element types

# Source: PyTorch's documentation, "Tensor Attributes", type promotion. A tensor without axes, and a number, count only
# where their kind (condition, whole number, real) is above that of the tensors with axes.


_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def promoted(tensors: Sequence[TensorSpec], numbers: Sequence[Number]) -> str:
    """The type by name. Raises ``UsageError`` where it is none of ours."""
    ranked = [t.dtype for t in tensors if t.shape], [t.dtype for t in tensors if not t.shape]
    result = ""
    for dtypes in (*ranked, [_of_number(n) for n in numbers]):
        for found in [_common(dtypes)] if dtypes else []:
            result = found if not result or _kind(found) > _kind(result) else result
    return result


def _common(dtypes: Sequence[str]) -> str:
    kinds = set(dtypes)
    if unknown := kinds.difference(_ORDER):
        raise UsageError(f"an operand is {unknown.pop()}", f"Operands are {', '.join(_ORDER)}")
    if kinds >= {"float16", "bfloat16"}:
        kinds.add("float32")
    if kinds >= {"int8", "uint8"}:
        kinds.add("int16")
    return max(kinds, key=_ORDER.index)


def _kind(dtype: str) -> int:
    return 2 if dtype in FLOATS else 1 if dtype in INTEGERS else 0


def _of_number(number: Number) -> str:
    return "bool" if isinstance(number, bool) else "int64" if isinstance(number, int) else "float32"
