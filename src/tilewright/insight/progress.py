"""A run's progress, the reason for its end, and whether more trials are likely to improve it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.core import TrialRecord
from tilewright.insight.points import time_of
from tilewright.serialization import Json
from tilewright.tuner.improvement import MORE, expected_improvement, negligible
from tilewright.tuner.result import ENDS, why_ended
from tilewright.units import SEARCH_TIME, with_unit

if TYPE_CHECKING:
    from tilewright.database import StoredRun
    from tilewright.database.records import RunProgress

PHASES = {
    "start": "no trial yet",
    "search": "searching",
    "final": "final between the fastest kernels",
}
"""Phases of a running run."""
OUTLOOKS = {
    "limit": "More trials would gain little: the winner is at a limit of the device.",
    "exhausted": "All schedules of the search space have been tried.",
    "likely": "More trials are likely to find a faster schedule.",
    "unlikely": "More trials are likely to gain little.",
    "few": "There are too few trials to say what more of them would gain.",
}


@dataclass(frozen=True)
class Progress(Json):
    """Progress of a run. ``ended``: one of ``ENDS``, ``None`` if it is not stored. ``best_at``: the fastest trial's
    number.

    ``gain``: expected relative improvement of the best time by :data:`~tilewright.tuner.improvement.MORE` more trials.
    ``outlook``: one of :data:`OUTLOOKS`.
    """

    state: str
    ended: str | None
    trials: int
    wanted: int
    measured: int
    best_at: int | None
    gain: float | None
    outlook: str

    def text(self) -> str:
        """The progress in sentences."""
        parts = []
        if self.state == "running":
            parts.append(f"The run is not over: {self.trials} of {self.wanted} trials so far.")
        elif self.ended is not None:
            parts.append(f"The run ended after {self.trials} of {self.wanted} trials: {ENDS[self.ended]}.")
        else:
            parts.append(f"The run is {self.state}, after {self.trials} of {self.wanted} trials.")
        if self.best_at is not None:
            parts.append(f"Trial {self.best_at} has the least {SEARCH_TIME}.")
            parts.append(OUTLOOKS[self.outlook])
            if self.gain is not None and self.outlook in ("likely", "unlikely"):
                parts.append(f"Expected of {MORE} more trials: {with_unit(self.gain, 'share')}.")
        return " ".join(parts)


def progress_of(run: StoredRun, records: Sequence[TrialRecord], at_limit: bool = False) -> Progress:
    """Progress of a run. ``records``: its trials, or a sample that includes the fastest. ``at_limit``: whether the
    winner is near a limit of the device."""
    timed = [r for r in records if time_of(r) is not None]
    best = min(timed, key=lambda r: time_of(r) or 0.0).number if timed else None
    ended = why_ended(run.summary)
    measured = run.trials - sum(run.failed.values())
    gain = expected_improvement(records, MORE)
    if ended == "space":
        outlook = "exhausted"
    elif at_limit:
        outlook = "limit"
    elif gain is None:
        outlook = "few"
    else:
        outlook = "unlikely" if negligible(gain, records) else "likely"
    return Progress(run.state, ended, run.trials, run.trials_wanted, measured, best, gain, outlook)


def phase_of(now: RunProgress) -> str | None:
    """One of :data:`PHASES`; ``None`` for a run that has ended."""
    if now.state != "running":
        return None
    if now.phase == "final":
        return "final"
    return "search" if now.trials else "start"


def seconds_left(now: RunProgress, wanted: int) -> float | None:
    """Upper estimate of the seconds until the search ends, from its deadline and the latest trials; ``None`` without
    both. ``wanted``: number of requested trials."""
    phase = phase_of(now)
    if phase not in ("start", "search"):
        return None
    ends = [] if now.deadline is None else [now.deadline - time.time()]
    if phase == "search" and now.each is not None:
        ends.append((wanted - now.trials) * now.each)
    return max(0.0, min(ends)) if ends else None
