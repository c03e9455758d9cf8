"""The final of a run: the fastest kernels are built alone, checked again, and paired with each other.

Times of different moments are never compared: a kernel beats another only in a paired comparison on the
device, and the stored kernel of an earlier run is replaced only by one that beats it so.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from tilewright.building.builder import Builder, Built
from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    Measurement,
    Schedule,
    Task,
    TrialRecord,
)
from tilewright.database import Database, StoredArtifact, StoredKernel
from tilewright.database.records import RANKS
from tilewright.kernels import templates
from tilewright.measure.measuring import Runner
from tilewright.tuner.observer import Observer
from tilewright.tuner.user_kernel import template_version


@dataclass(frozen=True)
class Finalist:
    """A kernel in the final: rebuilt alone and verified, with the trial or stored kernel it stems from."""

    candidate: Candidate
    artifact: Artifact
    record: TrialRecord | None
    stored: StoredKernel | None = None

    @property
    def item(self) -> tuple[Candidate, Artifact]:
        return self.candidate, self.artifact


CLEARLY = 1.5
"""Trials whose times are this far apart in one run need no comparison: both were paired with the run's incumbents."""


@dataclass(frozen=True)
class FinalResult:
    """The ranking, best first; ``kept`` when the stored champion stays at its head."""

    ranked: tuple[StoredKernel, ...]
    kept: bool


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
        entering: list[tuple[Schedule, TrialRecord | None]] = [(r.schedule, r) for r in contenders(history, count)]
        entering += [(s, None) for s in untried]
        own = [e for e in entering if stored is None or e[0].key != stored.schedule.key]
        # All at once: compilers work side by side, and while others are compared.
        schedules = [*([stored.schedule] if stored else []), *(s for s, _ in own)]
        builds = [self.builder.submit([Candidate(self.task, s)], alone=True) for s in schedules]
        champion = self._enter(stored.schedule, builds.pop(0), None, stored) if stored else None
        ladder = [champion] if champion else []
        for n, ((schedule, record), build) in enumerate(zip(own, builds, strict=True)):
            self.observer.stage(f"final {n + 1}/{len(own)}")
            entrant = self._enter(schedule, build, record)
            if entrant is not None:
                self._insert(ladder, entrant)
        top = ladder[:RANKS]
        if not top:
            return FinalResult((), False)
        # One batch gives all of them times on one scale, the winner's.
        outcomes = self.runner.run(self.task, [f.item for f in top], top[0].item)
        ranked = [
            self._stored(f, o.seconds, peak_flops)
            for f, o in zip(top, outcomes, strict=True)
            if isinstance(o, Measurement)
        ]
        for f in top:
            self.builder.fetch(f.artifact)
        artifacts = [StoredArtifact.read(f.artifact, templates.full_source(f.candidate)) for f in top]
        self.database.set_kernels(self.task, self.device_model, self.run_id, ranked, artifacts)
        return FinalResult(tuple(ranked), top[0] is champion)

    def _champion(self) -> StoredKernel | None:
        """The stored kernel of an earlier run, if its template still is what it was."""
        stored = self.database.best(self.task, self.device_model)
        if stored is None or template_version(self.database, stored) != stored.template_version:
            return None
        return stored

    def _enter(
        self, schedule: Schedule, build: Future[list[Built]], record: TrialRecord | None,
        stored: StoredKernel | None = None,
    ) -> Finalist | None:  # fmt: skip
        candidate = Candidate(self.task, schedule)
        [built] = build.result()
        problem = built if isinstance(built, Failure) else self.runner.verify(self.task, (candidate, built))
        if problem is not None:
            self.observer.warning(f"a finalist failed its second check ({problem.kind.value}): {problem.message}")
            return None
        assert isinstance(built, Artifact)
        return Finalist(candidate, built, record, stored)

    def _insert(self, ladder: list[Finalist], entrant: Finalist) -> None:
        """Put the entrant above the first kernel that it beats, from the top; drop it below rank 3."""
        for place, other in enumerate(ladder[:RANKS]):
            if _clearly_slower(entrant, other):
                continue
            paired = self.runner.compare(self.task, entrant.item, other.item)
            # A stored champion is replaced only when the whole interval says so.
            if paired.challenger_wins if other.stored else paired.ratio < 1.0:
                ladder.insert(place, entrant)
                return
        ladder.append(entrant)

    def _stored(self, f: Finalist, seconds: float, peak_flops: float | None) -> StoredKernel:
        share = self.task.workload.flops / seconds / peak_flops if peak_flops else None
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
