"""Colours and settings of pictures, light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Theme:
    """Colours as ``#rrggbb``. ``emphasis``: of the series that a chart is about; ``cycle``: of the others, in order.

    The hues are those of Okabe and Ito, "Color Universal Design", 2008, which most colour-blind readers tell apart;
    shapes and dashes differ as well. ``colours`` names a colour map that ends in what stands out most.
    """

    background: str
    text: str
    muted: str
    grid: str
    emphasis: str
    cycle: tuple[str, ...]
    colours: str


LIGHT = Theme(
    background="#ffffff",
    text="#1c2127",
    muted="#59636e",
    grid="#dde1e6",
    emphasis="#0072b2",
    cycle=("#8a939d", "#d98e00", "#d55e00", "#009e73", "#b8568f", "#4a9fd0", "#6b5b00"),
    colours="viridis_r",
)
DARK = Theme(
    background="#15191e",
    text="#e6e9ed",
    muted="#a3acb7",
    grid="#333a43",
    emphasis="#56b4e9",
    cycle=("#8a939d", "#e69f00", "#ff7f3f", "#2fc79b", "#e08abf", "#b9d4ff", "#f0e442"),
    colours="viridis",
)

MARKERS = ("o", "D", "x", "s", "^", "v", "P")
DASHES = ("-", "--", "-.", ":")


def settings(theme: Theme) -> dict[str, Any]:
    """Matplotlib's, over its own defaults: a user's ``matplotlibrc`` does not show."""
    return {
        "text.parse_math": False,
        "text.usetex": False,
        "svg.fonttype": "none",  # texts stay texts: small files, found by searches and screen readers
        "svg.hashsalt": "tilewright",
        "pdf.fonttype": 42,
        "font.size": 10.5,
        "font.family": "sans-serif",
        "axes.titlesize": 13,
        "axes.titleweight": "bold",
        "axes.labelsize": 10.5,
        "axes.edgecolor": theme.grid,
        "axes.labelcolor": theme.text,
        "axes.titlecolor": theme.text,
        "axes.facecolor": theme.background,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "figure.facecolor": theme.background,
        "savefig.facecolor": theme.background,
        "text.color": theme.text,
        "xtick.color": theme.grid,
        "ytick.color": theme.grid,
        "xtick.labelcolor": theme.muted,
        "ytick.labelcolor": theme.muted,
        "xtick.labelsize": 9.5,
        "ytick.labelsize": 9.5,
        "grid.color": theme.grid,
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "legend.fontsize": 9.5,
    }
