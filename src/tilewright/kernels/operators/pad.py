"""A border around a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, rounded
from tilewright.kernels.parameters import numbers


@rounded
def _numpy(x: Array, *, pad: int | tuple[int, ...], value: float = 0.0) -> Array:
    given = numbers(pad) or ()
    pairs = [(0, 0)] * (x.ndim - len(given) // 2) + list(zip(given[::2], given[1::2], strict=True))[::-1]
    kept = tuple(slice(max(0, -b), n - max(0, -a)) for n, (b, a) in zip(x.shape, pairs, strict=True))
    return np.pad(x[kept], [(max(0, b), max(0, a)) for b, a in pairs], constant_values=value)


def _infer(shapes: Sequence[tuple[int, ...]], *, pad: int | tuple[int, ...], **_: object) -> dict[str, Value]:
    (shape,) = shapes
    given = numbers(pad) or ()
    if len(given) % 2 or len(given) > 2 * len(shape):
        raise UsageError(
            f"pad: pad={pad} does not fit {len(shape)} axes", "Give two numbers for each axis, the last first"
        )
    return {"shape": ",".join(map(str, shape)), "pad": ",".join(map(str, given))}


@operator(numpy=_numpy, infer=_infer, dtypes=REALS, example={"shape": "64,128,32", "pad": "1,1,2,2"})
def pad(shape: te.Shape, pad: te.Ints, *, value: float = 0.0, dtype: str = "float32") -> te.TensorRef:
    """``input`` with ``value`` around it: ``pad`` holds two numbers an axis, before and after, the last axis first.

    Input: ``input`` (``shape``). Output: the sizes with what is added; negative numbers cut off.
    """
    return nn.pad(te.input("input", shape, dtype), pad, value)
