"""Colours and Matplotlib settings of pictures, light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.insight.colours import OTHERS, ROLES


@dataclass(frozen=True)
class Theme:
    """The colours of a picture, as ``#rrggbb``.

    ``roles`` and ``cycle`` are those of ``insight/colours.py``; shapes and dashes differ as well. ``colours`` names a
    colour map that ends in the colour that stands out most.
    """

    background: str
    text: str
    muted: str
    grid: str
    roles: Mapping[str, str]
    cycle: tuple[str, ...]
    colours: str


LIGHT = Theme(
    background="#ffffff",
    text="#1c2127",
    muted="#59636e",
    grid="#dde1e6",
    roles={role: light for role, (light, _) in ROLES.items()},
    cycle=tuple(light for light, _ in OTHERS),
    colours="viridis_r",
)
DARK = Theme(
    background="#15191e",
    text="#e6e9ed",
    muted="#a3acb7",
    grid="#333a43",
    roles={role: dark for role, (_, dark) in ROLES.items()},
    cycle=tuple(dark for _, dark in OTHERS),
    colours="viridis",
)

MARKERS = ("s", "v", "P", "D", "<")
"""Markers of points without a role, in their order."""
ROLE_MARKERS = {"main": "o", "measured": "D", "early": "^", "failed": "x", "limit": "D"}
DASHES = ("--", "-.", ":")


def settings(theme: Theme) -> dict[str, Any]:
    """Matplotlib's settings for a theme, to apply over Matplotlib's defaults, so that a ``matplotlibrc`` has no
    effect."""
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
