"""Drawing of a heat map of two knobs: each pair of values has the colour of its least time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilewright.insight.chart import Grid
from tilewright.plots.axes import colour_bar, colour_scale, set_axis, shown, usable
from tilewright.plots.theme import Theme
from tilewright.units import with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 120
"""Largest number of cells in which values are written."""


def draw_grid(axes: Axes, chart: Grid, theme: Theme) -> bool:
    """Draws the cells of a heat map; ``False`` if no cell has a value."""
    cells = [[v if v is not None and usable(chart.axis, v) else math.nan for v in row] for row in chart.cells]
    known = [v for row in cells for v in row if not math.isnan(v)]
    if not known:
        return False
    norm, colours = colour_scale(chart.axis, theme, known)
    mesh = axes.pcolormesh(cells, norm=norm, cmap=colours, edgecolors=theme.background, linewidth=1)
    for which, axis in (("x", chart.x), ("y", chart.y)):
        set_axis(axes, which, axis, range(len(axis.categories)))
        getattr(axes, f"set_{which}lim")(0, len(axis.categories))
        getattr(axes, f"set_{which}ticks")(
            [i + 0.5 for i in range(len(axis.categories))], [shown(c, 18) for c in axis.categories]
        )
    if sum(map(len, cells)) <= FEW:
        ground = {"facecolor": theme.background, "alpha": 0.7, "edgecolor": "none", "pad": 1}
        for row, values in enumerate(cells):
            for column, value in enumerate(values):
                if not math.isnan(value):
                    axes.text(
                        column + 0.5, row + 0.5, with_unit(value, chart.axis.unit), ha="center", va="center",
                        fontsize=8, color=theme.text, bbox=ground,
                    )  # fmt: skip
    colour_bar(axes, mesh, chart.axis)
    return True
