"""Pooling: the maximum or the mean of every window, channel by channel.

Arguments and shapes are those of ``torch.nn.functional``: (n, c, *spatial) or, with channels last, (n, *spatial, c).
An empty ``stride`` is ``kernel_size``. Windows that do not fit whole are left out (PyTorch's ``ceil_mode=False``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.nn.element import value
from tilewright.kernels.nn.sizes import Layout, check_rank, inside, per_axis, windows
from tilewright.kernels.parameters import numbers


@dataclass(frozen=True)
class _Windows:
    """Windows over the spatial axes of one input."""

    input: te.TensorRef
    lay: Layout
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    shape: tuple[int, ...]

    def reduced(self, reduce: Callable[..., te.Reduction], outside: float) -> te.TensorRef:
        """``reduce`` over every window; what is read outside of the input is ``outside``."""

        def point(*index: te.Expr) -> te.Reduction:
            b, c, place = self.lay.split(index)

            def tap(*taps: te.Expr) -> te.Expr:
                parts = zip(place, self.stride, taps, self.dilation, self.padding, strict=True)
                at = [i * s + r * d - p for i, s, r, d, p in parts]
                x = value(self.input[self.lay.join(b, c, at)])
                guard = inside(at, self.sizes, self.padding)
                return x if guard is None else te.select(guard, x, outside)

            return reduce(self.kernel, tap)

        return te.compute(self.shape, point)

    def mean(self, count_include_pad: bool) -> te.TensorRef:
        """The mean of every window, of its elements inside of the input unless the padding counts."""
        total = self.reduced(te.sum, 0.0)
        if count_include_pad or not any(self.padding):
            share = 1.0 / math.prod(self.kernel)
            return te.compute(self.shape, lambda *i: total[i] * share)

        def point(*index: te.Expr) -> te.Expr:
            out = total[index]
            place = self.lay.split(index)[2]
            for i, size, k, s, p in zip(place, self.sizes, self.kernel, self.stride, self.padding, strict=True):
                first, end = te.maximum(i * s - p, 0), te.minimum(i * s - p + k, size)
                out = out / te.cast(end - first, out.dtype)
            return out

        return te.compute(self.shape, point)


def _windows(
    op: str,
    spatial: int,
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints,
    padding: te.Ints,
    dilation: te.Ints,
    layout: str,
) -> _Windows:
    lay = Layout.parse(op, layout, spatial)
    check_rank(op, "input", input.shape, spatial + 2)
    if input.dtype not in FLOATS:
        raise UsageError(f"{op}: input is {input.dtype}", f"Pooling takes {', '.join(FLOATS)}")
    n, c, sizes = lay.split(input.shape)
    kernel = per_axis(op, "kernel_size", kernel_size, spatial, 1)
    steps = kernel if numbers(stride) == () else per_axis(op, "stride", stride, spatial, 1)
    pads = per_axis(op, "padding", padding, spatial, 0)
    gaps = per_axis(op, "dilation", dilation, spatial, 1)
    for k, p, d in zip(kernel, pads, gaps, strict=True):
        if 2 * p > d * (k - 1) + 1:
            raise UsageError(
                f"{op}: padding={p} is more than half of a window of {d * (k - 1) + 1}",
                "A window would see padding only; padding is at most half of dilation*(kernel_size - 1) + 1",
            )
    out = windows(op, sizes, kernel, steps, pads, gaps)
    return _Windows(input, lay, sizes, kernel, steps, pads, gaps, lay.join(n, c, out))


def max_pool1d(
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    *,
    layout: str = "NCW",
) -> te.TensorRef:
    """Largest value of every window of (n, c, w); NaN wins."""
    return _windows("max_pool1d", 1, input, kernel_size, stride, padding, dilation, layout).reduced(te.max, -math.inf)


def max_pool2d(
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    *,
    layout: str = "NCHW",
) -> te.TensorRef:
    """Largest value of every window of (n, c, h, w); NaN wins."""
    return _windows("max_pool2d", 2, input, kernel_size, stride, padding, dilation, layout).reduced(te.max, -math.inf)


def max_pool3d(
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    *,
    layout: str = "NCDHW",
) -> te.TensorRef:
    """Largest value of every window of (n, c, d, h, w); NaN wins."""
    return _windows("max_pool3d", 3, input, kernel_size, stride, padding, dilation, layout).reduced(te.max, -math.inf)


def avg_pool1d(
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    count_include_pad: bool = True,
    *,
    layout: str = "NCW",
) -> te.TensorRef:
    """Mean of every window of (n, c, w); zeros of the padding count unless ``count_include_pad`` is false."""
    return _windows("avg_pool1d", 1, input, kernel_size, stride, padding, 1, layout).mean(count_include_pad)


def avg_pool2d(
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    count_include_pad: bool = True,
    *,
    layout: str = "NCHW",
) -> te.TensorRef:
    """Mean of every window of (n, c, h, w); zeros of the padding count unless ``count_include_pad`` is false."""
    return _windows("avg_pool2d", 2, input, kernel_size, stride, padding, 1, layout).mean(count_include_pad)


def avg_pool3d(
    input: te.TensorRef,
    kernel_size: te.Ints,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    count_include_pad: bool = True,
    *,
    layout: str = "NCDHW",
) -> te.TensorRef:
    """Mean of every window of (n, c, d, h, w); zeros of the padding count unless ``count_include_pad`` is false."""
    return _windows("avg_pool3d", 3, input, kernel_size, stride, padding, 1, layout).mean(count_include_pad)
