"""The final: who is compared, and what replaces the default schedule and the stored kernel of an earlier run."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tilewright.tuner.final as module
from tilewright.core import Artifact, Candidate, Failure, FailureKind, Measurement, Proposal, Schedule, TrialRecord
from tilewright.measure.timing import SESSIONS, PairedComparison
from tilewright.tuner.final import Final, FinalResult
from tilewright.tuner.observer import Observer
from tilewright.tuner.paired import MOST

EARLIER = Schedule("t", 1, (("x", 100),), ())
DEFAULT = Schedule("t", 1, (("x", 200),), ())


def schedule(n: int) -> Schedule:
    return Schedule("t", 1, (("x", n),), ())


class Bench(Observer):
    """Builder, runner, database and watcher at once: times are by schedule, and every comparison is remembered.

    ``width``: half of an interval. ``slower``: times of the last batch over what they were. ``broken``: schedules that
    fail their check. ``seconds``: on the clock, by which every session takes one.
    """

    def __init__(self, times: dict[Schedule, float], width: float, stored: bool, slower: float) -> None:
        self.times, self.width, self.slower = times, width, slower
        self.compared: list[tuple[Schedule, Schedule]] = []
        self.stages: list[str] = []
        self.broken: set[Schedule] = set()
        self.seconds = 0.0
        self.alone: list[Schedule] = []
        self.kept: list[Any] = []
        self.warnings: list[str] = []
        champion = SimpleNamespace(schedule=EARLIER, template_version=1, run_id="earlier", trial_number=3)
        self.champion = champion if stored else None

    def submit(self, candidates: list[Candidate], alone: bool = False) -> Future[list[Any]]:
        if alone:
            self.alone += [c.schedule for c in candidates]
        future: Future[list[Any]] = Future()
        future.set_result([_artifact() for _ in candidates])
        return future

    def wait(self, future: Future[list[Any]]) -> list[Any]:
        return future.result()

    def build(self, candidates: list[Candidate]) -> list[Any]:
        return [_artifact() for _ in candidates]

    def verify(self, task: object, item: Any) -> Failure | None:
        return Failure(FailureKind.WRONG_RESULT, "wrong") if item[0].schedule in self.broken else None

    def compare(self, task: object, one: Any, other: Any, sessions: int) -> PairedComparison:
        a, b = one[0].schedule, other[0].schedule
        self.compared.append((a, b))
        self.seconds += sessions
        ratio = self.times[a] / self.times[b]
        either = (ratio - self.width, ratio + self.width)
        return PairedComparison((either * sessions)[:sessions], (1.0,) * sessions, (self.times[a], self.times[b]))

    def run(self, task: object, items: list[Any]) -> list[Measurement]:
        return [Measurement(self.slower * self.times[c.schedule], 0.0, 1) for c, _ in items]

    def best(self, task: object, model: str) -> Any:
        return self.champion

    def set_kernels(self, task: object, model: str, run: str, kernels: list[Any], artifacts: list[Any]) -> None:
        self.kept = kernels

    def warning(self, message: str) -> None:
        self.warnings.append(message)

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def fetch(self, artifact: object) -> None:
        pass


def _artifact(name: str = "sha") -> Artifact:
    return Artifact("", name, cast(Any, None), cast(Any, None), "", (), "", 0.0, True, ())


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "template_version", lambda _database, _stored: 1)
    monkeypatch.setattr(module.StoredArtifact, "read", lambda artifact, source: None)
    monkeypatch.setattr(module.templates, "full_source", lambda candidate: "")
    monkeypatch.setattr(Final, "_stored", lambda self, f, seconds, peak: f.candidate.schedule)

    def go(
        times: list[float], earlier: float | None = None, width: float = 0.0, slower: float = 1.0, default: Any = 2.0,
        seconds: float | None = None, broken: tuple[Schedule, ...] = (),
    ) -> tuple[Bench, FinalResult]:  # fmt: skip
        """``default``: seconds of the default schedule, its trial's failure, or ``None`` where it was not tried."""
        trials = {schedule(n): t for n, t in enumerate(times)}
        known = trials | {EARLIER: earlier or 0.0, DEFAULT: default if isinstance(default, float) else 2.0}
        bench = Bench(known, width, earlier is not None, slower)
        bench.broken = set(broken)
        monkeypatch.setattr(module.time, "monotonic", lambda: bench.seconds)
        outcomes: dict[Schedule, Any] = {s: Measurement(t, 0.0, 1) for s, t in trials.items()}
        if default is not None:
            outcomes[DEFAULT] = Measurement(default, 0.0, 1) if isinstance(default, float) else default
        history = [TrialRecord(n, Proposal(s), o) for n, (s, o) in enumerate(outcomes.items())]
        every = cast(Any, bench)
        final = Final(cast(Any, None), DEFAULT, "run", "model", every, every, every, bench)
        return bench, final.play(history, 8, seconds=seconds)

    return go


def test_the_fastest_are_built_alone_and_stored_in_their_order(play: Any) -> None:
    bench, result = play([1.3, 1.0, 1.2, 1.1, 1.4])
    assert list(result.ranked) == bench.kept == [schedule(1), schedule(3), schedule(2)]
    assert (result.kept, result.default) == (False, False)
    assert {s.values["x"] for s in bench.alone} == {1, 2, 3, 200}


