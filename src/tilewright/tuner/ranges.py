"""Tunes a range of sizes: exact kernels at sample sizes, then a portfolio of their schedules for the whole range.

Every schedule that was good at one size becomes a kernel with a symbolic size. These kernels are checked against the
reference and timed at more sizes. The range is cut into intervals, each with the kernel of the least regret
(:mod:`~tilewright.tuner.portfolio`). Each interval is stored as a task of its own, ``m=17..300``, with its best kernel.
That kernel is built for its interval alone and checked at the ends and inside.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from tilewright.core import Target, Task, TilewrightError, UsageError, Value, Workload
from tilewright.extent import Sizes, greatest
from tilewright.kernels.anonymous import from_program
from tilewright.kernels.ranges import at
from tilewright.size_ranges import params_at, ranges_in
from tilewright.tuner.many import TunedTask, TuneTask, told, tune_many
from tilewright.tuner.observer import Observer
from tilewright.tuner.portfolio import SampleSizes, portfolio
from tilewright.tuner.progress import LogProgress
from tilewright.tuner.range_kernels import Comparing, Found, RangeKernel, Unfit
from tilewright.tuner.result import html_table
from tilewright.tuner.settings import DEFAULTS, TuneSettings

if TYPE_CHECKING:
    from tilewright.database import Database
    from tilewright.kernels.operator import Operator
    from tilewright.measure.measuring import MeasurementTarget
    from tilewright.tuner.tuning import Tools

KERNELS = 4
"""Default number of kernels for a range."""
SHARE = 0.75
"""Largest share of a time budget for the search; the rest is for comparing kernels."""
EACH = 1.0
"""Seconds reserved for comparing the kernels of a range, as long as half of the budget remains for the search."""
Key = tuple[str, int]
"""Key of a workload, and its number of threads."""


@dataclass(frozen=True, repr=False)
class RangeResult:
    """The result of tuning a range. ``searched``: the tasks of single sizes, which have kernels of their own.

    ``compared``: number of kernels compared at ``sizes``, which are indices into ``places``. It is 0, without kernels,
    for a range that is faster than an earlier task of its choice at no tuned size. ``worst`` and ``mean``: the largest
    and the mean regret over the range, as ratios to the fastest known kernel of each size.
    """

    task: Task
    places: SampleSizes
    searched: tuple[TunedTask, ...]
    kernels: tuple[RangeKernel, ...]
    compared: int
    sizes: tuple[int, ...]
    database: str
    interrupted: bool = False

    @property
    def tuned(self) -> tuple[int, ...]:
        """Numbers of the samples that were tuned one by one; for a single range, the sizes."""
        return tuple(self.places.searched)

    @property
    def worst(self) -> float:
        return max((k.worst for k in self.kernels), default=0.0)

    def __repr__(self) -> str:
        served = f"{len(self.kernels)} kernels, {_loss(self.worst)}" if self.kernels else "not compared"
        return f"<RangeResult {self._what()}, {served}>"

    def _repr_html_(self) -> str:
        kernels = [(k.sizes, f"{escape(k.schedule.template)}, {_loss(k.worst)}") for k in self.kernels]
        return html_table([("task", escape(self._what())), *kernels])

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
    """:func:`tilewright.tuner.many.tune_many` for tasks that may have a range of sizes; results in their order.

    The sample sizes of ranges share the budget with the other tasks, and each range is compared and stored after all
    searches. A range that is faster than an earlier range of its ``choice`` at no tuned size is neither compared nor
    stored: its result has no kernels. ``observer`` returns the observer for each of :func:`listed_tasks`, by its index.
    ``weights``: call frequency of each size of a range (equal by default). A range that an error ended is a
    :class:`~tilewright.tuner.many.TunedTask` with a ``problem``, as a task of one size is.

    Raises what :func:`~tilewright.tuner.many.tune_many` does, and ``UsageError`` for a range that no template takes.
    """
    from tilewright.kernels.templates import templates_for

    settings = replace(settings, **keywords)
    found = [_Listed.of(t) for t in tasks]
    ranges = [x for x in found if x.workload.ranges]
    searching = _searching(found)
    with ExitStack() as stack:
        connection = stack.enter_context(settings.connected(lambda line: observer(0).warning(line)))
        places = {n: settings.place(connection, n) for n in sorted({x.task.threads for x in ranges})}
        for x in ranges:
            templates_for(Task(x.workload, places[x.task.threads].target))
        seconds = settings.time_budget
        end = math.inf if seconds is None else time.monotonic() + seconds
        called = len({x.task.choice or place for place, x in enumerate(ranges)})
        kept = 0.0 if seconds is None or not ranges else max((1 - SHARE) * seconds, EACH * called)
        search = None if seconds is None else max(seconds - kept, seconds / 2)
        tuned = tune_many(
            list(searching.values()), replace(settings, farm=connection, time_budget=search), resume=resume,
            observer=observer,
        )  # fmt: skip
        by_key = dict(zip(searching, tuned, strict=True))
        searched = [[by_key[key] for key in x.keys] for x in found]
        if not ranges:
            return [replace(mine[0], task=x.task) for x, mine in zip(found, searched, strict=True)]
        behind = [_behind(n, found, searched) for n in range(len(found))]
        waiting = sum(not late for x, late in zip(found, behind, strict=True) if x.workload.ranges)
        results: list[TunedTask | RangeResult] = []
        spent, kernels = 0.0, 0
        database = stack.enter_context(settings.database())
        tools_of: dict[int, Tools] = {}
        for x, mine, late in zip(found, searched, behind, strict=True):
            if not x.workload.ranges:
                results.append(replace(mine[0], task=x.task))
                continue
            watcher, now = observer(len(searching) + ranges.index(x)), time.monotonic()
            if late:
                watcher.stage("an earlier task of its choice is as fast or faster")
                results.append(_uncompared(x, mine, places[x.task.threads].target, database.location))
                continue
            left = max(0.0, end - now) / waiting
            waiting -= 1
            most = int(left * kernels / spent) if kernels and left < math.inf else None
            try:
                tools = _tools(tools_of, places[x.task.threads], stack)
                result = _compared(x, mine, tools, database, watcher, weights, now + left, most)
                results.append(result)
                spent, kernels = spent + time.monotonic() - now, kernels + result.compared
            except Exception as e:  # the other ranges continue
                results.append(TunedTask(x.task, None, told(watcher, e)))
    return results


def _tools(known: dict[int, Tools], place: MeasurementTarget, stack: ExitStack) -> Tools:
    """Builder and runner of a measurement target, opened once per number of threads."""
    from tilewright.tuner.tuning import Tools

    threads = place.target.threads
    if threads not in known:
        known[threads] = Tools(place, stack.enter_context(place.builder()), stack.enter_context(place.runner()))
    return known[threads]


def _behind(n: int, listed: Sequence[_Listed], searched: Sequence[Sequence[TunedTask]]) -> bool:
    """Whether range ``n`` is faster than an earlier range of its choice at no tuned size. Earlier ranges come first in
    the list: they use the layout of the whole network, in which it runs without layout transforms."""

    def seconds(tuned: TunedTask) -> float:
        best = None if tuned.result is None else tuned.result.best
        return math.inf if best is None else best.seconds

    def choice(x: _Listed) -> tuple[object, ...]:
        return x.task.choice, x.task.threads, x.workload.ranges

    one = listed[n]
    if not one.task.choice or not one.workload.ranges:
        return False
    return any(
        choice(listed[other]) == choice(one)
        and all(seconds(own) >= seconds(its) for own, its in zip(searched[n], searched[other], strict=True))
        for other in range(n)
    )


def _uncompared(x: _Listed, searched: Sequence[TunedTask], target: Target, location: str) -> RangeResult:
    """The result of a range without compared kernels: nothing is stored for the range."""
    interrupted = any(t.interrupted for t in searched)
    task, samples = Task(x.workload, target), SampleSizes(x.workload.ranges)
    return RangeResult(task, samples, tuple(searched), (), 0, (), location, interrupted)


def _compared(
    x: _Listed, searched: Sequence[TunedTask], tools: Tools, database: Database, watcher: Observer,
    weights: Mapping[int, float] | None, until: float, most: int | None,
) -> RangeResult:  # fmt: skip
    """Compare at most ``most`` kernels of a range, store the kernels that serve it, and return the result.

    ``until``: end of the range's share of a time budget, by ``time.monotonic``.
    """
    place = tools.place
    begun = _uncompared(x, searched, place.target, database.location)
    task, samples = begun.task, begun.places
    with place.lock(on_wait=lambda holder: watcher.waiting(place.device.name, holder)):
        comparing = Comparing(task, samples, tools, database, watcher, until)
        tried = samples.fewest if begun.interrupted else samples.samples
        for chosen in (comparing.candidates(searched, most), [Found(comparing.default, None)]):
            found = comparing.timed(chosen, tried)
            while found:
                cut = portfolio([f.seconds for f in found], x.task.portfolio or KERNELS if samples.cuts else 1, weights)
                cut = comparing.decided(cut, found, weights)
                try:
                    stored = comparing.stored(cut, found)
                except Unfit as e:
                    watcher.warning(f"{e}. The other kernels serve the range")
                    high = greatest(samples.extents)
                    unfit = e.kernel.schedule.at(high)  # may come from several sizes, or be a stored kernel's
                    found = [f for f in found if f.schedule.at(high) != unfit]
                    continue
                sizes = tuple(found[0].seconds)
                return replace(begun, kernels=stored, compared=len(found), sizes=sizes)
        span = " ".join(map(repr, samples.extents.values()))
        raise next(
            (t.problem for t in searched if t.problem is not None),
            TilewrightError(f"no kernel serves all of {span}", "Sizes that were tuned by themselves are stored"),
        )


def listed_tasks(tasks: Sequence[TuneTask]) -> list[TuneTask]:
    """Return the tasks that :func:`tune_tasks` shows: the tasks of one size that it tunes, then the ranges."""
    found = [_Listed.of(t) for t in tasks]
    return [*_searching(found).values(), *(x.task for x in found if x.workload.ranges)]


@dataclass(frozen=True)
class _Listed:
    """A task, and the tasks of one size that are tuned for it: itself, or sample sizes of its range."""

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
        searched = [
            replace(t, weight=t.weight * task.weight, choice=task.choice and f"{task.choice}, size {number}")
            for number, t in enumerate(sizes, 1)
        ]
        return _Listed(task, workload, tuple(searched))

    @property
    def keys(self) -> list[Key]:
        """Keys of the tasks in ``searched``."""
        if not self.workload.ranges:
            return [(self.workload.key, self.task.threads)]
        sizes = [at(self.workload, n) for n in SampleSizes(self.workload.ranges).searched.values()]
        return [(w.key, self.task.threads) for w in sizes]


def _searching(found: Sequence[_Listed]) -> dict[Key, TuneTask]:
    """The tasks of one size by key. A sample size that is also listed as a task has the sum of the weights."""
    if len({(x.workload.key, x.task.threads) for x in found}) < len(found):
        raise UsageError("a task is given twice", "Give it once, with the sum of the weights")
    together: dict[Key, TuneTask] = {}
    for x in found:
        for key, task in zip(x.keys, x.searched, strict=True):
            known = together.get(key)
            together[key] = task if known is None else replace(known, weight=known.weight + task.weight)
    return together


def _given(workload: Workload) -> dict[str, Value]:
    """Parameters that differ from the operator's defaults."""
    plain = dict(workload.defaults)
    return {k: v for k, v in workload.params if k not in plain or plain[k] != v}


def _searched_tasks(workload: Workload, operator: Operator, threads: int) -> list[TuneTask]:
    """Tasks of a range's sample sizes. Raises ``UsageError`` for a workload without a range."""
    if not workload.ranges:
        raise UsageError(f"{workload.label} has no range", "Write a size as 1..4096, or remove --portfolio")
    samples = list(SampleSizes(workload.ranges).searched.values())
    sized = [at(workload, n) for n in samples]
    work = [w.flops + math.prod(w.output.shape) for w in sized]
    # The weights make a relative loss at a small size count as much as at a large size.
    return [
        TuneTask(*_one_size(operator, workload, w, n), max(work) / mine, threads)
        for n, w, mine in zip(samples, sized, work, strict=True)
    ]


def _one_size(
    operator: Operator, workload: Workload, one: Workload, sizes: Sizes
) -> tuple[Operator, dict[str, Value | str]]:
    """Operator and parameters of ``one`` size of a range. An anonymous operator has its sizes in its program."""
    params = _given(workload)
    if ranges_in(params):
        return operator, params_at(params, sizes)
    return from_program(workload.op, one.program), dict(params)
