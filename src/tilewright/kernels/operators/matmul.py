"""Matrix product, with the epilogues of a dense layer."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import UsageError, Value
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import Activation
from tilewright.kernels.operators.precision import DTYPES, OutDtype, Precision
from tilewright.kernels.operators.product import numpy_matmul, product


def _infer(
    shapes: Sequence[tuple[int, ...]],
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    residual: bool = False,
    **_: object,
) -> dict[str, Value]:
    (a, b), rest = shapes[:2], list(shapes[2:])
    (m, k), (kb, n) = a[::-1] if trans_a else a, b[::-1] if trans_b else b
    expected = [(n,)] * bias + [(m, n)] * residual
    if k != kb or rest != expected:
        raise UsageError(
            f"matmul cannot multiply {a} by {b}" if k != kb else f"matmul got {rest} after its operands",
            f"The shared axis must agree ({k} and {kb})" if k != kb else f"These attributes take {expected}",
        )
    return {"m": m, "n": n, "k": k}


@operator(numpy=numpy_matmul, infer=_infer, dtypes=DTYPES, example={"m": 512, "n": 512, "k": 512})
def matmul(
    m: int,
    n: int,
    k: int,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    residual: bool = False,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """Matrix product: ``out[i, j] = activation(sum_k a[i, k] * b[k, j] + bias[j]) + residual[i, j]``.

    Inputs in call order: ``a`` (m, k), or (k, m) with ``trans_a``; ``b`` (k, n), or (n, k) with
    ``trans_b``; ``bias`` (n,) and ``residual`` (m, n) where asked for. Output: (m, n).
    ``activation``: none, relu, gelu (exact), gelu_tanh (approximation by tanh) or silu.

    float16 and bfloat16 are multiplied and summed in float32, int8 in int32. ``out_dtype``: of the
    output, ``bias`` and ``residual``; ``auto`` is ``dtype``, and int32 for int8. ``precision``: ieee,
    or tf32, which rounds float32 operands to 10 bits of mantissa, as Tensor Cores take them, or tf32_truncated, which
    leaves the rest to those: they cut it off; or tf32x3 (3xTF32), which multiplies what rounding leaves too, in two
    further products: off by at most 2^-21 of the sum of ``abs(a) * abs(b)`` beside float32's sums.
    """
    return product(
        "matmul", ("a", "b"), (), m, n, k, trans_a=trans_a, trans_b=trans_b, bias=bias, activation=activation,
        residual=residual, out_dtype=out_dtype, precision=precision, dtype=dtype,
    )  # fmt: skip
