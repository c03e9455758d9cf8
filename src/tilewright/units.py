"""Numbers with units, as a person reads them: ``17.6 us``, ``12 GFLOP/s``, ``35%``."""

from __future__ import annotations

import math
import time

_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p"))
_LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def with_unit(value: float, unit: str, digits: int = 3) -> str:
    """A number of one of ``chart.UNITS``, or of ``byte/s``, as text with ``digits`` significant digits."""
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


def per_second(amount: float, seconds: float | None) -> float | None:
    """A rate; ``None`` where the time is missing or none that a clock shows: zero, negative, infinite or no number."""
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
    """Significant digits, without an exponent where a person would write none."""
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits}g}"
    text = f"{value:.{max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def as_fast(ratio: float) -> str:
    """A ratio of speeds in words: ``1.3 times as fast``, or ``as fast`` where the digits that are shown say so."""
    text = f"{ratio:.3g}"
    return "as fast" if text == "1" else f"{text} times as fast"
