"""Convolution of capsules: every channel holds a small matrix, and products of numbers are products of matrices."""

from __future__ import annotations

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.element import computed, value
from tilewright.kernels.nn.sizes import check_rank, inside, per_axis, windows


def capsule_conv2d(
    input: te.TensorRef, weight: te.TensorRef, stride: te.Ints = 1, padding: te.Ints = 0
) -> te.TensorRef:
    """``input`` (n, h, w, cap_h, cap_k, ci), ``weight`` (kh, kw, cap_k, cap_w, ci, co).

    The result is (n, ho, wo, cap_h, cap_w, co): a convolution whose products multiply (cap_h, cap_k) and (cap_k, cap_w)
    matrices.
    """
    op = "capsule_conv2d"
    check_rank(op, "input", input.shape, 6)
    check_rank(op, "weight", weight.shape, 6)
    n, h, w, cap_h, cap_k, ci = input.shape
    kh, kw, cap_kw, cap_w, cw, co = weight.shape
    if (cap_k, ci) != (cap_kw, cw):
        raise UsageError(
            f"{op}: input holds {cap_h}x{cap_k} matrices in {ci} channels, and weight {cap_kw}x{cap_w} in {cw}",
            "The columns of the input's matrices are the rows of the weight's, and the input channels agree",
        )
    if computed(input.dtype) != computed(weight.dtype):
        raise UsageError(f"{op}: input is {input.dtype} and weight is {weight.dtype}", "Give both one dtype")
    steps, pads = per_axis(op, "stride", stride, 2, 1), per_axis(op, "padding", padding, 2, 0)
    ho, wo = windows(op, (h, w), (kh, kw), steps, pads, (1, 1))

    def point(b: te.Expr, i: te.Expr, j: te.Expr, p: te.Expr, q: te.Expr, o: te.Expr) -> te.Reduction:
        def tap(r: te.Expr, s: te.Expr, k: te.Expr, c: te.Expr) -> te.Expr:
            y, z = i * steps[0] + r - pads[0], j * steps[1] + s - pads[1]
            x = value(input[b, y, z, p, k, c])
            guard = inside((y, z), (h, w), pads)
            return (x if guard is None else te.select(guard, x, 0.0)) * value(weight[r, s, k, q, c, o])

        return te.sum((kh, kw, cap_k, ci), tap)

    return te.compute((n, ho, wo, cap_h, cap_w, co), point)
