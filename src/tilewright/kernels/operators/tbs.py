"""Transpose, batched product, softmax: the scores of attention, from queries and keys as layers give them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, below_top, rounded


@rounded
def _numpy(query: Array, key: Array) -> Array:
    score = query.transpose(0, 2, 1, 3) @ key.transpose(0, 2, 3, 1)
    e = np.exp(below_top(score, -1))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    (b, seq, heads, hidden), key = shapes
    if key != shapes[0]:
        raise UsageError(f"tbs: query has shape {shapes[0]} and key {key}", "Both have the same shape")
    return {"b": b, "seq": seq, "heads": heads, "hidden": hidden}


@operator(numpy=_numpy, infer=_infer, dtypes=REALS, example={"b": 1, "seq": 128, "heads": 12, "hidden": 64})
def tbs(b: int, seq: int, heads: int, hidden: int, *, dtype: str = "float32") -> te.TensorRef:
    """Attention weights: ``softmax over j of sum_d query[b, i, h, d] * key[b, j, h, d]``, as out[b, h, i, j].

    Inputs in call order: ``query`` and ``key`` (b, seq, heads, hidden), as a layer gives them: the transposition
    is part of the product. Output: (b, heads, seq, seq). No scale (Ansor's TBS). 16-bit reals are computed in
    float32 and rounded once.
    """
    shape = (b, seq, heads, hidden)
    query, key = te.input("query", shape, dtype), te.input("key", shape, dtype)
    scores = nn.einsum("bihd,bjhd->bhij", query, key)
    return nn.cast(nn.softmax(scores), dtype)
