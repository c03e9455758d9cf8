"""What ``matmul`` and ``batch_matmul`` share: a product over the last two axes and its epilogue, also in NumPy."""

from __future__ import annotations

from tilewright.kernels import te
from tilewright.kernels.operators.epilogue import Activation, Array, activate, numpy_epilogue
from tilewright.kernels.operators.precision import (
    OutDtype,
    Precision,
    epilogue_dtype,
    numpy_product,
    numpy_result,
    result_dtype,
    sum_of_products,
    wide,
)


def product(
    op: str,
    names: tuple[str, str],
    batch: tuple[int, ...],
    m: int,
    n: int,
    k: int,
    *,
    trans_a: bool,
    trans_b: bool,
    bias: bool,
    activation: Activation,
    residual: bool,
    out_dtype: OutDtype,
    precision: Precision,
    dtype: str,
) -> te.TensorRef:
    """(*batch, m, k) by (*batch, k, n), either with its last two axes exchanged, and what follows."""
    out = result_dtype(op, dtype, out_dtype, precision, activation)
    inner = epilogue_dtype(dtype, out)
    plain = not bias and not residual and activation == "none"
    a = te.input(names[0], (*batch, *((k, m) if trans_a else (m, k))), dtype)
    b = te.input(names[1], (*batch, *((n, k) if trans_b else (k, n))), dtype)

    def summed(*index: te.Expr) -> te.Reduction:
        *p, i, j = index
        return sum_of_products(
            k, lambda r: a[(*p, r, i) if trans_a else (*p, i, r)], lambda r: b[(*p, j, r) if trans_b else (*p, r, j)],
            precision,
        )  # fmt: skip

    c = te.compute((*batch, m, n), summed, dtype=out if plain else None)
    if plain:
        return c
    added = te.input("bias", (n,), out) if bias else None
    skipped = te.input("residual", (*batch, m, n), out) if residual else None

    def finish(*index: te.Expr) -> te.Expr:
        x = te.cast(c[index], inner)
        x = activate(x + te.cast(added[index[-1]], inner) if added else x, activation)
        return x + te.cast(skipped[index], inner) if skipped else x

    return te.compute((*batch, m, n), finish, dtype=out)


def numpy_matmul(
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
    """The same on NumPy arrays."""
    left, right = a.swapaxes(-1, -2) if trans_a else a, b.swapaxes(-1, -2) if trans_b else b
    out, kind = numpy_product(left, right, precision, out_dtype)
    extra = tuple(wide(v).astype(out.dtype, copy=False) for v in rest)
    return numpy_result(numpy_epilogue(out, extra, bias, activation, residual), kind)