@pytest.mark.parametrize(("default", "width", "stays"), [
    (1.1, 0.0, False), (1.1, 0.05, False), (1.04, 0.05, True), (1.005, 0.0, True), (1.0, 0.0, True), (0.9, 0.0, True),
])  # fmt: skip
def test_the_default_schedule_yields_to_a_whole_interval_only(
    play: Any, default: float, width: float, stays: bool
) -> None:
    bench, result = play([1.0, 1.2], width=width, default=default)
    assert result.default == stays
    assert (result.ranked[0] == DEFAULT) == stays
    assert ("the default schedule is the best found" in bench.stages) == stays
    ratio = result.paired["challenger"].ratio * default if stays else result.paired["default"].ratio / default
    assert ratio == pytest.approx(1.0, rel=0.01)
    assert set(result.paired) == {"challenger" if stays else "default"}


def test_the_default_schedule_takes_part_where_it_was_not_tried(play: Any) -> None:
    _, result = play([1.0, 1.2], default=None)
    assert set(result.ranked) == {schedule(0), schedule(1), DEFAULT}
    assert result.paired["default"].ratio == pytest.approx(2.0)
    lost = Failure(FailureKind.DEVICE_LOST, "void")
    assert play([1.0], default=lost)[1].paired["default"].ratio == pytest.approx(2.0)


@pytest.mark.parametrize("trial", [True, False])
def test_a_default_schedule_that_fails_is_absent(play: Any, trial: bool) -> None:
    wrong = Failure(FailureKind.WRONG_RESULT, "wrong")
    bench, result = play([1.0, 1.2], default=wrong) if trial else play([1.0, 1.2], broken=(DEFAULT,))
    assert result.ranked == (schedule(0), schedule(1))
    assert (result.default, dict(result.paired)) == (False, {})
    assert len(bench.warnings) == (not trial)


@pytest.mark.parametrize(("earlier", "width", "kept"), [
    (1.1, 0.05, False), (1.04, 0.05, True), (1.0, 0.0, True), (0.9, 0.05, True),
])  # fmt: skip
def test_a_stored_champion_yields_to_a_whole_interval_only(play: Any, earlier: float, width: float, kept: bool) -> None:
    _, result = play([1.0, 1.2], earlier, width, default=1.4)
    assert result.kept == kept
    assert (result.ranked[0] == EARLIER) == kept
    assert set(result.ranked) == {EARLIER, schedule(0), schedule(1)}
    assert result.paired["earlier"].ratio == pytest.approx(earlier, rel=0.01)
    assert result.paired["default"].ratio == pytest.approx(1.4 / (earlier if kept else 1.0), rel=0.01)


@pytest.mark.parametrize(("earlier", "default", "best"), [
    (1.5, 1.0, DEFAULT), (1.0, 1.5, EARLIER), (1.005, 1.0, EARLIER), (1.5, 1.4, schedule(0)), (1.5, 1.205, DEFAULT),
])  # fmt: skip
def test_a_challenger_must_beat_both_and_else_the_default_may_replace_the_stored(
    play: Any, earlier: float, default: float, best: Schedule
) -> None:
    _, result = play([1.2], earlier, default=default)
    assert result.ranked[0] == best
    assert (result.kept, result.default) == (best == EARLIER, best == DEFAULT)
    if best == EARLIER:
        assert result.paired["default"].ratio == pytest.approx(default / earlier)


def test_a_winner_wins_again_as_it_was_built_for_its_trial(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "build", lambda self, candidates: [_artifact("twin") for _ in candidates])
    compare = Bench.compare

    def unlucky(self: Bench, task: object, one: Any, other: Any, sessions: int) -> PairedComparison:
        found = compare(self, task, one, other, sessions)
        return found.swapped() if one[1].sha256 == "twin" else found

    assert not play([1.0], default=1.08)[1].default
    monkeypatch.setattr(Bench, "compare", unlucky)
    assert play([1.0], default=1.08)[1].default
    assert not play([1.0], default=1.2)[1].default  # the trials said by how much


def test_what_is_undecided_goes_on_until_the_time_is_over(play: Any) -> None:
    bench, result = play([1.0], width=0.1, default=1.05)
    assert (bench.seconds, result.default) == (MOST, True)
    bench, result = play([1.0], width=0.1, default=1.05, seconds=SESSIONS + 1.0)
    assert (bench.seconds, result.default) == (SESSIONS, True)


def test_without_time_a_final_compares_until_intervals_have_ends(play: Any) -> None:
    bench, result = play([1.0], default=1.08, seconds=0.0)
    assert (bench.seconds, result.default) == (2 * SESSIONS, False)  # each of the two builds of a kernel
    bench, result = play([1.0], default=1.2, seconds=0.0)
    assert (bench.seconds, result.default) == (SESSIONS, False)
    bench, result = play([1.0], width=0.1, default=1.05, seconds=0.0)
    assert (bench.seconds, result.default) == (SESSIONS, True)
    assert not play([1.0], width=0.5, default=1.6, seconds=0.0)[1].default  # trials say it clearly
    bench, result = play([1.0, 1.3, 1.2], default=1.6, seconds=0.0)
    assert result.ranked[0] == schedule(0)
    assert {pair for pair in bench.compared if DEFAULT not in pair} == set()


def test_what_is_clearly_slower_and_slow_is_not_compared(play: Any) -> None:
    bench, result = play([1.0, 2.0], default=3.0)
    assert bench.compared == []
    assert result.ranked == (schedule(0), schedule(1), DEFAULT)
    assert play([0.01, 0.02], default=0.03)[1].paired["default"].ratio == pytest.approx(3.0)


def test_nothing_to_rank(play: Any) -> None:
    _, result = play([], default=Failure(FailureKind.CRASH, ""))
    assert result == FinalResult((), False)


@pytest.mark.parametrize("slower", [1.02, 1.2, 0.8])
def test_a_final_measures_how_the_machine_changed(play: Any, slower: float) -> None:
    bench, result = play([1.0, 1.1, 1.2], slower=slower)
    assert result.drift == pytest.approx(slower)
    assert not bench.warnings
