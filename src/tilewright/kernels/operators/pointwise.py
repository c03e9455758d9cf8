"""Elementwise operators: ``elementwise`` with a formula, and operators named after one formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.dims import broadcast
from tilewright.kernels.nn.formula import names, numpy_value
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators.numeric import (
    REALS,
    Array,
    Found,
    Shape,
    Shapes,
    expected,
    rounded,
    shape_of_input,
    text,
)

INPUTS = ("x", "y", "z")
"""Names of a formula's inputs, in call order."""

EXAMPLE: dict[str, Value] = {"shape": "1024,1024"}


def _read(fn: str) -> tuple[str, ...]:
    """The inputs that a formula names, in call order. Raises ``UsageError`` for other names, or if ``x`` is missing."""
    found = names("elementwise", fn)
    unknown = sorted(found - set(INPUTS))
    if unknown or "x" not in found:
        what = f"names {', '.join(unknown)}" if unknown else "does not name x"
        raise UsageError(f"elementwise: fn={fn!r} {what}", "It names x, and y and z where there are more inputs")
    return tuple(n for n in INPUTS if n in found)


@rounded
def _elementwise(*inputs: Array, fn: str, y_shape: Shape, z_shape: Shape) -> Array:
    del y_shape, z_shape  # the inputs have them
    out = numpy_value("elementwise", fn, dict(zip(_read(fn), inputs, strict=True)))
    return np.array(np.broadcast_to(out, inputs[0].shape), inputs[0].dtype)


def _infer_elementwise(shapes: Shapes, fn: str, y_shape: Shape, z_shape: Shape) -> Found:
    shape, *rest = shapes
    found = shape_of_input([shape])
    others = _read(fn)[1:]
    if len(rest) != len(others):
        expected("elementwise", rest, [shape] * len(others))
    for name, own in zip(others, rest, strict=True):
        given = {"y": y_shape, "z": z_shape}[name]
        found[f"{name}_shape"] = text(given or (() if own == shape else own))
        if given and given != own:
            raise UsageError(f"elementwise: {name} has shape {own}", f"{name}_shape says {given}")
        broadcast("elementwise", name, own, shape)
    return found


@operator(numpy=_elementwise, infer=_infer_elementwise, dtypes=REALS, example={**EXAMPLE, "fn": "gelu(x*2 + y)"})
def elementwise(
    shape: te.Shape,
    *,
    fn: str = "relu(x)",
    y_shape: te.Shape = (),
    z_shape: te.Shape = (),
    dtype: str = "float32",
) -> te.TensorRef:
    """``fn`` of every element: a formula over the inputs ``x``, ``y`` and ``z``, as in ``gelu(x*2 + y)``.

    Inputs, in call order: the names in ``fn``. ``x`` has ``shape``; ``y`` and ``z`` have ``shape``, or ``y_shape`` and
    ``z_shape``, which broadcast to it as in NumPy. Output: ``shape``. A formula has ``+ - * / **``, comparisons,
    ``and or not``, numbers, ``inf``, ``pi``, and ``abs exp log log1p pow sqrt rsqrt sin cos tanh erf floor maximum
    minimum where relu gelu gelu_tanh silu sigmoid``; ``where(condition, a, b)``, ``pow(a, b)``. 16-bit reals are
    computed in float32 and rounded once.
    """
    shapes = {"x": shape, "y": y_shape or shape, "z": z_shape or shape}
    read = _read(fn)
    for name in read[1:]:
        broadcast("elementwise", name, shapes[name], shape)
    inputs = {name: te.input(name, shapes[name], dtype) for name in read}
    return nn.cast(nn.elementwise(fn, **inputs), dtype)


def numpy_formula(fn: str) -> Callable[..., Array]:
    """The NumPy function of a formula on arrays ``x`` and ``y``."""

    @rounded
    def run(*inputs: Array, **_: object) -> Array:
        return np.asarray(numpy_value("formula", fn, dict(zip("xy", inputs, strict=False))), inputs[0].dtype)

    return run


def infer_pair(shapes: Shapes) -> Found:
    """``shape`` of the first input, to which the second broadcasts."""
    shape, other = shapes
    if len(other) > len(shape) or any(a not in (1, b) for a, b in zip(other[::-1], shape[::-1], strict=False)):
        raise UsageError(f"an input of shape {other} does not stretch to {shape}", "Give the larger one first")
    return {"shape": text(shape), "other_shape": "" if other == shape else text(other)}


def _unary(fn: Callable[[te.TensorRef], te.TensorRef], meaning: str) -> Operator:
    """``fn``, of ``nn``, as an operator; formulas have a function of its name."""

    def define(shape: te.Shape, *, dtype: str = "float32") -> te.TensorRef:
        return nn.cast(fn(te.input("input", shape, dtype)), dtype)

    name = fn.__name__
    define.__doc__ = f"""``{meaning}`` of every element; 16-bit reals are computed in float32 and rounded once.

    Input: ``input`` (``shape``). Output: ``shape``.
    """
    decorate = operator(
        name=name, numpy=numpy_formula(f"{name}(x)"), infer=shape_of_input, dtypes=REALS, example=EXAMPLE
    )
    return decorate(define)


def _binary(fn: Callable[[te.TensorRef, te.TensorRef], te.TensorRef], sign: str) -> Operator:
    """``fn``, of ``nn``, as an operator; formulas write it as ``sign``."""

    def define(shape: te.Shape, *, other_shape: te.Shape = (), dtype: str = "float32") -> te.TensorRef:
        return nn.cast(fn(te.input("input", shape, dtype), te.input("other", other_shape or shape, dtype)), dtype)

    define.__doc__ = f"""``input {sign} other``, element by element.

    Inputs in call order: ``input`` (``shape``), ``other`` (``shape``, or ``other_shape``, which is broadcast to it as
    in NumPy). Output: ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    numpy = numpy_formula(f"x {sign} y")
    return operator(name=fn.__name__, numpy=numpy, infer=infer_pair, dtypes=REALS, example=EXAMPLE)(define)


relu = _unary(nn.relu, "max(x, 0)")
sigmoid = _unary(nn.sigmoid, "1 / (1 + exp(-x))")
silu = _unary(nn.silu, "x / (1 + exp(-x))")
add = _binary(nn.add, "+")
mul = _binary(nn.mul, "*")


def _gelu(x: Array, approximate: str) -> Array:
    return numpy_formula("gelu_tanh(x)" if approximate == "tanh" else "gelu(x)")(x)


@operator(numpy=_gelu, infer=shape_of_input, dtypes=REALS, example=EXAMPLE)
def gelu(shape: te.Shape, *, approximate: Literal["none", "tanh"] = "none", dtype: str = "float32") -> te.TensorRef:
    """``x Phi(x)`` of every element, ``Phi`` the normal distribution, or its approximation by tanh.

    Input: ``input`` (``shape``). Output: ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.gelu(te.input("input", shape, dtype), approximate=approximate), dtype)
