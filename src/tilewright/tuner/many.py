"""Tunes several tasks under one budget: each slice of trials goes to the task that is expected to save most.

A task's worth is its weight (calls) times the expected improvement of a call's time, per second of trials
(:mod:`tilewright.tuner.improvement`). Every task gets its first trials before any task gets more. Of alternative tasks
(one ``choice``) only the fastest is called, so the slower ones save nothing before they overtake it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.core import Task, TilewrightError, UsageError, Value, Workload
from tilewright.errors import of_any
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.tuner.budget import Budget
from tilewright.tuner.improvement import expected_improvement
from tilewright.tuner.observer import Observer
from tilewright.tuner.progress import LogProgress
from tilewright.tuner.result import TuneResult, drift_note
from tilewright.tuner.settings import DEFAULTS, TuneSettings, require_whole

if TYPE_CHECKING:
    from tilewright.database import Database, StoredRun
    from tilewright.kernels.operator import Operator
    from tilewright.tuner.tuning import Tools, Tuning

_log = logging.getLogger("tilewright.tuner")

SLICE = 8
"""Number of trials after which the next task is chosen again."""
FIRST = 16
"""Trials of every task before any task gets more, without a time budget. Fewer do not predict the improvement."""
TRIALS = 64
"""Trials per task if neither trials nor seconds are given."""
MOST = 1000
"""Largest number of trials of one task if only seconds are given."""
BEHIND = 1.1
"""Ratio of times above which the slower of two alternative tasks has practically lost."""
LIKELY = 0.02
"""Expected relative improvement of a slice if too few trials succeeded for an estimate."""
EARLY = 0.1
"""Expected relative improvement of a slice after one trial; divided by the number of trials until :data:`FIRST`. Also
the expected improvement of a task without trials on an alternative task."""
UNTRIED = 0.3
"""Expected relative improvement of the first trial of another template."""


@dataclass(frozen=True)
class TuneTask:
    """One of several tasks. ``weight``: how often the program calls it, relative to the other tasks.

    Tasks of one ``choice`` are alternatives: only the fastest is called. ``operator`` and ``params`` as for
    :func:`tilewright.tune`. ``portfolio``: largest number of kernels for a task with a range of sizes
    (:func:`tilewright.tuner.ranges.tune_tasks`).
    """

    operator: str | Operator | Callable[..., Any]
    params: Mapping[str, Value | str] = field(default_factory=dict)
    weight: float = 1.0
    threads: int = 1
    choice: str = ""
    portfolio: int | None = None

    def __post_init__(self) -> None:
        require_whole("threads", self.threads, 1)
        if self.portfolio is not None and (isinstance(self.portfolio, bool) or self.portfolio < 1):
            raise UsageError(f"{self.portfolio} kernels cannot serve a range", "Give 1 or more")
        if not 0 < self.weight < math.inf:
            raise UsageError(f"a weight is a number above 0, not {self.weight}", "Write how often the task is called")

    @property
    def name(self) -> str:
        return self.operator if isinstance(self.operator, str) else getattr(self.operator, "name", str(self.operator))


@dataclass(frozen=True)
class TunedTask:
    """A task and the result of its run (``None`` if the run failed). ``problem``: the error that ended the run."""

    task: TuneTask
    result: TuneResult | None
    problem: TilewrightError | None = None
    run: str | None = None

    @property
    def interrupted(self) -> bool:
        return self.result is not None and self.result.interrupted

    @property
    def unreached(self) -> bool:
        """Whether the time budget was used up before the task's first trial."""
        return self.result is not None and not self.result.trials and self.result.ended == "time"

    @property
    def succeeded(self) -> bool:
        """Whether no error ended the run and a trial succeeded."""
        found = self.result
        return self.problem is None and found is not None and found.best is not None and not found.all_failed

    def to_json(self) -> dict[str, Any]:
        found = self.result
        return {
            "operator": self.task.name,
            "params": dict(self.task.params),
            "weight": self.task.weight,
            "threads": self.task.threads,
            "run": self.run,
            "trials": found.trials if found else 0,
            "seconds": found.seconds if found else 0.0,
            "ended": {"why": "failed" if self.problem or not found else found.ended},
            "best": found.best.to_json() if found and found.best else None,
            **({"error": self.problem.to_json()} if self.problem else {}),
        }


