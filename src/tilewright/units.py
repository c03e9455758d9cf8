"""Numbers with units and names, formatted for a person: ``final time 17.6 us``, ``12 GFLOP/s``, ``35%``."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

SEARCH_TIME, FINAL_TIME, CALL_TIME = "search time", "final time", "call time"
"""A kernel's three times: the fastest of many short measurements during the search; the median of the measurement at
the end of a run, interleaved with the default schedule; a whole call from a program."""
_LONG = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p"))
_LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def with_unit(value: float, unit: str, digits: int = 3) -> str:
    """Formats a number of a unit of ``chart.UNITS``, or of ``byte/s``, with ``digits`` significant digits."""
    if not math.isfinite(value):
        return "-"
    if unit == "s":
        return _scaled(value, _SMALL, "s", digits)
    if unit == "flop/s":
        return _scaled(value, _LARGE, "FLOP/s", digits)
    if unit == "byte/s":
        return _scaled(value, _LARGE, "B/s", digits)
    if unit == "byte":
        return _scaled(value, _LARGE, "B", digits)
    if unit == "share":
        return f"{_plain(round(100 * value, 1), digits)}%"
    if unit == "times":
        return f"{value:.2f}x" if value < 100 else f"{_plain(value, digits)}x"
    if unit == "date":
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(value))
    if unit == "trial":
        return f"{value:.0f}" if value == round(value) else _plain(value, digits)
    return _plain(value, digits)


def aligned(value: float, unit: str, digits: int) -> str:
    """As :func:`with_unit`, but with trailing zeros, so that the digits of a column align."""
    number, _, name = with_unit(value, unit, digits).partition(" ")
    known = len(number.lstrip("-0.").replace(".", ""))
    if "e" in number or not value or known >= digits:
        return f"{number} {name}"
    return f"{number}{'' if '.' in number else '.'}{'0' * (digits - known)} {name}"


def duration(seconds: float | None) -> str:
    """Formats a duration: ``17.6 us``, ``1.20 ms``, ``2 min 5 s``, ``3 d``. From two minutes on, it shows the two
    largest units."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds < 120:
        return aligned(seconds, "s", 3)
    whole = round(seconds)
    size, unit, part, name = next(x for x in _LONG if whole >= x[0])
    rest = whole % size // part
    return f"{whole // size} {unit}" + (f" {rest} {name}" if rest else "")


def counted(number: int, what: str) -> str:
    """A number and its noun, ``what`` being the singular: ``1 job``, ``2 jobs``, ``1,000 processes``."""
    ending = "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{ending * (number != 1)}"


def per_second(amount: float, seconds: float | None) -> float | None:
    """Rate per second; ``None`` if the time is missing, zero, negative, infinite or not a number."""
    return amount / seconds if seconds is not None and 0 < seconds < math.inf else None


def _scaled(value: float, scales: tuple[tuple[float, str], ...], unit: str, digits: int) -> str:
    size = abs(value)
    # Rounding may reach the next unit: 999.9 us is 1 ms.
    size = float(f"{size:.{digits}g}")
    scale, prefix = next(((s, p) for s, p in scales if size >= s), scales[-1])
    if size == 0:
        scale, prefix = 1.0, ""
    return f"{_plain(value / scale, digits)} {prefix}{unit}"


def _plain(value: float, digits: int) -> str:
    """A number with ``digits`` significant digits; an exponent only below 1e-4 and from 1e6 on."""
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def named_time(name: str, seconds: float) -> str:
    """A time with its name, :data:`SEARCH_TIME` or another of the three: ``final time 17.6 us``."""
    return f"{name} {with_unit(seconds, 's')}"


@dataclass(frozen=True)
class Gain:
    """Speed-up of one kernel over another: the ratio of times, and its 95% interval from ``low`` to ``high``.

    An end is ``None`` if there were too few pairs of samples for an interval.
    """

    ratio: float
    low: float | None = None
    high: float | None = None

    @staticmethod
    def read(found: object) -> Gain | None:
        """Reads a gain from a run's summary, which any version may have stored; ``None`` if it is malformed."""
        if not isinstance(found, Mapping):
            return None
        ratio, low, high = (_positive(found.get(name)) for name in ("ratio", "low", "high"))
        return None if ratio is None else Gain(ratio, low, high)

    def to_json(self) -> dict[str, float | None]:
        return {"ratio": self.ratio, "low": self.low, "high": self.high}

    @staticmethod
    def from_json(data: Mapping[str, float | None]) -> Gain:
        """Raises ``ValueError`` for malformed data."""
        if (found := Gain.read(data)) is None:
            raise ValueError(f"{data!r} is no gain")
        return found

    @property
    def measurable(self) -> bool | None:
        """Whether the interval excludes 1.0; ``None`` where there is no interval."""
        return None if self.low is None or self.high is None else not self.low <= 1.0 <= self.high

    def text(self, than: str = "", without: str = "too few samples for an interval") -> str:
        """``1.11x faster than the default schedule (95% interval 0.95x to 1.30x): no measurable difference``.

        Without ``than``, for a table's column that already names it: ``1.11x (0.95x to 1.30x): no measurable
        difference``. ``without``: text in place of a missing interval.
        """
        slower = bool(than) and self.ratio < 1
        ratio, *ends = (x if x is None or not slower else 1 / x for x in (self.ratio, self.low, self.high))
        shown = with_unit(ratio or 0.0, "times")
        if not than:
            said = shown
        elif shown == "1.00x":
            said = f"as fast as {than}"
        else:
            said = f"{shown} {'slower' if slower else 'faster'} than {than}"
        low, high = reversed(ends) if slower else ends
        if low is None or high is None:
            return f"{said} ({without})"
        verdict = "" if self.measurable else ": no measurable difference"
        interval = f"{with_unit(low, 'times')} to {with_unit(high, 'times')}"
        return f"{said} ({'95% interval ' if than else ''}{interval}){verdict}"


def _positive(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    return float(value) if known else None  # type: ignore[arg-type]
