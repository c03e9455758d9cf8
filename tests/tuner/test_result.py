"""What a run gives back: its kernel, a frame of its trials, and how it is shown."""

from __future__ import annotations

import dataclasses
import html
import re
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.core import Failure, FailureKind, Measurement, Proposal, Schedule, TrialRecord, UsageError
from tilewright.database import Database
from tilewright.tuner import TuneResult
from tilewright.tuner.result import BestKernel, commonest_failure, default_is_best, drift_note, failures

A = np.random.default_rng(0).standard_normal((24, 16)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((16, 20)).astype(np.float32)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    db = tmp_path_factory.mktemp("result") / "t.db"
    return tilewright.tune("matmul", m=24, n=20, k=16, trials=3, cost_model="random", db=db)


def test_the_kernel_can_be_called(result: TuneResult) -> None:
    out = np.empty((24, 20), np.float32)
    np.testing.assert_allclose(result.kernel(A, B), A @ B, rtol=1e-4, atol=1e-5)
    assert result.kernel(A, B, out=out) is out
    assert result.kernel is result.kernel
    with pytest.raises(ValueError, match="a has shape"):
        result.kernel(A[:3], B)


def test_a_kernel_that_is_not_there(result: TuneResult, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found no kernel of matmul m=24"):
        _ = dataclasses.replace(result, best=None).kernel
    Database.open(tmp_path / "empty.db").close()
    with pytest.raises(UsageError, match="does not run here: nothing was tuned for it"):
        _ = dataclasses.replace(result, database=str(tmp_path / "empty.db")).kernel


def test_a_result_is_shown_in_a_line_and_as_a_table(result: TuneResult) -> None:
    assert result.best is not None
    shown = repr(result)
    assert len(shown) < 300
    for part in ("matmul m=24 n=20 k=16", "FLOP/s", "3 in ", result.run, result.best.template):
        assert part in shown
        assert part in result._repr_html_()
    assert "no trial succeeded" in repr(dataclasses.replace(result, best=None))


def test_a_run_in_which_every_trial_failed_says_of_what(result: TuneResult) -> None:
    def trial(number: int, outcome: Failure | Measurement) -> TrialRecord:
        return TrialRecord(number, Proposal(Schedule("t", 1, (("x", number),), ())), outcome)

    slow, wrong = Failure(FailureKind.TIMEOUT, "took 10 s"), Failure(FailureKind.WRONG_RESULT, "[0] is 1, not 2")
    history = [trial(n, o) for n, o in enumerate((slow, wrong, wrong))]
    assert commonest_failure(history) == "[0] is 1, not 2"
    assert commonest_failure([trial(0, Measurement(1.0, 0.0, 1))]) is None
    failed = dataclasses.replace(result, best=None, failed=failures(history), failure=commonest_failure(history))
    assert "3 (3 failed: [0] is 1, not 2) in " in repr(failed)
    kinds = f"1 {slow.kind.value}, 2 {wrong.kind.value}"
    assert failed.no_success == f"no trial succeeded: {kinds}, such as: [0] is 1, not 2"
    some = dataclasses.replace(failed, failed={"wrong_result": 2})
    assert "(2 failed) in" in repr(some)


def test_a_notebook_shows_the_gain_and_a_call_that_works(result: TuneResult) -> None:
    assert result.best is not None
    other = dataclasses.replace(result, best=dataclasses.replace(result.best, default=False), paired={})
    faster = dataclasses.replace(other, curve=((0, 3e-6), (4, 2e-6)))
    assert "1.50x the default schedule's speed by search times, which have no interval" in faster._repr_html_()
    timed = dataclasses.replace(faster, paired={"default": {"ratio": 1.3, "low": 1.2, "high": 1.4}})
    assert "1.30x faster than the default schedule (95% interval 1.20x to 1.40x)" in timed._repr_html_()
    unsure = dataclasses.replace(faster, paired={"default": {"ratio": 1.11, "low": 0.95, "high": 1.3}})
    assert unsure.gain_text().endswith("(95% interval 0.95x to 1.30x): no measurable difference")
    late = dataclasses.replace(other, curve=((1, 3e-6), (4, 2e-6)))  # the default failed
    assert late.gain is None
    assert "default schedule" not in late._repr_html_()
    shown = html.unescape(re.findall("<code>(.*)</code>", result._repr_html_())[0])
    assert ".plan('matmul', m=24, n=20, k=16)(a, b)" in shown
    np.testing.assert_allclose(eval(shown, {"tilewright": tilewright, "a": A, "b": B}), A @ B, rtol=1e-4, atol=1e-5)
    assert "<code>" not in dataclasses.replace(result, best=None)._repr_html_()


def test_why_the_winners_search_time_is_not_the_least_is_said(result: TuneResult) -> None:
    assert result.best is not None
    best = dataclasses.replace(result.best, trial=3, search_seconds=2.5e-6, default=False)
    other = dataclasses.replace(result, best=best, curve=((0, 3e-6), (4, 2e-6)), kept=False)
    assert other.search_note() == (
        "Trial 4 has the least search time, 2 us (trial 3: 2.5 us): the final timed the fastest trials again, in turns, "
        "and trial 3 won."
    )
    default = dataclasses.replace(other, best=dataclasses.replace(best, default=True))
    assert "did not measure it to be faster than the default schedule" in str(default.search_note())
    assert dataclasses.replace(other, curve=((3, 2.5e-6),)).search_note() is None
    assert (other.search_seconds, best.final_seconds) == (2e-6, best.seconds)


def test_where_the_default_schedule_is_best_that_is_said(result: TuneResult) -> None:
    assert result.best is not None
    found = dataclasses.replace(
        result, best=dataclasses.replace(result.best, default=True), curve=((0, 3e-6), (4, 2e-6)),
        paired={"default": {"ratio": 1.0, "low": 1.0, "high": 1.0}},
    )  # fmt: skip
    assert (found.gain, found.gain_text()) == (1.0, "none: the default schedule is the best found")
    assert found.gain_text() in found._repr_html_()
    assert default_is_best(found.to_json())
    assert not default_is_best(dataclasses.replace(found, best=None).to_json())
    assert not default_is_best({"best": 3})


def test_what_a_notebook_shows_is_escaped(result: TuneResult) -> None:
    shown = dataclasses.replace(result, database="<b>.db", run="<script>")._repr_html_()
    assert "<b>" not in shown
    assert "<script>" not in shown
    assert "&lt;b&gt;.db" in shown


def test_trials_as_a_frame(result: TuneResult) -> None:
    frame = result.to_dataframe()
    assert list(frame["trial"]) == list(range(3))
    assert set(frame["run"]) == {result.run}
    assert (frame["status"] == "ok").sum() == frame["seconds"].notna().sum() == 3 - sum(result.failed.values())
    assert frame["created"].is_monotonic_increasing
    knobs = [c for c in frame.columns if c.startswith("knob.")]
    assert knobs
    assert frame[knobs].notna().any(axis=None)
    with Database.open(result.database) as database:
        assert len(database.trials_frame()) == 3
        with pytest.raises(UsageError, match="no run"):
            database.trials_frame("nothing")


def test_a_frame_of_nothing(tmp_path: Path) -> None:
    with Database.open(tmp_path / "t.db") as database:
        frame = database.trials_frame()
    assert len(frame) == 0
    assert "seconds" in frame.columns


def test_a_machine_that_changed_is_told_of_once_and_where_it_changed_an_answer(result: TuneResult) -> None:
    assert result.best is not None
    fastest = dataclasses.replace(result.best, trial=result.curve[-1][0])
    other = dataclasses.replace(result.best, trial=result.curve[-1][0] + 1)

    def told(best: BestKernel, *drifts: float | None, kept: bool = False) -> str | None:
        return drift_note(dataclasses.replace(result, best=best, drift=d, kept=kept) for d in drifts)

    assert told(other, 1.04, 0.96, None) is None
    assert told(fastest, 1.4, 0.5) is None, "the final chose as the search did"
    assert told(other, 1.4, kept=True) is None, "nothing of this run is stored"
    note = told(other, 1.2, 1.4, 1.3)
    assert note is not None
    assert note.startswith("this machine has become 1.30x slower since the run began")
    assert "1.25x faster" in str(told(other, 0.8))
