"""Rows of a table by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array


def _numpy(input: Array, weight: Array, index_dtype: str = "int64") -> Array:
    return np.asarray(weight[np.clip(input, 0, len(weight) - 1)])


def _infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    shape, weight = shapes
    if len(weight) != 2:
        raise UsageError(f"embedding: weight has shape {weight}", "It is (num_embeddings, embedding_dim)")
    return {"shape": ",".join(map(str, shape)), "num_embeddings": weight[0], "embedding_dim": weight[1]}


@operator(
    numpy=_numpy,
    infer=_infer,
    dtypes=REALS,
    example={"shape": "32,128", "num_embeddings": 1000, "embedding_dim": 64},
)
def embedding(
    shape: te.Shape,
    num_embeddings: int,
    embedding_dim: int,
    *,
    index_dtype: Literal["int64", "int32"] = "int64",
    dtype: str = "float32",
) -> te.TensorRef:
    """``out[..., j] = weight[input[...], j]``.

    Inputs in call order: ``input`` (``shape``), whole numbers of ``index_dtype``; ``weight`` (num_embeddings,
    embedding_dim). Output: ``shape`` and embedding_dim. A number outside of the table reads its first or last
    row, where PyTorch raises an error.
    """
    index = te.input("input", shape, index_dtype)
    return nn.embedding(index, te.input("weight", (num_embeddings, embedding_dim), dtype))
