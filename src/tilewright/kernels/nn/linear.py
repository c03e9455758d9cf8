"""Matrix products, named as in PyTorch. 16-bit reals are summed in float32, int8 in int32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INDEX, INTEGERS, const
from tilewright.kernels.nn.dims import broadcast, stretched, value
from tilewright.kernels.nn.sizes import check_rank


def check_shared(op: str, a: te.TensorRef, b: te.TensorRef, ka: int, kb: int) -> None:
    """Raises ``UsageError`` if the sizes ``ka`` and ``kb`` of the shared axis, or the element types, differ."""
    if ka != kb:
        raise UsageError(f"{op} cannot multiply {a.shape} by {b.shape}", f"The shared axis must agree ({ka} and {kb})")
    if a.dtype != b.dtype:
        raise UsageError(f"{op}: the operands are {a.dtype} and {b.dtype}", "Give both one type, with nn.cast")


def common_batch(op: str, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The batch axes to which both operands broadcast, as in NumPy. Raises ``UsageError`` if they do not fit."""
    rank = max(len(a), len(b))
    padded = [(*(1 for _ in range(rank - len(own))), *own) for own in (a, b)]
    batch = tuple(y if x == 1 else x for x, y in zip(*padded, strict=True))
    for what, own in (("input", a), ("other", b)):
        broadcast(op, f"{what}'s batch", own, batch)
    return batch


def matmul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """Matrix product ``input @ other``: (..., m, k) by (..., k, n) gives (..., m, n).

    Axes before the last two are batches, which are broadcast as in NumPy. 16-bit reals are summed in float32, int8 in
    int32. Raises ``UsageError`` for shapes or dtypes that do not fit.
    """
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
    """Batched matrix product ``input[p] @ mat2[p]`` for every p: (b, m, k) by (b, k, n) gives (b, m, n).

    Raises ``UsageError`` for shapes or dtypes that do not fit.
    """
    check_rank("bmm", "input", input.shape, 3)
    check_rank("bmm", "mat2", mat2.shape, 3)
    if input.shape[0] != mat2.shape[0]:
        raise UsageError(f"bmm cannot multiply {input.shape} by {mat2.shape}", "The batches must agree")
    return matmul(input, mat2)


