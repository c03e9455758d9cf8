"""Group normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.core import Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, expected, rounded


@rounded
def _numpy(x: Array, *rest: Array, num_groups: int, affine: bool = True, eps: float = 1e-5) -> Array:
    groups = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups * math.prod(x.shape[2:]))
    centred = groups - groups.mean(axis=2, keepdims=True)
    out = centred / np.sqrt((centred * centred).mean(axis=2, keepdims=True) + x.dtype.type(eps))
    out = out.reshape(x.shape)
    if not affine:
        return np.asarray(out)
    weight, bias = (v.reshape(-1, *(1 for _ in x.shape[2:])) for v in rest)
    return np.asarray(out * weight + bias)


def _infer(shapes: Sequence[tuple[int, ...]], *, num_groups: int, affine: bool = True, **_: object) -> dict[str, Value]:
    shape, *rest = shapes
    expected("group_norm", rest, [shape[1:2]] * (2 * affine))
    return {"shape": ",".join(map(str, shape)), "num_groups": num_groups}


@operator(numpy=_numpy, infer=_infer, dtypes=REALS, example={"shape": "8,64,14,14", "num_groups": 8})
def group_norm(
    shape: te.Shape, num_groups: int, *, affine: bool = True, eps: float = 1e-5, dtype: str = "float32"
) -> te.TensorRef:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, over each group of neighbouring channels and all places.

    Inputs in call order: ``input`` (``shape``: n, c, ...), and with ``affine`` ``weight`` and ``bias`` (c,). Output:
    ``shape``. ``num_groups`` divides c. 16-bit reals are computed in float32 and rounded once.
    """
    x = te.input("input", shape, dtype)
    weight, bias = (te.input(n, shape[1:2], dtype) if affine else None for n in ("weight", "bias"))
    return nn.cast(nn.group_norm(x, num_groups, weight, bias, eps), dtype)
