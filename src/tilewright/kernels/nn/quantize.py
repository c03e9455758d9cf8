"""Products with quantised operands: weights that are widened and scaled, int8 products with scaled results, and 8-bit
reals with a scale for each block."""

from __future__ import annotations

from tilewright.core import UsageError
from tilewright.dtypes import DTYPES
from tilewright.kernels import te
from tilewright.kernels.expression.expr import BYTES, FLOAT8, FLOATS, PACKED
from tilewright.kernels.nn.dims import value
from tilewright.kernels.nn.sizes import check_rank


def round_half_even(x: te.Expr) -> te.Expr:
    """The nearest whole number, as a real value, ties to even (as ``torch.round``)."""
    low = te.floor(x)
    rest = x - low  # exact
    odd = low - 2.0 * te.floor(low * 0.5)
    return te.select((rest > 0.5) | ((rest >= 0.5) & (odd > 0.5)), low + 1.0, low)


def saturated(x: te.Expr, dtype: str) -> te.Expr:
    """A real value rounded to int8 or uint8, saturated at the type's limits."""
    low, high = map(float, DTYPES[dtype].limits)
    return te.cast(te.minimum(te.maximum(round_half_even(x), low), high), dtype)


def _sizes(op: str, input: te.TensorRef, weight: te.TensorRef, trans_b: bool) -> tuple[int, int, int]:
    """m, k and n of a product. Raises ``UsageError`` for operands that do not fit."""
    check_rank(op, "input", input.shape, 2)
    check_rank(op, "weight", weight.shape, 2)
    (m, k), (kw, n) = input.shape, weight.shape[::-1] if trans_b else weight.shape
    if k != kw:
        raise UsageError(f"{op} cannot multiply {input.shape} by {weight.shape}", f"k must agree ({k} and {kw})")
    return m, k, n


def dequant_matmul(
    input: te.TensorRef, weight: te.TensorRef, scale: te.TensorRef, *, trans_b: bool = False
) -> te.TensorRef:
    """``input @ (weight * scale)`` with whole-number weights: (m, k) by (k, n) gives (m, n), summed in float32.

    A float64 ``input`` is summed in float64. ``weight`` is int8, uint8 or packed, of shape (k, n), or (n, k) with
    ``trans_b``. ``scale`` is (n,), one number for each column, or (groups, n), one for each column and each of
    ``groups`` equal parts of k. Raises ``UsageError`` for shapes or dtypes that do not fit.
    """
    op = "dequant_matmul"
    m, k, n = _sizes(op, input, weight, trans_b)
    if input.dtype not in FLOATS or weight.dtype not in (*BYTES, *PACKED):
        taken = ", ".join((*BYTES, *PACKED))
        raise UsageError(f"{op}: {input.dtype} by {weight.dtype}", f"The input is real, the weight one of {taken}")
    groups = scale.shape[0] if len(scale.shape) == 2 else 1
    if scale.shape not in ((n,), (groups, n)) or k % groups:
        raise UsageError(
            f"{op}: scale has shape {scale.shape}", f"It is ({n},), or (groups, {n}) with groups that divide k={k}"
        )
    kind = "float64" if input.dtype == "float64" else "float32"

    def factor(r: te.Expr, j: te.Expr) -> te.Expr:
        w = te.cast(weight[j, r] if trans_b else weight[r, j], kind)
        s = scale[j] if len(scale.shape) == 1 else scale[r // (k // groups), j]
        return w * te.cast(s, kind)

    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: te.cast(input[i, r], kind) * factor(r, j)))


