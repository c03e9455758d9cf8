"""A time budget of one or several searches: how long they may go on, and the time that is kept for their finals.

A final is expected to take as long as some trials of its run. A kernel that is built alone for the first one corrects
that, and so does every final that is held.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SHORT = 6.0
"""Trials that the shortest final takes as long as: the fastest kernel and the default schedule are each built alone and
checked, and compared."""
BUILT = 0.9
"""The same where there is one trial: that was built alone, and the final finds what was compiled."""
REHEARSED = {SHORT: 0.25, BUILT: 0.5}
"""Share of these finals that building a kernel alone and checking it is."""
FULL = 2.5
"""Shortest finals that a final between several kernels takes as long as."""
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
        self._pace: dict[float, float] = {}

    def took(self, run: str, trials: int, seconds: float) -> None:
        """Trials of a run, building included, took so long. From its first ones on its final has a share."""
        count, before = self._trials.get(run, (0, 0.0))
        self._trials[run] = count + trials, before + seconds

    def short(self, run: str, more: bool = False) -> float:
        """Seconds that the shortest final of a run is expected to take; 0 where nothing is known yet. ``more``: where
        the run has more trials than today."""
        count, seconds = self._trials.get(run, (0, 0.0))
        each = seconds / count if count else self._mean
        kind = SHORT if more else self._kind(run)
        return self._paced(kind) * kind * each

    @property
    def _mean(self) -> float:
        """Seconds of a trial, of the runs that have some."""
        known = [seconds / n for n, seconds in self._trials.values() if n]
        return sum(known) / len(known) if known else 0.0

    def _kind(self, run: str) -> float:
        count, _ = self._trials.get(run, (self.first, 0.0))
        return BUILT if count == 1 else SHORT

    def _paced(self, kind: float) -> float:
        """How many times as long as expected finals of a kind take; as those of the other where none was held."""
        return self._pace.get(kind, max(self._pace.values(), default=1.0))

    @property
    def left(self) -> float:
        """Seconds for searching."""
        shorts = self._shorts
        return self._end - self.now() - max(shorts, min(SHARE * self.seconds, FULL * shorts))

    def affords(self, run: str) -> bool:
        """Whether a run can have another trial: a second one makes its final longer."""
        return self.left >= self.short(run, more=True) - self.short(run)

    @property
    def room(self) -> bool:
        """Whether one more task can begin, and have the shortest final as those begun."""
        first = self._mean * self.first
        return not first or self._end - self.now() >= self._shorts + first + self.short("")

    @property
    def _shorts(self) -> float:
        return sum(self.short(run) for run in self._trials if run not in self._over)

    def share(self, run: str) -> float:
        """Seconds for the final of a run: its share of the seconds left for all finals."""
        shorts = {r: self.short(r) for r in self._trials if r not in self._over}
        whole = sum(shorts.values())
        return max(0.0, self._end - self.now()) * (shorts.get(run, 0.0) / whole if whole else 1.0)

    def rehearsed(self, run: str) -> bool:
        """Whether it is known how long a kernel takes that is built alone and checked, after so many trials."""
        return self._kind(run) in self._pace

    def rehearsal(self, run: str, seconds: float) -> None:
        """A kernel of a run was built alone and checked, which tells how long the shortest final takes."""
        self._correct(run, seconds / REHEARSED[self._kind(run)], 1.0)

    def held(self, run: str, seconds: float, finalists: int) -> None:
        """The final of a run took so long."""
        if finalists == 1:
            self._correct(run, seconds, 0.5)  # half way, as one final says little of the next
        self._over.add(run)

    def _correct(self, run: str, seconds: float, by: float) -> None:
        """A final took, or will take, so long; ``by``: the share of what that says that is believed."""
        expected, kind = self.short(run), self._kind(run)
        if expected:
            self._pace[kind] = self._paced(kind) * (seconds / expected) ** by
