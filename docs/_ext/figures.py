"""Figures of ratios, once for light and once for dark pages, drawn by matplotlib as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

THEMES = {
    "light": ("#ffffff", "#1d2733", "#d5dbe3", ("#0b62b8", "#c4570a", "#1b7f4b", "#7a3fb0")),
    "dark": ("#131416", "#dbe2ea", "#3b4655", ("#6cb2f5", "#f5a25d", "#6fd19c", "#c79bf2")),
}
"""Background, text, grid, and a colour for each rival. A picture that is opened alone has the same background."""
MARKS = ("o", "s", "D", "^")


@dataclass(frozen=True)
class Row:
    """A case, with the middle, low and high value for each rival."""

    label: str
    values: Mapping[str, tuple[float, float, float]]


def draw(folder: Path, name: str, rows: Sequence[Row], axis: str, unit: float, caption: str) -> str:
    """Write both pictures; returns the Markdown that shows them. ``unit``: the ratio that a line marks."""
    folder.mkdir(exist_ok=True)
    for theme in THEMES:
        _picture(folder / f"{name}-{theme}.svg", theme, rows, axis, unit)
    alt = _alt(rows, axis, caption)
    images = "\n".join(f"![{alt}](/_generated/{name}-{t}.svg){{.only-{t}}}" for t in THEMES)
    return f"{images}\n\n*{caption}*\n"


def _alt(rows: Sequence[Row], axis: str, caption: str) -> str:
    middles = [v[0] for row in rows for v in row.values.values()]
    text = f"{caption} {axis}: from {min(middles):.2f} to {max(middles):.2f}. The table lists every value."
    return text.replace("[", "(").replace("]", ")")


def _picture(path: Path, theme: str, rows: Sequence[Row], axis: str, unit: float) -> None:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ground, text, grid, colours = THEMES[theme]
    rivals = list(dict.fromkeys(rival for row in rows for rival in row.values))
    style = {
        "svg.hashsalt": path.stem, "svg.fonttype": "none", "font.size": 9.5, "text.color": text, "axes.edgecolor": grid,
        "axes.labelcolor": text, "xtick.color": text, "ytick.color": text, "font.family": "sans-serif",
    }  # fmt: skip
    with rc_context(style):
        figure = Figure(figsize=(7.6, 1.1 + 0.235 * len(rows)), layout="constrained", facecolor=ground)
        axes = figure.add_subplot(facecolor="none")
        axes.set_xscale("log")
        axes.axvline(unit, color=text, linewidth=1)
        for n, rival in enumerate(rivals):
            shift = 0.5 * ((n + 0.5) / len(rivals) - 0.5)
            points = [(y + shift, row.values[rival]) for y, row in enumerate(rows) if rival in row.values]
            axes.errorbar(
                [v[0] for _, v in points], [y for y, _ in points], fmt=MARKS[n], color=colours[n], label=rival,
                markersize=4.5, elinewidth=1.2,
                xerr=[[max(v[0] - v[1], 0) for _, v in points], [max(v[2] - v[0], 0) for _, v in points]],
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        low, high = axes.get_xlim()
        ticks = [t for t in (0.25, 0.35, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50) if low <= t <= high]
        axes.set_xticks(ticks)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="both", which="both", length=0)
        axes.grid(axis="x", color=grid, linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.set_xlabel(axis)
        if len(rivals) > 1:
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(rivals), frameon=False)
        FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})
