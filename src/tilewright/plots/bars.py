"""Horizontal bars with their values beside them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilewright.insight.chart import Bars
from tilewright.insight.units import with_unit
from tilewright.plots.axes import set_axis, shown
from tilewright.plots.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 24
"""Bars drawn; the text beside the last says how many more there are."""


def draw_bars(axes: Axes, chart: Bars, theme: Theme) -> bool:
    """Draw the bars from top to bottom; ``False`` if there is none."""
    bars = [(shown(name, 36), value) for name, value in chart.bars if math.isfinite(value)]
    if not bars:
        return False
    left_out = len(bars) - MOST
    bars = bars[:MOST]
    at = range(len(bars))
    axes.barh(at, [v for _, v in bars], color=theme.emphasis, height=min(0.72, 0.12 * len(bars) + 0.2))
    axes.set_ylim(max(len(bars), 4) - 0.5, -0.5)
    high = max(0.0, *(v for _, v in bars))
    set_axis(axes, "x", chart.axis, [0.0, high * 1.12 or 1.0])
    if chart.axis.scale != "log":
        axes.set_xlim(min(0.0, *(v for _, v in bars)), high * 1.12 or 1.0)
    axes.set_yticks(list(at), [name for name, _ in bars])
    axes.tick_params(axis="y", length=0, labelcolor=theme.text)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    for i, (_, value) in enumerate(bars):
        text = with_unit(value, chart.axis.unit) + (f"  and {left_out} more" if left_out > 0 and i == MOST - 1 else "")
        axes.annotate(
            text, (value, i), (4, 0), textcoords="offset points", va="center", fontsize=9, color=theme.muted
        )  # fmt: skip
    return True
