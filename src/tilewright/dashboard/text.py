"""Values as a person reads them."""

from __future__ import annotations

import time
from typing import Any

from tilewright.database.records import RUN_STATES
from tilewright.database.text import visible_text
from tilewright.insight.units import with_unit

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def duration(seconds: float | None) -> str:
    """``17.6 us``, ``1.19 ms``, ``2 min 5 s``."""
    if seconds is None:
        return "-"
    if seconds < 120:
        return with_unit(seconds, "s")
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def rate(per_second: float | None) -> str:
    """``81.2 GFLOP/s``."""
    return "-" if per_second is None else with_unit(per_second, "flop/s", 4)


def share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def moment(seconds: float | None) -> str:
    """Seconds since the epoch as ``2026-11-21 09:30:05``, in UTC."""
    return "-" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def count(value: int | None) -> str:
    """With thousands apart: ``1,000,000``."""
    return "-" if value is None else f"{value:,}"


def tone(state: str) -> str:
    """How a state is coloured: the states of runs have classes of their own, others are good, doubtful or bad."""
    if state in RUN_STATES:
        return state
    if state in ("ok", "verified", "idle", "busy"):
        return "ok"
    return "warn" if state in ("stale", "draining") else "bad"


def cell(value: Any, unit: str) -> str:
    """A table's value; ``unit`` is its column's (``insight.chart.UNITS``)."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        match unit:
            case "s":
                return duration(value)
            case "flop/s":
                return rate(value)
            case "share":
                return share(value)
            case "date":
                return moment(value)
        return count(value) if isinstance(value, int) else f"{value:.4g}"
    return visible_text(value)
