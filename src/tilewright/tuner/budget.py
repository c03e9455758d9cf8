"""A time budget of one or several searches. It divides the time between trials and finals.

A final's duration is estimated in trials of its run. The first runs build one kernel alone to correct the estimate,
and every final corrects it again. When a run follows another run, its operands are generated and their reference
computed again. The sizes of the task tell how long that takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tilewright.measure.timing import SESSION_SECONDS, SESSIONS

SHORT = 9.0
"""Duration of the shortest final, in trials: two kernels are built alone, checked and compared."""
BUILT = 0.9
"""Duration of a final after a single trial, in trials: its kernel is already compiled."""
REHEARSED = {SHORT: 0.2, BUILT: 0.5}
"""Share of a final's duration that building one kernel alone and checking it takes, for both kinds of final."""
DECIDED = 1.5 * SESSIONS * SESSION_SECONDS
"""Seconds that the shortest comparison takes, however fast the kernels: its sessions, and setting them up."""
REHEARSALS = 8
"""Number of runs that measure the duration of one kind of final: the first runs may not be representative."""
FULL = 2.5
"""Duration of a final between eight kernels, in shortest finals."""
SHARE = 0.2
"""Largest share of a budget that is reserved for full finals."""
FIRST = 4
"""Number of a run's trials before the duration of a trial is known."""
PREPARED = 160e-9
"""Seconds per operand element to prepare a task: drawing the values, copying them and the float64 reference (90 to
260 ns were measured for 38 to 75 million elements)."""
TIGHT = 10.0
"""Seconds per task. With a smaller budget a task starts with its default schedule alone."""


class Budget:
    """``seconds`` from now on for ``tasks`` runs. ``now`` returns the time in seconds. One thread uses a budget.

    ``stored``: seconds that the database takes to end a run without trials.
    """

    def __init__(self, seconds: float, tasks: int = 1, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.tasks, self.now, self.stored = seconds, tasks, now, 0.0
        self.first = 1 if seconds < TIGHT * tasks else FIRST
        self._last_moment = now() + seconds
        self._prepared: dict[str, float] = {}
        self._trials: dict[str, tuple[int, float]] = {}
        self._last = ""
        self._over: set[str] = set()
        self._pace: dict[float, float] = {}
        self._shown: dict[float, dict[str, tuple[float, float]]] = {}

    def of(self, run: str, elements: int) -> None:
        """Set the number of elements of the operands of a run's task."""
        self._prepared[run] = PREPARED * elements

    def took(self, run: str, trials: int, seconds: float) -> None:
        """Record that ``trials`` of a run took ``seconds``, builds included. Afterwards the run's final has a share."""
        count, before = self._trials.get(run, (0, 0.0))
        prepared = min(self._switch(run), 0.9 * seconds)  # an estimate: at least a tenth of the time were trials
        self._trials[run], self._last = (count + trials, before + seconds - prepared), run

    def short(self, run: str, more: bool = False) -> float:
        """Expected duration of a run's shortest final in seconds; 0 before the first trial of any run. ``more``: after
        another trial of the run."""
        compared = self._compared(run, SHORT if more else self._kind(run))
        return compared and compared + self._anew(run)

    def _compared(self, run: str, kind: float) -> float:
        """Expected duration in seconds of a final of this kind, without the preparation of operands."""
        return max(self._paced(kind) * kind * self._trial(run), DECIDED if kind == SHORT else 0.0)

    def _trial(self, run: str) -> float:
        """Seconds of a trial of a run; before its first trial, the mean over the other runs."""
        count, seconds = self._trials.get(run, (0, 0.0))
        return seconds / count if count else self._mean

    def _switch(self, run: str) -> float:
        """Seconds to prepare a run's operands for trials; 0 if the run made the last trials."""
        return self._prepared.get(run, 0.0) if run != self._last else 0.0

    def _anew(self, run: str) -> float:
        """Seconds to prepare a run's operands for its final; 0 if the budget has only one run."""
        return self._prepared.get(run, 0.0) if len(self._prepared) > 1 else 0.0

    @property
    def _mean(self) -> float:
        """Mean seconds of a trial over the runs that have trials."""
        known = [seconds / n for n, seconds in self._trials.values() if n]
        return sum(known) / len(known) if known else 0.0

    def _kind(self, run: str) -> float:
        count, _ = self._trials.get(run, (self.first, 0.0))
        return BUILT if count == 1 else SHORT

    def _paced(self, kind: float) -> float:
        """Ratio of actual to expected duration of one kind of final; the other kind's ratio before a measurement."""
        return self._pace.get(kind, max(self._pace.values(), default=1.0))

    @property
    def _end(self) -> float:
        """Time at which all finals must be over."""
        return self._last_moment - self.stored * (self.tasks - len(self._trials))

    @property
    def left(self) -> float:
        """Seconds for searching."""
        shorts = self._shorts
        return self._end - self.now() - max(shorts, min(SHARE * self.seconds, FULL * shorts))

    def affords(self, run: str) -> bool:
        """Whether there is time for another trial of a run, and for the longer final that a second trial leads to."""
        return self.left >= self._switch(run) + self.short(run, more=True) - self.short(run)

    def room(self, run: str) -> bool:
        """Whether one more run can begin and still leave time for its own and all other shortest finals."""
        first = self._mean * self.first
        return not first or self._end - self.now() >= self._shorts + self._switch(run) + first + self.short(run)

    @property
    def _shorts(self) -> float:
        return sum(self.short(run) for run in self._trials if run not in self._over)

    def share(self, run: str) -> float:
        """Seconds for the final of a run: its share of the seconds left for all finals."""
        shorts = {r: self.short(r) for r in self._trials if r not in self._over}
        whole = sum(shorts.values())
        return max(0.0, self._end - self.now()) * (shorts.get(run, 0.0) / whole if whole else 1.0)

    def rehearsed(self, run: str) -> bool:
        """Whether the duration of the run's kind of final is known, or the run has already measured it."""
        shown = self._shown.get(self._kind(run), {})
        return run in shown or len(shown) >= REHEARSALS

    def rehearsal(self, run: str, seconds: float) -> None:
        """Record that building a run's kernel alone and checking it took ``seconds``; the final's duration follows."""
        kind = self._kind(run)
        shown = self._shown.setdefault(kind, {})
        shown[run] = seconds / REHEARSED[kind], kind * self._trial(run)
        took, expected = (sum(numbers) for numbers in zip(*shown.values(), strict=True))
        if expected:
            self._pace[kind] = took / expected

    def held(self, run: str, seconds: float, finalists: int) -> None:
        """Record that the final of a run took ``seconds``."""
        kind = self._kind(run)
        expected = self._compared(run, kind)
        if finalists == 1 and self._anew(run) < 0.5 * seconds and expected:
            # The square root corrects half of the error: one final says little about the next.
            self._pace[kind] = self._paced(kind) * ((seconds - self._anew(run)) / expected) ** 0.5
        self._over.add(run)
