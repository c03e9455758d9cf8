"""A run's result as its final stored it: the final time, gains with their intervals, and how to call the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.core import Task, TilewrightError, Value
from tilewright.insight.knobs import value_text
from tilewright.insight.points import number_in
from tilewright.kernels.speed import is_share
from tilewright.serialization import Json
from tilewright.tuner.result import ENDS, default_is_best, why_ended
from tilewright.units import CALL_TIME, FINAL_TIME, Gain, per_second

if TYPE_CHECKING:
    from tilewright.database import StoredRun

PAIRED = "paired"
"""Key of the gains in a run's summary."""
AGAINST = {
    "default": "the default schedule", "challenger": "the fastest other schedule",
    "earlier": "the kernel of an earlier run",
}  # fmt: skip
"""Baselines of stored gains that are not libraries, with their names in sentences."""
CONFIDENCE_KEY = "confidence"
"""Key of the confidence of a stored interval over a library, 0.95. Version 0.1 stored quartiles, without this key."""
NO_INTERVAL = "stored without a 95% interval, which tilewright bench measures"
"""Note on a gain over a library that version 0.1 stored."""


@dataclass(frozen=True)
class Ratio(Json):
    """A gain over ``against`` from a paired comparison: of final times, or over a library of call times.

    ``quartiles``: the stored bounds are quartiles, not an interval of the median; ``gain`` then has no interval.
    """

    against: str
    gain: Gain
    quartiles: bool = False

    def text(self) -> str:
        """The gain in words: ``1.11x faster than numpy (95% interval 1.05x to 1.18x)``."""
        over = AGAINST.get(self.against, self.against)
        return self.gain.text(over, NO_INTERVAL) if self.quartiles else self.gain.text(over)

    @property
    def time(self) -> str:
        """The name of the compared times."""
        return FINAL_TIME if self.against in AGAINST else CALL_TIME


@dataclass(frozen=True)
class Result(Json):
    """The kernel that is served after the final.

    ``seconds``: its final time; ``low``, ``high``: the quartiles of its samples, ``None`` if not stored. ``rate``:
    operations a second at that time; ``peak_fraction``: their share of the device's peak, ``None`` if above 1. ``run``,
    ``trial``: the run and trial that found the kernel; ``kept``: whether that is an earlier run. ``default``: whether
    it is the default schedule; it then has no gain over it.
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
    """The result in a run's summary; ``None`` while it is running, without a result, and for an invalid summary."""
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
        peak_fraction=share if is_share(share := number_in(found, "peak_fraction")) else None,
        template=str(found.get("template", "")),
        schedule=dict(schedule) if isinstance(schedule, Mapping) else {},
        run=str(found.get("run") or run.id),
        trial=trial if isinstance(trial, int) and trial >= 0 else None,
        kept=run.summary.get("kept") is True,
        ratios=tuple(r for r in ratios_of(run.summary) if not (default and r.against == "default")),
        default=default,
    )


def ratios_of(summary: Mapping[str, Any]) -> tuple[Ratio, ...]:
    """The gains in a run's summary; the gain over the default schedule comes first."""
    stored = summary.get(PAIRED)
    if not isinstance(stored, Mapping):
        return ()
    found = [ratio for name, r in stored.items() if (ratio := _ratio(str(name), r)) is not None]
    return tuple(sorted(found, key=lambda r: (r.against != "default", r.against == "earlier", r.against)))


def _ratio(against: str, stored: object) -> Ratio | None:
    """Reads a stored gain, without its bounds if they are quartiles; ``None`` for an invalid value."""
    gain = Gain.read(stored)
    if gain is None:
        return None
    quartiles = _holds_quartiles(against, stored)
    return Ratio(against, Gain(gain.ratio) if quartiles else gain, quartiles)


def _holds_quartiles(against: str, stored: object) -> bool:
    """Whether the bounds of a stored gain are quartiles. Gains of finals have intervals in every version."""
    return against not in AGAINST and isinstance(stored, Mapping) and CONFIDENCE_KEY not in stored


