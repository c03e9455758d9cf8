"""Convolutions (cross-correlations, as in deep learning) over one, two and three spatial axes.

Arguments and shapes are those of ``torch.nn.functional``. With channels last, ``input`` is (n, *spatial, ci),
``weight`` (*kernel, ci/groups, co), the result (n, *spatial, co).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.dims import computed, value
from tilewright.kernels.nn.sizes import (
    Layout,
    Windows,
    check_groups,
    check_rank,
    check_vector,
    over_axes,
)


def conv(
    axes: int,
    input: te.TensorRef,
    weight: te.TensorRef,
    bias: te.TensorRef | None = None,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    groups: int = 1,
    *,
    layout: str = "",
) -> te.TensorRef:
    """Convolution: ``input`` (n, ci, {space}) by ``weight`` (co, ci/groups, {kernel}) gives (n, co, {out}).

    The products of a window are summed, without flipping the kernel. ``bias`` (co,) is added. ``stride``, ``padding``
    (zeros on each side) and ``dilation`` count elements: one number for all axes, or one for each. ``groups`` divides
    ci and co. ``layout="{last}"``: ``input`` is (n, {space}, ci), ``weight`` ({kernel}, ci/groups, co), the result (n,
    {out}, co). Raises ``UsageError`` for shapes, element types or numbers that do not fit.
    """
    op = f"conv{axes}d"
    lay = Layout.parse(op, layout, axes)
    check_operands(op, input, weight, axes + 2)
    n, ci, sizes = lay.split(input.shape)
    co, cg, kernel = kernel_parts(lay, weight.shape)
    check_groups(op, groups, ci, co)
    if cg * groups != ci:
        raise UsageError(
            f"{op}: input has {ci} channels, and weight takes {cg} in each of {groups} groups",
            "ci is groups times the weight's input channels",
        )
    windows = Windows.over(op, sizes, kernel, stride, padding, dilation)
    check_vector(op, "bias", bias, co)

    def point(*index: te.Expr) -> te.Reduction:
        b, o, place = lay.split(index)

        def tap(*reduced: te.Expr) -> te.Expr:
            c, taps = reduced_parts(lay, reduced)
            at = windows.at(place, taps)
            x = value(input[lay.join(b, channel_of(o, c, ci, co, groups), at)])
            return windows.seen(at, x, 0.0) * value(weight[kernel_index(lay, o, c, taps)])

        return te.sum(reduce_extents(lay, cg, kernel), tap)

    return biased(te.compute(lay.join(n, co, windows.counts), point), bias, lay)


conv1d, conv2d, conv3d = (over_axes(conv, axes) for axes in (1, 2, 3))


# --------------------------------------------------------------------------- shared with transposed convolutions


def check_operands(op: str, input: te.TensorRef, weight: te.TensorRef, rank: int) -> None:
    """Raises ``UsageError`` for operands of another rank, or of two element types."""
    check_rank(op, "input", input.shape, rank)
    check_rank(op, "weight", weight.shape, rank)
    if computed(input.dtype) != computed(weight.dtype):
        raise UsageError(f"{op}: input is {input.dtype} and weight is {weight.dtype}", "Give both one dtype")


def kernel_parts(lay: Layout, shape: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
    """Returns co, ci/groups and the kernel sizes of a weight: (co, ci/groups, *kernel), or (*kernel, ci/groups, co)."""
    return (shape[-1], shape[-2], tuple(shape[:-2])) if lay.last else (shape[0], shape[1], tuple(shape[2:]))


def kernel_index(lay: Layout, o: te.Expr, c: te.Expr, taps: Sequence[te.Expr]) -> tuple[te.Expr, ...]:
    """Index of a weight for output channel ``o``, input channel ``c`` (within its group) and a tap."""
    return (*taps, c, o) if lay.last else (o, c, *taps)


def reduce_extents(lay: Layout, channels: int, taps: Sequence[int]) -> tuple[int, ...]:
    """Extents of the reduce axes in the input's memory order: channels first, or last."""
    return (*taps, channels) if lay.last else (channels, *taps)


def reduced_parts(lay: Layout, reduced: Sequence[te.Expr]) -> tuple[te.Expr, tuple[te.Expr, ...]]:
    """Splits reduce axes into the channel and the taps."""
    return (reduced[-1], tuple(reduced[:-1])) if lay.last else (reduced[0], tuple(reduced[1:]))


def channel_of(o: te.Expr, c: te.Expr, ci: int, co: int, groups: int) -> te.Expr:
    """The input channel with number ``c`` in the group of output channel ``o``."""
    return c if groups == 1 else (o // (co // groups)) * (ci // groups) + c


def biased(out: te.TensorRef, bias: te.TensorRef | None, lay: Layout) -> te.TensorRef:
    """``out`` plus one number for each channel."""
    if bias is None:
        return out
    return te.compute(out.shape, lambda *i: out[i] + value(bias[lay.split(i)[1]]))


# --------------------------------------------------------------------------- capsules

# Every channel holds a small matrix; products of numbers become products of matrices.


def capsule_conv2d(
    input: te.TensorRef, weight: te.TensorRef, stride: te.Ints = 1, padding: te.Ints = 0
) -> te.TensorRef:
    """Convolution whose elements are matrices: the products multiply (cap_h, cap_k) by (cap_k, cap_w) matrices.

    ``input`` (n, h, w, cap_h, cap_k, ci) by ``weight`` (kh, kw, cap_k, cap_w, ci, co) gives (n, ho, wo, cap_h, cap_w,
    co). ``stride`` and ``padding`` (zeros on each side) count elements of h and w. Raises ``UsageError`` for shapes,
    element types or numbers that do not fit.
    """
    op = "capsule_conv2d"
    check_operands(op, input, weight, 6)
    n, h, w, cap_h, cap_k, ci = input.shape
    kh, kw, cap_kw, cap_w, cw, co = weight.shape
    if (cap_k, ci) != (cap_kw, cw):
        raise UsageError(
            f"{op}: input holds {cap_h}x{cap_k} matrices in {ci} channels, and weight {cap_kw}x{cap_w} in {cw}",
            "The columns of the input's matrices are the rows of the weight's, and the input channels agree",
        )
    windows = Windows.over(op, (h, w), (kh, kw), stride, padding, 1)

    def point(b: te.Expr, i: te.Expr, j: te.Expr, p: te.Expr, q: te.Expr, o: te.Expr) -> te.Reduction:
        def tap(r: te.Expr, s: te.Expr, k: te.Expr, c: te.Expr) -> te.Expr:
            at = windows.at((i, j), (r, s))
            return windows.seen(at, value(input[(b, *at, p, k, c)]), 0.0) * value(weight[r, s, k, q, c, o])

        return te.sum((kh, kw, cap_k, ci), tap)

    return te.compute((n, *windows.counts, cap_h, cap_w, co), point)
