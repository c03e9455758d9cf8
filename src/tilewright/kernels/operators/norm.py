"""Vector norms over any axes."""

from __future__ import annotations

import math

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.nn.reduce import NormOrder
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, axes_of, rounded
from tilewright.kernels.operators.reduction import infer


@rounded
def _numpy(x: Array, ord: NormOrder = "2", dim: tuple[int, ...] | int = (), keepdim: bool = False) -> Array:
    axes = tuple(sorted(d % x.ndim for d in axes_of(dim) or range(x.ndim)))
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose([*kept, *axes]).reshape([*(x.shape[d] for d in kept), math.prod(x.shape[d] for d in axes)])
    out = np.linalg.norm(rows, ord=math.inf if ord == "inf" else int(ord), axis=-1)
    return np.expand_dims(out, axes) if keepdim else np.asarray(out)


@operator(numpy=_numpy, infer=infer, dtypes=REALS, example={"shape": "16,128,128", "dim": "1,2"})
def norm(
    shape: te.Shape, *, ord: NormOrder = "2", dim: te.Ints = (), keepdim: bool = False, dtype: str = "float32"
) -> te.TensorRef:
    """Norm of ``input`` over the axes ``dim``, over all where none is given: as ``torch.linalg.vector_norm``.

    ``ord``: ``2`` (over the two axes of a matrix: the Frobenius norm), ``1`` or ``inf``, as texts. Input:
    ``input`` (``shape``). Output: without these axes, or with ``keepdim`` of size 1 there. 16-bit reals are
    summed in float32 and rounded once.
    """
    return nn.cast(nn.norm(te.input("input", shape, dtype), ord, dim, keepdim), dtype)
