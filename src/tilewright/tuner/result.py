"""The result of a tuning run, as a value and as JSON."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.backends import NO_PEAKS, Peaks, backend_for
from tilewright.core import IMPLICIT, Failure, Schedule, Task, TrialRecord, UsageError, cached_property
from tilewright.kernels.speed import is_compute_bound, is_share, speed
from tilewright.runtime import Library
from tilewright.units import FINAL_TIME, SEARCH_TIME, Gain, with_unit

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class BestKernel:
    """A kernel that won its final: its final time in ``seconds``, and its share of the peak at that time.

    ``spread``: relative interquartile range of the final's samples, ``None`` if unknown. The peak is measured on a CPU
    (multiply-adds of the cores in use) and the stated one on a GPU. ``default``: whether the kernel has the default
    schedule, which stays unless another schedule is measured to be faster. ``search_seconds``: the search time of
    the kernel's trial in this run, ``None`` without a trial in this run.
    """

    seconds: float
    gflops: float
    peak_fraction: float | None
    template: str
    schedule: Schedule
    run: str
    trial: int
    spread: float | None = None
    default: bool = False
    search_seconds: float | None = None

    @property
    def final_seconds(self) -> float:
        return self.seconds

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "final_seconds": self.seconds, "schedule": dict(self.schedule.values)}


DEFAULT_IS_BEST = "the default schedule is the best found"
"""Message for a run whose final the default schedule has won."""
ENDS = {
    "trials": "all requested trials were run",
    "time": "the time budget was used up",
    "space": "every legal schedule was tried",
    "converged": "more trials were expected to gain less than noise",
    "stopped": "the run was stopped",
    "failed": "the run failed",
}
"""Reasons why a run ended, with their texts."""


@dataclass(frozen=True, repr=False)
class TuneResult:
    """One finished run. ``seconds`` in total, ``time`` by activity; ``best``: the kernel that look-ups serve.

    ``kept`` is true if the stored kernel of an earlier run won the final against this run's best.
    ``gate``: counts of the static gate, on targets that have one (``GateCounts.to_json``).
    ``peaks`` are the device's peak rates. ``curve``: trial and search time of each improvement. ``paired``: gains by
    name. Each gain is the median ``ratio`` of times taken alternately, with its 95% interval ``low`` to ``high``.
    ``default``: the winner's gain over the default schedule, exactly 1 if the default won. ``challenger``: the
    default's gain over the fastest other schedule, if the default won. ``earlier``: the gain of this run's best over
    the kernel of an earlier run. ``ended``: why the run ended, a key of :data:`ENDS`. ``drift``: median ratio of final
    times to search times of the finalists. ``failure``: the most common message of failed trials, if any failed.
    """

    task: Task
    run: str
    device: str
    trials: int
    failed: Mapping[str, int]
    seconds: float
    best: BestKernel | None
    kept: bool
    curve: tuple[tuple[int, float], ...]
    time: Mapping[str, float]
    structures: int
    space_size: int
    database: str
    interrupted: bool = False
    ended: str = "trials"
    device_model: str = ""
    gate: Mapping[str, Any] | None = None
    peaks: Peaks = NO_PEAKS
    drift: float | None = None
    failure: str | None = None
    paired: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def all_failed(self) -> bool:
        """Whether every trial failed; ``best`` then is the kernel of an earlier run, if it has one."""
        return 0 < self.trials == sum(self.failed.values())

    @property
    def no_success(self) -> str:
        """Why the run stored no kernel: number and kinds of failed trials, or failed finalists."""
        if self.trials > sum(self.failed.values()):
            return "no kernel won: each of the fastest failed its second check"
        failed = ", ".join(f"{n} {kind}" for kind, n in self.failed.items()) or "none was run"
        return f"no trial succeeded: {failed}{f', such as: {self.failure}' if self.failure else ''}"

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """The task's stored kernel as a callable ``(inputs..., out=None)`` on the arrays of any framework.

        On a CPU it is a plan (:meth:`tilewright.Library.plan`) for arrays of exactly the task's shapes and dtypes.
        Raises ``UsageError`` if no trial succeeded, or the kernel is another machine's.
        """
        workload, target = self.task.workload, self.task.target
        if self.best is None:
            raise UsageError(
                f"run {self.run} found no kernel of {workload.label}", f"See why: tilewright explain {self.run}"
            )
        library = Library(self.database, threads=target.threads)
        if backend_for(target).in_process:
            found = library.explain(workload)
            if found.tier != "exact":
                raise UsageError(f"the kernel of {workload.label} does not run here: {found.reason}", "Tune it here")
            return library.plan(workload)
        named = {k: v for k, v in workload.params if k in dict(workload.defaults) and k not in IMPLICIT}

        def call(*arrays: Any, out: Any = None) -> Any:
            return getattr(library, workload.op)(*arrays, out=out, **named)

        return call

    def to_dataframe(self) -> DataFrame:
        """The run's trials as rows: see :meth:`tilewright.database.Database.trials_frame`. It needs pandas."""
        from tilewright.database import Database

        with Database.open(self.database, create=False, readonly=True) as database:
            return database.trials_frame(self.run)

    def __repr__(self) -> str:
        return f"<TuneResult {', '.join(f'{k} {v}' if k else v for k, v in self._facts())}>"

    def _repr_html_(self) -> str:
        facts = [(k or "task", html.escape(v)) for k, v in self._facts()]
        if self.gain is not None:
            facts.insert(2, ("gain", self.gain_text()))
        if self.best is not None:
            facts.append(("call", f"<code>{html.escape(self._call())}</code>"))
        return html_table(facts)

    @property
    def search_seconds(self) -> float | None:
        """Least search time of the run; ``None`` if no trial was measured."""
        return self.curve[-1][1] if self.curve else None

    @property
    def gain(self) -> float | None:
        """Speed of the stored kernel relative to the default schedule: the ratio of final times, else of search
        times; ``None`` if the default schedule, the first trial, was not measured."""
        final = Gain.read(self.paired.get("default"))
        if final is not None:
            return final.ratio
        return self.curve[0][1] / self.curve[-1][1] if self.curve and self.curve[0][0] == 0 else None

    def gain_text(self, short: bool = False) -> str:
        """The gain in words, with its interval. ``short``: as for a table's column."""
        if self.best is None or self.gain is None:
            return "not measured"
        if self.best.default:
            return "the default is best" if short else f"none: {DEFAULT_IS_BEST}"
        return gain_text(Gain.read(self.paired.get("default")), self.gain, short)

    def search_note(self) -> str | None:
        """One sentence why the winner's search time is not the least of the run; ``None`` if it is the least."""
        if self.best is None or self.kept or not self.curve:
            return None
        return search_note(self.best.trial, self.best.search_seconds, self.curve[-1], self.best.default)

    def _call(self) -> str:
        """A line of Python that calls the stored kernel."""
        workload = self.task.workload
        arrays = ", ".join(spec.name for spec in workload.inputs)
        library = f"tilewright.Library({self.database!r})"
        if not backend_for(self.task.target).in_process:
            return f"{library}.{workload.op}({arrays})"
        given = (f", {k}={v!r}" for k, v in workload.params if (k, v) not in workload.defaults)
        return f"{library}.plan({workload.op!r}{''.join(given)})({arrays})"

    def _facts(self) -> list[tuple[str, str]]:
        """Name and text of the facts to show; the task itself has an empty name."""
        target, best = self.task.target, self.best
        facts = [("", f"{self.task.workload.label} on {target.name} x{target.threads}")]
        if best is None:
            facts.append((FINAL_TIME, "none: no trial succeeded"))
        else:
            known = is_share(best.peak_fraction) and is_compute_bound(self.task.workload)
            share = f", {best.peak_fraction:.1%} of the peak" if known else ""
            fast = f"{with_unit(best.seconds, 's')} ({speed(self.task.workload, best.seconds)}{share})"
            facts.append((FINAL_TIME, fast))
            facts.append(("template", best.template))
        why = f": {self.failure}" if self.all_failed and self.failure else ""
        failed = f" ({sum(self.failed.values())} failed{why})" if self.failed else ""
        return [*facts, ("trials", f"{self.trials}{failed} in {with_unit(self.seconds, 's')}"), ("run", self.run)]

    def to_json(self) -> dict[str, Any]:
        """The result's fields, with the task split into fields; without ``interrupted``, as a run's state says it."""
        workload, target = self.task.workload, self.task.target
        left_out = {"task", "interrupted", "kernel", *(() if self.gate else ("gate",))}
        return {
            "workload": workload.label, "workload_key": workload.key, "target": target.name, "threads": target.threads,
            **{name: value for name, value in vars(self).items() if name not in left_out},
            "search_seconds": self.search_seconds, "best": self.best.to_json() if self.best else None,
            "ended": {"why": self.ended}, "curve": [{"trial": n, "seconds": s} for n, s in self.curve],
            "peaks": self.peaks.to_json(),
        }  # fmt: skip


