"""Matrix product, with the epilogues of a dense layer."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import UsageError, Value
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import Activation, Array, activate, numpy_epilogue
from tilewright.kernels.operators.precision import (
    DTYPES,
    OutDtype,
    Precision,
    epilogue_dtype,
    factor,
    numpy_product,
    numpy_result,
    result_dtype,
    wide,
)


def _numpy(
    a: Array,
    b: Array,
    *rest: Array,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    residual: bool = False,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
) -> Array:
    out, kind = numpy_product(a.T if trans_a else a, b.T if trans_b else b, precision, out_dtype)
    extra = tuple(wide(v).astype(out.dtype, copy=False) for v in rest)
    return numpy_result(numpy_epilogue(out, extra, bias, activation, residual), kind)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    residual: bool = False,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
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


@operator(numpy=_numpy, infer=_infer, dtypes=DTYPES, example={"m": 512, "n": 512, "k": 512})
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
    or tf32, which rounds float32 operands to 10 bits of mantissa, as Tensor Cores take them.
    """
    out = result_dtype("matmul", dtype, out_dtype, precision, activation)
    inner = epilogue_dtype(dtype, out)
    plain = not bias and not residual and activation == "none"
    a = te.input("a", (k, m) if trans_a else (m, k), dtype)
    b = te.input("b", (n, k) if trans_b else (k, n), dtype)
    c = te.compute(
        (m, n),
        lambda i, j: te.sum(
            k,
            lambda r: (
                factor(a[r, i] if trans_a else a[i, r], precision) * factor(b[j, r] if trans_b else b[r, j], precision)
            ),
        ),
        dtype=out if plain else None,
    )
    if plain:
        return c
    added = te.input("bias", (n,), out) if bias else None
    skipped = te.input("residual", (m, n), out) if residual else None

    def finish(i: te.Expr, j: te.Expr) -> te.Expr:
        x = te.cast(c[i, j], inner)
        x = activate(x + te.cast(added[j], inner) if added else x, activation)
        return x + te.cast(skipped[i, j], inner) if skipped else x

    return te.compute((m, n), finish, dtype=out)
