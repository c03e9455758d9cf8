"""Matrix products, named as in PyTorch. 16-bit reals are summed in float32, int8 in int32."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INTEGERS
from tilewright.kernels.nn.dims import broadcast, stretched
from tilewright.kernels.nn.element import value
from tilewright.kernels.nn.sizes import check_rank


def check_shared(op: str, a: te.TensorRef, b: te.TensorRef, ka: int, kb: int) -> None:
    """Raise ``UsageError`` where the sizes ``ka`` and ``kb`` of the shared axis, or the element types, differ."""
    if ka != kb:
        raise UsageError(f"{op} cannot multiply {a.shape} by {b.shape}", f"The shared axis must agree ({ka} and {kb})")
    if a.dtype != b.dtype:
        raise UsageError(f"{op}: the operands are {a.dtype} and {b.dtype}", "Give both one type, with nn.cast")


def common_batch(op: str, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The batch axes that those of both operands stretch to, as in NumPy. Raises ``UsageError`` where they do not."""
    rank = max(len(a), len(b))
    padded = [(*(1 for _ in range(rank - len(own))), *own) for own in (a, b)]
    batch = tuple(y if x == 1 else x for x, y in zip(*padded, strict=True))
    for what, own in (("input", a), ("other", b)):
        broadcast(op, f"{what}'s batch", own, batch)
    return batch


def matmul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """``input @ other`` over the last two axes; axes before them are batches, which stretch as in NumPy."""
    if len(input.shape) < 2 or len(other.shape) < 2:
        raise UsageError(
            f"matmul cannot multiply {input.shape} by {other.shape}", "Both have at least two axes (PyTorch takes one)"
        )
    *batch_a, m, k = input.shape
    *batch_b, kb, n = other.shape
    check_shared("matmul", input, other, k, kb)
    batch = common_batch("matmul", batch_a, batch_b)

    def product(*i: te.Expr) -> te.Reduction:
        *p, row, column = i
        return te.sum(k, lambda r: value(stretched(input, (*p, row, r))) * value(stretched(other, (*p, r, column))))

    return te.compute((*batch, m, n), product)


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
    check_shared("linear", input, weight, input.shape[-1], k)
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
    check_shared("grouped_matmul", input, weight, k, kw)
    if group.shape != (m,) or group.dtype not in INTEGERS:
        raise UsageError(
            f"grouped_matmul: group is {group.dtype} of shape {group.shape}",
            f"It has one whole number for each of {m} rows",
        )
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: value(input[i, r]) * value(weight[group[i], r, j])))