def gain_text(gain: Gain | None, by_search: float | None, short: bool = False) -> str:
    """A gain over the default schedule in words. ``by_search``: the ratio of search times, used if no final compared
    the two kernels. ``short``: as for a table's column."""
    if gain is not None:
        return gain.text("" if short else "the default schedule")
    if by_search is None:
        return "not measured"
    ratio = with_unit(by_search, "times")
    if short:
        return f"{ratio} by {SEARCH_TIME}s, no interval"
    return f"{ratio} the default schedule's speed by {SEARCH_TIME}s, which have no interval"


def search_note(trial: int, seconds: float | None, least: tuple[int, float], default: bool = False) -> str | None:
    """One sentence why the search time of winner ``trial`` is not the least of its run; ``None`` if it is the least.

    ``least``: the trial with the least search time, and that time. ``default``: whether the winner is the default
    schedule.
    """
    number, fastest = least
    if number == trial or seconds is None or seconds <= fastest:
        return None
    final = (
        "the final did not measure it to be faster than the default schedule" if default
        else f"the final timed the fastest trials again, in turns, and trial {trial} won"
    )  # fmt: skip
    own = f"trial {trial}: {with_unit(seconds, 's')}"
    return f"Trial {number} has the least {SEARCH_TIME}, {with_unit(fastest, 's')} ({own}): {final}."


