"""The final: who is compared, and what replaces the stored kernel of an earlier run."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tilewright.tuner.final as module
from tilewright.core import Artifact, Candidate, Measurement, Proposal, Schedule, TrialRecord
from tilewright.measure.timing import PairedComparison
from tilewright.tuner.final import Final, FinalResult
from tilewright.tuner.observer import Observer

EARLIER = Schedule("t", 1, (("x", 100),), ())


def schedule(n: int) -> Schedule:
    return Schedule("t", 1, (("x", n),), ())


class Bench(Observer):
    """Builder, runner, database and watcher at once: times are by schedule, and every comparison is remembered.

    ``width``: half of an interval. ``slower``: times of the last batch over what they were.
    """

    def __init__(self, times: dict[Schedule, float], width: float, stored: bool, slower: float) -> None:
        self.times, self.width, self.slower = times, width, slower
        self.compared: list[tuple[Schedule, Schedule]] = []
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

    def verify(self, task: object, item: object) -> None:
        return None

    def compare(self, task: object, one: Any, other: Any, pairs: int) -> PairedComparison:
        a, b = one[0].schedule, other[0].schedule
        self.compared.append((a, b))
        ratio = self.times[a] / self.times[b]
        return PairedComparison(ratio, ratio - self.width, ratio + self.width, 0, pairs)

    def run(self, task: object, items: list[Any]) -> list[Measurement]:
        return [Measurement(self.slower * self.times[c.schedule], 0.0, 1) for c, _ in items]

    def best(self, task: object, model: str) -> Any:
        return self.champion

    def set_kernels(self, task: object, model: str, run: str, kernels: list[Any], artifacts: list[Any]) -> None:
        self.kept = kernels

    def warning(self, message: str) -> None:
        self.warnings.append(message)

    def fetch(self, artifact: object) -> None:
        pass


def _artifact() -> Artifact:
    return Artifact("", "sha", cast(Any, None), cast(Any, None), "", (), "", 0.0, True, ())


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "template_version", lambda _database, _stored: 1)
    monkeypatch.setattr(module.StoredArtifact, "read", lambda artifact, source: None)
    monkeypatch.setattr(module.templates, "full_source", lambda candidate: "")
    monkeypatch.setattr(Final, "_stored", lambda self, f, seconds, peak: f.candidate.schedule)

    def go(
        times: list[float], earlier: float | None = None, width: float = 0.01, slower: float = 1.0
    ) -> tuple[Bench, FinalResult]:
        known = {schedule(n): t for n, t in enumerate(times)} | {EARLIER: earlier or 0.0}
        bench = Bench(known, width, earlier is not None, slower)
        history = [TrialRecord(n, Proposal(schedule(n)), Measurement(t, 0.0, 1)) for n, t in enumerate(times)]
        every = cast(Any, bench)
        final = Final(cast(Any, None), "run", "model", every, every, every, bench)
        return bench, final.play(history, 8)

    return go


def test_the_three_fastest_are_built_alone_and_stored_in_their_order(play: Any) -> None:
    bench, result = play([1.3, 1.0, 1.2, 1.1, 1.4])
    assert list(result.ranked) == bench.kept == [schedule(1), schedule(3), schedule(2)]
    assert not result.kept
    assert sorted(s.values["x"] for s in bench.alone) == [1, 2, 3]


@pytest.mark.parametrize(("earlier", "width", "kept"), [
    (1.1, 0.05, False), (1.03, 0.05, True), (1.0, 0.0, True), (0.9, 0.05, True),
])  # fmt: skip
def test_a_stored_champion_yields_to_a_whole_interval_only(play: Any, earlier: float, width: float, kept: bool) -> None:
    _, result = play([1.0, 1.2], earlier, width)
    assert result.kept == kept
    assert (result.ranked[0] == EARLIER) == kept
    assert set(result.ranked) == {EARLIER, schedule(0), schedule(1)}


def test_a_stored_champion_takes_its_place_among_the_ranks(play: Any) -> None:
    _, result = play([1.0, 1.1, 1.3, 1.4], 1.2)
    assert result.ranked == (schedule(0), schedule(1), EARLIER)


def test_what_is_clearly_slower_is_not_compared(play: Any) -> None:
    bench, result = play([1.0, 2.0])
    assert bench.compared == []
    assert result.ranked == (schedule(0), schedule(1))


def test_nothing_to_rank(play: Any) -> None:
    _, result = play([])
    assert result == FinalResult((), False)


@pytest.mark.parametrize(("slower", "said"), [(1.02, False), (1.2, True), (0.8, True)])
def test_a_machine_that_changed_is_told_of(play: Any, slower: float, said: bool) -> None:
    bench, result = play([1.0, 1.1, 1.2], slower=slower)
    assert result.drift == pytest.approx(slower)
    assert any("the machine changed" in w for w in bench.warnings) == said