def tune_many(
    tasks: Sequence[TuneTask],
    settings: TuneSettings = DEFAULTS,
    *,
    resume: bool = False,
    observer: Callable[[int], Observer] = lambda place: LogProgress(f"task {place + 1}: "),
    **keywords: Any,
) -> list[TunedTask]:
    """Search for the fastest kernels of several tasks on one device. Results are in their order, stored as by ``tune``.

    ``keywords``: fields of ``settings``, passed one by one. ``time_budget`` (seconds) and ``trials`` hold for all tasks
    together, in whole batches; the default is 64 trials per task, fewer if a task has converged. The seconds include
    finals; a task that they do not reach has no trial, and ``resume`` continues it. ``resume``: continue the newest
    unfinished run of each task that has one. ``observer`` returns the observer for the task at an index of ``tasks``.
    Ctrl-C ends all searches, and every task still gets a short final. An error ends only its own task: the result has
    it as ``problem``, and the task's observer receives a warning.

    Raises ``UsageError``, ``TargetUnavailable``, ``OperatorError`` or ``DatabaseError`` before anything is measured.
    """
    from tilewright.tuner.api import begin, no_range, operator_of
    from tilewright.tuner.tuning import Tools, Tuning, fail

    if not tasks:
        raise UsageError("no task is given", "Pass one or more")
    settings = replace(settings, **keywords)
    total, seconds = settings.trials, settings.time_budget
    if settings.unlimited:
        total = TRIALS * len(tasks)
    watchers = [observer(n) for n in range(len(tasks))]
    workloads = [operator_of(t.operator).workload(**t.params) for t in tasks]
    for workload in workloads:
        no_range(workload, "tilewright.tuner.tune_tasks")
    with ExitStack() as stack:
        connection = stack.enter_context(settings.connected(watchers[0].warning))
        threads = sorted({t.threads for t in tasks})
        places = {n: settings.place(connection, n) for n in threads}
        database = stack.enter_context(settings.database())
        wanted = [Task(w, places[t.threads].target) for w, t in zip(workloads, tasks, strict=True)]
        if len({w.key for w in wanted}) < len(wanted):
            raise UsageError("a task is given twice", "Give it once, with the sum of the weights")
        widest = places[threads[-1]]
        for warning in widest.warnings():
            watchers[0].warning(warning)
        stack.enter_context(widest.lock(on_wait=lambda holder: watchers[0].waiting(widest.device.name, holder)))
        tools = {
            n: Tools(p, stack.enter_context(p.builder()), stack.enter_context(p.runner())) for n, p in places.items()
        }
        budget = None if seconds is None else Budget(seconds, len(tasks))
        how: dict[str, Any] = {
            "budget": budget, "until_converged": settings.until_converged or settings.unlimited, "stop": settings.stop,
            "constants_passed": _constants(tasks, workloads),
        }  # fmt: skip
        each = replace(settings, trials=MOST if total is None else total)
        runs: list[StoredRun] = []
        began = time.monotonic()
        try:
            unfinished = _unfinished(database) if resume else {}
            for t, w in zip(tasks, wanted, strict=True):
                site = places[t.threads].device
                before = unfinished.get((w.key, site.model))
                runs.append(begin(database, w, site, each, before))
            if budget is not None:
                budget.stored = (time.monotonic() - began) / len(tasks)  # ending a run takes as long as storing it
            begun = [
                _begun(database, run, tools[t.threads], watcher, how)
                for t, run, watcher in zip(tasks, runs, watchers, strict=True)
            ]
            there = [n for n, t in enumerate(begun) if isinstance(t, Tuning)]
            if not there:
                raise next(e for e in begun if isinstance(e, Exception))
            tunings, searched = [t for t in begun if isinstance(t, Tuning)], [tasks[n] for n in there]
            held = _tuned(tunings, searched, total, budget)
        except BaseException as e:
            for run in runs:
                if database.run(run.id).state == "running":
                    fail(database, run, e)
            raise
        note = drift_note(r for r, _ in held if r is not None)
        if note is not None:
            watchers[0].warning(note)
    finished = iter(held)
    ends = [next(finished) if isinstance(t, Tuning) else (None, t) for t in begun]
    return [TunedTask(t, *end, run.id) for t, end, run in zip(tasks, ends, runs, strict=True)]


