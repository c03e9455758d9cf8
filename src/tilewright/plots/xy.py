"""Drawing of points, lines and steps over two axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.insight.chart import XY, Series
from tilewright.plots.axes import set_axis, shown, usable
from tilewright.plots.theme import DASHES, MARKERS, ROLE_MARKERS, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 110
"""Largest number of characters in a row of the legend."""
LEGEND = 12
"""Largest number of series in the legend."""


def draw_xy(axes: Axes, chart: XY, theme: Theme) -> bool:
    """Draws the series; ``False`` if no series has a point that can be drawn on the axes."""
    handles: list[Any] = []
    names: list[str] = []
    xs: list[float] = []
    ys: list[float] = []
    others = dashes = -1
    for series in chart.series:
        others += not series.colour
        dashes += series.mode != "points" and not series.emphasis
        rest = max(others, 0)
        kept = [
            i for i, (x, y) in enumerate(zip(series.x, series.y, strict=True))
            if usable(chart.x, x) and usable(chart.y, y)
        ]  # fmt: skip
        if not kept:
            continue
        colour = theme.roles.get(series.colour) or theme.cycle[rest % len(theme.cycle)]
        x, y = [series.x[i] for i in kept], [series.y[i] for i in kept]
        xs += x
        ys += y + _band(axes, chart, series, kept, colour)
        if series.mode == "points":
            handles.append(_points(axes, series, x, y, colour, rest, theme))
        else:
            handles += axes.plot(
                x, y, color=colour, linewidth=2.4 if series.emphasis else 1.5,
                linestyle="-" if series.emphasis else DASHES[dashes % len(DASHES)],
                drawstyle="steps-post" if series.mode == "step" else "default",
                marker="o" if series.mode == "line" and len(x) < 40 and series.emphasis else "",
                markersize=5, zorder=4 if series.emphasis else 3,
            )  # fmt: skip
        # Matplotlib leaves names that begin with an underscore out of legends.
        name = shown(series.name, 50)
        names.append(f" {name}" if name.startswith("_") else name)
    if not handles:
        return False
    set_axis(axes, "x", chart.x, xs)
    set_axis(axes, "y", chart.y, ys)
    axes.grid(True)
    if len(handles) > 1:
        widths = [len(n) + 6 for n in names[:LEGEND]]
        columns = len(widths) if sum(widths) <= WIDTH else max(1, WIDTH // max(widths))
        axes.legend(
            handles[:LEGEND], names[:LEGEND], loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=columns,
            columnspacing=1.4, borderaxespad=0.2,
        )  # fmt: skip
    return True


def _points(axes: Axes, series: Series, x: list[float], y: list[float], colour: str, rest: int, theme: Theme) -> Any:
    if series.emphasis:
        few = len(x) <= 12
        return axes.scatter(
            x, y, s=150 if few else 22, marker="*" if few else "o", color=colour, edgecolors=theme.background,
            linewidths=0.8 if few else 0, alpha=1.0 if few else 0.8, zorder=5,
        )  # fmt: skip
    marker = ROLE_MARKERS.get(series.colour) or MARKERS[rest % len(MARKERS)]
    size, alpha = (22, 0.75) if len(x) <= 500 else (9, 0.5)
    width = 1 if marker == "x" else 0
    return axes.scatter(x, y, s=size, marker=marker, color=colour, alpha=alpha, linewidths=width, zorder=3)


def _band(axes: Axes, chart: XY, series: Series, kept: list[int], colour: str) -> list[float]:
    """Draws the noise band of a series; returns the bounds of the band, which the axis must show."""
    if not series.low or not all(usable(chart.y, v) for i in kept for v in (series.low[i], series.high[i])):
        return []
    x, low, high = [series.x[i] for i in kept], [series.low[i] for i in kept], [series.high[i] for i in kept]
    step = "post" if series.mode == "step" else None
    axes.fill_between(x, low, high, step=step, color=colour, alpha=0.18, linewidth=0, zorder=2)  # type: ignore[arg-type]
    return low + high