def summary_of(run: StoredRun) -> dict[str, Any]:
    """A run's summary; ``low`` and ``high`` of a gain are ``None`` if version 0.1 stored quartiles."""
    stored = run.summary.get(PAIRED)
    if not isinstance(stored, Mapping):
        return dict(run.summary)
    honest = {
        name: {**r, "low": None, "high": None} if isinstance(r, Mapping) and _holds_quartiles(name, r) else r
        for name, r in stored.items()
    }
    return {**run.summary, PAIRED: honest}


def peak_name(run: StoredRun) -> str:
    """Name of the peak to which shares refer: measured on CPUs, stated by the vendor on GPUs."""
    from tilewright.backends import backend_for

    return "measured peak" if backend_for(run.task.target).in_process else "stated peak"


def words_of(run: StoredRun) -> list[str] | None:
    """Operator and parameters as words of a command; ``None`` for a user's operator that was not named as
    ``FILE.py:function``. For a user's kernel the operator is its reference."""
    from tilewright.kernels.operators import get_operator
    from tilewright.tuner.user_kernel import SETTING

    words = run.task.workload.label.split(" ")
    if own := run.settings.get(SETTING):
        words[0] = str(own.get("reference", "")) if isinstance(own, Mapping) else ""
        if ":" in words[0] or words[0].endswith(".py"):
            return words
    elif file := run.settings.get("operator"):
        return [str(file), *words[1:]]
    try:
        known = get_operator(words[0]).workload(**dict(w.split("=", 1) for w in words[1:]))
    except (TilewrightError, TypeError, ValueError):
        return None
    return words if known.key == run.task.workload.key else None


def tune_words(run: StoredRun) -> list[str] | None:
    """The words after ``tilewright tune`` that name the run's task; ``None`` if no words can.

    The words are an operator with its parameters, or the file of a user's kernel with parameters and options.
    """
    from tilewright.database.rows import NONSENSE
    from tilewright.tuner import user_kernel

    words = words_of(run)
    try:
        kernel = user_kernel.of_run(run)
        options = kernel.options() if kernel else []
    except (TilewrightError, *NONSENSE):  # the stored settings may be invalid
        return None
    if words is None or options is None:
        return None
    return [kernel.path, *words[1:], *options] if kernel else words


def plan_line(run: StoredRun, db: str) -> str | None:
    """The line of Python that calls the kernel; ``None`` if no words name the operator, on the emulator, and for
    databases on servers."""
    from tilewright.backends import backend_for, is_emulated

    words = words_of(run)
    if words is None or "://" in db or is_emulated(run.device_model):
        return None
    if not backend_for(run.task.target).in_process:
        if not words[0].isidentifier():  # Library has methods for built-in operators only
            return None
        return f"tilewright.Library({db!r}).{words[0]}({', '.join(x.name for x in run.task.workload.inputs)})"
    return call_line(run.task, words, db)


def call_line(task: Task, words: Sequence[str], db: str) -> str:
    """The line of Python that calls a task's kernel. ``words``: operator and parameters as words of a command."""
    chosen, threads = dict(task.workload.params), task.target.threads
    pairs = (word.split("=", 1) for word in words[1:])
    given = [repr(words[0]), *(f"{name}={chosen.get(name, text)!r}" for name, text in pairs)]
    library = f"tilewright.Library({db!r}{f', threads={threads}' if threads > 1 else ''})"
    return f"{library}.plan({', '.join(given)})"


# --------------------------------------------------------------------------- the outcome in words

NOTHING = "no kernel"
"""The outcome of a run that ended normally without a kernel."""
SHORT = {"time": "time budget used", "space": "whole search space", "converged": "converged"}
"""Short reasons why a run ended normally before all requested trials were run."""


def outcome(run: StoredRun) -> str:
    """A run's state for people: a ``done`` run is also told apart by its result and the reason for an early end."""
    if run.state != "done":
        return run.state
    if run.trials and run.best_seconds is None:
        return NOTHING
    why = SHORT.get(why_ended(run.summary) or "")
    return f"done: {why}" if why else "done"


def ending(run: StoredRun) -> str:
    """Why a run ended, as a sentence; empty while it is running, and if unknown."""
    why = why_ended(run.summary)
    if run.state == "running":
        return ""
    if run.finished is None:
        return "The run's process is gone: the run ended without a final." if run.state == "interrupted" else ""
    return f"{ENDS[why][0].upper()}{ENDS[why][1:]}." if why else ""
