"""One matrix product per batch element."""

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
    x: Array,
    y: Array,
    *rest: Array,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    residual: bool = False,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
) -> Array:
    left, right = x.swapaxes(1, 2) if trans_a else x, y.swapaxes(1, 2) if trans_b else y
    out, kind = numpy_product(left, right, precision, out_dtype)
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


@operator(numpy=_numpy, infer=_infer, dtypes=DTYPES, example={"b": 8, "m": 128, "n": 128, "k": 128})
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
    out = result_dtype("batch_matmul", dtype, out_dtype, precision, activation)
    inner = epilogue_dtype(dtype, out)
    plain = not bias and not residual and activation == "none"
    x = te.input("x", (b, k, m) if trans_a else (b, m, k), dtype)
    y = te.input("y", (b, n, k) if trans_b else (b, k, n), dtype)
    c = te.compute(
        (b, m, n),
        lambda p, i, j: te.sum(
            k,
            lambda r: (
                factor(x[p, r, i] if trans_a else x[p, i, r], precision)
                * factor(y[p, j, r] if trans_b else y[p, r, j], precision)
            ),
        ),
        dtype=out if plain else None,
    )
    if plain:
        return c
    added = te.input("bias", (n,), out) if bias else None
    skipped = te.input("residual", (b, m, n), out) if residual else None

    def finish(p: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        v = te.cast(c[p, i, j], inner)
        v = activate(v + te.cast(added[j], inner) if added else v, activation)
        return v + te.cast(skipped[p, i, j], inner) if skipped else v

    return te.compute((b, m, n), finish, dtype=out)
