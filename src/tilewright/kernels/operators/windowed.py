"""Pooling, and helpers that it shares with convolutions: operators for any number of axes, layouts, sizes from shapes,
and NumPy implementations without expressions."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.activation import Activation, activate
from tilewright.kernels.nn.sizes import AXES, LAYOUTS, described
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators.numeric import REALS, Array, Found, Shape, Shapes, numpy_epilogue, rounded_like, wide

CHANNELS_LAST = ("NWC", "NHWC", "NDHWC")


# --------------------------------------------------------------------------- operators


def over_axes(
    define: Callable[..., te.TensorRef],
    axes: int,
    sizes: Sequence[str],
    example: Mapping[str, Value],
    *,
    numpy: Callable[..., Array],
    infer: Callable[..., Found],
    without: Sequence[str] = (),
    **text: str,
) -> Operator:
    """``define`` over ``axes`` spatial axes as an operator; ``conv`` over two axes becomes ``conv2d``.

    ``define`` takes the number of axes, a tuple of all ``sizes`` and the operator's further parameters; parameters in
    ``without`` keep their defaults. The operator takes each size by name. ``text``: values for the placeholders of the
    documentation, beside names of axes. ``infer`` receives the operator's name and ``sizes`` as its first arguments.
    """
    signature = inspect.signature(define)
    rest = [p for p in list(signature.parameters.values())[2:] if p.name not in without]
    named = [inspect.Parameter(s, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=int) for s in sizes]
    layouts = LAYOUTS[axes]
    given = [p.replace(annotation=Literal[layouts], default=layouts[0]) if p.name == "layout" else p for p in rest]
    own = signature.replace(parameters=[*named, *given])

    @wraps(define)
    def over(*args: Any, **kwargs: Any) -> te.TensorRef:
        bound = own.bind(*args, **kwargs)
        bound.apply_defaults()
        numbers = tuple(bound.arguments.pop(s) for s in sizes)
        return define(axes, numbers, **bound.arguments)

    name = f"{define.__name__}{axes}d"
    over.__doc__ = described(inspect.getdoc(define), axes, **text)
    over.__annotations__ = {p.name: p.annotation for p in own.parameters.values()}
    vars(over)["__signature__"] = own
    decorate = operator(name=name, numpy=numpy, infer=partial(infer, name, sizes), example=example, dtypes=REALS)
    return decorate(over)


# --------------------------------------------------------------------------- expressions


def image(layout: str, n: int, c: int, spatial: Sequence[int]) -> Shape:
    """Shape of activations in a layout."""
    return (n, *spatial, c) if layout in CHANNELS_LAST else (n, c, *spatial)


@dataclass(frozen=True)
class Layer:
    """Epilogue of a convolution, each part optional, and the layout of activations."""

    layout: str
    bias: bool
    batch_norm: bool
    eps: float
    activation: Activation

    def finished(self, out: te.TensorRef, co: int, dtype: str) -> te.TensorRef:
        """Batch normalisation and activation of a sum that includes its bias, rounded to ``dtype``."""
        if self.batch_norm:
            names = ("running_mean", "running_var", "bn_weight", "bn_bias")
            vectors = [te.input(name, (co,), dtype) for name in names]
            out = nn.batch_norm(out, *vectors, eps=self.eps, dim=-1 if self.layout in CHANNELS_LAST else 1)
        if self.activation != "none":
            out = te.compute(out.shape, lambda *i: activate(out[i], self.activation))
        return nn.cast(out, dtype)

    def numpy_finished(self, out: Array, like: Array, rest: tuple[Array, ...]) -> Array:
        """Bias, batch normalisation and activation of (n, co, *out), then the layout and element type of ``like``."""
        vectors = [wide(v).astype(out.dtype, copy=False) for v in rest]
        wanted = self.bias + 4 * self.batch_norm
        if len(vectors) != wanted:
            raise ValueError(f"expected {wanted} arrays after the operands, got {len(vectors)}")
        out = numpy_epilogue(out, tuple(vectors[: self.bias]), self.bias, "none", False, bias_axis=1)
        if self.batch_norm:
            mean, var, weight, shift = (v.reshape(-1, *(1,) * (out.ndim - 2)) for v in vectors[self.bias :])
            with np.errstate(invalid="ignore", divide="ignore"):
                out = (out - mean) / np.sqrt(var + out.dtype.type(self.eps)) * weight + shift
        return laid_out(numpy_epilogue(out, (), False, self.activation, False), self.layout, like)


# --------------------------------------------------------------------------- sizes from shapes


def split_image(layout: str, shape: Shape) -> tuple[int, int, Shape]:
    """Batch, channels and spatial sizes of activations."""
    n, *rest = shape
    return (n, rest[-1], tuple(rest[:-1])) if layout in CHANNELS_LAST else (n, rest[0], tuple(rest[1:]))


def check_ranks(op: str, shapes: Shapes, ranks: Sequence[int]) -> None:
    """Raises ``UsageError`` if the first inputs do not have these ranks."""
    if [len(s) for s in shapes[: len(ranks)]] != list(ranks):
        raise UsageError(
            f"{op} got inputs of shapes {' and '.join(map(str, shapes)) or 'none'}",
            f"The first inputs have {' and '.join(map(str, ranks))} axes",
        )


# --------------------------------------------------------------------------- NumPy


def tuples(value: te.Ints, axes: int) -> tuple[int, ...]:
    """One number for each axis."""
    return (value,) * axes if isinstance(value, int) else value


def channels_first(x: Array, layout: str) -> Array:
    """Activations as (n, c, *spatial), 16-bit ones as float32."""
    return np.moveaxis(wide(x), -1, 1) if layout in CHANNELS_LAST else wide(x)


def padded(x: Array, padding: Sequence[int], fill: float = 0.0) -> Array:
    """Activations (n, c, *spatial) padded with ``fill`` on both sides of each spatial axis."""
    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=fill)


def check_window(kernel: Sequence[int], counts: Sequence[int]) -> None:
    """Raises ``UsageError`` for a window without elements, or without positions; ``counts``: positions along each
    axis."""
    if 0 in kernel:
        raise UsageError(f"a window of {tuple(kernel)} has no elements", "Its sizes are at least 1")
    if min(counts) < 1:
        raise UsageError(f"a window of {tuple(kernel)} fits nowhere", "Make the input or its padding larger")


def shifted(
    x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yields every tap with its reads at all positions of the window: (n, c, *out)."""
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    check_window(kernel, counts)
    for tap in itertools.product(*map(range, kernel)):
        parts = zip(tap, counts, stride, dilation, strict=True)
        yield tap, spatially(x, [slice(r * d, r * d + s * (n - 1) + 1, s) for r, n, s, d in parts])


