"""Other orders of a tensor's axes, and gathers of rows."""

from __future__ import annotations

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INTEGERS
from tilewright.kernels.nn.dims import one_dim
from tilewright.kernels.nn.sizes import check_rank
from tilewright.kernels.parameters import numbers


def permute(input: te.TensorRef, dims: te.Ints) -> te.TensorRef:
    """The tensor with its axes in the order ``dims``."""
    rank = len(input.shape)
    given = numbers(dims) or ()
    order = tuple(one_dim("permute", d, rank, "dims") for d in given)
    if sorted(order) != list(range(rank)):
        raise UsageError(
            f"permute: dims={','.join(map(str, given))} is no order of {rank} axes",
            f"Name each axis from 0 to {rank - 1} once",
        )
    place = {d: n for n, d in enumerate(order)}
    return te.compute(tuple(input.shape[d] for d in order), lambda *i: input[tuple(i[place[d]] for d in range(rank))])


def transpose(input: te.TensorRef, dim0: int, dim1: int) -> te.TensorRef:
    """The tensor with two axes exchanged."""
    rank = len(input.shape)
    a, b = one_dim("transpose", dim0, rank, "dim0"), one_dim("transpose", dim1, rank, "dim1")
    order = list(range(rank))
    order[a], order[b] = b, a
    return te.compute(tuple(input.shape[d] for d in order), lambda *i: input[tuple(i[d] for d in order)])


def embedding(input: te.TensorRef, weight: te.TensorRef) -> te.TensorRef:
    """Rows of ``weight`` (num_embeddings, embedding_dim) by the whole numbers in ``input``, of any shape.

    A number outside of the table reads its first or last row.
    """
    check_rank("embedding", "weight", weight.shape, 2)
    if input.dtype not in INTEGERS:
        raise UsageError(f"embedding: input is {input.dtype}", "It holds whole numbers")
    return te.compute((*input.shape, weight.shape[1]), lambda *i: weight[input[i[:-1]], i[-1]])
