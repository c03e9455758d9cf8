"""Sizes of windowed functions: layouts, numbers per axis, output sizes, and their checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from typing import Concatenate, ParamSpec, TypeVar

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.parameters import numbers

P = ParamSpec("P")
T = TypeVar("T")

AXES = ("d", "h", "w")
"""Names of the spatial axes; functions of fewer axes use the last names."""

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
"""Layouts by the number of spatial axes: channels before them, as in PyTorch, and channels last."""


def described(text: str | None, axes: int, **more: str) -> str:
    """Documentation of a function over ``axes`` spatial axes: ``text`` with names and sizes of the axes inserted."""
    names = AXES[-axes:]
    words = {
        "Rank": ("One", "Two", "Three")[axes - 1],
        "first": names[0],
        "space": ", ".join(names),
        "kernel": ", ".join(f"k{a}" for a in names),
        "out": ", ".join(f"{a}o" for a in names),
        "last": LAYOUTS[axes][1],
    }
    return (text or "").format(**words, **more)


def over_axes(fn: Callable[Concatenate[int, P], T], axes: int) -> Callable[P, T]:
    """``fn`` with its first argument ``axes`` bound; ``conv`` over two axes becomes ``conv2d``.

    The default layout is the first of the layouts for ``axes`` axes.
    """

    @wraps(fn)
    def over(*args: P.args, **given: P.kwargs) -> T:
        return fn(axes, *args, **given)

    signature = inspect.signature(fn)
    _, *parameters = signature.parameters.values()
    own = [p.replace(default=LAYOUTS[axes][0]) if p.name == "layout" else p for p in parameters]
    over.__name__ = over.__qualname__ = f"{fn.__name__}{axes}d"
    over.__doc__ = described(fn.__doc__, axes)
    vars(over)["__signature__"] = signature.replace(parameters=own)
    return over


@dataclass(frozen=True)
class Layout:
    """Position of the channels' axis: after the batch, or last."""

    last: bool

    @staticmethod
    def parse(op: str, name: str, spatial: int) -> Layout:
        """The layout called ``name``; an empty name is the first layout. Raises ``UsageError``."""
        known = LAYOUTS[spatial]
        if name not in (*known, ""):
            raise UsageError(f"{op}: unknown layout {name!r}", f"Use {known[0]} or {known[1]}")
        return Layout(name == known[1])

    def split(self, items: Sequence[T]) -> tuple[T, T, tuple[T, ...]]:
        """Splits a shape or an index into its batch, channel and spatial parts."""
        batch, *rest = items
        return (batch, rest[-1], tuple(rest[:-1])) if self.last else (batch, rest[0], tuple(rest[1:]))

    def join(self, batch: T, channel: T, spatial: Sequence[T]) -> tuple[T, ...]:
        """Joins batch, channel and spatial parts to a shape or an index."""
        return (batch, *spatial, channel) if self.last else (batch, channel, *spatial)


def per_axis(op: str, name: str, value: te.Ints, axes: int, least: int) -> tuple[int, ...]:
    """``value`` as one number for each of ``axes`` axes, each at least ``least``. Raises ``UsageError``."""
    given = numbers(value)
    if given is None:
        raise UsageError(f"{op}: {name}={value} is not a whole number or several", f"Write {name}=2 or {name}=2,1")
    out = given * axes if len(given) == 1 else given
    shown = ",".join(map(str, given))
    if len(out) != axes:
        raise UsageError(
            f"{op}: {name}={shown} has {len(out)} numbers", f"Give one for all {axes} spatial axes, or {axes}"
        )
    if any(v < least for v in out):
        raise UsageError(f"{op}: {name}={shown} is below {least}", f"{name} is at least {least}")
    return out


def check_rank(op: str, what: str, shape: tuple[int, ...], rank: int) -> None:
    """Raises ``UsageError`` for a shape of another rank."""
    if len(shape) != rank:
        raise UsageError(f"{op}: {what} has shape {shape}", f"It has {rank} axes")