def spatially(x: Array, index: Sequence[int | slice]) -> Array:
    """The view ``x[:, :, *index]``."""
    full: tuple[Any, ...] = (slice(None), slice(None), *index)
    found: Array = x[full]
    return found


def laid_out(out: Array, layout: str, like: Array) -> Array:
    """Activations (n, c, *spatial) in a layout and in the element type of ``like``."""
    return rounded_like(np.moveaxis(out, 1, -1) if layout in CHANNELS_LAST else out, like)


# --------------------------------------------------------------------------- pooling


def max_pool(
    axes: int,
    sizes: tuple[int, ...],
    kernel_size: te.Ints,
    *,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    dilation: te.Ints = 1,
    layout: str = "",
    dtype: str = "float32",
) -> te.TensorRef:
    """{Rank}-dimensional max pooling: the largest element of every window.

    The largest ``input[..., i*stride + r*dilation - padding, ...]`` over ``0 <= r < kernel_size`` on every spatial
    axis; elements outside the input are left out; NaN wins.

    Input: ``input`` (n, c, {space}). Output: (n, c, {out}) with ``wo = (w + 2*padding - dilation*(kernel_size - 1) - 1)
    // stride + 1``. With ``layout={last}``: (n, {space}, c), giving (n, {out}, c).

    ``kernel_size`` and the other numbers hold for all spatial axes, or one for each (``2,1``). ``stride`` is
    ``kernel_size`` where it is not given; ``padding`` is at most half of the window.
    """
    fn = (nn.max_pool1d, nn.max_pool2d, nn.max_pool3d)[axes - 1]
    return nn.cast(fn(_input(sizes, layout, dtype), kernel_size, stride, padding, dilation, layout=layout), dtype)


