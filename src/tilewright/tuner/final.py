"""The final of a run: the fastest kernels race, and the first of them are built alone, checked again, and stored.

Times of different moments are never compared: a kernel beats another only in a paired comparison on the
device, and the stored kernel of an earlier run is replaced only by one that beats it so.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from tilewright.building.builder import Builder, Built
from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    Measurement,
    Outcome,
    Schedule,
    Task,
    TrialRecord,
)
from tilewright.database import Database, StoredArtifact, StoredKernel
from tilewright.database.records import RANKS
from tilewright.kernels import templates
from tilewright.measure.measuring import Runner
from tilewright.measure.timing import PairedComparison
from tilewright.tuner.observer import Observer
from tilewright.tuner.race import ROUNDS, race
from tilewright.tuner.user_kernel import template_version


@dataclass(frozen=True)
class Finalist:
    """A kernel in the final: built and verified, with the trial or stored kernel it stems from."""

    candidate: Candidate
    artifact: Artifact
    record: TrialRecord | None
    stored: StoredKernel | None = None

    @property
    def item(self) -> tuple[Candidate, Artifact]:
        return self.candidate, self.artifact


Entry = tuple[Schedule, TrialRecord | None]
"""A schedule that takes part, with the trial in which it was timed, if it was."""

CLEARLY = 1.5
"""Trials whose times are this far apart in one run need no comparison: both were paired with the run's incumbents."""


DRIFT = 0.05
"""Relative change of the machine during a run that a user should know of."""
SLOWEST = 0.1
"""Seconds of a call from which on the default schedule is not timed again beside the winner: it would take long."""


@dataclass(frozen=True)
class FinalResult:
    """The ranking, best first; ``kept`` when the stored champion stays at its head.

    ``drift``: how many times as long the ranked kernels of this run take now as in their trials; ``None``: not known.
    ``spread``: of the winner's samples, as a measurement has it. ``paired``: times of something else over the best of
    this run (``earlier``: the stored champion) or over the winner (``default``: the default schedule), timed in turn.
    """

    ranked: tuple[StoredKernel, ...]
    kept: bool
    drift: float | None = None
    spread: float | None = None
    paired: Mapping[str, PairedComparison] = field(default_factory=dict)


def contenders(history: Sequence[TrialRecord], count: int) -> list[TrialRecord]:
    """The fastest trials, at most two per structure, so that the final is between different kernels."""
    out: list[TrialRecord] = []
    per: dict[str, int] = {}
    for r in sorted((r for r in history if r.seconds is not None), key=lambda r: r.seconds or 0.0):
        key = r.schedule.structure_key
        if per.get(key, 0) < 2:
            per[key] = per.get(key, 0) + 1
            out.append(r)
        if len(out) == count:
            break
    return out


def _drift(top: Sequence[Finalist], outcomes: Sequence[Outcome]) -> float | None:
    """The median of final times over trials' times."""
    ratios = [
        o.seconds / f.record.seconds
        for f, o in zip(top, outcomes, strict=True)
        if isinstance(o, Measurement) and f.record is not None and f.record.seconds
    ]
    return statistics.median(ratios) if ratios else None


def _clearly_slower(entrant: Finalist, other: Finalist) -> bool:
    one, two = entrant.record, other.record
    if one is None or two is None or one.seconds is None or two.seconds is None:
        return False
    return one.seconds > CLEARLY * two.seconds


