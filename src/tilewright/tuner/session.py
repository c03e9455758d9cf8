"""The tuning loop: propose, build, measure, store and learn; then a final between the fastest kernels.

While one batch is measured on the device's cores, the next ones are proposed and built on the other cores.
"""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

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
from tilewright.tuner.improvement import MORE, converged, expected_improvement
from tilewright.tuner.observer import Observer
from tilewright.tuner.strategies.base import Strategy

Built = Artifact | Failure

AHEAD = 2
"""Least number of batches in flight besides the measured one: compilers never wait for a proposal."""
QUEUED = 2
"""Number of batches queued at the runner: the device does not wait while the session stores and proposes batches."""


@dataclass(frozen=True)
class Limits:
    """When a run ends: after a number of trials (failures included), at the end of a time budget, or, with
    ``until_converged``, once no improvement is expected. ``batch``: number of trials proposed at once. ``ahead``:
    number of batches that are built, or wait for the device, while one batch is measured."""

    trials: int
    budget: Budget | None = None
    batch: int = 16
    until_converged: bool = False
    ahead: int = AHEAD


REPLACED = 0.8
"""Largest ratio of a kernel's time to the incumbent's with which the kernel becomes the incumbent. Trials are timed
against the incumbent, and their time is the incumbent's time multiplied by a ratio. A ratio below 1 by luck would enter
the times of all later trials, which would shrink from trial to trial on a noisy machine."""
LEARNED = 16
"""Number of results before all of :attr:`Limits.ahead` are built ahead, half until then: early results teach most."""


@dataclass
class Building:
    """Proposals that one compiler invocation builds together."""

    proposals: list[Proposal]
    builds: Future[list[Built]]


@dataclass
class Measuring:
    """Built proposals, and the outcomes of their measurement."""

    proposals: list[Proposal]
    built: list[Built]
    outcomes: Future[list[Outcome]]