def avg_pool(
    axes: int,
    sizes: tuple[int, ...],
    kernel_size: te.Ints,
    *,
    stride: te.Ints = (),
    padding: te.Ints = 0,
    count_include_pad: bool = True,
    layout: str = "",
    dtype: str = "float32",
) -> te.TensorRef:
    """{Rank}-dimensional average pooling: the mean of every window.

    The mean of ``input[..., i*stride + r - padding, ...]`` over ``0 <= r < kernel_size`` on every
    spatial axis; zeros of the padding count as elements, unless ``count_include_pad`` is false.

    Input: ``input`` (n, c, {space}). Output: (n, c, {out}) with
    ``wo = (w + 2*padding - kernel_size) // stride + 1``.
    With ``layout={last}``: (n, {space}, c), giving (n, {out}, c).

    ``kernel_size`` and the other numbers hold for all spatial axes, or one for each (``2,1``). ``stride`` is
    ``kernel_size`` where it is not given; ``padding`` is at most half of the window.
    """
    fn = (nn.avg_pool1d, nn.avg_pool2d, nn.avg_pool3d)[axes - 1]
    x = _input(sizes, layout, dtype)
    return nn.cast(fn(x, kernel_size, stride, padding, count_include_pad, layout=layout), dtype)


def _input(sizes: tuple[int, ...], layout: str, dtype: str) -> te.TensorRef:
    n, c, *spatial = sizes
    return te.input("input", image(layout, n, c, spatial), dtype)


def infer_pooling(
    op: str,
    names: Sequence[str],
    shapes: Shapes,
    *,
    kernel_size: te.Ints,
    layout: str,
) -> Found:
    """Sizes by ``names`` (n, c, spatial sizes) from the input's shape; no shape shows the window, so it must be
    given."""
    check_ranks(op, shapes, [len(names)])
    if len(shapes) > 1:
        raise UsageError(f"{op} got {len(shapes)} inputs", "It takes one")
    n, c, sizes = split_image(layout, shapes[0])
    return dict(zip(names, (n, c, *sizes), strict=True))


def numpy_max_pool(
    x: Array, *, kernel_size: te.Ints, stride: te.Ints, padding: te.Ints, dilation: te.Ints, layout: str
) -> Array:
    """Max pooling as the elementwise maximum of shifted views of the input, one per tap."""
    axes = x.ndim - 2
    kernel = tuples(kernel_size, axes)
    wide = padded(channels_first(x, layout), tuples(padding, axes), -math.inf)
    taps = shifted(wide, kernel, kernel if stride == () else tuples(stride, axes), tuples(dilation, axes))
    out = np.maximum.reduce([window for _, window in taps])
    return laid_out(out, layout, x)


def numpy_avg_pool(
    x: Array, *, kernel_size: te.Ints, stride: te.Ints, padding: te.Ints, count_include_pad: bool, layout: str
) -> Array:
    """Average pooling: the sum of shifted views of the input, divided by the number of elements in the window."""
    axes = x.ndim - 2
    kernel = tuples(kernel_size, axes)
    steps = kernel if stride == () else tuples(stride, axes)
    first = channels_first(x, layout)

    def total(values: Array, fill: float) -> Array:
        taps = shifted(padded(values, tuples(padding, axes), fill), kernel, steps, (1,) * axes)
        return sum((window for _, window in taps), np.zeros((), values.dtype))

    out = total(first, 0.0) / total(np.ones_like(first), float(count_include_pad))
    return laid_out(out, layout, x)


EXAMPLES: dict[int, dict[str, Value]] = {
    1: {"n": 1, "c": 64, "w": 256, "kernel_size": 3, "stride": 2, "padding": 1},
    2: {"n": 1, "c": 64, "h": 56, "w": 56, "kernel_size": 3, "stride": 2, "padding": 1},
    3: {"n": 1, "c": 64, "d": 8, "h": 28, "w": 28, "kernel_size": 2, "stride": 2},
}
"""Parameters of small instances, by the number of spatial axes."""


def _operator(define: Callable[..., te.TensorRef], numpy: Callable[..., Array], axes: int) -> Operator:
    return over_axes(define, axes, ("n", "c", *AXES[-axes:]), EXAMPLES[axes], numpy=numpy, infer=infer_pooling)


max_pool1d, max_pool2d, max_pool3d = (_operator(max_pool, numpy_max_pool, axes) for axes in EXAMPLES)
avg_pool1d, avg_pool2d, avg_pool3d = (_operator(avg_pool, numpy_avg_pool, axes) for axes in EXAMPLES)
