"""Operators that move or convert elements: permutation, padding, concatenation, gathers of rows, casts."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tilewright.core import UsageError
from tilewright.dtypes import numpy_dtype
from tilewright.kernels import nn, te
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import (
    NAMES,
    REALS,
    Array,
    Found,
    Shapes,
    rounded,
    shape_of_input,
    text,
)
from tilewright.kernels.parameters import numbers

MOVED = (*REALS, "int64", "int32", "int8")
"""Dtypes of operators that only move elements."""

# --------------------------------------------------------------------------- axes


def _numpy_permute(x: Array, *, dims: te.Ints) -> Array:
    return np.ascontiguousarray(x.transpose(numbers(dims)))


def _infer_permute(shapes: Shapes, *, dims: te.Ints) -> Found:
    (shape,) = shapes
    given = numbers(dims) or ()
    if len(given) != len(shape):
        raise UsageError(
            f"permute: dims={dims} is not an order of {len(shape)} axes", "Name each axis of the input once"
        )
    return {"shape": text(shape), "dims": text(given)}


@operator(
    numpy=_numpy_permute, infer=_infer_permute, dtypes=MOVED, example={"shape": "64,128,32", "dims": "2,0,1"}
)  # fmt: skip
def permute(shape: te.Shape, dims: te.Ints, *, dtype: str = "float32") -> te.TensorRef:
    """``input`` with its axes in the order ``dims``, copied: ``out[i, j, ...]`` has axis ``dims[0]`` first.

    Input: ``input`` (``shape``). Output: the sizes of ``shape`` in that order.
    """
    return nn.permute(te.input("input", shape, dtype), dims)


def _numpy_transpose(x: Array, dim0: int, dim1: int) -> Array:
    return np.ascontiguousarray(np.swapaxes(x, dim0, dim1))


@operator(numpy=_numpy_transpose, infer=shape_of_input, dtypes=MOVED, example={"shape": "1024,1024"})
def transpose(shape: te.Shape, *, dim0: int = 0, dim1: int = 1, dtype: str = "float32") -> te.TensorRef:
    """``input`` with the axes ``dim0`` and ``dim1`` exchanged, copied.

    Input: ``input`` (``shape``). Output: ``shape`` with these two sizes exchanged.
    """
    return nn.transpose(te.input("input", shape, dtype), dim0, dim1)


# --------------------------------------------------------------------------- borders


@rounded
def _numpy_pad(x: Array, *, pad: te.Ints, value: float) -> Array:
    given = numbers(pad) or ()
    pairs = [(0, 0)] * (x.ndim - len(given) // 2) + list(zip(given[::2], given[1::2], strict=True))[::-1]
    kept = tuple(slice(max(0, -b), n - max(0, -a)) for n, (b, a) in zip(x.shape, pairs, strict=True))
    return np.pad(x[kept], [(max(0, b), max(0, a)) for b, a in pairs], constant_values=value)


def _infer_pad(shapes: Shapes, *, pad: te.Ints) -> Found:
    (shape,) = shapes
    given = numbers(pad) or ()
    if len(given) % 2 or len(given) > 2 * len(shape):
        raise UsageError(
            f"pad: pad={pad} does not fit {len(shape)} axes", "Give two numbers for each axis, the last first"
        )
    return {"shape": text(shape), "pad": text(given)}


@operator(numpy=_numpy_pad, infer=_infer_pad, dtypes=REALS, example={"shape": "64,128,32", "pad": "1,1,2,2"})
def pad(shape: te.Shape, pad: te.Ints, *, value: float = 0.0, dtype: str = "float32") -> te.TensorRef:
    """``input`` padded with ``value``: ``pad`` holds two numbers for each axis, before and after, the last axis first.

    Input: ``input`` (``shape``). Output: the padded sizes; negative numbers cut elements off.
    """
    return nn.pad(te.input("input", shape, dtype), pad, value)


# --------------------------------------------------------------------------- several tensors


def _numpy_cat(*inputs: Array, dim: int, **_: object) -> Array:
    return np.concatenate(inputs, axis=dim)


def _infer_cat(shapes: Shapes, dim: int) -> Found:
    if len(shapes) > len(NAMES):
        raise ValueError(f"it takes {len(NAMES)} tensors at most")
    filled = [[max(k, 1) for k in s] for s in shapes]
    nn.cat([te.input(n, s) for n, s in zip(NAMES, filled, strict=False)], dim)  # which refuses shapes that do not fit
    return {name: text(shape) for name, shape in zip(NAMES, [*shapes, (), (), ()], strict=False)}


@operator(numpy=_numpy_cat, infer=_infer_cat, dtypes=MOVED, example={"a": "64,96", "b": "64,32", "dim": 1})
def cat(
    a: te.Shape,
    *,
    b: te.Shape = (),
    c: te.Shape = (),
    d: te.Shape = (),
    dim: int = 0,
    dtype: str = "float32",
) -> te.TensorRef:
    """Concatenation of up to four tensors along the axis ``dim``.

    Inputs in call order: ``a``, ``b``, ``c``, ``d``, of the shapes that are given; all axes but ``dim`` agree. Output:
    their sizes, added up along ``dim``.
    """
    shapes = [s for s in (a, b, c, d) if s]
    return nn.cat([te.input(n, s, dtype) for n, s in zip(NAMES, shapes, strict=False)], dim)


def _numpy_embedding(input: Array, weight: Array, index_dtype: str) -> Array:
    return np.asarray(weight[np.clip(input, 0, len(weight) - 1)])


def _infer_embedding(shapes: Shapes) -> Found:
    shape, weight = shapes
    if len(weight) != 2:
        raise UsageError(f"embedding: weight has shape {weight}", "It is (num_embeddings, embedding_dim)")
    return {"shape": text(shape), "num_embeddings": weight[0], "embedding_dim": weight[1]}


@operator(
    numpy=_numpy_embedding, infer=_infer_embedding, dtypes=REALS,
    example={"shape": "32,128", "num_embeddings": 1000, "embedding_dim": 64},
)  # fmt: skip
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
    embedding_dim). Output: ``shape`` and embedding_dim. A number outside the table reads its first or last row, where
    PyTorch raises an error.
    """
    index = te.input("input", shape, index_dtype)
    return nn.embedding(index, te.input("weight", (num_embeddings, embedding_dim), dtype))


