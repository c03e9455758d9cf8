"""Softmax of each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import Value
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import Array


def _numpy(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # a row that holds infinity or NaN
        e = np.exp(x - x.max(axis=-1, keepdims=True))
    out: Array = e / e.sum(axis=-1, keepdims=True)
    return out


def _infer(shapes: Sequence[tuple[int, ...]]) -> dict[str, Value]:
    ((m, n),) = shapes
    return {"m": m, "n": n}


@operator(numpy=_numpy, infer=_infer, example={"m": 1024, "n": 1024})
def softmax(m: int, n: int) -> te.TensorRef:
    """Softmax of each row: ``out[i, j] = exp(x[i, j] - max_i) / sum_k exp(x[i, k] - max_i)``.

    Input: ``x`` (m, n). Output: (m, n). ``max_i`` is the row's largest value, so nothing overflows.
    """
    x = te.input("x", (m, n))
    top = te.compute((m,), lambda i: te.max(n, lambda k: x[i, k]))
    power = te.compute((m, n), lambda i, j: te.exp(x[i, j] - top[i]))
    total = te.compute((m,), lambda i: te.sum(n, lambda k: power[i, k]))
    return te.compute((m, n), lambda i, j: power[i, j] / total[i])
