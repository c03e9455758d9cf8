"""Rows that are multiplied by the matrix of their group, as in mixtures of experts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, rounded


@rounded
def _numpy(x: Array, weight: Array, group: Array) -> Array:
    out = np.empty((x.shape[0], weight.shape[2]), x.dtype)
    number = np.clip(group, 0, len(weight) - 1)
    for g in range(len(weight)):
        out[number == g] = x[number == g] @ weight[g]
    return out


def _infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    (m, k), (groups, kw, n), (mg,) = shapes
    if k != kw or m != mg:
        raise UsageError(
            f"grouped_matmul cannot multiply {shapes[0]} by {shapes[1]} with groups {shapes[2]}",
            "They are (m, k), (groups, k, n) and (m,)",
        )
    return {"m": m, "n": n, "k": k, "groups": groups}


@operator(numpy=_numpy, infer=_infer, dtypes=REALS, example={"m": 256, "n": 128, "k": 128, "groups": 8})
def grouped_matmul(m: int, n: int, k: int, groups: int, *, dtype: str = "float32") -> te.TensorRef:
    """``out[i, j] = sum_k input[i, k] * weight[group[i], k, j]``: each row by the matrix of its group.

    Inputs in call order: ``input`` (m, k), ``weight`` (groups, k, n), ``group`` (m,) int32. Output: (m, n). Rows
    may come in any order. A number outside of the groups counts as the first or last. 16-bit reals are summed in
    float32 and rounded once. Groups of equal size are ``batch_matmul``.
    """
    x, weight = te.input("input", (m, k), dtype), te.input("weight", (groups, k, n), dtype)
    return nn.cast(nn.grouped_matmul(x, weight, te.input("group", (m,), "int32")), dtype)
