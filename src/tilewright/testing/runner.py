"""The contract of runners. Derive from :class:`RunnerContract` in a test module and give its fixtures.

::

    class TestMyRunner(RunnerContract):
        @pytest.fixture
        def runner(self): ...        # under test
        @pytest.fixture
        def task(self): ...
        @pytest.fixture
        def good(self): ...          # an item (candidate, artifact) that succeeds
        @pytest.fixture
        def bad(self): ...           # one that fails
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import pytest

from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    Task,
    outcome_from_json,
)

Item = tuple[Candidate, Artifact]


class Runner(Protocol):
    """The interface of runners, which check and time candidates."""

    def submit(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> Future[list[Outcome]]:
        """Checks and times ``items``, paired with ``incumbent``; the future has their outcomes in order."""
        ...

    def run(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> list[Outcome]:
        """Calls ``submit`` and waits for the outcomes."""
        ...

    def close(self) -> None:
        """Releases the device."""
        ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...


class RunnerContract(ABC):
    """Tests of a runner, through the :class:`Runner` protocol alone."""

    @pytest.fixture
    @abstractmethod
    def runner(self) -> Runner:
        """The runner under test."""

    @pytest.fixture
    @abstractmethod
    def task(self) -> Task:
        """A task that the runner can measure."""

    @pytest.fixture
    @abstractmethod
    def good(self) -> Item:
        """A correct kernel of the task."""

    @pytest.fixture
    @abstractmethod
    def bad(self) -> Item:
        """A kernel of the task that fails in any way."""

    def test_no_items_no_outcomes(self, runner: Runner, task: Task) -> None:
        assert runner.run(task, []) == []

    def test_outcomes_zip_with_items(self, runner: Runner, task: Task, good: Item, bad: Item) -> None:
        outcomes = runner.run(task, [bad, good, bad, good])
        assert [isinstance(o, Failure) for o in outcomes] == [True, False, True, False]

    def test_a_failure_has_a_kind_and_one_line(self, runner: Runner, task: Task, bad: Item) -> None:
        (failure,) = runner.run(task, [bad])
        assert isinstance(failure, Failure)
        assert isinstance(failure.kind, FailureKind)
        assert failure.message
        assert "\n" not in failure.message

    def test_a_measurement_is_complete(self, runner: Runner, task: Task, good: Item) -> None:
        (result,) = runner.run(task, [good])
        assert isinstance(result, Measurement)
        assert result.seconds > 0
        assert result.spread >= 0
        assert result.samples >= 1
        assert result.cache_state in ("warm", "cold", "network")

    def test_an_incumbent_gives_a_ratio_that_scales_the_time(self, runner: Runner, task: Task, good: Item) -> None:
        (first,) = runner.run(task, [good])
        (again,) = runner.run(task, [good], good)
        assert isinstance(first, Measurement)
        assert isinstance(again, Measurement)
        assert again.seconds > 0
        assert again.ratio is None or again.ratio > 0

    def test_outcomes_survive_json(self, runner: Runner, task: Task, good: Item, bad: Item) -> None:
        for outcome in runner.run(task, [good, bad]):
            assert outcome_from_json(outcome.to_json()) == outcome

    def test_submitted_batches_come_back_whole(self, runner: Runner, task: Task, good: Item, bad: Item) -> None:
        futures = [runner.submit(task, [good, bad]) for _ in range(3)]
        for f in futures:
            outcomes = f.result(timeout=120)
            assert [isinstance(o, Failure) for o in outcomes] == [False, True]
