"""The effect of each value of a knob: search times of the trials with the value, and its share of the fastest
trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from tilewright.core import TrialRecord, Value
from tilewright.insight import ped_anova
from tilewright.insight.importance import Importance, KnobShare
from tilewright.insight.knobs import value_text
from tilewright.insight.points import time_of
from tilewright.serialization import Json

SHOWN = 4
"""Most values of a knob that its sentence names."""


@dataclass(frozen=True)
class ValueEffect(Json):
    """Measured trials with a knob's value. ``trials``: their number; ``median``: their median time over the least time
    of all trials; ``fast``: how many trials with the value are in the fastest tenth."""

    value: Value
    trials: int
    median: float
    fast: int


@dataclass(frozen=True)
class KnobEffect(KnobShare):
    """A knob's share of the importance, and its values; values with the most fast trials come first.

    ``fast``: number of trials in the fastest tenth; ``trials``: number of measured trials.
    """

    values: tuple[ValueEffect, ...]
    fast: int
    trials: int

    def text(self) -> str:
        """The effect in sentences."""
        top = self.values[0]
        others, rest = self.trials - self.fast, top.trials - top.fast
        parts = [
            f"{self.title}: {between(self.low, self.high)} of the importance.",
            f"{top.fast} of the fastest {self.fast} trials have {value_text(top.value)}, "
            f"and {rest} of the other {others}.",
        ]
        shown = ", ".join(f"{value_text(v.value)} {v.median:.3g}x ({v.trials})" for v in self.values[:SHOWN])
        more = f" and {len(self.values) - SHOWN} more" if len(self.values) > SHOWN else ""
        parts.append(f"Median search time over the least, by value (trials): {shown}{more}.")
        return " ".join(parts)


def between(low: float, high: float) -> str:
    """A range of shares in words: ``about 20%`` or ``between 10% and 30%``."""
    a, b = f"{100 * low:.0f}%", f"{100 * high:.0f}%"
    return f"about {a}" if a == b else f"between {a} and {b}"


def effects(records: Sequence[TrialRecord], found: Importance, limit: int = 5) -> tuple[KnobEffect, ...]:
    """Effects of the ``limit`` most important knobs; knobs with a statistically clear effect come first."""
    timed = [r for r in records if r.schedule.template == found.template and time_of(r) is not None]
    if not found.knobs:
        return ()
    times = np.array([time_of(r) or 0.0 for r in timed])
    fast = ped_anova.fastest(times, np.ones((1, len(timed))))[0] > 0
    top = sorted(found.knobs, key=lambda k: (not k.sure, -k.share))[:limit]
    return tuple(_effect(timed, times / times.min(), fast, k) for k in top)


def _effect(
    timed: Sequence[TrialRecord], relative: ped_anova.Floats, fast: Sequence[bool] | np.ndarray, knob: KnobShare
) -> KnobEffect:
    groups: dict[tuple[type, Value], list[int]] = {}
    for i, r in enumerate(timed):
        value = r.schedule.values[knob.knob]
        groups.setdefault((type(value), value), []).append(i)
    values = [
        ValueEffect(value, len(at), float(median(relative[i] for i in at)), sum(bool(fast[i]) for i in at))
        for (_, value), at in groups.items()
    ]
    values.sort(key=lambda v: (-v.fast, v.median))
    return KnobEffect(**vars(knob), values=tuple(values), fast=sum(map(bool, fast)), trials=len(timed))
