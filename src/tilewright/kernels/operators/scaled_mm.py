"""Product of 8-bit reals with a scale for each block of elements, as in training and serving of language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import Array, expected
from tilewright.kernels.operators.precision import numpy_result, wide

OutDtype = Literal["bfloat16", "float16", "float32"]


def _shapes(
    m: int, n: int, k: int, block: int, by_column: bool, trans_b: bool, bias: bool
) -> list[tuple[int, ...]]:  # fmt: skip
    """Shapes of what follows the operands."""
    if block < 1:
        raise UsageError(f"scaled_mm: block cannot be {block}", "Use a whole number of at least 1")
    deep, columns = -(-k // block), n if by_column else -(-n // block)
    return [(m, deep), (columns, deep) if trans_b else (deep, columns), *[(n,)] * bias]


def _numpy(
    a: Array,
    b: Array,
    scale_a: Array,
    scale_b: Array,
    *rest: Array,
    block: int = 128,
    by_column: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    out_dtype: OutDtype = "bfloat16",
    dtype: str = "float8_e4m3fn",
) -> Array:
    x, y = decode(a, dtype), decode(b, dtype)
    y, of_b = (y.T, scale_b.T) if trans_b else (y, scale_b)
    (m, k), n = x.shape, y.shape[1]
    total = np.zeros((m, n), np.float32)
    with np.errstate(all="ignore"):  # NaN and infinity pass through
        for number, first in enumerate(range(0, k, block)):
            columns = of_b[number] if by_column else np.repeat(of_b[number], block)[:n]
            part = x[:, first : first + block] @ y[first : first + block]
            total += part * scale_a[:, number, None] * columns
        if bias:
            total += wide(rest[0])
    return numpy_result(total, out_dtype)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    block: int = 128,
    by_column: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    **_: object,
) -> dict[str, Value]:
    (m, k), b, *rest = shapes
    kb, n = b[::-1] if trans_b else b
    if k != kb:
        raise UsageError(f"scaled_mm cannot multiply {(m, k)} by {b}", f"The shared axis must agree ({k} and {kb})")
    expected("scaled_mm", rest, _shapes(m, n, k, block, by_column, trans_b, bias))
    return {"m": m, "n": n, "k": k}


@operator(
    numpy=_numpy, infer=_infer, dtypes=("float8_e4m3fn", "float8_e5m2"),
    example={"m": 128, "n": 256, "k": 256, "trans_b": True},
)  # fmt: skip
def scaled_mm(
    m: int,
    n: int,
    k: int,
    *,
    block: int = 128,
    by_column: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    out_dtype: OutDtype = "bfloat16",
    dtype: str = "float8_e4m3fn",
) -> te.TensorRef:
    """Product of scaled 8-bit reals: ``out[i, j] = sum_k a[i, k] * scale_a[i, k/block] * b[k, j] *
    scale_b[k/block, j/block] + bias[j]``.

    Inputs in call order: ``a`` (m, k); ``b`` (k, n), or (n, k) with ``trans_b``; ``scale_a`` (m, k/block) and
    ``scale_b`` (k/block, n/block), float32, the latter's axes exchanged with ``trans_b``, blocks at the edges
    smaller; ``bias`` (n,) of ``out_dtype`` where asked for. With ``by_column`` ``scale_b`` is (k/block, n): one scale
    for each column and block of k. Output: (m, n) of ``out_dtype``.

    Sums are float32, rounded once at the end. 8-bit reals are passed as arrays of the ``ml_dtypes`` package, or as
    their bits (uint8) with ``dtype`` given.
    """
    of_a, of_b, *_ = _shapes(m, n, k, block, by_column, trans_b, bias)
    a, b = te.input("a", (m, k), dtype), te.input("b", (n, k) if trans_b else (k, n), dtype)
    scale_a, scale_b = te.input("scale_a", of_a, "float32"), te.input("scale_b", of_b, "float32")
    out = nn.scaled_mm(a, b, scale_a, scale_b, block=block, trans_b=trans_b)
    if not bias:
        return nn.cast(out, out_dtype)
    added = te.input("bias", (n,), out_dtype)
    return te.compute((m, n), lambda i, j: out[i, j] + te.cast(added[j], "float32"), dtype=out_dtype)