@dataclass(frozen=True)
class Final:
    """Holds what the final needs; :meth:`play` plays it and stores the ranking."""

    task: Task
    run_id: str
    device_model: str
    database: Database
    builder: Builder
    runner: Runner
    observer: Observer

    def play(
        self, history: Sequence[TrialRecord], count: int = 5, peak_flops: float | None = None,
        untried: Sequence[Schedule] = (),
    ) -> FinalResult:  # fmt: skip
        """The final among ``count`` trials, the ``untried`` and the stored champion; stores ranks 1 to 3.

        ``peak_flops``: what the device's cores reach at most, for the share of it (FLOP/s).
        """
        stored = self._champion()
        entering: list[Entry] = [(r.schedule, r) for r in contenders(history, count)]
        entering += [(s, None) for s in untried]
        entering = [e for e in entering if stored is None or e[0].key != stored.schedule.key]
        alone: dict[str, Future[list[Built]]] = {}

        def build(schedule: Schedule) -> Future[list[Built]]:
            """As it is stored for good, in a library of its own."""
            if schedule.key not in alone:
                alone[schedule.key] = self.builder.submit([Candidate(self.task, schedule)], alone=True)
            return alone[schedule.key]

        if stored is not None:
            build(stored.schedule)
        ranked = entering
        for ranked in self._race(entering):
            for schedule, _ in ranked[:RANKS]:
                build(schedule)
        top: list[Finalist] = []
        for schedule, record in ranked:
            if len(top) < RANKS and (found := self._enter(schedule, build(schedule), record)) is not None:
                top.append(found)
        champion = self._enter(stored.schedule, build(stored.schedule), None, stored) if stored else None
        paired: dict[str, PairedComparison] = {}
        if champion is not None:
            place = 0
            for f in top:
                against = self._compare(f, champion)
                paired.setdefault("earlier", against.turned())
                # A stored champion is replaced only when the whole interval says so.
                if not against.challenger_wins:
                    break
                place += 1
            top.insert(place, champion)
            del top[RANKS:]
        if not top:
            return FinalResult((), False)
        first = next((r for r in history if r.proposal.origin == "default"), None)
        beside = None if first is None else self._against_default(first, top[0])
        if beside is not None:
            paired["default"] = beside
        # One batch gives all of them times on one scale, the winner's of now: the trials' scale is that of long ago.
        outcomes = self.runner.run(self.task, [f.item for f in top])
        timed = [(f, o) for f, o in zip(top, outcomes, strict=True) if isinstance(o, Measurement)]
        kernels = [self._stored(f, o.seconds, peak_flops) for f, o in timed]
        for f in top:
            self.builder.fetch(f.artifact)
        artifacts = [StoredArtifact.read(f.artifact, templates.full_source(f.candidate)) for f in top]
        self.database.set_kernels(self.task, self.device_model, self.run_id, kernels, artifacts)
        drift = _drift(top, outcomes)
        if drift is not None and abs(drift - 1) > DRIFT:
            self.observer.warning(
                f"kernels take {drift:.2f} times as long as when this run began: the machine changed meanwhile. Trials "
                "are compared in pairs, and the final was timed anew"
            )
        spread = timed[0][1].spread if timed and timed[0][1].samples > 1 else None
        return FinalResult(tuple(kernels), top[0] is champion, drift, spread, paired)

    def _champion(self) -> StoredKernel | None:
        """The stored kernel of an earlier run, if its template still is what it was."""
        stored = self.database.best(self.task, self.device_model)
        if stored is None or template_version(self.database, stored) != stored.template_version:
            return None
        return stored

    def _race(self, entering: Sequence[Entry]) -> Iterator[list[Entry]]:
        """The run's own, as they were built for their trials: after each round all of them, the fastest first."""
        built = self.builder.submit([Candidate(self.task, s) for s, _ in entering])
        field = [
            found for n, (schedule, record) in enumerate(entering)
            if (found := self._enter(schedule, built, record, place=n)) is not None
        ]  # fmt: skip

        def ratio(one: Finalist, other: Finalist, pairs: int) -> float:
            return CLEARLY if _clearly_slower(one, other) else self._compare(one, other, pairs).ratio

        if len(field) > 1:
            self.observer.stage(f"final between {len(field)} kernels")
        yield [(f.candidate.schedule, f.record) for f in field]
        for order in race(field, ratio):
            yield [(f.candidate.schedule, f.record) for f in order]

    def _enter(
        self, schedule: Schedule, build: Future[list[Built]], record: TrialRecord | None,
        stored: StoredKernel | None = None, place: int = 0,
    ) -> Finalist | None:  # fmt: skip
        candidate = Candidate(self.task, schedule)
        built = self.builder.wait(build)[place]
        problem = built if isinstance(built, Failure) else self.runner.verify(self.task, (candidate, built))
        if problem is not None:
            self.observer.warning(f"a finalist failed its second check ({problem.kind.value}): {problem.message}")
            return None
        assert isinstance(built, Artifact)
        return Finalist(candidate, built, record, stored)

    def _against_default(self, first: TrialRecord, winner: Finalist) -> PairedComparison | None:
        """The default schedule beside the winner; ``None`` where it failed, won, or would take long."""
        if first.seconds is None or first.seconds > SLOWEST or first.schedule == winner.candidate.schedule:
            return None
        candidate = Candidate(self.task, first.schedule)
        built = self.builder.build([candidate])[0]
        if isinstance(built, Failure):
            return None
        return self.runner.compare(self.task, (candidate, built), winner.item, ROUNDS[1])

    def _compare(self, one: Finalist, other: Finalist, pairs: int = ROUNDS[-1]) -> PairedComparison:
        return self.runner.compare(self.task, one.item, other.item, pairs)

    def _stored(self, f: Finalist, seconds: float, peak_flops: float | None) -> StoredKernel:
        flops = self.task.workload.flops  # none of what only moves elements
        share = flops / seconds / peak_flops if peak_flops and flops else None
        old = f.stored
        return StoredKernel(
            task=self.task,
            device_model=self.device_model,
            rank=1,
            schedule=f.candidate.schedule,
            program=f.artifact.program,
            seconds=seconds,
            artifact_sha256=f.artifact.sha256,
            peak_fraction=share,
            run_id=old.run_id if old else self.run_id,
            trial_number=f.record.number if f.record else old.trial_number if old else None,
            compiler=f.artifact.compiler,
        )
