"""Elementwise functions with NumPy's broadcasting and numbers among the operands, and PyTorch's type promotion."""

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
"""A function's name, the function, whether it takes reals only, and ONNX's name."""


def broadcast_shape(op: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The common broadcast shape. Raises ``UsageError``."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out = tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))
    if any(n not in (1, m) for s in padded for n, m in zip(s, out, strict=True)):
        shown = " and ".join(map(str, shapes))
        raise UsageError(f"{op}: {shown} do not stretch to one shape", "Each axis has the same size or 1")
    return out


def element(x: te.TensorRef, index: tuple[te.Expr, ...], shape: tuple[int, ...]) -> te.Expr:
    """The element of ``x`` that broadcasting puts at an index into ``shape``."""
    skipped = len(index) - len(x.shape)
    own = zip(x.shape, index[skipped:], shape[skipped:], strict=True)
    return x[tuple(i if n == m else const(0, INDEX) for n, i, m in own)]


def pointwise(
    op: str, operands: tuple[Operand, ...], fn: Callable[..., Element], dtype: str | None = None
) -> te.TensorRef:
    """Applies ``fn`` to the operands' elements, narrow types widened; ``dtype``: of the result, if it differs.

    A number takes the type of the tensors. Tensors must agree in dtype, apart from conditions.
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
    """Registers functions of one element that PyTorch calls by the same name."""
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
    """Registers an elementwise function under ATen's names, which default to ``name``, and ONNX's name and
    attributes."""
    made = register(name, "elementwise", state, numbers=True, promotes=promotes)
    aten_named(made, *(aten or (name,)))
    if onnx:
        onnx_named(made, onnx, **own)
    return made


# --------------------------------------------------------------------------- element types

# Source: PyTorch's documentation, "Tensor Attributes", type promotion. A tensor without axes, or a number, counts only
# where its kind (condition, integer, real) is above the kind of the tensors with axes.


_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def promoted(tensors: Sequence[TensorSpec], numbers: Sequence[Number]) -> str:
    """The promoted type by name. Raises ``UsageError`` for an unknown element type."""
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
