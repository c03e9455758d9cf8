"""Selects few schedules that cover many knob values, for tests that run a part of a search space."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.core import Schedule, Value


def covering(schedules: Iterable[Schedule], count: int, beside: Iterable[Schedule] = ()) -> list[Schedule]:
    """Selects ``count`` schedules greedily: each adds the most knob values that the earlier ones and ``beside``
    lack."""
    left, chosen = list(dict.fromkeys(schedules)), list[Schedule]()
    shown: set[tuple[str, Value]] = {v for s in beside for v in s.values.items()}
    while left and len(chosen) < count:
        best = max(left, key=lambda s: len(set(s.values.items()) - shown))
        left.remove(best)
        chosen.append(best)
        shown.update(best.values.items())
    return chosen