def quantized_matmul(
    input: te.TensorRef,
    weight: te.TensorRef,
    scale: te.TensorRef,
    bias: te.TensorRef | None = None,
    *,
    trans_b: bool = False,
) -> te.TensorRef:
    """``(input @ weight) * scale + bias`` in float32 of int8 or uint8 operands: (m, k) by (k, n) gives (m, n).

    The products are summed exactly in int32. ``weight`` is (n, k) with ``trans_b``. ``scale`` (n,) is the product of
    both operands' scales for each column; ``bias`` is (n,). Raises ``UsageError`` for shapes or dtypes that do not fit.
    """
    op = "quantized_matmul"
    m, k, n = _sizes(op, input, weight, trans_b)
    for name, ref in (("input", input), ("weight", weight)):
        if ref.dtype not in BYTES:
            raise UsageError(f"{op}: {name} is {ref.dtype}", "Both operands are int8 or uint8")
    for name, ref in (("scale", scale), *((("bias", bias),) if bias is not None else ())):
        if ref.shape != (n,):
            raise UsageError(f"{op}: {name} has shape {ref.shape}", f"It has one number for each of {n} columns")
    total = te.compute(
        (m, n),
        lambda i, j: te.sum(k, lambda r: value(input[i, r]) * value(weight[j, r] if trans_b else weight[r, j])),
    )

    def scaled(i: te.Expr, j: te.Expr) -> te.Expr:
        x = te.cast(total[i, j], "float32") * te.cast(scale[j], "float32")
        return x if bias is None else x + te.cast(bias[j], "float32")

    return te.compute((m, n), scaled)


def scaled_mm(
    input: te.TensorRef,
    weight: te.TensorRef,
    scale_a: te.TensorRef,
    scale_b: te.TensorRef,
    *,
    block: int = 128,
    trans_b: bool = False,
) -> te.TensorRef:
    """``(input * scale_a) @ (weight * scale_b)`` of 8-bit reals in float32: (m, k) by (k, n) gives (m, n).

    Each scale holds for a block of elements; blocks at the edges may be smaller. ``scale_a`` (m, k/block) has one scale
    for ``block`` elements of a row. ``scale_b`` is (k/block, n/block), one scale for a square of elements, or (k/block,
    n). With ``trans_b`` the axes of ``weight`` and ``scale_b`` are exchanged. Raises ``UsageError`` for shapes or
    dtypes that do not fit.
    """
    op = "scaled_mm"
    m, k, n = _sizes(op, input, weight, trans_b)
    if input.dtype != weight.dtype or input.dtype not in FLOAT8:
        raise UsageError(f"{op}: {input.dtype} by {weight.dtype}", f"Both operands are one of {', '.join(FLOAT8)}")
    if block < 1:
        raise UsageError(f"{op}: block cannot be {block}", "Use a whole number of at least 1")
    deep, wide = -(-k // block), -(-n // block)
    for name, ref, allowed in (("scale_a", scale_a, [(m, deep)]), ("scale_b", scale_b, [(deep, wide), (deep, n)])):
        allowed = [shape[::-1] if ref is scale_b and trans_b else shape for shape in allowed]
        if ref.shape not in allowed:
            raise UsageError(f"{op}: {name} has shape {ref.shape}", f"It is {' or '.join(map(str, allowed))}")
    by_column = scale_b.shape[0 if trans_b else 1] == n

    def scaled(i: te.Expr, r: te.Expr) -> te.Expr:
        return value(input[i, r]) * te.cast(scale_a[i, r // block], "float32")

    def scaled_weight(*place: te.Expr) -> te.Expr:
        r, j = place[::-1] if trans_b else place
        at = r // block, j if by_column else j // block
        s = scale_b[at[::-1] if trans_b else at]
        return value(weight[place]) * te.cast(s, "float32")

    x, y = te.compute(input.shape, scaled), te.compute(weight.shape, scaled_weight)
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * (y[j, r] if trans_b else y[r, j])))


def requantize(input: te.TensorRef, scale: te.TensorRef, dtype: str = "int8") -> te.TensorRef:
    """``round(input / scale)`` of every element, saturated to ``dtype`` (int8 or uint8).

    ``scale`` is one number (shape ()), given at each call. Raises ``UsageError`` for another shape or dtype.
    """
    if scale.shape != ():
        raise UsageError(f"requantize: scale has shape {scale.shape}", "It is one number")
    if dtype not in BYTES:
        raise UsageError(f"requantize: dtype cannot be {dtype!r}", "Use int8 or uint8")
    return te.compute(input.shape, lambda *i: saturated(input[i] / te.cast(scale[()], input.dtype), dtype))
