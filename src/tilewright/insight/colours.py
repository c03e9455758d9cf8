"""What colours mean, the same in pages, in pictures and on terminals.

Each is ``#rrggbb`` on light grounds and on dark ones. A terminal has its own; there they are names, as Rich knows them.

Shapes, dashes and signs differ as well, so that colour is never all that tells series apart.
"""

from __future__ import annotations

ROLES: dict[str, tuple[str, str]] = {
    "main": ("#0b5cad", "#6fb1f7"),
    "measured": ("#7b8796", "#76859a"),
    "early": ("#a06a00", "#e0b04d"),
    "failed": ("#b3261e", "#ff8f85"),
    "limit": ("#8a3ea8", "#cf9bef"),
}
"""By role: what a chart is about; trials that were measured; those whose timing was stopped early; those that failed;
what a device allows at most."""
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
"""Of series without a role, in their order: runs that are compared, tasks."""
OTHERS_ON_TERMINALS = ("green", "cyan", "bright_magenta", "bright_yellow", "bright_cyan")
