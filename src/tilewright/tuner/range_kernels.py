"""Builds, checks, times and stores the kernels of one range of sizes on one device."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.core import (
    Artifact,
    Candidate,
    Extent,
    Failure,
    Measurement,
    Proposal,
    Schedule,
    Task,
    TrialRecord,
    Workload,
    cached_property,
)
from tilewright.extent import greatest
from tilewright.kernels.ranges import narrowed
from tilewright.measure.measuring import at_sizes
from tilewright.tuner.many import TunedTask
from tilewright.tuner.observer import Observer
from tilewright.tuner.paired import best_of, decide
from tilewright.tuner.portfolio import Interval, SampleSizes, served

if TYPE_CHECKING:
    from tilewright.database import Database, StoredKernel
    from tilewright.measure.timing import PairedComparison
    from tilewright.tuner.result import TuneResult
    from tilewright.tuner.tuning import Tools

PAIRS = 7
DRAWN = 6
"""Number of schedules drawn from a template that no search of a size has tried."""


@dataclass(frozen=True)
class Found:
    """A schedule and its run; once built, also its kernel and its seconds by sample number."""

    schedule: Schedule
    run: str | None
    artifact: Artifact | None = None
    seconds: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RangeKernel:
    """An interval of a range, the schedule that serves it, and its regret against the fastest kernel of each size.

    ``low`` and ``high`` are indices into :class:`~tilewright.tuner.portfolio.SampleSizes`; for a single range they are
    sizes. ``sizes`` names the interval: ``m=17..300``.
    """

    low: int
    high: int
    sizes: str
    schedule: Schedule
    run: str | None
    worst: float
    mean: float
    seconds: float  # of one call at the greatest timed size of the interval

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "schedule": dict(self.schedule.values), "template": self.schedule.template}


class Unfit(Exception):
    """Raised for a kernel that fails a check on the interval it should serve."""

    def __init__(self, message: str, kernel: Found) -> None:
        super().__init__(message)
        self.kernel = kernel


def spanned(spans: Mapping[str, tuple[int, int]]) -> str:
    return " ".join(f"{n}={low}..{high}" if low < high else f"{n}={low}" for n, (low, high) in spans.items())


def covers(extents: Mapping[str, Extent], spans: Mapping[str, tuple[int, int]]) -> bool:
    """Whether the ranges ``extents`` contain ``spans``."""
    return extents.keys() == spans.keys() and all(
        extents[n].low <= low and high <= extents[n].high for n, (low, high) in spans.items()
    )


@dataclass(frozen=True)
class Comparing:
    """Comparison of the kernels of one range on one device.

    ``until``: time by ``time.monotonic`` after which only the necessary comparisons are made.
    """

    task: Task
    samples: SampleSizes
    tools: Tools
    database: Database
    watcher: Observer
    until: float = math.inf

    def candidates(self, searched: Sequence[TunedTask], most: int | None = None, each: int = 3) -> list[Found]:
        """Return the schedules to compare, at most ``most``. In order: the default schedule, stored kernels of parts of
        the range, the best of each size and template, close trials, and drawn schedules. The first ones up to the
        bests of the greatest sizes stay in any case: one trial of each template is too noisy to drop them. After
        ``until``, a range without stored kernels compares only the bests of the greatest sizes."""
        from tilewright.tuner.final import contenders

        tuned = [
            (sizes, t.result, self.database.trials(t.result.run))
            for sizes, t in zip(self.samples.searched.values(), searched, strict=True)
            if t.result
        ]
        bests = [self._bests(*one) for one in reversed(tuned)]
        default, serving = Found(self.default, None), self._serving()
        if time.monotonic() > self.until and not serving:
            return list(next(filter(None, bests), {"": default}).values())
        found = {default.schedule.key: default}
        for kernel in serving:
            found.setdefault(kernel.schedule.key, Found(kernel.schedule, kernel.run_id))
        least = len(found)
        for n, of_size in enumerate(bests):
            for key, one in of_size.items():
                found.setdefault(key, one)
            least = len(found) if n == 0 else least
        for sizes, result, trials in tuned:
            for trial in contenders(trials, each):
                found.setdefault(trial.schedule.key, Found(trial.schedule.at(sizes), result.run))
        for schedule in self._drawn({f.schedule.template for f in found.values() if f.run is not None}):
            found.setdefault(schedule.key, Found(schedule, None))
        return list(found.values())[: None if most is None else max(most, least)]

    @staticmethod
    def _bests(sizes: Mapping[str, int], result: TuneResult, trials: Sequence[TrialRecord]) -> dict[str, Found]:
        """The best schedule of one size and the best of each template there, by schedule key."""
        from tilewright.tuner.final import contenders

        best = [] if result.best is None else [(result.best.schedule, result.best.run)]
        for template in dict.fromkeys(t.schedule.template for t in trials):
            of_template = [t for t in trials if t.schedule.template == template]
            best += [(t.schedule, result.run) for t in contenders(of_template, 1)]
        found: dict[str, Found] = {}
        for schedule, run in best:
            found.setdefault(schedule.key, Found(schedule.at(sizes), run))
        return found

    def _drawn(self, searched: set[str]) -> Iterator[Schedule]:
        """Draw schedules of templates that take the range but none of its searched sizes."""
        from tilewright.kernels.templates import templates_for

        rng, high = random.Random(0), greatest(self.samples.extents)
        for template in templates_for(self.task):
            if template.name not in searched:
                yield from (template.space(self.task).sample(rng).at(high) for _ in range(DRAWN))

    @cached_property
    def default(self) -> Schedule:
        """The default schedule at the greatest sizes."""
        from tilewright.kernels.templates import default_schedule

        return default_schedule(self.task).at(greatest(self.samples.extents))

    def _serving(self) -> list[StoredKernel]:
        """Stored kernels of parts of this range."""
        return [
            k for k in self.database.kernels(self.task.workload.op)
            if k.device_model == self.tools.place.device.model and k.task.target.key == self.task.target.key
            and self._has(k.task.workload)
        ]  # fmt: skip

    def _has(self, other: Workload) -> bool:
        """Whether a workload is part of this range."""
        theirs = {n: (e.low, e.high) for n, e in other.ranges.items()}
        if not theirs or not covers(self.samples.extents, theirs):
            return False
        return narrowed(self.task.workload, theirs).program == other.program

    def timed(self, found: Sequence[Found], tried: Mapping[int, Mapping[str, int]]) -> list[Found]:
        """Return the kernels that are correct at all samples, with their seconds; after ``until``, at the fewest
        samples.

        A single kernel is built alone, as it is stored.
        """
        self.watcher.stage(f"building {len(found)} kernels that take their size when they are called")
        candidates, builder = [Candidate(self.task, f.schedule) for f in found], self.tools.builder
        built = builder.wait(builder.submit(candidates, alone=len(candidates) == 1))
        alive = {n: b for n, b in enumerate(built) if isinstance(b, Artifact)}
        seconds: dict[int, dict[int, float]] = {n: {} for n in alive}
        for number, sizes in tried.items():
            if time.monotonic() > self.until and number not in self.samples.fewest:
                continue
            label = self.samples.label(number)
            self.watcher.stage(f"comparing {len(alive)} kernels at {label}")
            kernels = [(Candidate(self.task, found[n].schedule), b) for n, b in alive.items()]
            one, items = at_sizes(self.task, kernels, sizes)
            outcomes = self.tools.runner.run(one, items, None, PAIRS)
            for n, outcome in zip(list(alive), outcomes, strict=True):
                if isinstance(outcome, Measurement):
                    seconds[n][number] = outcome.seconds
                else:
                    self.watcher.warning(f"a kernel fails at {label}: {outcome.message}")
                    del alive[n]
        return [replace(found[n], artifact=b, seconds=seconds[n]) for n, b in alive.items()]

    def decided(
        self, cut: Sequence[Interval], found: Sequence[Found], weights: Mapping[int, float] | None
    ) -> list[Interval]:
        """Return each interval with the kernel to store. The interval's own choice must beat the default schedule and
        the kernel that serves the whole interval so far; otherwise an incumbent serves it."""
        places = {f.schedule.key: n for n, f in enumerate(found)}
        out = []
        for i in cut:
            spans = self.samples.spans(i.low, i.high)
            serving = [k.schedule for k in self._serving() if covers(k.task.workload.ranges, spans)]
            incumbents = [n for s in (*serving, self.default) if (n := places.get(s.key, i.kernel)) != i.kernel]
            sizes = [n for n in found[i.kernel].seconds if i.low <= n <= i.high]
            self.watcher.stage(f"comparing the kernel of {spanned(spans)} with the default schedule")
            kernel = best_of(i.kernel, list(dict.fromkeys(incumbents)), self._wins(found, sizes))
            assert kernel is not None
            out.append(served(i.low, i.high, kernel, [f.seconds for f in found], weights))
        return out

    def _wins(self, found: Sequence[Found], sizes: Sequence[int]) -> Callable[[int, int], bool]:
        """Return a function that says whether the first of two kernels is measured to be faster over ``sizes``."""

        def wins(one: int, other: int) -> bool:
            turn = itertools.cycle(reversed(sizes))

            def at_next(sessions: int) -> PairedComparison:
                kernels = []
                for f in (found[one], found[other]):
                    assert f.artifact is not None
                    kernels.append((Candidate(self.task, f.schedule), f.artifact))
                task, (a, b) = at_sizes(self.task, kernels, self.samples.at(next(turn)))
                return self.tools.runner.compare(task, a, b, sessions)

            def compare(sessions: int) -> PairedComparison:
                return at_next(sessions - sessions // 2) + at_next(sessions // 2)

            return decide(compare, self.until).challenger_wins

        return wins

    def stored(self, cut: Sequence[Interval], found: Sequence[Found]) -> tuple[RangeKernel, ...]:
        """Build each interval's kernel for that interval alone, check it, and replace the previous kernels.

        Raises ``Unfit`` before anything is stored, for a kernel that is wrong or fails.
        """
        from tilewright.database import StoredArtifact, StoredKernel
        from tilewright.kernels.templates import full_source

        ready = []
        for interval in cut:
            one = found[interval.kernel]
            if self.samples.cuts and interval.low == interval.high and interval.low in self.samples.searched:
                continue  # this size has a kernel of its own from its search
            high = max(interval.high, interval.low + 1)  # a range has two sizes; the next size is legal for it too
            workload, schedule = narrowed(self.task.workload, self.samples.spans(interval.low, high)), one.schedule
            task = Task(workload, self.task.target)
            self.watcher.stage(f"checking the kernel of {workload.label}")
            candidate = Candidate(task, schedule)
            built = self.tools.builder.wait(self.tools.builder.submit([candidate], alone=True))[0]
            problem = built if isinstance(built, Failure) else self.tools.runner.verify(task, (candidate, built))
            if problem is not None:
                raise Unfit(f"the kernel of {workload.label} is wrong: {problem.message}", one)
            assert isinstance(built, Artifact)
            self.tools.builder.fetch(built)
            outcome = self.tools.runner.run(task, [(candidate, built)], None)[0]  # at the greatest size
            if isinstance(outcome, Failure):
                raise Unfit(f"the kernel of {workload.label} fails: {outcome.message}", one)
            kernel = StoredKernel(
                task, self.tools.place.device.model, 1, schedule, built.program, outcome.seconds, built.sha256,
                trial_number=0, compiler=built.compiler,
            )  # fmt: skip
            trial = TrialRecord(
                0, Proposal(schedule, origin=f"run {one.run}"), outcome, built.build_seconds, time.time()
            )
            ready.append((kernel, trial, StoredArtifact.read(built, full_source(candidate))))
        before = [k.task for k in self._serving()]
        for kernel, trial, artifact in ready:
            run = self.database.add_run(kernel.task, self.tools.place.device, "portfolio", 0, 1, {})
            self.database.add_trials(run, [trial])
            self.database.set_kernels(kernel.task, self.tools.place.device.model, run, [kernel], [artifact])
            self.database.finish_run(run, "done", {})
        kept = {kernel.task.key for kernel, _, _ in ready}
        for task in before:
            if task.key not in kept:
                self.database.set_kernels(task, self.tools.place.device.model, None, [])
        return tuple(
            RangeKernel(
                i.low, i.high, spanned(self.samples.spans(i.low, i.high)), found[i.kernel].schedule,
                found[i.kernel].run, i.worst, i.mean,
                found[i.kernel].seconds[max(n for n in found[i.kernel].seconds if n <= i.high)],
            )
            for i in cut
        )  # fmt: skip
