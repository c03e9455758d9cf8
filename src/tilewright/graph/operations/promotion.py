"""The element type that PyTorch computes operands of several types in.

Source: PyTorch's documentation, "Tensor Attributes", type promotion. A tensor without axes, and a number, count only
where their kind (condition, whole number, real) is above that of the tensors with axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import TensorSpec, UsageError
from tilewright.graph.operations.table import Number
from tilewright.kernels.expression.expr import FLOATS, INTEGERS

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