def _constants(tasks: Sequence[TuneTask], workloads: Sequence[Workload]) -> int:
    """Bytes of constant inputs that one pass of the whole program reads, from its tasks and their weights. Alternative
    tasks count once, with the largest bytes."""
    found: dict[str | int, float] = {}
    for n, (t, w) in enumerate(zip(tasks, workloads, strict=True)):
        sizes = (math.prod(s.shape) * ITEMSIZE[s.dtype] for s in w.inputs if s.constant)
        choice = t.choice or n
        found[choice] = max(found.get(choice, 0.0), t.weight * sum(sizes))
    return int(sum(found.values()))


def _begun(
    database: Database, run: StoredRun, tools: Tools, watcher: Observer, how: Mapping[str, Any]
) -> Tuning | TilewrightError:
    """A run that can be searched, or the error that prevents its search."""
    from tilewright.tuner.tuning import Tuning, fail

    try:
        return Tuning(database, run, tools, watcher, **how)
    except Exception as e:  # of an operator's or a template's own code
        fail(database, run, e)
        return told(watcher, e)


def _tuned(
    tunings: Sequence[Tuning], tasks: Sequence[TuneTask], trials: int | None, budget: Budget | None
) -> list[tuple[TuneResult | None, TilewrightError | None]]:
    """Search all tasks and run their finals. Time that the finals leave goes to tasks without a trial."""
    held: dict[int, tuple[TuneResult | None, TilewrightError | None]] = {}
    left = list(range(len(tunings)))
    while left:
        _search(tunings, tasks, trials, budget, left)
        over = [n for n in left if tunings[n].interrupted or tunings[n].problem is not None or not tunings[n].unreached]
        for n in over or left:
            held[n] = _finished(tunings[n], _behind(tunings, tasks, n))
            if tunings[n].interrupted:
                _interrupt(tunings)
        left = [n for n in left if n not in held]
    return [held[n] for n in range(len(tunings))]


def _finished(tuning: Tuning, brief: bool) -> tuple[TuneResult | None, TilewrightError | None]:
    """Run the final if a trial succeeded. Returns the result of the run and the error that ended it."""
    from tilewright.tuner.tuning import fail

    try:
        if tuning.problem is None or tuning.session.best is not None:
            return tuning.finish(brief), tuning.problem
        fail(tuning.database, tuning.run, tuning.problem)
        return None, tuning.problem
    except Exception as e:
        fail(tuning.database, tuning.run, e)
        return None, told(tuning.watcher, e)


def told(watcher: Observer, error: Exception) -> TilewrightError:
    """Warn the observer of an error that ends one of several tasks, and return it as a ``TilewrightError``."""
    problem = of_any(error)
    _log.info("a task failed with an error", exc_info=error)
    watcher.warning(f"this task failed, the others continue: {problem}")
    return problem


def _unfinished(database: Database) -> dict[tuple[str, str], str]:
    """The newest unfinished run by task key and device model."""
    found: dict[tuple[str, str], str] = {}
    for run in database.runs():
        if run.state not in ("done", "running"):
            found.setdefault((run.task.key, run.device_model), run.id)
    return found


