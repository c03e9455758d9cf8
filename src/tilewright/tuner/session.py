"""The tuning loop: propose, build, measure, store, learn; then a final between the fastest.

While one batch is measured on the device's cores, the next ones are proposed and built on the others.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from tilewright.building.builder import Builder
from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    Measurement,
    Outcome,
    Proposal,
    Schedule,
    Task,
    TrialRecord,
    fastest,
)
from tilewright.database import Database
from tilewright.measure.measuring import Runner
from tilewright.tuner.budget import Budget
from tilewright.tuner.clock import Clock
from tilewright.tuner.gain import MORE, converged, expected_gain
from tilewright.tuner.observer import Observer
from tilewright.tuner.strategies.base import Strategy

Built = tuple[Candidate, Artifact]


AHEAD = 2
"""Batches that are being built while one is measured, at least: compilers never wait for a proposal."""


@dataclass(frozen=True)
class Limits:
    """When a run ends: trials in all (failures included), the time of a budget, or, with ``until_converged``,
    when further trials are expected to gain nothing. ``batch``: trials proposed at once; ``ahead``: batches that are
    being built while one is measured."""

    trials: int
    budget: Budget | None = None
    batch: int = 16
    until_converged: bool = False
    ahead: int = AHEAD


REPLACED = 0.8
"""A kernel takes the incumbent's place if it takes at most this share of its time. Trials are timed against the
incumbent, and times are its own times a ratio: who replaces it for any lucky ratio below 1 takes that luck along, into
the times of all that follow, which shrink from trial to trial where the machine is noisy."""
LEARNED = 16
"""Results from which on all of :attr:`Limits.ahead` are built ahead; half as many before: the first teach most."""


@dataclass
class Batch:
    """Proposals in flight."""

    proposals: list[Proposal]
    builds: Future[list[Artifact | Failure]]

    @property
    def schedules(self) -> list[Schedule]:
        return [p.schedule for p in self.proposals]


@dataclass
class Session:
    """One run of one task; ``history`` may hold the trials of an interrupted session."""

    task: Task
    run_id: str
    database: Database
    strategy: Strategy
    builder: Builder
    runner: Runner
    limits: Limits
    observer: Observer
    history: list[TrialRecord] = field(default_factory=list)
    overlap: bool = True
    clock: Clock = field(default_factory=Clock)
    stop: threading.Event = field(default_factory=threading.Event)
    incumbent: Built | None = None
    incumbent_seconds: float = math.inf
    ended: str = "trials"
    _ahead: list[Batch] = field(default_factory=list)
    _done: int = field(init=False)

    def search(self, trials: int | None = None) -> bool:
        """Run trials until a limit is reached, the space is exhausted, or about ``trials`` more are stored.

        Returns whether there may be more to try.
        """
        until = math.inf if trials is None else len(self.history) + trials
        budget = self.limits.budget
        while self._fill(1, []):
            if len(self.history) >= until:
                return True
            if budget is not None and self.history and budget.left <= 0:
                self.ended = "time"
                break
            began = 0.0 if budget is None else budget.now()
            batch = self._ahead.pop(0)
            # Of a budget that many tasks share nothing is spent on building what may never be measured.
            going_on = self.overlap and (budget is None or len(self.history) + len(batch.proposals) < until)
            ahead = self.limits.ahead if len(self.history) >= LEARNED else self.limits.ahead // 2
            if going_on and not batch.builds.done():  # the device has to wait anyway
                self._fill(ahead, batch.schedules)
            with self.clock.on("waiting for builds"):
                built = self.builder.wait(batch.builds)
            measured = self._measure(batch, built)
            if going_on:
                self._fill(ahead, batch.schedules)
            with self.clock.on("waiting for measurements"):
                outcomes = measured.result()
            self._record(batch, built, outcomes)
            if budget is not None:
                budget.took(self.run_id, len(built), budget.now() - began)
        return False

    def _fill(self, count: int, measured: Sequence[Schedule]) -> bool:
        """Propose until ``count`` batches are being built, if that many are left; whether there is one."""
        while len(self._ahead) < count:
            batch = self._propose([*measured, *(s for b in self._ahead for s in b.schedules)])
            if batch is None:
                break
            self._ahead.append(batch)
        return bool(self._ahead)

    def settle(self) -> None:
        """Wait for what is being built ahead. What cannot be built is raised when it is measured."""
        for batch in self._ahead:
            with suppress(Exception):
                self.builder.wait(batch.builds)

    @property
    def best(self) -> TrialRecord | None:
        return fastest(self.history)

    def _propose(self, pending: Sequence[Schedule]) -> Batch | None:
        if self.stop.is_set():
            self.ended = "stopped"
            return None
        if self.limits.until_converged and converged(self.history):
            self.ended = "converged"
            return None
        wanted = self.limits.trials - len(self.history) - len(pending)
        left = min(wanted, self._fitting(len(pending)))
        if left <= 0:
            self.ended = "trials" if wanted <= 0 else "time"
            return None
        with self.clock.on("proposing"):
            proposals = self.strategy.suggest(left, self.history, pending)
        if not proposals:
            self.ended = "space"
            return None
        candidates = [Candidate(self.task, p.schedule) for p in proposals]
        return Batch(proposals, self.builder.submit(candidates))

    def _fitting(self, pending: int) -> int:
        """How many trials to propose for the time that is left. A run always gets its first ones."""
        budget = self.limits.budget
        if budget is None:
            return self.limits.batch
        if not self.history and not pending:
            return min(self.limits.batch, budget.first)
        left = budget.left
        if left <= 0:
            return 0
        timed = [r for r in self.history if isinstance(r.outcome, Measurement)]
        if not timed:
            return min(self.limits.batch, budget.first)
        each = max(sum(_seconds(r) for r in timed) / len(timed), 1e-6)
        return max(0 if pending else 1, min(self.limits.batch, int(left / each) - pending))

    def _measure(self, batch: Batch, built: Sequence[Artifact | Failure]) -> Future[list[Outcome]]:
        items = [
            (Candidate(self.task, p.schedule), b)
            for p, b in zip(batch.proposals, built, strict=True)
            if isinstance(b, Artifact)
        ]
        return self.runner.submit(self.task, items, self.incumbent)

    def _record(self, batch: Batch, built: Sequence[Artifact | Failure], measured: Sequence[Outcome]) -> None:
        outcomes = iter(measured)
        now = time.time()
        records: list[TrialRecord] = []
        for p, b in zip(batch.proposals, built, strict=True):
            outcome = b if isinstance(b, Failure) else next(outcomes)
            seconds = 0.0 if isinstance(b, Failure) or b.cached else b.build_seconds
            records.append(TrialRecord(len(self.history) + len(records), p, outcome, seconds, now))
        with self.clock.on("database"):
            self.database.add_trials(self.run_id, records)
        best = self.best
        for r, b in zip(records, built, strict=True):
            self.history.append(r)
            if r.seconds is not None and (best is None or best.seconds is None or r.seconds < best.seconds):
                best = r
                if isinstance(b, Artifact) and r.seconds <= REPLACED * self.incumbent_seconds:
                    self.incumbent, self.incumbent_seconds = (Candidate(self.task, r.schedule), b), r.seconds
            self.observer.trial(r, best)
        self.observer.outlook(expected_gain(self.history, MORE), self._left())

    def _left(self) -> float | None:
        """Seconds of searching that are left, as far as can be told."""
        if self._done == len(self.history):
            return None
        each = self.clock.elapsed / (len(self.history) - self._done)
        left = each * (self.limits.trials - len(self.history))
        return left if self.limits.budget is None else max(0.0, min(left, self.limits.budget.left))

    def __post_init__(self) -> None:
        self._done = len(self.history)

    def restore(self) -> None:
        """After a resume: rebuild the fastest kernel so far, to pair new ones with."""
        best = self.best
        if best is None or best.seconds is None:
            return
        candidate = Candidate(self.task, best.schedule)
        built = self.builder.build([candidate])[0]
        if isinstance(built, Artifact):
            self.incumbent, self.incumbent_seconds = (candidate, built), best.seconds

    def times(self) -> dict[str, float]:
        """Seconds of the run by activity; ``compiling``, ``verifying`` and ``timing`` overlap the rest."""
        timed = [r.outcome for r in self.history if isinstance(r.outcome, Measurement)]
        waiting = sum(v for k, v in self.clock.spent.items() if k.startswith("waiting"))
        final = self.clock.spent.get("final", 0.0)
        return {
            **self.clock.spent,
            "compiling": sum(r.build_seconds for r in self.history),
            "verifying": sum(m.verify_seconds for m in timed),
            "timing": sum(m.measure_seconds for m in timed),
            "overhead": self.clock.elapsed - waiting - final,
        }


def _seconds(trial: TrialRecord) -> float:
    """What a trial took: built, checked and timed."""
    m = trial.outcome
    return trial.build_seconds + (m.verify_seconds + m.measure_seconds if isinstance(m, Measurement) else 0.0)
