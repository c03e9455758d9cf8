"""Tuning for a range of sizes: exact kernels at some of them, then the portfolio of their schedules that serves all.

Every schedule that was good at one size becomes a kernel that takes its size when it is called. These are checked
against the reference and timed at more sizes, and the range is cut in intervals, each with the kernel that loses least
(:mod:`~tilewright.tuner.portfolio`). Each interval is stored as a task of its own, ``m=17..300``, with its best kernel,
which was built for it alone and checked at its ends and within.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
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
    TilewrightError,
    TrialRecord,
    UsageError,
    Value,
    Workload,
    cached_property,
)
from tilewright.extent import Sizes, greatest
from tilewright.kernels.anonymous import from_program
from tilewright.kernels.ranges import at, narrowed
from tilewright.measure.measuring import at_sizes
from tilewright.size_ranges import params_at, ranges_in
from tilewright.tuner.duel import best_of, decide
from tilewright.tuner.many import TunedTask, TuneTask, told, tune_many
from tilewright.tuner.observer import Observer
from tilewright.tuner.portfolio import Interval, Places, portfolio, served
from tilewright.tuner.progress import LogProgress
from tilewright.tuner.result import html_table
from tilewright.tuner.settings import DEFAULTS, TuneSettings

if TYPE_CHECKING:
    from tilewright.building.builder import Builder
    from tilewright.database import Database, StoredKernel
    from tilewright.kernels.operator import Operator
    from tilewright.measure.measuring import Runner, Site
    from tilewright.measure.timing import PairedComparison

KERNELS = 4
"""Kernels that share a range, unless it is said how many."""
SHARE = 0.75
"""The most of a time budget that the search for kernels gets; the rest is for comparing them."""
EACH = 1.0
"""Seconds that are kept for comparing the kernels of a range, as long as the search has half of the budget."""
PAIRS = 7
DRAWN = 6
"""Schedules of a template that are compared where no search of a size has tried it."""

Key = tuple[str, int]
"""A workload's key, and threads."""


@dataclass(frozen=True)
class Found:
    """A schedule, the run that it is from, and, once it is built, its kernel with its seconds by place."""

    schedule: Schedule
    run: str | None
    artifact: Artifact | None = None
    seconds: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RangeKernel:
    """An interval of a range, the schedule that serves it, and its regret against the fastest kernel of each size.

    ``low`` and ``high`` are indices into :class:`~tilewright.tuner.portfolio.Places`; for a single range they are
    sizes. ``sizes`` names the interval: ``m=17..300``.
    """

    low: int
    high: int
    sizes: str
    schedule: Schedule
    run: str | None
    worst: float
    mean: float
    seconds: float  # of one call at the greatest size of it that was timed

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "schedule": dict(self.schedule.values), "template": self.schedule.template}


@dataclass(frozen=True, repr=False)
class RangeResult:
    """The result of tuning a range. ``searched``: the sizes that were tuned one by one, and have kernels of their own.

    ``compared``: number of kernels compared at ``sizes``, which are indices into ``places``. ``worst`` and ``mean``:
    the largest and the mean regret over the range, as ratios to the fastest known kernel of each size.
    """

    task: Task
    places: Places
    searched: tuple[TunedTask, ...]
    kernels: tuple[RangeKernel, ...]
    compared: int
    sizes: tuple[int, ...]
    database: str
    interrupted: bool = False

    @property
    def tuned(self) -> tuple[int, ...]:
        """Indices of the places that were tuned one by one; for a single range, the sizes."""
        return tuple(self.places.anchors)

    @property
    def worst(self) -> float:
        return max((k.worst for k in self.kernels), default=0.0)

    def __repr__(self) -> str:
        return f"<RangeResult {self._what()}, {len(self.kernels)} kernels, {_loss(self.worst)}>"

    def _repr_html_(self) -> str:
        served = [(k.sizes, f"{escape(k.schedule.template)}, {_loss(k.worst)}") for k in self.kernels]
        return html_table([("task", escape(self._what())), *served])

    def _what(self) -> str:
        target = self.task.target
        return f"{self.task.workload.label} on {target.name} x{target.threads}"

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.task.workload.op,
            "params": dict(self.task.workload.params),
            "target": self.task.target.name,
            "threads": self.task.target.threads,
            "kernels": [k.to_json() for k in self.kernels],
            "worst": self.worst,
            "compared": self.compared,
            "sizes": [self.places.shown(n) for n in self.sizes],
            "searched": [t.to_json() for t in self.searched],
            "database": self.database,
            "interrupted": self.interrupted,
        }


