"""Pooling: the maximum or the mean of every window, channel by channel.

Arguments and shapes are those of ``torch.nn.functional``: (n, c, *spatial) or, with channels last, (n, *spatial, c). An
empty ``stride`` is ``kernel_size``. Windows that do not fit whole are left out. With ``ceil_mode`` they are kept if
they begin inside the input or its leading padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression import monoids
from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.nn.dims import computed, value
from tilewright.kernels.nn.sizes import Layout, Windows, check_rank, every, over_axes, per_axis
from tilewright.kernels.parameters import numbers


@dataclass(frozen=True)
class _Pool:
    """Windows over the spatial axes of one input."""

    input: te.TensorRef
    lay: Layout
    windows: Windows

    def reduced(self, reduce: Callable[..., te.Reduction], outside: float, positions: bool = False) -> te.TensorRef:
        """``reduce`` over every window; elements outside the input count as ``outside``.

        ``positions``: each element comes with its position (int64) among the spatial elements of its channel, -1
        outside.
        """
        windows, lay = self.windows, self.lay

        def point(*index: te.Expr) -> te.Reduction:
            b, c, place = lay.split(index)

            def tap(*taps: te.Expr) -> Any:
                at = windows.at(place, taps)
                x = windows.seen(at, value(self.input[lay.join(b, c, at)]), outside)
                return (x, windows.seen(at, _position(at, windows.sizes), -1)) if positions else x

            return reduce(windows.kernel, tap)

        n, c, _ = lay.split(self.input.shape)
        return te.compute(lay.join(n, c, windows.counts), point)

    def mean(self, count_include_pad: bool, divisor: int | None = None) -> te.TensorRef:
        """The mean of every window over its elements inside the input, and inside the padding if that counts.

        ``divisor``: divides the sums in place of the number of elements.
        """
        total, windows = self.reduced(te.sum, 0.0), self.windows
        same = (count_include_pad or not any(windows.padding)) and not any(windows.overhang)
        if same or divisor is not None:
            share = 1.0 / (math.prod(windows.kernel) if divisor is None else divisor)
            return te.compute(total.shape, lambda *i: total[i] * share)
        counted = windows.padding if count_include_pad else (0,) * len(windows.padding)

        def point(*index: te.Expr) -> te.Expr:
            out = total[index]
            place = self.lay.split(index)[2]
            axes = zip(place, windows.sizes, windows.kernel, windows.stride, windows.padding, counted, strict=True)
            for i, size, k, s, p, c in axes:
                first, end = te.maximum(i * s - p, -c), te.minimum(i * s - p + k, size + c)
                out = out / te.cast(end - first, out.dtype)
            return out

        return te.compute(total.shape, point)


def _first_largest(input: te.TensorRef) -> te.Monoid:
    """Monoid for positions of largest values as in PyTorch's pooling: the first of equal numbers, the last of several
    NaN."""
    return monoids.arg("argmax", computed(input.dtype), "last NaN")


def _position(at: Sequence[te.Expr], sizes: Sequence[int]) -> te.Expr:
    """Row-major position (int64) of the element at these indices of a tensor of ``sizes``."""
    found = te.cast(at[0], "int64")
    for i, n in zip(at[1:], sizes[1:], strict=True):
        found = found * n + te.cast(i, "int64")
    return found


def _pool(
    op: str,
    spatial: int,
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints,
    padding: te.Ints,
    dilation: te.Ints,
    layout: str,
    ceil_mode: bool,
) -> _Pool:
    lay = Layout.parse(op, layout, spatial)
    check_rank(op, "input", input.shape, spatial + 2)
    if input.dtype not in FLOATS:
        raise UsageError(f"{op}: input is {input.dtype}", f"Pooling takes {', '.join(FLOATS)}")
    sizes = lay.split(input.shape)[2]
    kernel = per_axis(op, "kernel_size", kernel_size, spatial, 1)
    steps = kernel if numbers(stride) == () else stride
    windows = Windows.over(op, sizes, kernel, steps, padding, dilation, ceil_mode)
    for k, p, d in zip(kernel, windows.padding, windows.dilation, strict=True):
        if 2 * p > d * (k - 1) + 1:
            raise UsageError(
                f"{op}: padding={p} is more than half of a window of {d * (k - 1) + 1}",
                "A window would see padding only; padding is at most half of dilation*(kernel_size - 1) + 1",
            )
    return _Pool(input, lay, windows)


def max_pool(
    axes: int,
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    ceil_mode: bool = False,
    *,
    layout: str = "",
) -> te.TensorRef:
    """Largest element of every window of ``input`` (n, c, {space}), of shape (n, c, {out}); NaN wins.

    ``kernel_size``, ``stride`` (an empty one is ``kernel_size``), ``padding`` (on each side) and ``dilation`` count
    elements: one number for all axes, or one for each. ``ceil_mode`` keeps windows that fit in part.
    ``layout="{last}"`` takes (n, {space}, c). Raises ``UsageError`` for shapes, element types or numbers that do not
    fit.
    """
    pool = _pool(f"max_pool{axes}d", axes, input, kernel_size, stride, padding, dilation, layout, ceil_mode)
    return pool.reduced(te.max, -math.inf)


def avg_pool(
    axes: int,
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    divisor_override: int | None = None,
    *,
    layout: str = "",
) -> te.TensorRef:
    """Mean of every window of ``input`` (n, c, {space}), of shape (n, c, {out}).

    ``kernel_size``, ``stride`` (an empty one is ``kernel_size``) and ``padding`` (zeros on each side) count elements:
    one number for all axes, or one for each. ``count_include_pad``: the zeros of the padding count. ``ceil_mode`` keeps
    windows that fit in part. ``divisor_override`` divides sums in place of the number of elements. ``layout="{last}"``
    takes (n, {space}, c). Raises ``UsageError`` for shapes, element types or numbers that do not fit.
    """
    pool = _pool(f"avg_pool{axes}d", axes, input, kernel_size, stride, padding, 1, layout, ceil_mode)
    return pool.mean(count_include_pad, divisor_override)


max_pool1d, max_pool2d, max_pool3d = (over_axes(max_pool, axes) for axes in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (over_axes(avg_pool, axes) for axes in (1, 2, 3))


def max_pool_positions(
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    ceil_mode: bool = False,
) -> te.TensorRef:
    """Position (int64) of the largest element of every window of ``input`` (n, c, ...): one for each window.

    A position counts the elements of a channel, row by row. Of equal elements the first is found, of several NaN the
    last; padding is never found. Sizes count elements, as in ``max_pool2d``. Raises ``UsageError`` for shapes, element
    types or numbers that do not fit.
    """
    spatial = len(input.shape) - 2
    pool = _pool("max_pool", spatial, input, kernel_size, stride, padding, dilation, "", ceil_mode)
    return pool.reduced(partial(te.reduce, _first_largest(input)), -math.inf, positions=True)


def _adaptive(
    op: str,
    input: te.TensorRef,
    output_size: te.Ints,
    reduce: Callable[..., te.Reduction],
    element: Callable[[te.Expr, te.Expr | None, Sequence[te.Expr]], Any],
) -> tuple[te.TensorRef, Callable[..., Any]]:
    """``reduce`` over windows that divide each spatial axis as evenly as possible, and a function to their element
    counts.

    ``element`` receives a value, the condition that it lies in the window (``None`` if always), and its spatial
    indices.
    """
    spatial = len(input.shape) - 2
    sizes = input.shape[2:]
    out = per_axis(op, "output_size", output_size, spatial, 1)
    if input.dtype not in FLOATS:
        raise UsageError(f"{op}: input is {input.dtype}", f"Pooling takes {', '.join(FLOATS)}")
    axes = list(zip(sizes, out, strict=True))
    kernel = tuple(n // o if n % o == 0 else max(-(-(i + 1) * n // o) - i * n // o for i in range(o)) for n, o in axes)

    def first(i: te.Expr, n: int, o: int) -> te.Expr:
        return i * (n // o) if n % o == 0 else i * n // o

    def count(i: te.Expr, n: int, o: int) -> te.Expr | int:
        return n // o if n % o == 0 else ((i + 1) * n + (o - 1)) // o - first(i, n, o)

    def point(*i: te.Expr) -> te.Reduction:
        place = i[2:]

        def tap(*taps: te.Expr) -> Any:
            at = [first(p, n, o) + r for p, r, (n, o) in zip(place, taps, axes, strict=True)]
            guard = every(r < count(p, n, o) for p, r, (n, o) in zip(place, taps, axes, strict=True) if n % o)
            return element(value(input[(*i[:2], *at)]), guard, at)

        return reduce(kernel, tap)

    def elements(*i: te.Expr) -> Any:
        total: Any = 1
        for p, (n, o) in zip(i[2:], axes, strict=True):
            total = count(p, n, o) * total
        return total

    return te.compute((*input.shape[:2], *out), point), elements


def adaptive_avg_pool(input: te.TensorRef, output_size: te.Ints) -> te.TensorRef:
    """Means of ``input`` (n, c, ...) over ``output_size`` windows along each spatial axis.

    Window ``i`` of an axis of ``n`` elements begins at ``floor(i*n/size)`` and ends before ``ceil((i + 1)*n/size)``.
    Raises ``UsageError`` for whole numbers and for sizes that do not fit.
    """
    total, elements = _adaptive("adaptive_avg_pool", input, output_size, te.sum, _or(0.0))

    def mean(*i: te.Expr) -> te.Expr:
        count: Any = elements(*i)
        return total[i] * (1.0 / count) if isinstance(count, int) else total[i] / te.cast(count, total.dtype)

    return te.compute(total.shape, mean)


def adaptive_max_pool(input: te.TensorRef, output_size: te.Ints) -> te.TensorRef:
    """Largest elements of ``input`` (n, c, ...) over the windows of ``adaptive_avg_pool``; NaN wins.

    Raises ``UsageError`` for whole numbers and for sizes that do not fit.
    """
    return _adaptive("adaptive_max_pool", input, output_size, te.max, _or(-math.inf))[0]


def adaptive_max_pool_positions(input: te.TensorRef, output_size: te.Ints) -> te.TensorRef:
    """Positions (int64) of the largest elements that ``adaptive_max_pool`` gives, counted as in ``max_pool_positions``.

    Raises ``UsageError`` for whole numbers and for sizes that do not fit.
    """
    found = _first_largest(input)

    def element(x: te.Expr, guard: te.Expr | None, at: Sequence[te.Expr]) -> tuple[te.Expr, te.Expr]:
        position = _position(at, input.shape[2:])
        return (x, position) if guard is None else (_or(-math.inf)(x, guard), te.select(guard, position, -1))

    return _adaptive("adaptive_max_pool", input, output_size, partial(te.reduce, found), element)[0]


def _or(outside: float) -> Callable[..., te.Expr]:
    """A function that returns a value inside the window, and ``outside`` elsewhere."""

    def element(x: te.Expr, guard: te.Expr | None, _: object = None) -> te.Expr:
        return x if guard is None else te.select(guard, x, outside)

    return element
