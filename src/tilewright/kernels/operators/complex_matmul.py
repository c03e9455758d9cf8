"""Product of complex matrices, whose numbers are pairs of reals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import Array


def _numpy(
    a: Array,
    b: Array,
    batch: tuple[int, ...] = (),
    trans_a: bool = False,
    trans_b: bool = False,
    conj_a: bool = False,
    conj_b: bool = False,
) -> Array:
    kind = np.result_type(a.dtype, np.complex64)

    def matrix(x: Array, turned: bool, conjugate: bool) -> Array:
        z = np.ascontiguousarray(x).view(kind)[..., 0]
        z = z.swapaxes(-1, -2) if turned else z
        return z.conj() if conjugate else z

    product = matrix(a, trans_a, conj_a) @ matrix(b, trans_b, conj_b)
    parts: Array = np.ascontiguousarray(product)[..., None].view(a.dtype)
    return parts


def _infer(
    shapes: Sequence[tuple[int, ...]], trans_a: bool = False, trans_b: bool = False, **_: object
) -> dict[str, Value]:
    a, b = shapes
    if min(len(a), len(b)) < 3 or a[-1] != 2 or b[-1] != 2:
        raise UsageError(
            f"complex_matmul cannot multiply {a} by {b}",
            "Give (..., rows, columns, 2): a real and an imaginary part each",
        )
    (m, k), (kb, n) = (s[-3:-1][::-1] if turned else s[-3:-1] for s, turned in ((a, trans_a), (b, trans_b)))
    if k != kb or a[:-3] != b[:-3]:
        raise UsageError(
            f"complex_matmul cannot multiply {a} by {b}", f"Batches and the shared axis ({k} and {kb}) must agree"
        )
    return {"m": m, "n": n, "k": k, "batch": ",".join(map(str, a[:-3]))}


@operator(numpy=_numpy, infer=_infer, dtypes=("float32", "float64"), example={"m": 256, "n": 256, "k": 256})
def complex_matmul(
    m: int,
    n: int,
    k: int,
    *,
    batch: te.Shape = (),
    trans_a: bool = False,
    trans_b: bool = False,
    conj_a: bool = False,
    conj_b: bool = False,
    dtype: str = "float32",
) -> te.TensorRef:
    """Product of complex matrices, whose numbers are pairs of reals along a last axis: real parts first.

    Inputs in call order: ``a`` (*batch, m, k, 2), or (*batch, k, m, 2) with ``trans_a``; ``b`` (*batch, k, n, 2), or
    (*batch, n, k, 2) with ``trans_b``. Output: (*batch, m, n, 2). ``conj_a`` and ``conj_b`` conjugate an operand.
    ``dtype`` is that of the parts: float32 for complex64, float64 for complex128.
    """
    a = te.input("a", (*batch, *((k, m) if trans_a else (m, k)), 2), dtype)
    b = te.input("b", (*batch, *((n, k) if trans_b else (k, n)), 2), dtype)

    def read(x: te.TensorRef, turned: bool, conjugate: bool) -> te.TensorRef:
        x = nn.transpose(x, -3, -2) if turned else x
        return nn.conj(x) if conjugate else x

    return nn.complex_matmul(read(a, trans_a, conj_a), read(b, trans_b, conj_b))
