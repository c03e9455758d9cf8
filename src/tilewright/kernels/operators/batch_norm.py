"""Batch normalisation with given statistics, as at inference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import Array
from tilewright.kernels.operators.precision import wide
from tilewright.kernels.operators.windowed import DTYPES, rounded_like


def _numpy(x: Array, *rest: Array, affine: bool = True, eps: float = 1e-5, dim: int = 1) -> Array:
    moved = np.moveaxis(wide(x), dim, -1)
    mean, var, *scaling = map(wide, rest)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = (moved - mean) / np.sqrt(var + moved.dtype.type(eps))
    if affine:
        weight, bias = scaling
        out = out * weight + bias
    return rounded_like(np.moveaxis(out, -1, dim), x)


def _infer(
    shapes: Sequence[tuple[int, ...]], *, affine: bool = True, eps: float = 1e-5, dim: int = 1
) -> dict[str, Value]:
    shape, *rest = shapes
    if not -len(shape) <= dim < len(shape):
        raise UsageError(f"batch_norm: dim={dim} is no axis of an input of shape {shape}", "Give an axis of the input")
    expected = [(shape[dim],)] * (4 if affine else 2)
    if rest != expected:
        raise UsageError(f"batch_norm got {rest} after its input", f"These attributes take {expected}")
    return {"shape": ",".join(map(str, shape))}


@operator(numpy=_numpy, infer=_infer, dtypes=DTYPES, example={"shape": "1,64,56,56"})
def batch_norm(
    shape: te.Shape, *, affine: bool = True, eps: float = 1e-5, dim: int = 1, dtype: str = "float32"
) -> te.TensorRef:
    """Batch normalisation at inference: ``(input - running_mean) / sqrt(running_var + eps) * weight + bias``.

    Inputs in call order: ``input`` of any ``shape``; ``running_mean``, ``running_var`` and, unless ``affine`` is false,
    ``weight``, ``bias``: one number for each position along axis ``dim``. Output: as ``input``. 16-bit reals are
    computed in float32 and rounded once.
    """
    if not -len(shape) <= dim < len(shape):
        raise UsageError(f"batch_norm: dim={dim} is no axis of shape={shape}", f"Use 0 to {len(shape) - 1}")
    x = te.input("input", shape, dtype)
    names = ("running_mean", "running_var", "weight", "bias")[: 4 if affine else 2]
    vectors = [te.input(name, (shape[dim],), dtype) for name in names]
    return nn.cast(nn.batch_norm(x, *vectors, eps=eps, dim=dim), dtype)
