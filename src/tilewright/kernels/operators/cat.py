"""Tensors one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array

NAMES = ("a", "b", "c", "d")


def _numpy(*inputs: Array, dim: int = 0, **_: object) -> Array:
    return np.concatenate(inputs, axis=dim)


def _infer(shapes: Sequence[tuple[int, ...]], dim: int = 0, **_: object) -> dict[str, Value]:
    if len(shapes) > len(NAMES):
        raise ValueError(f"it takes {len(NAMES)} tensors at most")
    filled = [[max(k, 1) for k in s] for s in shapes]
    nn.cat([te.input(n, s) for n, s in zip(NAMES, filled, strict=False)], dim)  # which refuses what does not fit
    return {name: ",".join(map(str, shape)) for name, shape in zip(NAMES, [*shapes, (), (), ()], strict=False)}


@operator(
    numpy=_numpy,
    infer=_infer,
    dtypes=(*REALS, "int64", "int32", "int8"),
    example={"a": "64,96", "b": "64,32", "dim": 1},
)
def cat(
    a: te.Shape,
    *,
    b: te.Shape = (),
    c: te.Shape = (),
    d: te.Shape = (),
    dim: int = 0,
    dtype: str = "float32",
) -> te.TensorRef:
    """Up to four tensors one after the other along the axis ``dim``.

    Inputs in call order: ``a``, ``b``, ``c``, ``d``, of the shapes that are given; all axes but ``dim`` agree.
    Output: their sizes, added up along ``dim``.
    """
    shapes = [s for s in (a, b, c, d) if s]
    return nn.cat([te.input(n, s, dtype) for n, s in zip(NAMES, shapes, strict=False)], dim)
