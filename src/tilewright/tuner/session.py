"""The tuning loop: propose, build, measure, store, learn; then a final between the fastest.

While one batch is measured on the device's cores, the next ones are proposed and built on the others.
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
from tilewright.tuner.gain import MORE, converged, expected_gain
from tilewright.tuner.observer import Observer
from tilewright.tuner.strategies.base import Strategy

Built = Artifact | Failure

AHEAD = 2
"""Batches in flight besides the one that is measured, at least: compilers never wait for a proposal."""
QUEUED = 2
"""Batches given to the runner at once: the device does not wait while a batch is recorded and the next one proposed."""


@dataclass(frozen=True)
class Limits:
    """When a run ends: trials in all (failures included), the time of a budget, or, with ``until_converged``,
    when further trials are expected to gain nothing. ``batch``: trials proposed at once; ``ahead``: batches that are
    being built, or wait for the device, while one is measured."""

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
class Building:
    """Proposals that one compiler takes together."""

    proposals: list[Proposal]
    builds: Future[list[Built]]


@dataclass
class Measuring:
    """Proposals that were built, and the outcomes of those that are measured."""

    proposals: list[Proposal]
    built: list[Built]
    outcomes: Future[list[Outcome]]


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
    incumbent: tuple[Candidate, Artifact] | None = None
    incumbent_seconds: float = math.inf
    ended: str = "trials"
    _building: list[Building] = field(default_factory=list)
    _measuring: list[Measuring] = field(default_factory=list)
    _done: int = field(init=False)

    def search(self, trials: int | None = None) -> bool:
        """Run trials until a limit is reached, the space is exhausted, or about ``trials`` more are stored.

        Returns whether there may be more to try.
        """
        until = math.inf if trials is None else len(self.history) + trials
        try:
            return self._search(until)
        except Exception:
            for m in self._measuring:  # what is measured stays, whatever ends the search
                with suppress(Exception):
                    self._record(m)
            raise

    def _search(self, until: float) -> bool:
        budget = self.limits.budget
        began = 0.0 if budget is None else budget.now()
        while len(self.history) < until or self._measuring:
            stopped = self.stop.is_set()
            if self.history and (stopped or (budget is not None and budget.left <= 0)):
                # What is being measured is waited for, what is being built is not.
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
        # A budget that tasks share spends nothing on proposals before their turn has come.
        return self._propose() if budget is None else self._wanted() > 0

    @property
    def _in_flight(self) -> list[Schedule]:
        proposals = [x.proposals for x in self._measuring] + [x.proposals for x in self._building]
        return [p.schedule for some in proposals for p in some]

    def _room(self, until: float) -> float:
        """How many more trials the runner may be given now; 0 where it has enough to do."""
        # The first kernel that is right becomes what the others are timed against.
        if len(self._measuring) >= (QUEUED if self.incumbent is not None else 1):
            return 0
        return max(0, until - len(self.history) - sum(len(m.proposals) for m in self._measuring))

    def _measure(self, until: float) -> bool:
        """Have a batch of what is built measured, in whatever order it was built; whether there is something."""
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
        """Whether to propose more than what is in flight."""
        flying = len(self._in_flight)
        if not flying:
            return True
        # Of a budget that many tasks share nothing is spent on building what may never be measured.
        measured = len(self.history) + sum(len(m.proposals) for m in self._measuring)
        if not self.overlap or (self.limits.budget is not None and measured >= until):
            return False
        ahead = self.limits.ahead if len(self.history) >= LEARNED else self.limits.ahead // 2
        return flying < (ahead + 1) * self.limits.batch

    def _wait(self, until: float) -> None:
        """Wait for the device, and for compilers where it may be given more."""
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
        """Wait for what is being built ahead. What cannot be built is raised when it is measured."""
        for b in self._building:
            with suppress(Exception):
                self.builder.wait(b.builds)

    @property
    def best(self) -> TrialRecord | None:
        return fastest(self.history)

    def _propose(self, until: float = math.inf) -> bool:
        """Start building a batch of proposals; whether there is one."""
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
        """How many trials to propose; of none, ``ended`` says why."""
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

    def _record(self, done: Measuring) -> None:
        """Store the trials that were measured. Raises what kept them from being measured."""
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
