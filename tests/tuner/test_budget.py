"""A time budget is for searches and their finals, by a clock of the tests' own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tilewright.core import Measurement, Proposal, Schedule, TrialRecord
from tilewright.tuner import Observer, TuneTask
from tilewright.tuner.budget import BUILT, FIRST, FULL, PREPARED, REHEARSED, SHORT, Budget
from tilewright.tuner.many import _tuned


class Machine:
    """A clock that moves as work is done on it."""

    def __init__(self) -> None:
        self.time = 100.0
        self.holds = ""

    def now(self) -> float:
        return self.time


class Simulated:
    """A tuning whose trials take ``each`` seconds, and whose finals take ``final`` times what is expected of them.

    Operands of so many ``elements`` are prepared again after those of another tuning.
    """

    def __init__(
        self, machine: Machine, budget: Budget, name: str, each: float, final: float, elements: int = 0
    ) -> None:
        self.machine, self.budget, self.name, self.each, self.final = machine, budget, name, each, final
        self.tools, self.interrupted, self.problem, self.watcher = "one place", False, None, Observer()
        self.finalists, self.run, self.elements = 0, SimpleNamespace(id=name), elements
        self.untried = 0
        self.session: Any = SimpleNamespace(
            history=[], best=None, clock=SimpleNamespace(elapsed=0.0), settle=lambda: None, ended="trials"
        )
        budget.of(name, elements)

    def prepare(self) -> float:
        """Seconds that it takes."""
        took = 0.6 * PREPARED * self.elements if self.machine.holds != self.name else 0.0
        self.machine.time += took
        self.machine.holds = self.name
        return took

    def search(self, trials: int) -> bool:
        history = self.session.history
        for _ in range(trials):
            if history and self.budget.left < self.each:
                self.session.ended = "time"
                return False
            took = self.prepare() + self.each
            self.machine.time += self.each
            self.session.clock.elapsed += took
            self.budget.took(self.name, 1, took)
            n = len(history)
            seconds = Measurement(0.9**n, 0.0, 1)
            history.append(TrialRecord(n, Proposal(Schedule("t", 1, (("x", n),), ())), seconds))
            if len(history) == self.budget.first:
                self.rehearse()
        self.rehearse()
        self.session.best = history[-1]
        return True

    def rehearse(self) -> None:
        if not self.budget.rehearsed(self.name):
            took = self.short * REHEARSED[BUILT if len(self.session.history) == 1 else SHORT]
            self.machine.time += took
            self.budget.rehearsal(self.name, took)

    @property
    def short(self) -> float:
        return self.final * self.each * (BUILT if len(self.session.history) == 1 else SHORT)

    @property
    def unreached(self) -> bool:
        return not self.session.history

    def finish(self, brief: bool) -> None:
        if self.unreached:
            return
        share, short = self.budget.share(self.name), self.budget.short(self.name)
        self.finalists = 8 if share >= FULL * short else 2 if share >= 2 * short else 1
        took = self.prepare() + self.short * {1: 1.0, 2: 2.0, 8: FULL}[self.finalists]
        self.machine.time += self.short * {1: 1.0, 2: 2.0, 8: FULL}[self.finalists]
        self.budget.held(self.name, took, self.finalists)


def spent(
    tasks: int, seconds: float, each: float, final: float = 1.0, elements: int = 0
) -> tuple[float, list[Simulated]]:
    """Every fourth task has so many ``elements``."""
    machine = Machine()
    budget = Budget(seconds, tasks, machine.now)
    tunings = [Simulated(machine, budget, f"run {n}", each, final, elements if n % 4 == 3 else 0) for n in range(tasks)]
    _tuned(cast(Any, tunings), [TuneTask("matmul")] * tasks, None, budget)
    return machine.time - 100.0, tunings


@pytest.mark.parametrize("tasks", [1, 12, 176])
@pytest.mark.parametrize("each", [0.4, 1.1])
@pytest.mark.parametrize("final", [0.3, 1.5, 4.0])
@pytest.mark.parametrize("elements", [0, 40_000_000])
def test_searches_and_finals_take_the_budget_and_hardly_more(
    tasks: int, each: float, final: float, elements: int
) -> None:
    seconds, tunings = spent(tasks, 120.0, each, final, elements)
    assert seconds <= 1.05 * 120.0
    reached = [t for t in tunings if t.session.history]
    assert all(t.finalists for t in reached)
    assert all(t.session.ended == "time" for t in tunings if t not in reached)
    assert len(reached) == tasks or seconds > 0.9 * 120.0, "what finals leave is for tasks that were not reached"


def test_many_tasks_in_little_time_start_with_one_trial() -> None:
    assert (Budget(120.0, 176).first, Budget(120.0, 12).first, Budget(15.0).first) == (1, FIRST, FIRST)
    _, tunings = spent(40, 40.0, 0.5)
    counts = [len(t.session.history) for t in tunings]
    assert min(counts) == 1, "every task is tried before one has more"


def test_a_task_that_could_not_be_stored_is_not_begun() -> None:
    seconds, tunings = spent(50, 10.0, 1.0)
    reached = [t for t in tunings if t.session.history]
    assert 2 <= len(reached) < 10
    assert seconds <= 11.0
    assert {t.session.ended for t in tunings[len(reached) :]} == {"time"}


def test_the_first_task_is_begun_however_short_the_time_is() -> None:
    _, tunings = spent(3, 0.01, 1.0)
    assert [len(t.session.history) for t in tunings] == [1, 0, 0]


def test_a_task_of_large_operands_is_begun_only_where_its_first_trial_and_final_fit() -> None:
    machine = Machine()
    budget = Budget(40.0, 40, machine.now)
    for name, elements in (("a", 0), ("small", 0), ("large", 75_000_000), ("larger", 200_000_000)):
        budget.of(name, elements)
    assert budget.room("larger"), "the first of all"
    budget.took("a", 1, 1.0)
    assert (budget.room("large"), budget.room("larger")) == (True, False)
    machine.time += 16.0
    assert (budget.room("large"), budget.room("small")) == (False, True)


def test_tasks_behind_one_that_is_too_large_are_begun() -> None:
    machine = Machine()
    budget = Budget(20.0, 3, machine.now)
    tunings = [Simulated(machine, budget, f"run {n}", 0.5, 1.0, 134_000_000 * (n == 1)) for n in range(3)]
    _tuned(cast(Any, tunings), [TuneTask("matmul")] * 3, None, budget)
    assert [bool(t.session.history) for t in tunings] == [True, False, True]
    assert tunings[1].session.ended == "time"


def test_a_run_between_others_is_expected_to_prepare_its_operands_again() -> None:
    budget = Budget(100.0, 2, Machine().now)
    budget.of("a", 50_000_000)
    budget.took("a", 4, 12.0)
    assert budget.short("a") == pytest.approx(SHORT * 1.0), "of one run alone they are there"
    budget.of("b", 0)
    budget.took("b", 4, 4.0)
    assert budget.short("a") == pytest.approx(SHORT * 1.0 + PREPARED * 50_000_000)
    assert budget.short("b") == pytest.approx(SHORT * 1.0)


def test_what_is_kept_for_finals_grows_with_the_trials_and_has_a_limit() -> None:
    machine = Machine()
    budget = Budget(100.0, 2, machine.now)
    assert budget.left == 100.0
    budget.took("a", 10, 10.0)
    assert budget.left == 100.0 - min(20.0, FULL * SHORT)
    budget.took("b", 10, 100.0)
    assert budget.left == 100.0 - SHORT * 11.0, "short finals of both are more than the share of full ones"
    assert budget.share("b") == pytest.approx(100.0 * 10 / 11)
    machine.time += 60.0
    budget.held("b", 20 * SHORT, 1)
    assert budget.short("a") == pytest.approx(SHORT * 2**0.5), "finals take longer here than expected"
    assert budget.share("a") == 40.0


def test_a_first_run_unlike_the_others_does_not_tell_their_finals() -> None:
    """The first trials of all start the processes: 20 times as long as its final takes."""
    budget = Budget(100.0, 4, Machine().now)
    budget.took("a", 4, 4.0)
    budget.rehearsal("a", 0.05 * SHORT * REHEARSED[SHORT])
    assert budget.rehearsed("a")
    for run in ("b", "c", "d"):
        budget.took(run, 4, 4.0)
        assert not budget.rehearsed(run)
        budget.rehearsal(run, SHORT * REHEARSED[SHORT])
    assert budget.short("d") == pytest.approx(SHORT * 3.05 / 4)


def test_time_is_kept_to_store_what_is_not_reached() -> None:
    machine = Machine()
    budget = Budget(100.0, 51, machine.now)
    budget.stored = 0.5
    budget.took("a", 4, 4.0)
    assert budget.left == 100.0 - 50 * 0.5 - min(20.0, FULL * SHORT)
    budget.took("b", 4, 4.0)
    assert budget.left == pytest.approx(100.0 - 49 * 0.5 - max(2 * SHORT, min(20.0, 2 * FULL * SHORT)))
