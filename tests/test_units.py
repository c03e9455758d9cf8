"""Numbers as a person reads them."""

from __future__ import annotations

import math

import pytest

from tilewright.units import counted, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.76e-5, "17.6 us"), (0.0012, "1.20 ms"), (12.0, "12.0 s"), (119.0, "119 s"), (120.0, "2 min"),
        (125.0, "2 min 5 s"), (3599.6, "1 h"), (7300.0, "2 h 1 min"), (3.7 * 86400, "3 d 16 h"), (30 * 86400.0, "30 d"),
        (0.0, "0 s"), (None, "-"), (math.inf, "-"),
    ],
)  # fmt: skip
def test_durations_from_two_minutes_on_have_two_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "what", "text"),
    [(0, "job", "0 jobs"), (1, "job", "1 job"), (1000, "job", "1,000 jobs"), (2, "other process", "2 other processes")],
)
def test_a_count_has_the_right_plural(number: int, what: str, text: str) -> None:
    assert counted(number, what) == text
