"""One matrix product per batch element."""

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
    (ba, *x), (bb, *y) = shapes[:2]
    (m, k), (ky, n) = x[::-1] if trans_a else x, y[::-1] if trans_b else y
    rest, expected = list(shapes[2:]), [(n,)] * bias + [(ba, m, n)] * residual
    if k != ky or ba != bb:
        raise UsageError(
            f"batch_matmul cannot multiply {shapes[0]} by {shapes[1]}",
            f"Batches ({ba} and {bb}) and the shared axis ({k} and {ky}) must agree",
        )
    if rest != expected:
        raise UsageError(f"batch_matmul got {rest} after its operands", f"These attributes take {expected}")
    return {"b": ba, "m": m, "n": n, "k": k}


@operator(numpy=numpy_matmul, infer=_infer, dtypes=DTYPES, example={"b": 8, "m": 128, "n": 128, "k": 128})
def batch_matmul(
    b: int,
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
    """Batched matrix product: ``out[p] = activation(x[p] @ y[p] + bias) + residual[p]``.

    Inputs in call order: ``x`` (b, m, k), or (b, k, m) with ``trans_a``; ``y`` (b, k, n), or
    (b, n, k) with ``trans_b``; ``bias`` (n,) and ``residual`` (b, m, n) where asked for.
    Output: (b, m, n). ``activation``: none, relu, gelu, gelu_tanh or silu.

    Types, ``out_dtype`` and ``precision`` are as for ``matmul``.
    """
    return product(
        "batch_matmul", ("x", "y"), (b,), m, n, k, trans_a=trans_a, trans_b=trans_b, bias=bias, activation=activation,
        residual=residual, out_dtype=out_dtype, precision=precision, dtype=dtype,
    )  # fmt: skip