DRIFT = 0.05
"""Relative change of a machine's speed during a run that may change which kernel wins."""


def drift_note(results: Iterable[TuneResult]) -> str | None:
    """Warning about a machine whose speed changed during runs; ``None`` if the change affected no winner.

    The change counts as relevant if the final chose another kernel than the fastest trial.
    """
    found = sorted(
        r.drift for r in results
        if r.drift is not None and abs(r.drift - 1) > DRIFT
        and r.best is not None and not r.kept and r.curve and r.best.trial != r.curve[-1][0]
    )  # fmt: skip
    if not found:
        return None
    times = found[len(found) // 2]
    change = f"{times:.2f}x slower" if times > 1 else f"{1 / times:.2f}x faster"
    return (
        f"this machine has become {change} since the run began: the final chose another kernel than the fastest trial"
    )


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """An HTML table for notebooks from names and HTML values."""
    left = ' style="text-align:left"'
    return f"<table>{''.join(f'<tr><th{left}>{k}</th><td{left}>{v}</td></tr>' for k, v in rows)}</table>"


def why_ended(summary: Mapping[str, Any]) -> str | None:
    """Why a stored run ended, a key of :data:`ENDS`; ``None`` for a running run, or one of an older version."""
    ended = summary.get("ended")
    why = ended.get("why") if isinstance(ended, Mapping) else None
    return why if isinstance(why, str) and why in ENDS else None


def default_is_best(summary: Mapping[str, Any]) -> bool:
    """Whether the default schedule has won the final of a stored run."""
    best = summary.get("best")
    return isinstance(best, Mapping) and best.get("default") is True


def failures(history: Sequence[TrialRecord]) -> dict[str, int]:
    """Number of failed trials by kind."""
    return dict(Counter(r.outcome.kind.value for r in history if isinstance(r.outcome, Failure)))


def commonest_failure(history: Sequence[TrialRecord]) -> str | None:
    """The most common message of failed trials."""
    found = Counter(r.outcome.message for r in history if isinstance(r.outcome, Failure))
    return found.most_common(1)[0][0] if found else None


def curve(history: Sequence[TrialRecord]) -> tuple[tuple[int, float], ...]:
    """Trial number and best seconds so far, a point for each improvement."""
    points: list[tuple[int, float]] = []
    for r in history:
        if r.seconds is not None and (not points or r.seconds < points[-1][1]):
            points.append((r.number, r.seconds))
    return tuple(points)
