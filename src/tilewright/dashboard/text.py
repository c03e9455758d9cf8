"""Formats values for people: rates, dates, counts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from tilewright.database.records import RUN_STATES
from tilewright.database.text import visible_text
from tilewright.units import aligned, duration, with_unit

LONGEST = 2000
"""Most characters of a table's text on a page; its CSV and JSON have the whole text."""
MOST = 20_000
"""Most characters of other texts on a page, such as a trial's error."""
_END = 253402300800.0
"""The year 10000 in seconds since the epoch; later times are not shown as dates."""


def rate(per_second: float | None) -> str:
    """A rate in flop/s, as ``81.2 GFLOP/s``."""
    return "-" if per_second is None else aligned(per_second, "flop/s", 4)


def share(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{100 * value:.1f}%"


def utc(seconds: float | None) -> str:
    """Seconds since the epoch as ``2026-11-21 09:30:05 UTC``."""
    if seconds is None or not 0 <= seconds < _END:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def moment(seconds: float | None) -> Markup | str:
    """Seconds since the epoch as HTML, which scripts convert to the reader's local time."""
    shown = utc(seconds)
    day, _, clock = shown.removesuffix(" UTC").partition(" ")
    return Markup('<time datetime="{}T{}Z">{}</time>').format(day, clock, shown) if clock else shown


def count(value: int | None) -> str:
    """A count with separated thousands: ``1,000,000``."""
    return "-" if value is None else f"{value:,}"


def tone(state: str) -> str:
    """The colour class of a state: a run's state has its own; all other states are ``ok``, ``warn`` or ``bad``."""
    state = state.partition(":")[0]
    if state in RUN_STATES:
        return state
    if state in ("ok", "verified", "idle", "busy"):
        return "ok"
    return "warn" if state in ("stale", "draining") else "bad"


def size(value: float | None) -> str:
    """A size in bytes, as ``512 B`` or ``12.3 MiB``."""
    if value is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def times(value: float | None) -> str:
    """A ratio, as ``1.15x``."""
    return "-" if value is None or not math.isfinite(value) else with_unit(value, "times")


_UNITS: dict[str, Callable[[float], Markup | str]] = {
    "s": duration, "flop/s": rate, "share": share, "times": times, "date": moment,
}  # fmt: skip


def cell(value: Any, unit: str) -> Markup | str:
    """A table's value as text; ``unit``: its column's unit (``insight.chart.UNITS``)."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if unit in _UNITS:
            return _UNITS[unit](value)
        # Trailing zeros stay, so that a column's numbers have equal precision.
        return count(value) if isinstance(value, int) else f"{value:#.4g}".removesuffix(".")
    return shown(value, LONGEST)


def lines(text: str) -> Markup:
    """A text of several lines as HTML; invisible characters become escapes."""
    return Markup("<br>").join(shown(line) for line in text.split("\n"))


def shown(value: Any, most: int = MOST) -> str:
    """Any value as visible text, cut to ``most`` characters."""
    whole = str(value)
    cut = visible_text(whole[:most])
    return cut if len(whole) <= most else f"{cut}... ({count(len(whole))} characters)"
