"""The final of a run: the fastest kernels race, and the leaders are built alone, checked again and stored.

The final never compares times of different moments: a kernel beats another only in a paired comparison on the device.
The default schedule and the stored kernel of an earlier run take part in every final. The winner of the race replaces
them only if it beats both (:mod:`~tilewright.tuner.paired`).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from tilewright.building.builder import Builder, Built
from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    Schedule,
    Task,
    TrialRecord,
)
from tilewright.database import Database, StoredArtifact, StoredKernel
from tilewright.database.records import RANKS
from tilewright.kernels import templates
from tilewright.measure.measuring import Item, Runner
from tilewright.measure.timing import PairedComparison
from tilewright.tuner.observer import Observer
from tilewright.tuner.paired import best_of, decide, race
from tilewright.tuner.result import DEFAULT_IS_BEST
from tilewright.tuner.user_kernel import template_version


@dataclass(frozen=True)
class Finalist:
    """A built and verified kernel in the final, with its trial or the stored kernel."""

    candidate: Candidate
    artifact: Artifact
    record: TrialRecord | None
    stored: StoredKernel | None = None

    @property
    def item(self) -> Item:
        return self.candidate, self.artifact


Entry = tuple[Schedule, TrialRecord | None]
"""A schedule that takes part in the final, and the trial that timed it (``None``: no trial)."""

CLEARLY = 1.5
"""Ratio of trial times above which no comparison is needed: both trials were paired with the run's incumbents."""

FAR = 1.1
"""Ratio of trial times above which the libraries that were built for trials are not compared again."""

SLOWEST = 0.1
"""Seconds of a call. Above this time a clearly slower kernel is not compared: the comparison would take long."""
CHALLENGER = "challenger"
"""Name of the winner of the race."""
RACE = 0.5
"""Share of a final's seconds after which trial times decide the race: the rest is for the decision."""


@dataclass(frozen=True)
class FinalResult:
    """The ranking, best first. ``kept``: an earlier run's kernel won. ``default``: the default schedule won.

    ``drift``: final times over trial times of this run's ranked kernels, the median; ``None``: not known.
    ``spread``: of the winner's samples, as in a measurement. ``paired``: ratios of times measured alternately, by name.
    ``default``: the default schedule's time over the winner's, if another schedule won. ``challenger``: the time of the
    fastest other schedule of this run over the default's, if the default won. ``earlier``: the earlier run's kernel
    over the best of this run.
    """

    ranked: tuple[StoredKernel, ...]
    kept: bool
    default: bool = False
    drift: float | None = None
    spread: float | None = None
    paired: Mapping[str, PairedComparison] = field(default_factory=dict)


def contenders(history: Sequence[TrialRecord], count: int) -> list[TrialRecord]:
    """The fastest trials, at most two per structure, so that different kernels meet in the final."""
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
    """Median ratio of final times to trial times."""
    ratios = [
        o.seconds / f.record.seconds
        for f, o in zip(top, outcomes, strict=True)
        if isinstance(o, Measurement) and f.record is not None and f.record.seconds
    ]
    return statistics.median(ratios) if ratios else None


def _failed(record: TrialRecord | None) -> bool:
    """Whether a trial failed because of its kernel, not because the device was lost."""
    outcome = record and record.outcome
    return isinstance(outcome, Failure) and outcome.kind is not FailureKind.DEVICE_LOST


def _paired(
    compared: Mapping[tuple[str, str], PairedComparison], best: str, default: str | None
) -> dict[str, PairedComparison]:
    """The ``paired`` of :class:`FinalResult`, from the names of the winner (``best``) and of the default schedule."""
    found: dict[str, PairedComparison] = {}
    for (one, other), comparison in compared.items():
        if other == "earlier":
            found.setdefault("earlier", comparison.swapped())
        if (one, other) == (CHALLENGER, default):
            found |= {"default": comparison.swapped()} if best == one else {CHALLENGER: comparison}
        if (one, other) == (default, best):
            found["default"] = comparison
    return found


def _by_trials(one: Finalist, other: Finalist) -> float:
    """Ratio of the times of two trials of this run; 1 if either kernel has no trial time."""
    a, b = one.record and one.record.seconds, other.record and other.record.seconds
    return a / b if a and b else 1.0


