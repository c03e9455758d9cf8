"""Complex numbers as pairs of reals along a last axis of two, as PyTorch's ``view_as_real`` gives them."""

from __future__ import annotations

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INDEX, const
from tilewright.kernels.nn.dims import stretched
from tilewright.kernels.nn.element import value
from tilewright.kernels.nn.linear import check_shared, common_batch


def conj(input: te.TensorRef) -> te.TensorRef:
    """Complex conjugates: ``input`` (..., 2), the real part first."""
    _check_pairs("conj", "input", input, 1)

    def part(*i: te.Expr) -> te.Expr:
        x = value(input[i])
        return te.select(i[-1] == 0, x, -x)

    return te.compute(input.shape, part)


def complex_matmul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """The product of complex matrices: (..., m, k, 2) by (..., k, n, 2), real parts first; (..., m, n, 2).

    Axes before these are batches, which stretch as in NumPy. ``conj`` and ``transpose`` of an operand cost nothing:
    they are part of how it is read.
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
