"""Three-dimensional max pooling."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.pooling import infer_pooling, numpy_max_pool, pooled
from tilewright.kernels.operators.windowed import DTYPES

_SIZES = ("n", "c", "d", "h", "w")


@operator(
    numpy=numpy_max_pool,
    infer=partial(infer_pooling, "max_pool3d", _SIZES),
    dtypes=DTYPES,
    example={"n": 1, "c": 64, "d": 8, "h": 28, "w": 28, "kernel_size": 2, "stride": 2},
)
def max_pool3d(
    n: int,
    c: int,
    d: int,
    h: int,
    w: int,
    kernel_size: te.Ints,
    *,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    layout: Literal["NCDHW", "NDHWC"] = "NCDHW",
    dtype: str = "float32",
) -> te.TensorRef:
    """Three-dimensional max pooling: the largest element of every window.

    The largest ``input[..., i*stride + r*dilation - padding, ...]`` over ``0 <= r < kernel_size``
    on every spatial axis, elements outside of the input left out; NaN wins.

    Input: ``input`` (n, c, d, h, w). Output: (n, c, do, ho, wo) with
    ``wo = (w + 2*padding - dilation*(kernel_size - 1) - 1) // stride + 1``.
    With ``layout=NDHWC``: (n, d, h, w, c), giving (n, do, ho, wo, c).

    ``kernel_size`` and the other numbers hold for all spatial axes, or one for each (``2,1``). ``stride`` is
    ``kernel_size`` where it is not given; ``padding`` is at most half of the window.
    """
    return pooled(nn.max_pool3d, n, c, (d, h, w), layout, dtype, kernel_size, stride, padding, dilation)