@dataclass(frozen=True)
class Final:
    """One final: the task and the tools. :meth:`play` runs the final and stores the ranking."""

    task: Task
    default: Schedule
    run_id: str
    device_model: str
    database: Database
    builder: Builder
    runner: Runner
    observer: Observer

    def play(
        self, history: Sequence[TrialRecord], count: int = 5, peak_flops: float | None = None,
        untried: Sequence[Schedule] = (), seconds: float | None = None,
    ) -> FinalResult:  # fmt: skip
        """Run the final among ``count`` trials, ``untried``, the default schedule and the stored kernel. Stores ranks
        1 to 3.

        ``peak_flops``: peak rate of the device in FLOP/s, for the stored share of the peak. ``seconds``: time limit of
        the comparisons. Undecided comparisons then stay undecided.
        """
        began, length = time.monotonic(), math.inf if seconds is None else seconds
        stored = self._champion()
        first = next((r for r in history if r.schedule == self.default), None)
        incumbents: dict[str, tuple[Schedule, TrialRecord | None, StoredKernel | None]] = {}
        if stored is not None:
            incumbents["earlier"] = stored.schedule, None, stored
        if not _failed(first) and (stored is None or stored.schedule.key != self.default.key):
            incumbents["default"] = self.default, first, None
        known = {schedule.key for schedule, _, _ in incumbents.values()}
        entering: list[Entry] = [
            (r.schedule, r) for r in contenders([r for r in history if r.schedule.key not in known], count)
        ]
        entering += [(s, None) for s in untried if s.key not in known]
        alone: dict[str, Future[list[Built]]] = {}

        def build(schedule: Schedule) -> Future[list[Built]]:
            """Build the schedule in a library of its own, as it is stored."""
            if schedule.key not in alone:
                alone[schedule.key] = self.builder.submit([Candidate(self.task, schedule)], alone=True)
            return alone[schedule.key]

        for schedule, _, _ in incumbents.values():
            build(schedule)
        if len(entering) + len(incumbents) > 1:
            self.observer.stage(f"final between {len(entering) + len(incumbents)} kernels")
        ranked = entering
        for ranked in self._race(entering, began + RACE * length):
            for schedule, _ in ranked[:RANKS]:
                build(schedule)
        top: list[Finalist] = []
        for schedule, record in ranked:
            if len(top) < RANKS and (found := self._enter(schedule, build(schedule), record)) is not None:
                top.append(found)
        entered = {
            name: found for name, (schedule, record, old) in incumbents.items()
            if (found := self._enter(schedule, build(schedule), record, old)) is not None
        }  # fmt: skip
        kernels = entered | ({CHALLENGER: top[0]} if top else {})
        compared: dict[tuple[str, str], PairedComparison] = {}

        def wins(one: str, other: str) -> bool:
            a, b = kernels[one], kernels[other]
            ratio = _by_trials(b, a)
            clear = ratio > CLEARLY
            if clear and b.record is not None and (b.record.seconds or 0.0) > SLOWEST:
                return True
            # Where the linker places code changes times too: a winner must win again in the library of its trial,
            # unless its trial was far faster.
            builds = [(a, b)]
            if ratio <= FAR:
                builds.append((self._twin(a), self._twin(b)))
            for x, y in builds:
                found = decide(partial(self._compare, x, y), began + length)
                compared[one, other] = compared[one, other] + found if (one, other) in compared else found
                if not found.challenger_wins and not (clear and not found.decided):
                    return False
            return True

        best = best_of(CHALLENGER if top else None, list(entered), wins)
        if best is None:
            return FinalResult((), False)
        others = [f for f in (*top, *entered.values()) if f is not kernels[best]]
        result = self._ranked(kernels[best], others, peak_flops)
        default = next((name for name, f in entered.items() if f.candidate.schedule.key == self.default.key), None)
        if best == default:
            self.observer.stage(DEFAULT_IS_BEST)
        return replace(result, default=best == default, paired=_paired(compared, best, default))

    def _ranked(self, best: Finalist, others: Sequence[Finalist], peak_flops: float | None) -> FinalResult:
        """Time all kernels in one batch, and store the best with the fastest of ``others`` behind it."""
        finalists = [best, *others]
        # One batch gives all kernels times on one scale: trial times are of another moment.
        outcomes = self.runner.run(self.task, [f.item for f in finalists])
        timed = [(f, o) for f, o in zip(finalists, outcomes, strict=True) if isinstance(o, Measurement)]
        timed = sorted(timed, key=lambda found: (found[0] is not best, found[1].seconds))[:RANKS]
        kernels = [self._stored(f, o.seconds, peak_flops) for f, o in timed]
        for f, _ in timed:
            self.builder.fetch(f.artifact)
        artifacts = [StoredArtifact.read(f.artifact, templates.full_source(f.candidate)) for f, _ in timed]
        self.database.set_kernels(self.task, self.device_model, self.run_id, kernels, artifacts)
        spread = timed[0][1].spread if timed and timed[0][1].samples > 1 else None
        return FinalResult(tuple(kernels), best.stored is not None, drift=_drift(finalists, outcomes), spread=spread)

    def _champion(self) -> StoredKernel | None:
        """The stored kernel of an earlier run; ``None`` if its template has another version today."""
        stored = self.database.best(self.task, self.device_model)
        if stored is None or template_version(self.database, stored) != stored.template_version:
            return None
        return stored

    def _race(self, entering: Sequence[Entry], until: float) -> Iterator[list[Entry]]:
        """Race this run's kernels, as built for their trials. Yields all after each round, fastest first."""
        built = self.builder.submit([Candidate(self.task, s) for s, _ in entering])
        field = [
            found for n, (schedule, record) in enumerate(entering)
            if (found := self._enter(schedule, built, record, place=n)) is not None
        ]  # fmt: skip

        def ratio(one: Finalist, other: Finalist, sessions: int) -> float:
            said = _by_trials(one, other)
            sure = said > CLEARLY or time.monotonic() >= until
            return said if sure else self._compare(one, other, sessions).ratio

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

    def _twin(self, f: Finalist) -> Finalist:
        """The kernel built in another library; unchanged if that build fails."""
        built = self.builder.build([f.candidate])[0]
        return replace(f, artifact=built) if isinstance(built, Artifact) else f

    def _compare(self, one: Finalist, other: Finalist, sessions: int) -> PairedComparison:
        return self.runner.compare(self.task, one.item, other.item, sessions)

    def _stored(self, f: Finalist, seconds: float, peak_flops: float | None) -> StoredKernel:
        flops = self.task.workload.flops  # 0 for an operator that only moves elements
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
