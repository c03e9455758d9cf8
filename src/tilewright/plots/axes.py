"""Axes of a chart: their scales, limits, and ticks at round positions with units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.database.text import visible_text
from tilewright.insight.chart import Axis
from tilewright.plots.theme import Theme
from tilewright.units import with_unit

LONGEST = 90
"""Largest number of characters of a title or name; a longer text ends with an ellipsis."""
CATEGORIES = 24
"""Largest number of names that are written along an axis of categories; of more names, an even sample is written."""

LARGEST = 1e100
"""Numbers beyond this, and their inverses on logarithmic axes, are not drawn: Matplotlib's arithmetic overflows."""


def shown(text: str, longest: int = LONGEST) -> str:
    """``text`` as a chart shows it: one line, without invisible characters, at most ``longest`` characters."""
    text = visible_text(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def usable(axis: Axis, value: float) -> bool:
    """Whether ``value`` can be drawn on ``axis``."""
    return abs(value) <= LARGEST and (axis.scale != "log" or value >= 1 / LARGEST)


def set_axis(axes: Any, which: str, axis: Axis, values: Iterable[float]) -> None:
    """Set label, scale, limits and ticks of Matplotlib's axis ``which`` (``x`` or ``y``) for ``values``."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    target = getattr(axes, f"{which}axis")
    getattr(axes, f"set_{which}label")(shown(axis.label))
    known = [v for v in values if usable(axis, v)]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    limits = getattr(axes, f"set_{which}lim")
    if axis.categories:
        names = [shown(c, 18) for c in axis.categories]
        step = math.ceil(len(names) / CATEGORIES)
        at = range(0, len(names), step)
        limits(-0.5, len(names) - 0.5)
        target.set_major_locator(FixedLocator(list(at)))
        target.set_major_formatter(FuncFormatter(lambda v, _: names[round(v)] if 0 <= round(v) < len(names) else ""))
        if which == "x" and sum(len(names[i]) + 2 for i in at) > 90:
            axes.tick_params(axis="x", labelrotation=45)
        return
    if axis.scale == "log":
        getattr(axes, f"set_{which}scale")("log")
        margin = 10 ** min(max(0.06 * (math.log10(high) - math.log10(low)), 0.01), 0.3)
        limits(low / margin, high * margin)
        target.set_major_locator(FixedLocator(log_ticks(low / margin, high * margin)))
        target.set_minor_locator(NullLocator())
    elif axis.unit in ("share", "trial", "s") and low >= 0:
        margin = 0.02 * (high - low or 1.0)
        limits((0.0 if low < 0.5 * high else low) - margin, high + margin)
    if axis.unit == "trial" and axis.scale != "log":
        target.set_major_locator(MaxNLocator(integer=True))  # there is no half of a trial
    target.set_major_formatter(FuncFormatter(lambda v, _: with_unit(v, axis.unit)))


def log_ticks(low: float, high: float) -> list[float]:
    """Round positions of ticks on a logarithmic axis from ``low`` to ``high``: few enough to be read."""
    span = math.log10(high) - math.log10(low)
    if span > 3:
        every = math.ceil(span / 8)
        return [10.0**e for e in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1, every)]
    for steps in ((1, 10), (1, 3, 10), (1, 2, 5, 10), (1, 1.5, 2, 3, 4, 5, 6, 8, 10)):
        found = [
            s * 10.0**e
            for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for s in steps[:-1]
            if low <= s * 10.0**e <= high
        ]
        if len(found) >= 4:
            return found
    # Over less than about a factor of two: round numbers at even distances.
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = next(step * m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 6)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def colour_scale(axis: Axis, theme: Theme, values: Sequence[float]) -> tuple[Any, str]:
    """A Matplotlib norm over ``values``, and the name of a colour map in which small values stand out.

    Small values are dark on a light page and bright on a dark one.
    """
    from matplotlib.colors import LogNorm, Normalize

    low, high = min(values), max(values)
    if low == high:
        high = low * 1.01 if low else 1.0
    colours = "viridis" if theme.colours == "viridis_r" else "viridis_r"
    return (LogNorm if axis.scale == "log" else Normalize)(low, high), colours


def colour_bar(axes: Any, colours: Any, axis: Axis) -> None:
    """Draw the colour bar of ``axis`` beside ``axes``."""
    bar = axes.figure.colorbar(colours, ax=axes, pad=0.01, fraction=0.04)
    bar.set_label(shown(axis.label))
    bar.outline.set_visible(False)
    if axis.scale == "log":
        ticks = log_ticks(colours.norm.vmin, colours.norm.vmax)
        bar.set_ticks(ticks, labels=[with_unit(t, axis.unit) for t in ticks])
        bar.ax.minorticks_off()
