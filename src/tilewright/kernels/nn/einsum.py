"""General contractions, written as in ``numpy.einsum``: ``"bhqd,bhkd->bhqk"``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.element import value


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
                f"{op}: axis {c} stands {what}", "Each axis of the output stands there once, and on the left"
            )
    return terms, out, sizes


def einsum(equation: str, *operands: te.TensorRef) -> te.TensorRef:
    """The sum over all letters that the output lacks of the product of the operands.

    A letter that an operand has twice walks its diagonal. 16-bit reals are summed in float32, int8 in int32.
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