# --------------------------------------------------------------------------- element types

Result = Literal[
    "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int8", "uint8"
]


def _numpy_cast(x: Array, out_dtype: Result, *, dtype: str) -> Array:
    values = decode(x, dtype)
    if out_dtype.startswith(("float", "bfloat")):
        with np.errstate(over="ignore"):
            return encode(values, out_dtype)
    with np.errstate(invalid="ignore"):
        wide = np.trunc(values).astype(np.int64) if values.dtype.kind == "f" else values.astype(np.int64)
    return wide.astype(numpy_dtype(out_dtype))


@operator(
    numpy=_numpy_cast, infer=shape_of_input, example={"shape": "1024,1024"},
    dtypes=(
        "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int8", "uint8",
    ),
)  # fmt: skip
def cast(shape: te.Shape, *, out_dtype: Result = "float16", dtype: str = "float32") -> te.TensorRef:
    """``input`` as ``out_dtype``: reals round to nearest even; to whole numbers they truncate toward zero. Whole
    numbers wrap.

    Input: ``input`` (``shape``). Output: ``shape``. Values too large for float16, bfloat16 and float8_e5m2 become
    infinite, for float8_e4m3fn NaN. Real values outside the range of a whole type are undefined, as in C. 8-bit reals
    are passed as arrays of the ``ml_dtypes`` package, or as their bits (uint8) with ``dtype`` given.
    """
    x = te.input("input", shape, dtype)
    return te.compute(shape, lambda *i: te.cast(x[i], out_dtype), dtype=out_dtype)
