"""What a tuning run found, as a value and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.backends import NO_PEAKS, Peaks
from tilewright.core import Failure, Schedule, Task, TrialRecord


@dataclass(frozen=True)
class BestKernel:
    """A kernel that won its final: median seconds of one call, and its share of the peak.

    The peak is measured on a CPU (multiply-adds of the cores in use) and the stated one on a GPU.
    """

    seconds: float
    gflops: float
    peak_fraction: float | None
    template: str
    schedule: Schedule
    run: str
    trial: int

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "schedule": dict(self.schedule.values)}


ENDS = {
    "trials": "every trial that was wanted was made",
    "time": "the time was over",
    "space": "every legal schedule was tried",
    "converged": "further trials were expected to gain nothing",
    "stopped": "it was stopped",
    "failed": "it failed",
}
"""Why a run ended, and how to say it."""


@dataclass(frozen=True)
class TuneResult:
    """One finished run. ``time`` says where its ``seconds`` went; ``best`` is what look-ups now serve.

    ``kept`` is true when the stored kernel of an earlier run won the final against this run's best.
    ``gate`` says what the static gate saw and saved, on targets that have one (``GateCounts.to_json``).
    ``peaks`` are the device's limits. ``ended``: why it ended, one of :data:`ENDS`. ``drift``: how many times as long
    kernels took at its end as in their trials.
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

    def to_json(self) -> dict[str, Any]:
        return {
            "workload": self.task.workload.label,
            "workload_key": self.task.workload.key,
            "target": self.task.target.name,
            "threads": self.task.target.threads,
            "device": self.device,
            "device_model": self.device_model,
            "run": self.run,
            "database": self.database,
            "trials": self.trials,
            "failed": dict(self.failed),
            "structures": self.structures,
            "space_size": self.space_size,
            "seconds": self.seconds,
            "time": dict(self.time),
            "best": self.best.to_json() if self.best else None,
            "kept": self.kept,
            "ended": {"why": self.ended},
            "drift": self.drift,
            "curve": [{"trial": n, "seconds": s} for n, s in self.curve],
            "peaks": self.peaks.to_json(),
            **({"gate": dict(self.gate)} if self.gate else {}),
        }


def why_ended(summary: Mapping[str, Any]) -> str | None:
    """Why a stored run ended, one of :data:`ENDS`; ``None`` where it runs, or was made before that was stored."""
    ended = summary.get("ended")
    why = ended.get("why") if isinstance(ended, Mapping) else None
    return why if isinstance(why, str) and why in ENDS else None


def failures(history: Sequence[TrialRecord]) -> dict[str, int]:
    """How many trials failed, by kind."""
    return dict(Counter(r.outcome.kind.value for r in history if isinstance(r.outcome, Failure)))


def curve(history: Sequence[TrialRecord]) -> tuple[tuple[int, float], ...]:
    """Trial number and best seconds so far, one point per improvement."""
    points: list[tuple[int, float]] = []
    for r in history:
        if r.seconds is not None and (not points or r.seconds < points[-1][1]):
            points.append((r.number, r.seconds))
    return tuple(points)
