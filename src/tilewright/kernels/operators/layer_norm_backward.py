"""The gradient of a layer norm's input."""

from __future__ import annotations

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.backward import infer_norm
from tilewright.kernels.operators.numeric import REALS, Array, rounded


@rounded
def _numpy(
    g: Array, x: Array, *rest: Array, normalized_shape: tuple[int, ...] = (), weight: bool = True, eps: float = 1e-5
) -> Array:
    axes = tuple(range(x.ndim - (len(normalized_shape) or 1), x.ndim))
    flow = g * rest[0] if weight else g
    x = x - x.mean(axis=axes, keepdims=True)
    rstd = 1 / np.sqrt((x * x).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    normal = x * rstd
    return np.asarray(
        rstd * (flow - flow.mean(axis=axes, keepdims=True) - normal * (flow * normal).mean(axis=axes, keepdims=True))
    )


@operator(numpy=_numpy, infer=infer_norm("layer_norm_backward"), dtypes=REALS, example={"shape": "1024,1024"})
def layer_norm_backward(
    shape: te.Shape,
    *,
    normalized_shape: te.Shape = (),
    weight: bool = True,
    eps: float = 1e-5,
    dtype: str = "float32",
) -> te.TensorRef:
    """The gradient of ``layer_norm``'s input: ``rstd * (g - mean of g - normal * mean of g * normal)``.

    ``g`` is ``grad_output * weight``, ``normal`` is ``(input - mean) * rstd``, means are over the last axes. Inputs in
    call order: ``grad_output`` and ``input`` (``shape``), ``weight`` (``normalized_shape``) unless switched off.
    Output: ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    own = normalized_shape or shape[-1:]
    if not shape:
        raise UsageError("layer_norm_backward: shape has no axes", "Give at least one")
    g, x = te.input("grad_output", shape, dtype), te.input("input", shape, dtype)
    w = te.input("weight", own, dtype) if weight else None
    return nn.cast(nn.layer_norm_backward(g, x, own, w, eps), dtype)
