"""Layer normalisation, after an optional residual addition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, expected, rounded


@rounded
def _numpy(
    x: Array,
    *rest: Array,
    normalized_shape: tuple[int, ...] = (),
    weight: bool = True,
    bias: bool = True,
    residual: bool = False,
    eps: float = 1e-5,
) -> Array:
    extra = list(rest)
    w = extra.pop(0) if weight else None
    b = extra.pop(0) if bias else None
    if residual:
        x = x + extra.pop(0)
    axes = tuple(range(x.ndim - (len(normalized_shape) or 1), x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    out = centred / np.sqrt((centred * centred).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    out = out if w is None else out * w
    return np.asarray(out if b is None else out + b)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    normalized_shape: tuple[int, ...] = (),
    weight: bool = True,
    bias: bool = True,
    residual: bool = False,
    **_: object,
) -> dict[str, Value]:
    shape, *rest = shapes
    own = normalized_shape or shape[-1:]
    expected("layer_norm", rest, [own] * (weight + bias) + [shape] * residual)
    return {"shape": ",".join(map(str, shape))}


@operator(numpy=_numpy, infer=_infer, dtypes=REALS, example={"shape": "1024,1024"})
def layer_norm(
    shape: te.Shape,
    *,
    normalized_shape: te.Shape = (),
    weight: bool = True,
    bias: bool = True,
    residual: bool = False,
    eps: float = 1e-5,
    dtype: str = "float32",
) -> te.TensorRef:
    """Layer norm: ``(x - mean) / sqrt(var + eps) * weight + bias``, where ``x`` is ``input + residual``.

    Inputs in call order: ``input`` (``shape``), ``weight`` and ``bias`` (``normalized_shape``) unless switched
    off, ``residual`` (``shape``) where asked for. Output: ``shape``. Mean and variance are over the last axes,
    whose sizes are ``normalized_shape`` (the last one alone unless given). 16-bit reals are computed in float32
    and rounded once.
    """
    own = normalized_shape or shape[-1:]
    if not shape:
        raise UsageError("layer_norm: shape has no axes", "Give at least one")
    x = te.input("input", shape, dtype)
    w = te.input("weight", own, dtype) if weight else None
    b = te.input("bias", own, dtype) if bias else None
    if residual:
        x = nn.elementwise("x + y", x=x, y=te.input("residual", shape, dtype))
    return nn.cast(nn.layer_norm(x, own, w, b, eps), dtype)