def _loss(worst: float) -> str:
    return f"at most {worst:.1%} slower than the best known kernel of each size"


def tune_range(
    operator: str | Operator | Callable[..., Any],
    settings: TuneSettings = DEFAULTS,
    *,
    kernels: int = KERNELS,
    weights: Mapping[int, float] | None = None,
    threads: int = 1,
    observer: Callable[[int], Observer] = lambda place: LogProgress(f"size {place + 1}: "),
    params: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> RangeResult:
    """Tune an operator for every size of a range, ``m=1..4096`` in ``params``, and store the portfolio that serves it.

    ``kernels``: largest number of kernels in the portfolio. ``weights``: how often each size is called (equally often
    unless given). ``trials`` and ``time_budget`` (seconds) limit all sizes together. ``observer`` returns the watcher
    for each task of :func:`listed_tasks`, by its number. The rest is :func:`tilewright.tuner.many.tune_many`'s. Ctrl-C
    ends the search; the kernels found by then are still compared and stored. A second Ctrl-C stops at once.

    Raises ``UsageError`` if the operator, the target or ``kernels`` does not allow a range.
    """
    task = TuneTask(operator, dict(params or {}), threads=threads, portfolio=kernels)
    (result,) = tune_tasks([task], settings, observer=observer, weights=weights, **keywords)
    if isinstance(result, TunedTask):
        assert result.problem is not None
        raise result.problem
    return result


def tune_tasks(
    tasks: Sequence[TuneTask],
    settings: TuneSettings = DEFAULTS,
    *,
    resume: bool = False,
    observer: Callable[[int], Observer] = lambda place: LogProgress(f"task {place + 1}: "),
    weights: Mapping[int, float] | None = None,
    **keywords: Any,
) -> list[TunedTask | RangeResult]:
    """:func:`tilewright.tuner.many.tune_many` of tasks of which some have a range of sizes; results in their order.

    The sizes of ranges that are tuned by themselves share the budget with the other tasks, and each range is compared
    and stored after all searches. ``observer`` gives the watcher of each of :func:`listed_tasks`, by its place.
    ``weights``: how often each size of a range is asked for (alike unless given). A range that an error ended is a
    :class:`~tilewright.tuner.many.TunedTask` with a ``problem``, as a task of one size is.

    Raises what :func:`~tilewright.tuner.many.tune_many` does, and ``UsageError`` for a range that no template takes.
    """
    from tilewright.kernels.templates import templates_for

    settings = replace(settings, **keywords)
    found = [_Listed.of(t) for t in tasks]
    ranges = [x for x in found if x.workload.ranges]
    searching = _searching(found)
    with settings.connected(lambda line: observer(0).warning(line)) as connection:
        places = {n: settings.place(connection, n) for n in sorted({x.task.threads for x in ranges})}
        for x in ranges:
            templates_for(Task(x.workload, places[x.task.threads].target))
        seconds = settings.time_budget
        end = math.inf if seconds is None else time.monotonic() + seconds
        kept = 0.0 if seconds is None or not ranges else max((1 - SHARE) * seconds, EACH * len(ranges))
        search = None if seconds is None else max(seconds - kept, seconds / 2)
        tuned = tune_many(
            list(searching.values()), replace(settings, farm=connection, time_budget=search), resume=resume,
            observer=observer,
        )  # fmt: skip
        by_key = dict(zip(searching, tuned, strict=True))
        results: list[TunedTask | RangeResult] = []
        spent, kernels = 0.0, 0
        for x in found:
            mine = [by_key[key] for key in x.keys]
            if not x.workload.ranges:
                results.append(replace(mine[0], task=x.task))
                continue
            place = ranges.index(x)
            watcher, now = observer(len(searching) + place), time.monotonic()
            left = max(0.0, end - now) / (len(ranges) - place)
            most = int(left * kernels / spent) if kernels and left < math.inf else None
            try:
                result = _compared(x, mine, places[x.task.threads], settings, watcher, weights, now + left, most)
                results.append(result)
                spent, kernels = spent + time.monotonic() - now, kernels + result.compared
            except Exception as e:  # the other ranges are compared all the same
                results.append(TunedTask(x.task, None, told(watcher, e)))
    return results


def _compared(
    x: _Listed, searched: Sequence[TunedTask], place: Site, settings: TuneSettings, watcher: Observer,
    weights: Mapping[int, float] | None, until: float, most: int | None,
) -> RangeResult:  # fmt: skip
    """A range after its sizes have been tuned: ``most`` kernels compared, and what serves it stored.

    ``until``: by ``time.monotonic``, when the range's share of a time budget is over.
    """
    task, places = Task(x.workload, place.target), Places(x.workload.ranges)
    interrupted = any(t.interrupted for t in searched)
    with (
        settings.database() as database,
        place.lock(on_wait=lambda holder: watcher.waiting(place.device.name, holder)),
        place.builder() as builder,
        place.runner() as runner,
    ):
        comparing = Comparing(task, places, place, database, builder, runner, watcher, until)
        tried = places.fewest if interrupted else places.samples
        found = comparing.timed(comparing.candidates(searched, most), tried)
        while found:
            cut = portfolio([f.seconds for f in found], x.task.portfolio or KERNELS if places.cuts else 1, weights)
            cut = comparing.settled(cut, found, weights)
            try:
                stored = comparing.stored(cut, found)
            except _Unfit as e:
                watcher.warning(f"{e}. The other kernels serve the range")
                high = greatest(places.extents)
                unfit = e.kernel.schedule.at(high)  # found at several sizes, or serving already
                found = [f for f in found if f.schedule.at(high) != unfit]
                continue
            sizes = tuple(found[0].seconds)
            return RangeResult(task, places, tuple(searched), stored, len(found), sizes, database.location, interrupted)
        span = " ".join(map(repr, places.extents.values()))
        raise next(
            (t.problem for t in searched if t.problem is not None),
            TilewrightError(f"no kernel serves all of {span}", "Sizes that were tuned by themselves are stored"),
        )


def listed_tasks(tasks: Sequence[TuneTask]) -> list[TuneTask]:
    """What :func:`tune_tasks` shows: the tasks of one size that it tunes, then the ranges."""
    found = [_Listed.of(t) for t in tasks]
    return [*_searching(found).values(), *(x.task for x in found if x.workload.ranges)]


@dataclass(frozen=True)
class _Listed:
    """A task, and what is tuned for it: itself, or sizes of its range."""

    task: TuneTask
    workload: Workload
    searched: tuple[TuneTask, ...]

    @staticmethod
    def of(task: TuneTask) -> _Listed:
        from tilewright.tuner.api import operator_of

        operator = operator_of(task.operator)
        workload = operator.workload(**task.params)
        if task.portfolio is None and not workload.ranges:
            return _Listed(task, workload, (task,))
        sizes = _searched_tasks(workload, operator, task.threads)
        if task.choice:
            raise UsageError(f"{workload.label} has a range, but a choice needs fixed sizes", "Remove the choice")
        return _Listed(task, workload, tuple(replace(t, weight=t.weight * task.weight) for t in sizes))

    @property
    def keys(self) -> list[Key]:
        """What tells apart the tasks that are tuned for it."""
        if not self.workload.ranges:
            return [(self.workload.key, self.task.threads)]
        sizes = [at(self.workload, n) for n in Places(self.workload.ranges).anchors.values()]
        return [(w.key, self.task.threads) for w in sizes]


def _searching(found: Sequence[_Listed]) -> dict[Key, TuneTask]:
    """The tasks of one size, each once: a size of a range that is listed by itself too has the sum of the weights."""
    if len({(x.workload.key, x.task.threads) for x in found}) < len(found):
        raise UsageError("a task is given twice", "Give it once, with the sum of the weights")
    together: dict[Key, TuneTask] = {}
    for x in found:
        for key, task in zip(x.keys, x.searched, strict=True):
            known = together.get(key)
            together[key] = task if known is None else replace(known, weight=known.weight + task.weight)
    return together


def _given(workload: Workload) -> dict[str, Value]:
    """Parameters that differ from their defaults."""
    plain = dict(workload.defaults)
    return {k: v for k, v in workload.params if k not in plain or plain[k] != v}


def _searched_tasks(workload: Workload, operator: Operator, threads: int) -> list[TuneTask]:
    """The sizes of a range that are tuned by themselves. Raises ``UsageError`` where there is no range."""
    if not workload.ranges:
        raise UsageError(f"{workload.label} has no range", "Write a size as 1..4096, or remove --portfolio")
    anchors = list(Places(workload.ranges).anchors.values())
    sized = [at(workload, n) for n in anchors]
    work = [w.flops + math.prod(w.output.shape) for w in sized]
    # A share lost at a small size counts as much as at a large one.
    return [
        TuneTask(*_one_size(operator, workload, w, n), max(work) / mine, threads)
        for n, w, mine in zip(anchors, sized, work, strict=True)
    ]


def _one_size(
    operator: Operator, workload: Workload, one: Workload, sizes: Sizes
) -> tuple[Operator, dict[str, Value | str]]:
    """The operator and parameters of ``one`` size of a range. An anonymous operator has its sizes in its program."""
    params = _given(workload)
    if ranges_in(params):
        return operator, params_at(params, sizes)
    return from_program(workload.op, one.program), dict(params)


class _Unfit(Exception):
    """A kernel that some check found wrong where it was to serve."""

    def __init__(self, message: str, kernel: Found) -> None:
        super().__init__(message)
        self.kernel = kernel


def _spanned(spans: Mapping[str, tuple[int, int]]) -> str:
    return " ".join(f"{n}={low}..{high}" if low < high else f"{n}={low}" for n, (low, high) in spans.items())


def _covers(extents: Mapping[str, Extent], spans: Mapping[str, tuple[int, int]]) -> bool:
    """Whether ranges have all of others."""
    return extents.keys() == spans.keys() and all(
        extents[n].low <= low and high <= extents[n].high for n, (low, high) in spans.items()
    )


@dataclass(frozen=True)
class Comparing:
    """Kernels of one range on one device: built, checked and timed at many sizes, and stored.

    ``until``: by ``time.monotonic``, from when on no more is compared than is needed.
    """

    task: Task
    places: Places
    place: Site
    database: Database
    builder: Builder
    runner: Runner
    watcher: Observer
    until: float = math.inf

    def candidates(self, searched: Sequence[TunedTask], most: int | None = None, each: int = 3) -> list[Found]:
        """The default schedule, what serves parts of the range, the best of each size and of each template there, what
        came close at each size, and some drawn; the first ``most``, but what may stay and those of the greatest sizes
        in any case: one trial of each template may tell less than they differ."""
        from tilewright.tuner.final import contenders

        found = {self._default.key: Found(self._default, None)}
        for kernel in self._serving():
            found.setdefault(kernel.schedule.key, Found(kernel.schedule, kernel.run_id))
        least = len(found)
        tuned = [
            (sizes, t.result, self.database.trials(t.result.run))
            for sizes, t in zip(self.places.anchors.values(), searched, strict=True)
            if t.result
        ]
        for place, (sizes, result, trials) in enumerate(reversed(tuned)):
            best = [] if result.best is None else [(result.best.schedule, result.best.run)]
            for template in dict.fromkeys(t.schedule.template for t in trials):
                of_template = [t for t in trials if t.schedule.template == template]
                best += [(t.schedule, result.run) for t in contenders(of_template, 1)]
            for schedule, run in best:
                found.setdefault(schedule.key, Found(schedule.at(sizes), run))
            least = len(found) if place == 0 else least
        for sizes, result, trials in tuned:
            for trial in contenders(trials, each):
                found.setdefault(trial.schedule.key, Found(trial.schedule.at(sizes), result.run))
        for schedule in self._drawn({f.schedule.template for f in found.values() if f.run is not None}):
            found.setdefault(schedule.key, Found(schedule, None))
        return list(found.values())[: None if most is None else max(most, least)]

    def _drawn(self, searched: set[str]) -> Iterator[Schedule]:
        """Schedules of templates that compute the range and none of the sizes that were searched."""
        from tilewright.kernels.templates import templates_for

        rng, high = random.Random(0), greatest(self.places.extents)
        for template in templates_for(self.task):
            if template.name not in searched:
                yield from (template.space(self.task).sample(rng).at(high) for _ in range(DRAWN))

    @cached_property
    def _default(self) -> Schedule:
        from tilewright.kernels.templates import default_schedule

        return default_schedule(self.task).at(greatest(self.places.extents))

    def _serving(self) -> list[StoredKernel]:
        """Stored kernels of parts of this range."""
        return [
            k for k in self.database.kernels(self.task.workload.op)
            if k.device_model == self.place.device.model and k.task.target.key == self.task.target.key
            and self._has(k.task.workload)
        ]  # fmt: skip

    def _has(self, other: Workload) -> bool:
        """Whether a workload is part of this range."""
        theirs = {n: (e.low, e.high) for n, e in other.ranges.items()}
        if not theirs or not _covers(self.places.extents, theirs):
            return False
        return narrowed(self.task.workload, theirs).program == other.program

    def timed(self, found: Sequence[Found], tried: Mapping[int, Mapping[str, int]]) -> list[Found]:
        """The kernels that are right at all places, with their seconds at each; after ``until`` at the fewest."""
        self.watcher.stage(f"building {len(found)} kernels that take their size when they are called")
        built = self.builder.wait(self.builder.submit([Candidate(self.task, f.schedule) for f in found]))
        alive = {n: b for n, b in enumerate(built) if isinstance(b, Artifact)}
        seconds: dict[int, dict[int, float]] = {n: {} for n in alive}
        for place, sizes in tried.items():
            if time.monotonic() > self.until and place not in self.places.fewest:
                continue
            label = self.places.label(place)
            self.watcher.stage(f"comparing {len(alive)} kernels at {label}")
            kernels = [(Candidate(self.task, found[n].schedule), b) for n, b in alive.items()]
            one, items = at_sizes(self.task, kernels, sizes)
            for (n, _), outcome in zip(list(alive.items()), self.runner.run(one, items, None, PAIRS), strict=True):
                if isinstance(outcome, Measurement):
                    seconds[n][place] = outcome.seconds
                else:
                    self.watcher.warning(f"a kernel fails at {label}: {outcome.message}")
                    del alive[n]
        return [replace(found[n], artifact=b, seconds=seconds[n]) for n, b in alive.items()]

    def settled(
        self, cut: Sequence[Interval], found: Sequence[Found], weights: Mapping[int, float] | None
    ) -> list[Interval]:
        """Each interval with what it is served by: its own choice where that beats the default schedule and the kernel
        that serves all of it so far, else one of these."""
        places = {f.schedule.key: n for n, f in enumerate(found)}
        out = []
        for i in cut:
            spans = self.places.spans(i.low, i.high)
            serving = [k.schedule for k in self._serving() if _covers(k.task.workload.ranges, spans)]
            incumbents = [n for s in (*serving, self._default) if (n := places.get(s.key, i.kernel)) != i.kernel]
            sizes = [n for n in found[i.kernel].seconds if i.low <= n <= i.high]
            self.watcher.stage(f"comparing the kernel of {_spanned(spans)} with the default schedule")
            kernel = best_of(i.kernel, list(dict.fromkeys(incumbents)), self._wins(found, sizes))
            assert kernel is not None
            out.append(served(i.low, i.high, kernel, [f.seconds for f in found], weights))
        return out

    def _wins(self, found: Sequence[Found], sizes: Sequence[int]) -> Callable[[int, int], bool]:
        """Whether the first of two kernels is measured to be faster over these sizes."""

        def wins(one: int, other: int) -> bool:
            turn = itertools.cycle(reversed(sizes))

            def compare(sessions: int) -> PairedComparison:
                kernels = []
                for f in (found[one], found[other]):
                    assert f.artifact is not None
                    kernels.append((Candidate(self.task, f.schedule), f.artifact))
                task, (a, b) = at_sizes(self.task, kernels, self.places.at(next(turn)))
                return self.runner.compare(task, a, b, sessions)

            return decide(compare, self.until).challenger_wins

        return wins

    def stored(self, cut: Sequence[Interval], found: Sequence[Found]) -> tuple[RangeKernel, ...]:
        """Build each interval's kernel for it alone, check it, and put it in the place of what served it so far.

        Raises ``_Unfit`` before anything is stored, for a kernel that is wrong or fails.
        """
        from tilewright.database import StoredArtifact, StoredKernel
        from tilewright.kernels.templates import full_source

        ready = []
        for interval in cut:
            one = found[interval.kernel]
            if self.places.cuts and interval.low == interval.high and interval.low in self.places.anchors:
                continue  # it was tuned by itself
            high = max(interval.high, interval.low + 1)  # one size is no range; the next interval's is as good there
            workload, schedule = narrowed(self.task.workload, self.places.spans(interval.low, high)), one.schedule
            task = Task(workload, self.task.target)
            self.watcher.stage(f"checking the kernel of {workload.label}")
            candidate = Candidate(task, schedule)
            built = self.builder.wait(self.builder.submit([candidate], alone=True))[0]
            problem = built if isinstance(built, Failure) else self.runner.verify(task, (candidate, built))
            if problem is not None:
                raise _Unfit(f"the kernel of {workload.label} is wrong: {problem.message}", one)
            assert isinstance(built, Artifact)
            self.builder.fetch(built)
            outcome = self.runner.run(task, [(candidate, built)], None)[0]  # at the greatest size
            if isinstance(outcome, Failure):
                raise _Unfit(f"the kernel of {workload.label} fails: {outcome.message}", one)
            kernel = StoredKernel(
                task, self.place.device.model, 1, schedule, built.program, outcome.seconds, built.sha256,
                trial_number=0, compiler=built.compiler,
            )  # fmt: skip
            trial = TrialRecord(
                0, Proposal(schedule, origin=f"run {one.run}"), outcome, built.build_seconds, time.time()
            )
            ready.append((kernel, trial, StoredArtifact.read(built, full_source(candidate))))
        before = [k.task for k in self._serving()]
        for kernel, trial, artifact in ready:
            run = self.database.add_run(kernel.task, self.place.device, "portfolio", 0, 1, {})
            self.database.add_trials(run, [trial])
            self.database.set_kernels(kernel.task, self.place.device.model, run, [kernel], [artifact])
            self.database.finish_run(run, "done", {})
        kept = {kernel.task.key for kernel, _, _ in ready}
        for task in before:
            if task.key not in kept:
                self.database.set_kernels(task, self.place.device.model, None, [])
        return tuple(
            RangeKernel(
                i.low, i.high, _spanned(self.places.spans(i.low, i.high)), found[i.kernel].schedule,
                found[i.kernel].run, i.worst, i.mean,
                found[i.kernel].seconds[max(n for n in found[i.kernel].seconds if n <= i.high)],
            )
            for i in cut
        )  # fmt: skip