def check_vector(op: str, what: str, ref: te.TensorRef | None, channels: int) -> None:
    """Raises ``UsageError`` for a tensor that is not one number for each channel."""
    if ref is not None and ref.shape != (channels,):
        raise UsageError(f"{op}: {what} has shape {ref.shape}", f"It has one number for each of {channels} channels")


def check_groups(op: str, groups: int, ci: int, co: int) -> None:
    """Raises ``UsageError`` for groups that do not divide the channels."""
    if groups < 1:
        raise UsageError(f"{op}: groups={groups} is below 1", "groups is at least 1")
    for name, channels in (("ci", ci), ("co", co)):
        if channels % groups:
            raise UsageError(
                f"{op}: groups={groups} does not divide {name}={channels}",
                "groups divides the channels of the input (ci) and of the output (co)",
            )


@dataclass(frozen=True)
class Windows:
    """Windows over spatial axes of an input, with one number per axis in each field. ``counts``: number of windows.

    ``overhang``: whether the last window reaches past the trailing padding.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    counts: tuple[int, ...]
    overhang: tuple[bool, ...]

    @staticmethod
    def over(
        op: str,
        sizes: Sequence[int],
        kernel: Sequence[int],
        stride: te.Ints,
        padding: te.Ints,
        dilation: te.Ints,
        ceil_mode: bool = False,
    ) -> Windows:
        """All windows that fit along each axis: ``(size + 2*padding - dilation*(kernel - 1) - 1) // stride + 1``.

        ``ceil_mode``: also counts a partial window if it begins inside the input or the leading padding. Raises
        ``UsageError`` if no window fits.
        """
        axes = len(sizes)
        steps = per_axis(op, "stride", stride, axes, 1)
        pads = per_axis(op, "padding", padding, axes, 0)
        gaps = per_axis(op, "dilation", dilation, axes, 1)
        counts, overhang = [], []
        for size, k, s, p, d in zip(sizes, kernel, steps, pads, gaps, strict=True):
            reach = d * (k - 1) + 1
            if reach > size + 2 * p:
                raise UsageError(
                    f"{op}: a window of {k}, dilation={d}, reaches over {reach} elements, past an input of {size} "
                    f"with padding={p} on each side",
                    "dilation*(kernel - 1) + 1 is at most size + 2*padding on each axis",
                )
            count = (size + 2 * p - reach) // s + 1
            overhang.append(ceil_mode and (size + 2 * p - reach) % s > 0 and count * s < size + p)
            counts.append(count + overhang[-1])
        return Windows(tuple(sizes), tuple(kernel), steps, pads, gaps, tuple(counts), tuple(overhang))

    def at(self, place: Sequence[te.Expr], taps: Sequence[te.Expr]) -> list[te.Expr]:
        """Indices of the element that the window at ``place`` reads at ``taps``."""
        parts = zip(place, self.stride, taps, self.dilation, self.padding, strict=True)
        return [i * s + r * d - p for i, s, r, d, p in parts]

    def seen(self, at: Sequence[te.Expr], element: te.Expr, outside: float) -> te.Expr:
        """``element``, read at the indices ``at``; ``outside`` if these lie outside the input."""
        guarded = (x for x in zip(at, self.sizes, self.padding, self.overhang, strict=True) if x[2] or x[3])
        guard = every(both(i >= 0, i < size) for i, size, *_ in guarded)
        return element if guard is None else te.select(guard, element, outside)


def every(conditions: Iterable[te.Expr | None]) -> te.Expr | None:
    """The conjunction of conditions, ignoring ``None``; ``None`` if all are ``None``."""
    return reduce(both, conditions, None)


def both(a: te.Expr | None, b: te.Expr | None) -> te.Expr | None:
    """The conjunction of two conditions, either of which may be ``None``."""
    return a if b is None else b if a is None else a & b
