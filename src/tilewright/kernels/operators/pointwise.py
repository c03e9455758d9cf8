"""Operators that are one formula of ``elementwise`` under a name of their own, and have its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.formula import numpy_value
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators.numeric import REALS, Array, rounded
from tilewright.kernels.operators.reduction import infer

EXAMPLE: dict[str, Value] = {"shape": "1024,1024"}


def numpy_formula(fn: str) -> Callable[..., Array]:
    """The formula on arrays ``x`` and ``y``."""

    @rounded
    def run(*inputs: Array, **_: object) -> Array:
        return np.asarray(numpy_value("formula", fn, dict(zip("xy", inputs, strict=False))), inputs[0].dtype)

    return run


def infer_pair(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    """``shape`` is the first input's, to which the second stretches."""
    shape, other = shapes
    if len(other) > len(shape) or any(a not in (1, b) for a, b in zip(other[::-1], shape[::-1], strict=False)):
        raise UsageError(f"an input of shape {other} does not stretch to {shape}", "Give the larger one first")
    return {"shape": ",".join(map(str, shape)), "other_shape": "" if other == shape else ",".join(map(str, other))}


def _unary(fn: Callable[[te.TensorRef], te.TensorRef], meaning: str) -> Operator:
    """``fn``, of ``nn``, as an operator; formulas have the same name for it."""

    def define(shape: te.Shape, *, dtype: str = "float32") -> te.TensorRef:
        return nn.cast(fn(te.input("input", shape, dtype)), dtype)

    name = fn.__name__
    define.__doc__ = f"""``{meaning}`` of every element; 16-bit reals are computed in float32 and rounded once.

    Input: ``input`` (``shape``). Output: ``shape``.
    """
    decorate = operator(name=name, numpy=numpy_formula(f"{name}(x)"), infer=infer, dtypes=REALS, example=EXAMPLE)
    return decorate(define)


def _binary(fn: Callable[[te.TensorRef, te.TensorRef], te.TensorRef], sign: str) -> Operator:
    """``fn``, of ``nn``, as an operator; formulas write it as ``sign``."""

    def define(shape: te.Shape, *, other_shape: te.Shape = (), dtype: str = "float32") -> te.TensorRef:
        return nn.cast(fn(te.input("input", shape, dtype), te.input("other", other_shape or shape, dtype)), dtype)

    define.__doc__ = f"""``input {sign} other``, element by element.

    Inputs in call order: ``input`` (``shape``), ``other`` (the same, or ``other_shape``, which stretches to it as in
    NumPy). Output: ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    numpy = numpy_formula(f"x {sign} y")
    return operator(name=fn.__name__, numpy=numpy, infer=infer_pair, dtypes=REALS, example=EXAMPLE)(define)


relu = _unary(nn.relu, "max(x, 0)")
sigmoid = _unary(nn.sigmoid, "1 / (1 + exp(-x))")
silu = _unary(nn.silu, "x / (1 + exp(-x))")
add = _binary(nn.add, "+")
mul = _binary(nn.mul, "*")
