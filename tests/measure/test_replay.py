from __future__ import annotations

import pytest
from replay import ReplayRunner

from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    FailureKind,
    LaunchProgram,
    Measurement,
    Proposal,
    Schedule,
    Target,
    Task,
    TrialRecord,
)
from tilewright.kernels.operators import get_operator
from tilewright.testing.runner import Item, RunnerContract

TARGET = Target("cpu", "portable", "x86_64", (), 16, 16)
TASK = Task(get_operator("matmul").workload(m=2, n=2, k=2), TARGET)


def record(n: int, outcome: Measurement | Failure) -> TrialRecord:
    return TrialRecord(n, Proposal(Schedule("t", 1, (("tile", n),))), outcome)


def item(n: int) -> Item:
    artifact = Artifact("", "", LaunchProgram(()), TARGET, "", (), "")
    return Candidate(TASK, Schedule("t", 1, (("tile", n),))), artifact


GOOD = Measurement(1e-3, 0.01, 15, 0.9)
RECORDS = [record(0, Failure(FailureKind.CRASH, "killed by SIGSEGV")), record(1, GOOD)]


class TestReplayRunner(RunnerContract):
    @pytest.fixture
    def runner(self) -> ReplayRunner:
        return ReplayRunner(iter(RECORDS))

    @pytest.fixture
    def task(self) -> Task:
        return TASK

    @pytest.fixture
    def good(self) -> Item:
        return item(1)

    @pytest.fixture
    def bad(self) -> Item:
        return item(0)


def test_outcomes_are_those_of_the_records() -> None:
    with ReplayRunner(RECORDS) as runner:
        assert len(runner) == 2
        assert runner.run(TASK, [item(1), item(0)]) == [GOOD, RECORDS[0].outcome]


def test_an_unknown_schedule_fails() -> None:
    (failure,) = ReplayRunner(RECORDS).run(TASK, [item(7)])
    assert failure == Failure(FailureKind.LAUNCH, "not in the recording")


def test_the_last_record_of_a_schedule_counts() -> None:
    later = record(1, Measurement(5.0, 0.0, 1))
    assert ReplayRunner([*RECORDS, later]).run(TASK, [item(1)]) == [later.outcome]
