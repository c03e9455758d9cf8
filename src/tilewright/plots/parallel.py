"""Drawing of parallel coordinates: one axis for each knob, one line for each trial, coloured by its time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilewright.insight.chart import Parallel
from tilewright.plots.axes import colour_bar, colour_scale, shown, usable
from tilewright.plots.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VALUES = 14
"""Largest number of values that are written along an axis; of more values, an even sample is written."""


def draw_parallel(axes: Axes, chart: Parallel, theme: Theme) -> bool:
    """Draws the lines, the fastest trial's last; ``False`` without a line."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection

    rows = [(r, c) for r, c in zip(chart.rows, chart.colour, strict=True) if usable(chart.axis, c)]
    if not rows or not chart.dimensions:
        return False
    rows.sort(key=lambda item: -item[1])
    norm, name = colour_scale(chart.axis, theme, [c for _, c in rows])
    colours = colormaps[name]
    heights = [[_height(p, len(d.values)) for p, d in zip(row, chart.dimensions, strict=True)] for row, _ in rows]
    lines = [list(enumerate(ys)) for ys in heights]
    count = len(lines)
    axes.add_collection(
        LineCollection(
            lines,
            colors=[colours(norm(c)) for _, c in rows],
            linewidths=[0.9] * (count - 1) + [2.8],
            alpha=[0.55 if count > 60 else 0.75] * (count - 1) + [1.0],
            capstyle="round",
        )
    )
    for x, dimension in enumerate(chart.dimensions):
        axes.axvline(x, color=theme.grid, linewidth=1.2, zorder=0)
        step = math.ceil(len(dimension.values) / VALUES)
        for p in range(0, len(dimension.values), step):
            axes.text(
                x + 0.03, _height(p, len(dimension.values)), shown(dimension.values[p], 12), fontsize=8, va="center",
                color=theme.text, zorder=6,
                bbox={"facecolor": theme.background, "alpha": 0.65, "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip
    names = [shown(d.name, 16) for d in chart.dimensions]
    axes.set_xticks(range(len(names)), names, rotation=25 if max(map(len, names)) * len(names) > 85 else 0)
    axes.tick_params(axis="x", length=0, labelcolor=theme.text)
    axes.set_yticks([])
    axes.set_xlim(-0.1, len(names) - 0.55)
    axes.set_ylim(-0.04, 1.04)
    for spine in axes.spines.values():
        spine.set_visible(False)
    colour_bar(axes, ScalarMappable(norm, colours), chart.axis)
    return True


def _height(position: int, values: int) -> float:
    return position / (values - 1) if values > 1 else 0.5
