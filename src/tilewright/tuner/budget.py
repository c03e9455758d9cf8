"""A time budget of one or several searches: how long they may go on, and the time that is kept for their finals.

A final is expected to take as long as some trials of its run. A kernel that is built alone for the first one corrects
that, and so does every final that is held.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SHORT = 2.0
"""Trials that a final of one kernel takes as long as: it is built alone, checked, timed and stored."""
BUILT = 0.2
"""The same where there is one trial: that was built alone, and the final finds what was compiled."""
FULL = 4.0
"""Finals of one kernel that a final between several takes as long as."""
SHARE = 0.2
"""The most of a budget that is kept for full finals."""
FIRST = 4
"""Trials of a run before it is known how long one takes."""
TIGHT = 10.0
"""Seconds a task below which it starts with its default schedule alone."""


class Budget:
    """``seconds`` from now on, for ``tasks`` runs. ``now`` tells the time in seconds. Used by one thread."""

    def __init__(self, seconds: float, tasks: int = 1, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.now = seconds, now
        self.first = 1 if seconds < TIGHT * tasks else FIRST
        self._end = now() + seconds
        self._trials: dict[str, tuple[int, float]] = {}
        self._over: set[str] = set()
        self._pace, self._rehearsed = 1.0, False

    def took(self, run: str, trials: int, seconds: float) -> None:
        """Trials of a run, building included, took so long. From its first ones on its final has a share."""
        count, before = self._trials.get(run, (0, 0.0))
        self._trials[run] = count + trials, before + seconds

    def short(self, run: str) -> float:
        """Seconds that the shortest final of a run is expected to take; 0 where nothing is known yet."""
        count, seconds = self._trials.get(run, (0, 0.0))
        if not count:  # as of a trial of the others
            known = [v for v in self._trials.values() if v[0]]
            count, seconds = len(known), sum(seconds / n for n, seconds in known)
        return self._pace * seconds / count * (BUILT if count == 1 else SHORT) if count else 0.0

    @property
    def left(self) -> float:
        """Seconds for searching."""
        shorts = self._shorts
        return self._end - self.now() - max(shorts, min(SHARE * self.seconds, FULL * shorts))

    @property
    def room(self) -> bool:
        """Whether one more task can begin, and have the shortest final as those begun."""
        known = [v for v in self._trials.values() if v[0]]
        first = sum(seconds * min(1.0, self.first / count) for count, seconds in known) / max(1, len(known))
        return not known or self._end - self.now() >= self._shorts + first + self.short("")

    @property
    def _shorts(self) -> float:
        return sum(self.short(run) for run in self._trials if run not in self._over)

    def share(self, run: str) -> float:
        """Seconds for the final of a run: its share of the seconds left for all finals."""
        shorts = {r: self.short(r) for r in self._trials if r not in self._over}
        whole = sum(shorts.values())
        return max(0.0, self._end - self.now()) * (shorts.get(run, 0.0) / whole if whole else 1.0)

    @property
    def rehearsed(self) -> bool:
        """Whether it is known how long a kernel takes that is built alone and checked."""
        return self._rehearsed

    def rehearsal(self, run: str, seconds: float) -> None:
        """A kernel of a run was built alone and checked: half of the shortest final."""
        self._rehearsed = True
        expected = self.short(run)
        if expected:
            self._pace *= 2 * seconds / expected

    def held(self, run: str, seconds: float, finalists: int) -> None:
        """The final of a run took so long."""
        expected = self.short(run)
        if finalists == 1 and expected:
            self._pace *= (seconds / expected) ** 0.5  # half way, as one final says little of the next
        self._over.add(run)
