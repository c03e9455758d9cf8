"""The colours of series by their role, for pages, pictures and terminals.

Each colour has two values ``#rrggbb``, for light and for dark backgrounds. On terminals colours are Rich's names.
Shapes, dashes and characters differ too, so that series are distinguishable without colour.
"""

from __future__ import annotations

ROLES: dict[str, tuple[str, str]] = {
    "main": ("#0b5cad", "#6fb1f7"),
    "measured": ("#7b8796", "#76859a"),
    "early": ("#a06a00", "#e0b04d"),
    "failed": ("#b3261e", "#ff8f85"),
    "limit": ("#8a3ea8", "#cf9bef"),
}
"""Colours by role: the chart's main series; measured trials; trials whose timing was stopped early; failed trials;
limits of a device."""
ON_TERMINALS = {
    "main": "bright_blue", "measured": "bright_black", "early": "yellow", "failed": "red", "limit": "magenta",
}  # fmt: skip
OTHERS: tuple[tuple[str, str], ...] = (
    ("#0f7f5f", "#4fcaa0"),
    ("#c2500a", "#ff9f5a"),
    ("#b8245f", "#ff8fb3"),
    ("#6b5b00", "#dcd04d"),
    ("#1f7f93", "#8fd3ff"),
)
"""Colours of series without a role, in their order, such as compared runs and tasks."""
OTHERS_ON_TERMINALS = ("green", "cyan", "bright_magenta", "bright_yellow", "bright_cyan")
