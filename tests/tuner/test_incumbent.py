"""Whom trials are timed against: a noisy machine does not make every trial look faster than those before it."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np
import pytest

from tilewright.core import (
    Artifact,
    Candidate,
    LaunchProgram,
    Measurement,
    Outcome,
    Proposal,
    Schedule,
    Target,
    Task,
    TrialRecord,
)
from tilewright.kernels.operators import get_operator
from tilewright.tuner.observer import Observer
from tilewright.tuner.session import AHEAD, LEARNED, Limits, Session
from tilewright.tuner.tuning import _ahead

TARGET = Target("cpu", "portable", "x86_64", (), 16, 16)
TASK = Task(get_operator("matmul").workload(m=2, n=2, k=2), TARGET)
T = TypeVar("T")


def done(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future


class NoisyMachine:
    """Builds, stores nothing, and times as a runner does: against the incumbent, whose time is what it was taken for.

    Schedule ``n`` takes ``true(n)`` seconds; a paired ratio is off by some percent.
    """

    def __init__(self, true: Any, noise: float) -> None:
        self.true, self.noise = true, noise
        self.rng = np.random.default_rng(0)
        self.taken_for: dict[str, float] = {}
        self.numbers = itertools.count()

    def suggest(self, count: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        return [Proposal(Schedule("t", 1, (("tile", next(self.numbers)),))) for _ in range(count)]

    def submit(self, *given: Any) -> Future[Any]:
        if len(given) == 1:
            return done([Artifact("", "", LaunchProgram(()), TARGET, "", (), "") for _ in given[0]])
        return done(self._timed(*given[1:]))

    def wait(self, builds: Future[list[Artifact]]) -> list[Artifact]:
        return builds.result()

    def add_trials(self, run: str, records: Sequence[TrialRecord]) -> None:
        pass

    def _timed(self, items: Sequence[Any], incumbent: Any) -> list[Outcome]:
        found: list[Outcome] = []
        for candidate, artifact in items:
            mine = self.true(candidate.schedule.values["tile"])
            if incumbent is None:
                incumbent, seconds = (candidate, artifact), mine
            else:
                other: Candidate = incumbent[0]
                ratio = mine / self.true(other.schedule.values["tile"]) * (1 + self.noise * self.rng.standard_normal())
                seconds = self.taken_for[other.key] * ratio
            self.taken_for[candidate.key] = seconds
            found.append(Measurement(seconds, 0.0, 15))
        return found


def searched(machine: Any, trials: int) -> Session:
    session = Session(TASK, "r", machine, machine, machine, machine, Limits(trials), Observer())
    session.search()
    assert len(session.history) == trials
    return session


@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_times_of_equal_kernels_do_not_shrink(noise: float) -> None:
    session = searched(NoisyMachine(lambda n: 1e-3, noise), 600)
    seconds = [r.seconds or 0.0 for r in session.history]
    assert statistics.median(seconds[-100:]) == pytest.approx(1e-3, rel=noise)
    assert min(seconds) > 1e-3 * (1 - 5 * noise)


def test_a_faster_kernel_takes_the_place_of_a_slow_one() -> None:
    """Else trials that are much faster would wait for it in every pair."""
    session = searched(NoisyMachine(lambda n: 1e-3 / (1 + n / 20), 0.02), 200)
    best = session.best
    assert best is not None
    assert session.incumbent_seconds <= 1.3 * (best.seconds or 0.0)
    assert best.seconds == pytest.approx(1e-3 / 11, rel=0.2)


class Watched(NoisyMachine):
    """Counts the trials that are proposed and have no result, by the number of results."""

    def __init__(self) -> None:
        super().__init__(lambda n: 1.0, 0.0)
        self.in_flight: dict[int, int] = {}

    def suggest(self, count: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        self.in_flight[len(history)] = len(pending) + count
        return super().suggest(count, history, pending)


def test_every_compiler_of_a_large_host_has_a_kernel_to_build_once_the_first_results_are_there() -> None:
    machine: Any = Watched()
    ahead = _ahead(lanes=15, batch=4)
    Session(TASK, "r", machine, machine, machine, machine, Limits(80, batch=4, ahead=ahead), Observer()).search()
    assert machine.in_flight[0] == 4 + 4 * (ahead // 2)
    measured = 4
    assert machine.in_flight[LEARNED] - measured >= 15
    assert _ahead(lanes=1, batch=4) == _ahead(lanes=4, batch=4) == AHEAD
    assert _ahead(lanes=32, batch=16) == 3


def test_compilers_get_more_while_the_first_batch_is_built() -> None:
    """And what they get does not depend on how long that takes."""

    class Slow(Watched):
        """Builds only when it is waited for."""

        def __init__(self) -> None:
            super().__init__()
            self.submitted = 0
            self.when_waited: list[int] = []

        def submit(self, *given: Any) -> Future[Any]:
            self.submitted += len(given) == 1
            return Future() if len(given) == 1 else super().submit(*given)

        def wait(self, builds: Future[list[Artifact]]) -> list[Artifact]:
            self.when_waited.append(self.submitted)
            return [Artifact("", "", LaunchProgram(()), TARGET, "", (), "")] * 4

    machine: Any = Slow()
    quick: Any = Watched()
    for m in (machine, quick):
        Session(TASK, "r", m, m, m, m, Limits(40, batch=4, ahead=5), Observer()).search()
    assert machine.when_waited[0] == 1 + 2
    assert machine.in_flight == quick.in_flight
