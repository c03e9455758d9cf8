"""Three-dimensional average pooling."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.pooling import infer_pooling, numpy_avg_pool, pooled
from tilewright.kernels.operators.windowed import DTYPES

_SIZES = ("n", "c", "d", "h", "w")


@operator(
    numpy=numpy_avg_pool,
    infer=partial(infer_pooling, "avg_pool3d", _SIZES),
    dtypes=DTYPES,
    example={"n": 1, "c": 64, "d": 8, "h": 28, "w": 28, "kernel_size": 2, "stride": 2},
)
def avg_pool3d(
    n: int,
    c: int,
    d: int,
    h: int,
    w: int,
    kernel_size: te.Ints,
    *,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    count_include_pad: bool = True,
    layout: Literal["NCDHW", "NDHWC"] = "NCDHW",
    dtype: str = "float32",
) -> te.TensorRef:
    """Three-dimensional average pooling: the mean of every window.

    The mean of ``input[..., i*stride + r - padding, ...]`` over ``0 <= r < kernel_size`` on every
    spatial axis; zeros of the padding count as elements, unless ``count_include_pad`` is false.

    Input: ``input`` (n, c, d, h, w). Output: (n, c, do, ho, wo) with
    ``wo = (w + 2*padding - kernel_size) // stride + 1``.
    With ``layout=NDHWC``: (n, d, h, w, c), giving (n, do, ho, wo, c).

    ``kernel_size`` and the other numbers hold for all spatial axes, or one for each (``2,1``). ``stride`` is
    ``kernel_size`` where it is not given; ``padding`` is at most half of the window.
    """
    return pooled(nn.avg_pool3d, n, c, (d, h, w), layout, dtype, kernel_size, stride, padding, count_include_pad)