def linear(input: te.TensorRef, weight: te.TensorRef, bias: te.TensorRef | None = None) -> te.TensorRef:
    """``input @ weight.T + bias``: ``input`` (..., k), ``weight`` (n, k) and ``bias`` (n,) give (..., n).

    Raises ``UsageError`` for shapes or dtypes that do not fit.
    """
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
    """Product of each row with the matrix of its group: ``out[i, j] = sum_k input[i, k] * weight[group[i], k, j]``.

    ``input`` (m, k) and ``weight`` (groups, k, n) give (m, n). ``group`` (m,) has whole numbers in any order. A number
    below 0 counts as the first group, one beyond the groups as the last. Raises ``UsageError`` for shapes or dtypes
    that do not fit.
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


# --------------------------------------------------------------------------- complex numbers

# Complex numbers are pairs of reals along a last axis of two, as in PyTorch's ``view_as_real``.


def conj(input: te.TensorRef) -> te.TensorRef:
    """Complex conjugates of ``input`` (..., 2), whose last axis holds the real part and the imaginary part.

    Raises ``UsageError`` for another last axis.
    """
    _check_pairs("conj", "input", input, 1)

    def part(*i: te.Expr) -> te.Expr:
        x = value(input[i])
        return te.select(i[-1] == 0, x, -x)

    return te.compute(input.shape, part)


def complex_matmul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """Product of complex matrices: (..., m, k, 2) by (..., k, n, 2) gives (..., m, n, 2).

    The last axis holds the real part and the imaginary part. Axes before the last three are batches, which are
    broadcast as in NumPy. ``conj`` and ``transpose`` of an operand cost nothing: they change how the kernel reads the
    operand. Raises ``UsageError`` for shapes or dtypes that do not fit.
    """
    _check_pairs("complex_matmul", "input", input, 3)
    _check_pairs("complex_matmul", "other", other, 3)
    *batch_a, m, k, _ = input.shape
    *batch_b, kb, n, _ = other.shape
    check_shared("complex_matmul", input, other, k, kb)
    batch = common_batch("complex_matmul", batch_a, batch_b)

    def parts(t: te.TensorRef, *at: te.Expr) -> tuple[te.Expr, te.Expr]:
        real, imaginary = (value(stretched(t, (*at, const(c, INDEX)))) for c in (0, 1))
        return real, imaginary

    def product(*i: te.Expr) -> te.Reduction:
        *p, row, column, c = i

        def term(r: te.Expr) -> te.Expr:
            x, y = parts(input, *p, row, r), parts(other, *p, r, column)
            return te.select(c == 0, x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0])

        return te.sum(k, term)

    return te.compute((*batch, m, n, 2), product)


def _check_pairs(op: str, what: str, t: te.TensorRef, axes: int) -> None:
    if len(t.shape) < axes or t.shape[-1] != 2:
        shape = "(..., 2)" if axes == 1 else "(..., rows, columns, 2)"
        raise UsageError(f"{op}: {what} has shape {t.shape}", f"Give it as {shape}, a real and an imaginary part each")


# --------------------------------------------------------------------------- general contractions

# Written as in ``numpy.einsum``: ``"bhqd,bhkd->bhqk"``.


def parse(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str, dict[str, int]]:
    """Letters of each operand and of the output, and the size of each letter. Raises ``UsageError``.

    Without ``->`` the output has the letters that occur once, in alphabetical order.
    """
    op = f"einsum: equation={equation!r}"
    text = "".join(equation.split())
    left, arrow, out = text.partition("->")
    terms = left.split(",")
    for c in text.replace("->", "").replace(",", ""):
        if not (c.isascii() and c.isalpha()):
            raise UsageError(f"{op} has {c!r}", "Axes are letters; there is no ellipsis. For example bij,bjk->bik")
    if len(terms) != len(shapes):
        raise UsageError(
            f"{op} names {len(terms)} operands, and {len(shapes)} are given",
            "Give one group of letters for each operand, with commas between",
        )
    sizes: dict[str, int] = {}
    for n, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if len(term) != len(shape):
            raise UsageError(
                f"{op}: operand {n} has the letters {term!r} and the shape {shape}", "Give one letter for each axis"
            )
        for letter, size in zip(term, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise UsageError(
                    f"{op}: axis {letter} has size {sizes[letter]} and size {size} (operand {n})",
                    "An axis has one size in all operands",
                )
    if not arrow:
        letters = "".join(terms)
        out = "".join(sorted(c for c in sizes if letters.count(c) == 1))
    for c in out:
        if out.count(c) > 1 or c not in sizes:
            what = "twice in the output" if c in sizes else "in the output and in no operand"
            raise UsageError(
                f"{op}: axis {c} occurs {what}", "Each axis of the output must occur once on the right, and on the left"
            )
    return terms, out, sizes


def einsum(equation: str, *operands: te.TensorRef) -> te.TensorRef:
    """Sum of the operands' product over all axes that the output lacks, as ``numpy.einsum``: ``"bij,bjk->bik"``.

    ``equation`` has one letter for each axis of each operand. Without ``->`` the output has the letters that occur
    once, in alphabetical order. A letter that an operand has twice reads its diagonal. 16-bit reals are summed in
    float32, int8 in int32. Raises ``UsageError`` for an equation that the operands do not fit, and for operands of
    several dtypes.
    """
    if not operands:
        raise UsageError(f"einsum: equation={equation!r} has no operands", "Give at least one")
    dtypes = {x.dtype for x in operands}
    if len(dtypes) > 1:
        raise UsageError(f"einsum: the operands are {' and '.join(sorted(dtypes))}", "Give all one type, with nn.cast")
    terms, out, sizes = parse(equation, [x.shape for x in operands])
    summed = [c for c in sizes if c not in out]  # in order of appearance

    def point(*i: te.Expr) -> te.Expr | te.Reduction:
        def product(*r: te.Expr) -> te.Expr:
            at = {**dict(zip(out, i, strict=True)), **dict(zip(summed, r, strict=True))}
            factors = [value(x[tuple(at[c] for c in term)]) for x, term in zip(operands, terms, strict=True)]
            return reduce(lambda a, b: a * b, factors)

        return te.sum([sizes[c] for c in summed], product) if summed else product()

    return te.compute([sizes[c] for c in out], point)
