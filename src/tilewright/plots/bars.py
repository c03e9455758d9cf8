"""Drawing of horizontal bars with their values beside them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilewright.insight.chart import Bars
from tilewright.plots.axes import set_axis, shown
from tilewright.plots.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 24
"""Largest number of bars that are drawn; the text beside the last bar counts the rest."""


def draw_bars(axes: Axes, chart: Bars, theme: Theme) -> bool:
    """Draw the bars from top to bottom; ``False`` if no bar has a value."""
    places = [i for i, (_, value) in enumerate(chart.bars) if math.isfinite(value)]
    if not places:
        return False
    left_out = len(places) - MOST
    places = places[:MOST]
    bars = [(shown(chart.bars[i][0], 36), chart.bars[i][1]) for i in places]
    ends = [max(chart.bars[i][1], chart.high[i] if chart.high else 0.0) for i in places]
    at = range(len(bars))
    axes.barh(at, [v for _, v in bars], color=theme.roles[chart.role], height=min(0.72, 0.12 * len(bars) + 0.2))
    axes.set_ylim(max(len(bars), 4) - 0.5, -0.5)
    if chart.low:
        low = [chart.low[i] for i in places]
        axes.hlines(at, low, ends, color=theme.text, linewidth=1.4)
        axes.plot([*low, *ends], [*at, *at], "|", color=theme.text, markersize=7)
    high = chart.most if chart.reference is not None else max(0.0, *ends)
    if chart.reference is not None:
        axes.axvline(chart.reference, color=theme.text, linewidth=1.2, linestyle="--", zorder=0.5)
    room = 1.3 if chart.low else 1.12  # for the texts beside the bars
    set_axis(axes, "x", chart.axis, [0.0, high * room or 1.0])
    if chart.axis.scale != "log":
        axes.set_xlim(min(0.0, *(v for _, v in bars)), high * room or 1.0)
    if chart.axis.unit == "share":
        axes.set_xticks([x for x in axes.get_xticks() if 0 <= x <= max(1.0, high)])
    axes.set_yticks(list(at), [name for name, _ in bars])
    axes.tick_params(axis="y", length=0, labelcolor=theme.text)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    for i, place in enumerate(places):
        text = chart.text(place) + (f"  and {left_out} more" if left_out > 0 and i == MOST - 1 else "")
        axes.annotate(
            text, (ends[i], i), (5, 0), textcoords="offset points", va="center", fontsize=9, color=theme.muted
        )  # fmt: skip
    return True