@dataclass
class Session:
    """The search of one run of one task. ``history`` may hold the trials of an interrupted session."""

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
    incumbent: tuple[Candidate, Artifact] | None = None
    incumbent_seconds: float = math.inf
    ended: str = "trials"
    _building: list[Building] = field(default_factory=list)
    _measuring: list[Measuring] = field(default_factory=list)
    _done: int = field(init=False)

    def search(self, trials: int | None = None) -> bool:
        """Run trials until a limit is reached, the space is exhausted, or about ``trials`` more are stored.

        Returns whether more schedules may be left to try.
        """
        until = math.inf if trials is None else len(self.history) + trials
        try:
            return self._search(until)
        except Exception:
            for m in self._measuring:  # measured trials are stored, whatever ends the search
                with suppress(Exception):
                    self._record(m)
            raise

    def _search(self, until: float) -> bool:
        budget = self.limits.budget
        began = 0.0 if budget is None else budget.now()
        while len(self.history) < until or self._measuring:
            stopped = self.stop.is_set()
            if self.history and (stopped or (budget is not None and budget.left <= 0)):
                # Wait for running measurements, but not for builds.
                self.ended, until = "stopped" if stopped else "time", 0
                if not self._measuring:
                    break
            if self._measuring and self._measuring[0].outcomes.done():
                done = self._measuring.pop(0)
                self._record(done)
                if budget is not None:
                    now = budget.now()
                    budget.took(self.run_id, len(done.built), now - began)
                    began = now
            elif self._measure(until) or (self._going_on(until) and self._propose(until)):
                continue
            elif self._measuring or self._building:
                self._wait(until)
            else:
                return False
        if until <= 0 or self._building:
            return until > 0
        # Under a budget shared by several tasks, do not propose before the task's next slice.
        return self._propose() if budget is None else self._wanted() > 0

    @property
    def _in_flight(self) -> list[Schedule]:
        proposals = [x.proposals for x in self._measuring] + [x.proposals for x in self._building]
        return [p.schedule for some in proposals for p in some]

    def _room(self, until: float) -> float:
        """Number of further trials that the runner may take now; 0 if its queue is full."""
        # The first correct kernel becomes the incumbent that later trials are timed against.
        if len(self._measuring) >= (QUEUED if self.incumbent is not None else 1):
            return 0
        return max(0, until - len(self.history) - sum(len(m.proposals) for m in self._measuring))

    def _measure(self, until: float) -> bool:
        """Submit a batch of finished builds to the runner, in any order. Returns whether there was one."""
        room = min(self.limits.batch, self._room(until))
        proposals: list[Proposal] = []
        built: list[Built] = []
        for b in [b for b in self._building if b.builds.done()]:
            if room <= 0 or (proposals and len(proposals) + len(b.proposals) > room):
                break
            self._building.remove(b)
            proposals += b.proposals
            built += b.builds.result()
        if not proposals:
            return False
        items = [
            (Candidate(self.task, p.schedule), b)
            for p, b in zip(proposals, built, strict=True)
            if isinstance(b, Artifact)
        ]
        self._measuring.append(Measuring(proposals, built, self.runner.submit(self.task, items, self.incumbent)))
        return True

    def _going_on(self, until: float) -> bool:
        """Whether to propose more schedules than are in flight."""
        flying = len(self._in_flight)
        if not flying:
            return True
        # Under a budget shared by several tasks, build nothing that may never be measured.
        measured = len(self.history) + sum(len(m.proposals) for m in self._measuring)
        if not self.overlap or (self.limits.budget is not None and measured >= until):
            return False
        ahead = self.limits.ahead if len(self.history) >= LEARNED else self.limits.ahead // 2
        return flying < (ahead + 1) * self.limits.batch

    def _wait(self, until: float) -> None:
        """Wait for the device, and also for compilers if the runner has room."""
        futures: list[Future[Any]] = [m.outcomes for m in self._measuring[:1]]
        if self._room(until):
            futures += [b.builds for b in self._building]
        if self._measuring:
            with self.clock.on("waiting for measurements"):
                wait(futures, return_when=FIRST_COMPLETED)
        else:
            with self.clock.on("waiting for builds"), self.builder.waiting():
                wait(futures, return_when=FIRST_COMPLETED)

    def settle(self) -> None:
        """Wait for the builds in flight. A build's exception is raised later, when the build is measured."""
        for b in self._building:
            with suppress(Exception):
                self.builder.wait(b.builds)

    @property
    def best(self) -> TrialRecord | None:
        return fastest(self.history)

    def _propose(self, until: float = math.inf) -> bool:
        """Start building a batch of proposals. Returns whether there was a proposal."""
        pending, left = self._in_flight, self._wanted()
        if self.limits.budget is not None:
            left = int(min(left, until - len(self.history) - len(pending)))
        if left <= 0:
            return False
        with self.clock.on("proposing"):
            proposals = self.strategy.suggest(left, self.history, pending)
        if not proposals:
            self.ended = "space"
            return False
        step = len(proposals) if self.builder.batch > 1 else 1  # kernels that are compiled together are ready together
        for start in range(0, len(proposals), step):
            some = proposals[start : start + step]
            self._building.append(Building(some, self.builder.submit([Candidate(self.task, p.schedule) for p in some])))
        return True

    def _wanted(self) -> int:
        """Number of trials to propose; if 0, ``ended`` says why."""
        pending = len(self._in_flight)
        if self.stop.is_set():
            self.ended = "stopped"
            return 0
        if self.limits.until_converged and converged(self.history):
            self.ended = "converged"
            return 0
        wanted = self.limits.trials - len(self.history) - pending
        left = min(wanted, self._fitting(pending))
        if left <= 0:
            self.ended = "trials" if wanted <= 0 else "time"
        return left

    def _fitting(self, pending: int) -> int:
        """Number of trials to propose for the remaining time. A run always gets its first trials."""
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

    def _record(self, done: Measuring) -> None:
        """Store the trials of a measured batch. Raises the exception of a failed measurement job."""
        with self.clock.on("waiting for measurements"):
            outcomes = iter(done.outcomes.result())
        now = time.time()
        records: list[TrialRecord] = []
        for p, b in zip(done.proposals, done.built, strict=True):
            outcome = b if isinstance(b, Failure) else next(outcomes)
            seconds = 0.0 if isinstance(b, Failure) or b.cached else b.build_seconds
            records.append(TrialRecord(len(self.history) + len(records), p, outcome, seconds, now))
        with self.clock.on("database"):
            self.database.add_trials(self.run_id, records)
        best = self.best
        for r, b in zip(records, done.built, strict=True):
            self.history.append(r)
            if r.seconds is not None and (best is None or best.seconds is None or r.seconds < best.seconds):
                best = r
                if isinstance(b, Artifact) and r.seconds <= REPLACED * self.incumbent_seconds:
                    self.incumbent, self.incumbent_seconds = (Candidate(self.task, r.schedule), b), r.seconds
            self.observer.trial(r, best)
        self.observer.outlook(expected_improvement(self.history, MORE), self._left())

    def _left(self) -> float | None:
        """Upper bound of the remaining search time in seconds; ``None`` before the first new trial."""
        if self._done == len(self.history):
            return None
        each = self.clock.elapsed / (len(self.history) - self._done)
        left = each * (self.limits.trials - len(self.history))
        return left if self.limits.budget is None else max(0.0, min(left, self.limits.budget.left))

    def __post_init__(self) -> None:
        self._done = len(self.history)

    def restore(self) -> None:
        """Rebuild the fastest kernel of a resumed run as the incumbent."""
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
    """Seconds to build, check and time a trial."""
    m = trial.outcome
    return trial.build_seconds + (m.verify_seconds + m.measure_seconds if isinstance(m, Measurement) else 0.0)
