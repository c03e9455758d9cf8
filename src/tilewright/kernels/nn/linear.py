"""Matrix products, named as in PyTorch. 16-bit reals are summed in float32, int8 in int32."""

from __future__ import annotations

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INTEGERS
from tilewright.kernels.nn.dims import broadcast, stretched
from tilewright.kernels.nn.element import value
from tilewright.kernels.nn.sizes import check_rank


def _shared(op: str, a: te.TensorRef, b: te.TensorRef, ka: int, kb: int) -> None:
    if ka != kb:
        raise UsageError(f"{op} cannot multiply {a.shape} by {b.shape}", f"The shared axis must agree ({ka} and {kb})")
    if a.dtype != b.dtype:
        raise UsageError(f"{op}: the operands are {a.dtype} and {b.dtype}", "Give both one type, with nn.cast")


def matmul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """``input @ other`` over the last two axes; axes before them are batches, which stretch as in NumPy."""
    if len(input.shape) < 2 or len(other.shape) < 2:
        raise UsageError(
            f"matmul cannot multiply {input.shape} by {other.shape}", "Both have at least two axes (PyTorch takes one)"
        )
    *batch_a, m, k = input.shape
    *batch_b, kb, n = other.shape
    _shared("matmul", input, other, k, kb)
    batch = tuple(batch_a if len(batch_a) >= len(batch_b) else batch_b)
    batch = tuple(max(x, y) for x, y in zip(batch, _padded(batch_a, batch_b, len(batch)), strict=True))
    for what, own in (("input", batch_a), ("other", batch_b)):
        broadcast("matmul", f"{what}'s batch", own, batch)

    def product(*i: te.Expr) -> te.Reduction:
        *p, row, column = i
        return te.sum(k, lambda r: value(stretched(input, (*p, row, r))) * value(stretched(other, (*p, r, column))))

    return te.compute((*batch, m, n), product)


def _padded(a: list[int], b: list[int], rank: int) -> tuple[int, ...]:
    shorter = b if len(a) >= len(b) else a
    return (*(1 for _ in range(rank - len(shorter))), *shorter)


def bmm(input: te.TensorRef, mat2: te.TensorRef) -> te.TensorRef:
    """``input[p] @ mat2[p]`` for every p: (b, m, k) by (b, k, n)."""
    check_rank("bmm", "input", input.shape, 3)
    check_rank("bmm", "mat2", mat2.shape, 3)
    if input.shape[0] != mat2.shape[0]:
        raise UsageError(f"bmm cannot multiply {input.shape} by {mat2.shape}", "The batches must agree")
    return matmul(input, mat2)


def linear(input: te.TensorRef, weight: te.TensorRef, bias: te.TensorRef | None = None) -> te.TensorRef:
    """``input @ weight.T + bias``: (..., k) by (n, k), bias (n,)."""
    check_rank("linear", "weight", weight.shape, 2)
    n, k = weight.shape
    if not input.shape:
        raise UsageError("linear: input has no axes", "It has at least one")
    _shared("linear", input, weight, input.shape[-1], k)
    out = te.compute(
        (*input.shape[:-1], n),
        lambda *i: te.sum(k, lambda r: value(input[(*i[:-1], r)]) * value(weight[i[-1], r])),
    )
    if bias is None:
        return out
    if bias.shape != (n,):
        raise UsageError(f"linear: bias has shape {bias.shape}", f"It has one number for each of {n} rows of weight")
    return te.compute(out.shape, lambda *i: out[i] + te.cast(value(bias[i[-1]]), out.dtype))


def grouped_matmul(input: te.TensorRef, weight: te.TensorRef, group: te.TensorRef) -> te.TensorRef:
    """Each row by the matrix of its group: ``out[i, j] = sum_k input[i, k] * weight[group[i], k, j]``.

    ``input`` (m, k), ``weight`` (groups, k, n), ``group`` (m,) whole numbers in any order; one outside of
    the groups counts as the first or last.
    """
    check_rank("grouped_matmul", "input", input.shape, 2)
    check_rank("grouped_matmul", "weight", weight.shape, 3)
    (m, k), (_, kw, n) = input.shape, weight.shape
    _shared("grouped_matmul", input, weight, k, kw)
    if group.shape != (m,) or group.dtype not in INTEGERS:
        raise UsageError(
            f"grouped_matmul: group is {group.dtype} of shape {group.shape}",
            f"It has one whole number for each of {m} rows",
        )
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: value(input[i, r]) * value(weight[group[i], r, j])))