def _search(
    tunings: Sequence[Tuning], tasks: Sequence[TuneTask], trials: int | None, budget: Budget | None,
    chosen: Sequence[int],
) -> None:  # fmt: skip
    """Spend the budget on the ``chosen`` tasks, a slice at a time. Under a time budget every task has a first batch
    before any task has a second one; a task waits if an alternative task has had a batch."""
    live = list(chosen)
    last: Tuning | None = None
    while live:
        made = sum(len(t.session.history) for t in tunings)
        left = math.inf if trials is None else trials - made
        if left <= 0 and all(tunings[n].session.history for n in live):
            break
        n = max(live, key=lambda n: (_worth(tunings, tasks, n, budget is not None), -len(tunings[n].session.history)))
        tuning = tunings[n]
        if budget is not None and not (
            budget.affords(tuning.run.id) if tuning.session.history else budget.room(tuning.run.id)
        ):
            live.remove(n)
            tuning.session.ended = "time"
            continue
        if last is not None and last.tools is not tuning.tools:
            last.session.settle()  # builds in the background would disturb the next task's measurements
        last = tuning
        first = FIRST - len(tuning.session.history)
        if budget is not None:
            first = tuning.untried if tuning.session.history else budget.first
        try:
            more = tuning.search(int(min(max(left, 1), first if first > 0 else SLICE)))
        except KeyboardInterrupt:
            if all(t.session.best is None for t in tunings):
                raise
            tuning.interrupt()
        except Exception as e:  # of an operator's, a template's or a strategy's own code, or a builder that died
            more = False
            tuning.fail(told(tuning.watcher, e))
        if tuning.interrupted:
            _interrupt(tunings)
            break
        if not more:
            live.remove(n)
    if last is not None:
        last.session.settle()


def _interrupt(tunings: Sequence[Tuning]) -> None:
    """Stop all searches. Each run still stores its result after a short final."""
    for t in tunings:
        t.interrupt()


def _worth(tunings: Sequence[Tuning], tasks: Sequence[TuneTask], n: int, timed: bool = False) -> float:
    """Expected savings of task ``n``: seconds of calls per second of trials; infinite before the first trials.
    ``timed``: under a time budget."""
    session = tunings[n].session
    count = len(session.history)
    others = _rivals(tunings, tasks, n)
    if count < FIRST and not (timed and (count or others)):
        return math.inf
    best = _seconds(tunings[n]) if count else min(others)
    if best is None:
        return 0.0
    called = min([best, *others])
    if timed and count and tunings[n].untried:
        return tasks[n].weight * max(0.0, called - best * (1 - UNTRIED)) / _trial_seconds(tunings, n)
        # A task behind an alternative may need more than a slice to overtake it.
    trials = (SLICE, 4 * SLICE, 16 * SLICE) if others else (SLICE,)
    improvements = {k: expected_improvement(session.history, k) for k in trials}
    unknown = LIKELY if count >= FIRST else EARLY / max(1, count)
    saved: float = max((called - best * (1 - (unknown if g is None else g))) / k for k, g in improvements.items())
    return tasks[n].weight * max(0.0, saved) / _trial_seconds(tunings, n)


def _trial_seconds(tunings: Sequence[Tuning], n: int) -> float:
    """Mean seconds of a trial of task ``n``; before its first trial, the mean over all tasks."""
    ran = [tunings[n].session] if tunings[n].session.history else [t.session for t in tunings]
    return max(sum(s.clock.elapsed for s in ran), 1e-6) / max(1, sum(len(s.history) for s in ran))


def _rivals(tunings: Sequence[Tuning], tasks: Sequence[TuneTask], n: int) -> list[float]:
    """Best seconds of each alternative to task ``n``."""
    same = [k for k, t in enumerate(tasks) if k != n and t.choice and t.choice == tasks[n].choice]
    return [s for k in same if (s := _seconds(tunings[k])) is not None]


def _behind(tunings: Sequence[Tuning], tasks: Sequence[TuneTask], n: int) -> bool:
    """Whether an alternative to task ``n`` is so much faster that the final of ``n`` hardly matters."""
    own, others = _seconds(tunings[n]), _rivals(tunings, tasks, n)
    return own is not None and bool(others) and own > BEHIND * min(others)


def _seconds(tuning: Tuning) -> float | None:
    best = tuning.session.best
    return None if best is None else best.seconds
