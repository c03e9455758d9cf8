"""One matrix product per batch element, as PyTorch names it."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import UsageError, Value
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import Array
from tilewright.kernels.operators.precision import DTYPES, OutDtype, Precision
from tilewright.kernels.operators.product import numpy_matmul, product


def _numpy(x: Array, y: Array, out_dtype: OutDtype = "auto", precision: Precision = "ieee") -> Array:
    return numpy_matmul(x, y, out_dtype=out_dtype, precision=precision)


def _infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    (b, m, k), (bb, kb, n) = shapes
    if b != bb or k != kb:
        raise UsageError(
            f"bmm cannot multiply {shapes[0]} by {shapes[1]}",
            f"Batches ({b} and {bb}) and the shared axis ({k} and {kb}) must agree",
        )
    return {"b": b, "m": m, "n": n, "k": k}


@operator(numpy=_numpy, infer=_infer, dtypes=DTYPES, example={"b": 8, "m": 128, "n": 128, "k": 128})
def bmm(
    b: int,
    m: int,
    n: int,
    k: int,
    *,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """``out[p] = input[p] @ mat2[p]``: ``batch_matmul`` without what may follow it, and shares its kernels.

    Inputs in call order: ``input`` (b, m, k), ``mat2`` (b, k, n). Output: (b, m, n). Types, ``out_dtype`` and
    ``precision`` are as for ``matmul``.
    """
    return product(
        "bmm", ("input", "mat2"), (b,), m, n, k, trans_a=False, trans_b=False, bias=False, activation="none",
        residual=False, out_dtype=out_dtype, precision=precision, dtype=dtype,
    )  # fmt: skip
