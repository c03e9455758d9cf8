"""RMS normalisation, after an optional residual addition."""

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
    residual: bool = False,
    eps: float = 1e-6,
) -> Array:
    extra = list(rest)
    w = extra.pop(0) if weight else None
    if residual:
        x = x + extra.pop(0)
    axes = tuple(range(x.ndim - (len(normalized_shape) or 1), x.ndim))
    out = x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    return np.asarray(out if w is None else out * w)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    normalized_shape: tuple[int, ...] = (),
    weight: bool = True,
    residual: bool = False,
    **_: object,
) -> dict[str, Value]:
    shape, *rest = shapes
    own = normalized_shape or shape[-1:]
    expected("rms_norm", rest, [own] * weight + [shape] * residual)
    return {"shape": ",".join(map(str, shape))}


@operator(numpy=_numpy, infer=_infer, dtypes=REALS, example={"shape": "1024,1024"})
def rms_norm(
    shape: te.Shape,
    *,
    normalized_shape: te.Shape = (),
    weight: bool = True,
    residual: bool = False,
    eps: float = 1e-6,
    dtype: str = "float32",
) -> te.TensorRef:
    """RMS norm: ``x / sqrt(mean of squares + eps) * weight``, where ``x`` is ``input + residual``.

    Inputs in call order: ``input`` (``shape``), ``weight`` (``normalized_shape``) unless switched
    off, ``residual`` (``shape``) where asked for. Output: ``shape``. The mean is over the last axes,
    whose sizes are ``normalized_shape`` (the last one alone unless given). 16-bit reals are computed in float32
    and rounded once. PyTorch's own default of ``eps`` is the spacing of the type at 1.
    """
    own = normalized_shape or shape[-1:]
    if not shape:
        raise UsageError("rms_norm: shape has no axes", "Give at least one")
    x = te.input("input", shape, dtype)
    w = te.input("weight", own, dtype) if weight else None
    if residual:
        x = nn.elementwise("x + y", x=x, y=te.input("residual", shape, dtype))
    return nn.cast(nn.rms_norm(x, own, w, eps), dtype)
