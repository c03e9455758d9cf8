"""Whom trials are timed against: a noisy machine does not make every trial look faster than those before it."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
    TilewrightError,
    TrialRecord,
)
from tilewright.kernels.operators import get_operator
from tilewright.tuner import session as sessions
from tilewright.tuner.budget import Budget
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

    batch = 4

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

    def waiting(self) -> AbstractContextManager[None]:
        return nullcontext()

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


class Slow(NoisyMachine):
    """Builds one kernel at a time, only while it is waited for: the newest first, where ``last_first``.

    ``most``: kernels that were to be built at once, by the number of results. ``lost``: a kernel that ends the builder.
    """

    batch = 1

    def __init__(self, last_first: bool = False, lost: int | None = None) -> None:
        super().__init__(lambda n: 1.0, 0.0)
        self.todo: list[Future[Any]] = []
        self.last_first, self.lost = last_first, lost
        self.results = 0
        self.most: dict[int, int] = {}

    def submit(self, *given: Any) -> Future[Any]:
        if len(given) > 1:
            return super().submit(*given)
        self.todo.append(Future())
        self.most[self.results] = len(self.todo)
        return self.todo[-1]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self.lost = None if self.lost is None else self.lost - 1
        build = self.todo.pop(-1 if self.last_first else 0)
        if self.lost == -1:
            build.set_exception(TilewrightError("no disk space"))
        else:
            build.set_result([Artifact("", "", LaunchProgram(()), TARGET, "", (), "")])
        yield

    def add_trials(self, run: str, records: Sequence[TrialRecord]) -> None:
        self.results += len(records)


def in_session(machine: Any, trials: int, ahead: int = AHEAD) -> Session:
    limits = Limits(trials, batch=4, ahead=ahead)
    return Session(TASK, "r", machine, machine, machine, machine, limits, Observer())


def test_every_compiler_of_a_large_host_has_a_kernel_to_build_once_the_first_results_are_there() -> None:
    machine = Slow()
    ahead = _ahead(lanes=15, batch=4)
    session = in_session(machine, 80, ahead)
    session.search()
    assert len(session.history) == 80
    assert machine.most[0] == 4 * (1 + ahead // 2)
    assert all(machine.most[n] >= 15 for n in range(LEARNED, 50) if n in machine.most)
    assert _ahead(lanes=1, batch=4) == _ahead(lanes=4, batch=4) == AHEAD
    assert _ahead(lanes=32, batch=16) == 3


def test_kernels_are_measured_in_the_order_in_which_they_are_built() -> None:
    session = in_session(Slow(last_first=True), 12)
    session.search()
    tiles = [int(r.schedule.values["tile"]) for r in session.history]
    assert sorted(tiles) == list(range(12))
    assert tiles[0] > 0  # the first that was proposed is built last


def test_a_search_that_is_stopped_does_not_wait_for_compilers() -> None:
    machine = Slow()
    session = in_session(machine, 80, ahead=5)

    class Stopping(Observer):
        def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
            session.stop.set()

    session.observer = Stopping()
    assert not session.search()
    assert session.ended == "stopped"
    assert len(session.history) == machine.results == 1
    assert len(machine.todo) > 4


def test_a_builder_that_ends_loses_no_trial_that_was_measured() -> None:
    machine = Slow(lost=6)
    session = in_session(machine, 40)
    with pytest.raises(TilewrightError, match="no disk space"):
        session.search()
    assert len(session.history) == machine.results == 6


def test_the_device_has_the_next_batch_before_the_last_one_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy(NoisyMachine):
        """A device that ends a batch whenever the session waits. ``given``: batches that it has, at each new one."""

        def __init__(self) -> None:
            super().__init__(lambda n: 1.0, 0.0)
            self.todo: list[tuple[Future[Any], Any]] = []
            self.given: list[int] = []

        def submit(self, *given: Any) -> Future[Any]:
            if len(given) == 1:
                return super().submit(*given)
            self.todo.append((Future(), given[1:]))
            self.given.append(len(self.todo))
            return self.todo[-1][0]

        def wait(self, futures: Sequence[Future[Any]], return_when: str) -> None:
            future, given = self.todo.pop(0)
            assert future is futures[0]
            future.set_result(self._timed(*given))

    machine = Busy()
    monkeypatch.setattr(sessions, "wait", machine.wait)
    session = in_session(machine, 40)
    session.search()
    assert len(session.history) == 40
    # The second batch is timed against a kernel of the first.
    assert machine.given[:2] == [1, 1]
    assert max(machine.given) == machine.given[-1] == sessions.QUEUED


def test_of_a_budget_that_tasks_share_nothing_is_built_ahead_between_two_slices() -> None:
    machine = Slow()
    limits = Limits(80, Budget(1000.0, now=lambda: 0.0), batch=4)
    session = Session(TASK, "r", machine, machine, machine, machine, limits, Observer())
    for count in (1, 2, 8):
        assert session.search(count - len(session.history)), "there is more to try"
        assert len(session.history) == machine.results == count
        assert not machine.todo
