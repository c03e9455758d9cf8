"""Why a run ended, and whether more trials would likely pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.insight.best import improvements
from tilewright.insight.points import time_of
from tilewright.insight.units import with_unit
from tilewright.serialization import Json
from tilewright.tuner.result import ENDS, why_ended

if TYPE_CHECKING:
    from tilewright.database import StoredRun
    from tilewright.database.records import TrialPoint

FEWEST = 16
"""Measured trials below which nothing is said about the next ones."""
SMALL = 0.02
"""An improvement of the best below this share is not worth as many trials again."""

OUTLOOKS = {
    "limit": "More trials would find little: the winner is at a limit of the device.",
    "exhausted": "There is nothing left to try in this space.",
    "likely": "More trials would likely find a faster one.",
    "unlikely": "More trials would likely find little.",
    "open": "Whether more trials would pay is open.",
    "few": "The trials are too few to say what more of them would find.",
}


@dataclass(frozen=True)
class Progress(Json):
    """``ended``: one of ``ENDS``, or ``None`` where that is not stored. ``best_at``: the number of the fastest trial.

    ``late_gain``: the share by which the last quarter of the trials improved the best. ``outlook``: one of
    :data:`OUTLOOKS`.
    """

    state: str
    ended: str | None
    trials: int
    wanted: int
    measured: int
    best_at: int | None
    late_gain: float
    outlook: str

    def text(self) -> str:
        """In sentences."""
        parts = []
        if self.state == "running":
            parts.append(f"The run goes on: {self.trials} of {self.wanted} trials so far.")
        elif self.ended is not None:
            parts.append(f"The run ended after {self.trials} of {self.wanted} trials: {ENDS[self.ended]}.")
        else:
            parts.append(f"The run is {self.state}, after {self.trials} of {self.wanted} trials.")
        if self.best_at is not None:
            gain = f"improved it by {with_unit(self.late_gain, 'share')}" if self.late_gain else "found nothing faster"
            late = f"; the last quarter of the trials {gain}" if self.outlook != "few" else ""
            parts.append(f"The fastest trial is number {self.best_at}{late}.")
            parts.append(OUTLOOKS[self.outlook])
        return " ".join(parts)


def progress_of(run: StoredRun, points: Sequence[TrialPoint], at_limit: bool = False) -> Progress:
    """Progress of a run; ``points`` are its trials, at least those that were the best yet. ``at_limit``: whether the
    device allows little more."""
    better = improvements(points)
    ended = why_ended(run.summary)
    measured = run.trials - sum(run.failed.values())
    best = time_of(better[-1]) if better else None
    late = run.next_number - run.trials // 4
    early = [time_of(p) or 0.0 for p in better if p.number < late]
    gain = 1 - best / early[-1] if best and early else 0.0
    noise = (better[-1].spread or 0.0) / 2 if better else 0.0
    if ended == "space":
        outlook = "exhausted"
    elif at_limit:
        outlook = "limit"
    elif measured < FEWEST or not early:
        outlook = "few"
    elif gain > max(SMALL, noise):
        outlook = "likely"
    elif gain <= SMALL and better[-1].number < run.next_number / 2:
        outlook = "unlikely"
    else:
        outlook = "open"
    return Progress(
        run.state, ended, run.trials, run.trials_wanted, measured, better[-1].number if better else None, gain, outlook
    )
