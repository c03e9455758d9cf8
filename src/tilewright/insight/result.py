"""What a run found, as its final stored it: the time with its interval, paired ratios, and how to call the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.core import Task, TilewrightError, Value
from tilewright.insight.knobs import value_text
from tilewright.insight.points import number_in
from tilewright.serialization import Json
from tilewright.tuner.result import ENDS, default_is_best, why_ended
from tilewright.units import per_second

if TYPE_CHECKING:
    from tilewright.database import StoredRun

PAIRED = "paired"
"""Under which name a run's summary holds ratios."""
AGAINST = {
    "default": "the default schedule", "challenger": "the fastest other schedule",
    "earlier": "the kernel of an earlier run",
}  # fmt: skip
"""What ratios are to, where their name is not that of a library."""


@dataclass(frozen=True)
class Ratio(Json):
    """``ratio`` times as fast as ``against``, timed in turn; ``low`` and ``high``: its interval, where it is known."""

    against: str
    ratio: float
    low: float | None
    high: float | None

    @property
    def name(self) -> str:
        """What it is to, in words."""
        return AGAINST.get(self.against, self.against)


@dataclass(frozen=True)
class Result(Json):
    """The kernel that look-ups were served after the final. ``seconds``: of one call, there; ``low`` and ``high``: the
    middle half of the samples, ``None`` where that is not stored. ``rate``: operations a second. ``peak_fraction``: of
    the device's peak, at that time. ``run`` and ``trial``: where it was found, ``kept`` where that was an earlier run.
    ``default``: whether it is the default schedule; ``ratios`` then leave that out.
    """

    seconds: float
    low: float | None
    high: float | None
    rate: float | None
    peak_fraction: float | None
    template: str
    schedule: Mapping[str, Value]
    run: str
    trial: int | None
    kept: bool
    ratios: tuple[Ratio, ...]
    default: bool = False

    def schedule_text(self) -> str:
        return " ".join(f"{k}={value_text(v)}" for k, v in self.schedule.items())


def result_of(run: StoredRun) -> Result | None:
    """What the run's summary says; ``None`` where it goes on, found nothing, or stored nothing that makes sense."""
    found = run.summary.get("best")
    if run.state == "running" or not isinstance(found, Mapping):
        return None
    seconds, trial, spread = number_in(found, "seconds"), found.get("trial"), found.get("spread")
    if seconds is None:
        return None
    schedule, default = found.get("schedule"), default_is_best(run.summary)
    half = min(spread / 2, 0.95) if isinstance(spread, float) and spread >= 0 else None
    return Result(
        seconds=seconds,
        low=None if half is None else seconds * (1 - half),
        high=None if half is None else seconds * (1 + half),
        rate=per_second(run.task.workload.flops, seconds) if run.task.workload.flops else None,
        peak_fraction=number_in(found, "peak_fraction"),
        template=str(found.get("template", "")),
        schedule=dict(schedule) if isinstance(schedule, Mapping) else {},
        run=str(found.get("run") or run.id),
        trial=trial if isinstance(trial, int) and trial >= 0 else None,
        kept=run.summary.get("kept") is True,
        ratios=tuple(r for r in ratios_of(run.summary) if not (default and r.against == "default")),
        default=default,
    )


def ratios_of(summary: Mapping[str, Any]) -> tuple[Ratio, ...]:
    """Ratios that were stored with a run, to the default schedule first."""
    stored = summary.get(PAIRED)
    if not isinstance(stored, Mapping):
        return ()
    found = [
        Ratio(str(name), ratio, number_in(r, "low"), number_in(r, "high"))
        for name, r in stored.items()
        if isinstance(r, Mapping) and (ratio := number_in(r, "ratio")) is not None
    ]
    return tuple(sorted(found, key=lambda r: (r.against != "default", r.against == "earlier", r.against)))


def peak_name(run: StoredRun) -> str:
    """Which peak a share is of: measured on processors, as the vendor states it on GPUs."""
    from tilewright.backends import backend_for

    return "measured peak" if backend_for(run.task.target).in_process else "stated peak"


def words_of(run: StoredRun) -> list[str] | None:
    """Operator and parameters as a command takes them, where the operator's name says what was tuned; ``None`` for
    operators and kernels of one's own, whose files only their owner knows."""
    from tilewright.kernels.operators import get_operator
    from tilewright.tuner.user_kernel import SETTING

    words = run.task.workload.label.split(" ")
    if run.settings.get(SETTING):
        return None
    try:
        known = get_operator(words[0]).workload(**dict(w.split("=", 1) for w in words[1:]))
    except (TilewrightError, TypeError, ValueError):
        return None
    return words if known.key == run.task.workload.key else None


def plan_line(run: StoredRun, db: str) -> str | None:
    """What calls the kernel from Python; ``None`` where only its owner can say what it is called, on GPUs, and for
    databases on servers."""
    from tilewright.backends import backend_for, is_emulated

    words = words_of(run)
    if words is None or "://" in db or is_emulated(run.device_model) or not backend_for(run.task.target).in_process:
        return None
    return call_line(run.task, words, db)


def call_line(task: Task, words: Sequence[str], db: str) -> str:
    """What calls the kernel of a task from Python. ``words``: operator and parameters as a command takes them."""
    chosen, threads = dict(task.workload.params), task.target.threads
    pairs = (word.split("=", 1) for word in words[1:])
    given = [repr(words[0]), *(f"{name}={chosen.get(name, text)!r}" for name, text in pairs)]
    library = f"tilewright.Library({db!r}{f', threads={threads}' if threads > 1 else ''})"
    return f"{library}.plan({', '.join(given)})"


# --------------------------------------------------------------------------- what came of it, in words

NOTHING = "no kernel"
"""A run that ended as it should have, and found nothing."""
SHORT = {"time": "time over", "space": "whole space", "converged": "converged"}
"""Why a run that was not stopped ended before it had made all trials, shortly."""


def outcome(run: StoredRun) -> str:
    """A run's state as people should read it: ``done`` says neither that nothing was found nor why it ended early."""
    if run.state != "done":
        return run.state
    if run.trials and run.best_seconds is None:
        return NOTHING
    why = SHORT.get(why_ended(run.summary) or "")
    return f"done: {why}" if why else "done"


def ending(run: StoredRun) -> str:
    """Why a run ended, as a sentence; empty while it goes on and where that is not known."""
    why = why_ended(run.summary)
    if run.state == "running":
        return ""
    if run.finished is None:
        return "Its process is gone: it ended without a final." if run.state == "interrupted" else ""
    return f"{ENDS[why][0].upper()}{ENDS[why][1:]}." if why else ""
