"""Permutation of a tensor's axes, padding, concatenation, and gathers and scatters of rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tilewright.core import UsageError
from tilewright.extent import bounds, varies
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INTEGERS
from tilewright.kernels.nn.dims import one_dim
from tilewright.kernels.nn.dims import value as element_of
from tilewright.kernels.nn.sizes import check_rank, every
from tilewright.kernels.parameters import numbers


def permute(input: te.TensorRef, dims: te.Ints) -> te.TensorRef:
    """``input`` with its axes in the order ``dims``: axis ``d`` of the result is axis ``dims[d]`` of ``input``.

    Raises ``UsageError`` unless ``dims`` names each axis once.
    """
    rank = len(input.shape)
    given = numbers(dims) or ()
    order = tuple(one_dim("permute", d, rank, "dims") for d in given)
    if sorted(order) != list(range(rank)):
        raise UsageError(
            f"permute: dims={','.join(map(str, given))} is not an order of {rank} axes",
            f"Name each axis from 0 to {rank - 1} once",
        )
    place = {d: n for n, d in enumerate(order)}
    return te.compute(tuple(input.shape[d] for d in order), lambda *i: input[tuple(i[place[d]] for d in range(rank))])


def transpose(input: te.TensorRef, dim0: int, dim1: int) -> te.TensorRef:
    """``input`` with the axes ``dim0`` and ``dim1`` exchanged. Raises ``UsageError`` for a number that is no axis."""
    rank = len(input.shape)
    a, b = one_dim("transpose", dim0, rank, "dim0"), one_dim("transpose", dim1, rank, "dim1")
    order = list(range(rank))
    order[a], order[b] = b, a
    return permute(input, tuple(order))


def embedding(input: te.TensorRef, weight: te.TensorRef) -> te.TensorRef:
    """The rows of ``weight`` (num_embeddings, embedding_dim) whose numbers ``input`` holds: shape (..., embedding_dim).

    ``input`` (...) has any shape and whole numbers. A number below 0 reads the first row, one beyond the table the
    last. Raises ``UsageError`` for a real ``input``, or for a ``weight`` without two axes.
    """
    check_rank("embedding", "weight", weight.shape, 2)
    if input.dtype not in INTEGERS:
        raise UsageError(f"embedding: input is {input.dtype}", "It holds whole numbers")
    return te.compute((*input.shape, weight.shape[1]), lambda *i: weight[input[i[:-1]], i[-1]])


def index_add(
    input: te.TensorRef, dim: int, index: te.TensorRef, source: te.TensorRef, alpha: float = 1.0
) -> te.TensorRef:
    """``input`` with ``alpha * source[r]`` added at ``index[r]`` along the axis ``dim``, for every ``r``.

    ``index`` (r,) has whole numbers. ``source`` has the shape of ``input``, with r elements along ``dim``. An index
    outside the axis is dropped. On an ``input`` of zeros the function is the gradient of ``embedding``. Raises
    ``UsageError`` for shapes or element types that do not fit.
    """
    d = one_dim("index_add", dim, len(input.shape))
    if len(index.shape) != 1 or index.dtype not in INTEGERS:
        raise UsageError(f"index_add: index is {index.dtype} of shape {index.shape}", "It is a row of whole numbers")
    wanted = (*input.shape[:d], index.shape[0], *input.shape[d + 1 :])
    if source.shape != wanted or source.dtype != input.dtype:
        raise UsageError(
            f"index_add: source is {source.dtype} of shape {source.shape}", f"It is {input.dtype} of shape {wanted}"
        )
    added = te.compute(
        input.shape,
        lambda *i: te.scatter(
            "sum", i[d], index.shape[0], lambda r: (index[r], element_of(source[(*i[:d], r, *i[d + 1 :])]))
        ),
    )
    return te.compute(input.shape, lambda *i: element_of(input[i]) + (added[i] if alpha == 1 else added[i] * alpha))


def pad(input: te.TensorRef, pad: te.Ints, value: float = 0.0) -> te.TensorRef:
    """``input`` with borders of ``value``: ``pad`` has two widths in elements for each axis, before and after.

    The last axis comes first; axes that ``pad`` does not reach stay. A negative width cuts elements off. Raises
    ``UsageError`` for an odd number of widths, for more widths than axes, and where no element is left.
    """
    rank = len(input.shape)
    given = pad if isinstance(pad, tuple) and varies(pad) else numbers(pad) or ()
    if len(given) % 2 or len(given) > 2 * rank:
        raise UsageError(
            f"pad: pad={','.join(map(str, given))} does not fit a tensor of {rank} axes",
            "Give two numbers for each axis, before and after, the last axis first",
        )
    pairs = [(0, 0)] * (rank - len(given) // 2) + list(zip(given[::2], given[1::2], strict=True))[::-1]
    shape = tuple(n + before + after for n, (before, after) in zip(input.shape, pairs, strict=True))
    if any(n < 1 for n in shape):
        raise UsageError(f"pad: the result of {input.shape} has no elements", "Cut off less")

    def point(*i: te.Expr) -> te.Expr:
        at = tuple(x - before for x, (before, _) in zip(i, pairs, strict=True))
        guard = every(
            condition
            for x, n, (before, after) in zip(at, input.shape, pairs, strict=True)
            for needed, condition in ((bounds(before)[1] > 0, x >= 0), (bounds(after)[1] > 0, x < n))
            if needed
        )
        element = input[at]
        return element if guard is None else te.select(guard, element, value)

    return te.compute(shape, point)


def cat(tensors: Sequence[te.TensorRef], dim: int = 0) -> te.TensorRef:
    """Concatenation of ``tensors`` along the axis ``dim``; the sizes of the other axes and the dtypes agree.

    Raises ``UsageError`` where they do not agree, and for no tensor.
    """
    if not tensors:
        raise UsageError("cat: no tensor is given", "Pass one or more")
    first = tensors[0]
    d = one_dim("cat", dim, len(first.shape))
    for n, t in enumerate(tensors):
        others = [s[:d] + s[d + 1 :] for s in (t.shape, first.shape) if len(s) == len(first.shape)]
        if len(others) < 2 or others[0] != others[1] or t.dtype != first.dtype:
            raise UsageError(
                f"cat: tensor {n + 1} is {t.shape} of {t.dtype}, and the first {first.shape} of {first.dtype}",
                f"All axes but {d} and the dtype agree",
            )
    ends = list(accumulate(t.shape[d] for t in tensors))

    def point(*i: te.Expr) -> te.Expr:
        parts = [t[(*i[:d], i[d] - (end - t.shape[d]), *i[d + 1 :])] for t, end in zip(tensors, ends, strict=True)]
        out = parts[-1]
        for part, end in zip(parts[-2::-1], ends[-2::-1], strict=True):
            out = te.select(i[d] < end, part, out)
        return out

    return te.compute((*first.shape[:d], ends[-1], *first.shape[d + 1 :]), point)
