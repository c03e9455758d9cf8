"""A formula of every element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.dims import broadcast
from tilewright.kernels.nn.formula import names, numpy_value
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, expected, rounded

NAMES = ("x", "y", "z")


def _read(fn: str) -> tuple[str, ...]:
    """The inputs that a formula names, in call order. Raises ``UsageError`` for other names, or none."""
    found = names("elementwise", fn)
    unknown = sorted(found - set(NAMES))
    if unknown or "x" not in found:
        what = f"names {', '.join(unknown)}" if unknown else "does not name x"
        raise UsageError(f"elementwise: fn={fn!r} {what}", "It names x, and y and z where there are more inputs")
    return tuple(n for n in NAMES if n in found)


@rounded
def _numpy(*inputs: Array, fn: str = "relu(x)", y_shape: tuple[int, ...] = (), z_shape: tuple[int, ...] = ()) -> Array:
    out = numpy_value("elementwise", fn, dict(zip(_read(fn), inputs, strict=True)))
    return np.array(np.broadcast_to(out, inputs[0].shape), inputs[0].dtype)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    fn: str = "relu(x)",
    y_shape: tuple[int, ...] = (),
    z_shape: tuple[int, ...] = (),
    **_: object,
) -> dict[str, Value]:
    shape, *rest = shapes
    found: dict[str, Value] = {"shape": ",".join(map(str, shape))}
    others = _read(fn)[1:]
    if len(rest) != len(others):
        expected("elementwise", rest, [shape] * len(others))
    for name, own in zip(others, rest, strict=True):
        given = {"y": y_shape, "z": z_shape}[name]
        found[f"{name}_shape"] = ",".join(map(str, given or (() if own == shape else own)))
        if given and given != own:
            raise UsageError(f"elementwise: {name} has shape {own}", f"{name}_shape says {given}")
        broadcast("elementwise", name, own, shape)
    return found


@operator(numpy=_numpy, infer=_infer, dtypes=REALS, example={"shape": "1024,1024", "fn": "gelu(x*2 + y)"})
def elementwise(
    shape: te.Shape,
    *,
    fn: str = "relu(x)",
    y_shape: te.Shape = (),
    z_shape: te.Shape = (),
    dtype: str = "float32",
) -> te.TensorRef:
    """``fn`` of every element: a formula over the inputs ``x``, ``y`` and ``z``, as in ``gelu(x*2 + y)``.

    Inputs in call order: those that ``fn`` names: ``x`` (``shape``), ``y`` and ``z`` (the same, or ``y_shape``
    and ``z_shape``, which stretch to it as in NumPy). Output: ``shape``. A formula has ``+ - * / **``,
    comparisons, ``and or not``, numbers, ``inf``, ``pi``, and ``abs exp log log1p pow sqrt rsqrt sin cos tanh erf floor
    maximum minimum where relu gelu gelu_tanh silu sigmoid``; ``where(condition, a, b)``, ``pow(a, b)``. 16-bit reals
    are computed in float32 and rounded once.
    """
    shapes = {"x": shape, "y": y_shape or shape, "z": z_shape or shape}
    read = _read(fn)
    for name in read[1:]:
        broadcast("elementwise", name, shapes[name], shape)
    inputs = {name: te.input(name, shapes[name], dtype) for name in read}
    return nn.cast(nn.elementwise(fn, **inputs), dtype)
