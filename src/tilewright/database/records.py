"""Records that the database returns: frozen values that hold no connection."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.core import Artifact, DatabaseError, LaunchProgram, Pairs, Schedule, Target, Task, TrialRecord
from tilewright.units import Gain

RANKS = 3
"""Number of kernels stored for each task and device model, with their compiled code."""

RUN_STATES = ("running", "done", "interrupted", "failed")
KERNEL_STATES = ("verified", "stale")


@dataclass(frozen=True)
class StoredRun:
    """A tuning run and its results so far.

    ``state`` is ``running`` only while the run's process lives (as far as this host can tell). ``trials``: number of
    stored trials; ``failed``: number of failed trials by kind of failure. ``search_seconds``: least search time of a
    trial, ``None`` without a success. ``next_number``: one past the highest stored trial number, 0 without a trial.
    ``started``, ``finished``: seconds since the epoch.
    """

    id: str
    task: Task
    device_name: str
    device_model: str
    strategy: str
    seed: int
    trials_wanted: int
    settings: Mapping[str, Any]
    state: str
    started: float
    finished: float | None
    host: str
    pid: int
    versions: Mapping[str, Any]
    summary: Mapping[str, Any]
    trials: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    search_seconds: float | None = None
    next_number: int = 0

    @property
    def winner(self) -> int | None:
        """Number of this run's trial that won its final; ``None`` if no trial of this run did."""
        trial = self._best.get("trial") if self.won else None
        return trial if isinstance(trial, int) and trial >= 0 else None

    @property
    def final_seconds(self) -> float | None:
        """The winner's final time; ``None`` if no kernel of this run won a final."""
        return self._final("seconds") if self.won else None

    @property
    def best_seconds(self) -> float | None:
        """``final_seconds``, else ``search_seconds``: the time from which rates and shares of a peak are computed."""
        return self.final_seconds or self.search_seconds

    @property
    def peak_fraction(self) -> float | None:
        """Share of the device's peak at ``best_seconds``, by the peak that the final measured."""
        share, seconds, best = self._final("peak_fraction"), self._final("seconds"), self.best_seconds
        return share * (seconds / best) if share and seconds and best else None

    @property
    def _best(self) -> Mapping[str, Any]:
        """The final's entry for its winner; empty if the summary, which may be of any version, has no valid entry."""
        found = self.summary.get("best")
        return found if isinstance(found, Mapping) else {}

    @property
    def won(self) -> bool:
        """Whether this run's own kernel won its final, not an earlier run's kernel. ``False`` while the run is
        running."""
        return self.state != "running" and self._best.get("run") == self.id and self._final("seconds") is not None

    def _final(self, name: str) -> float | None:
        found = self._best.get(name)
        return float(found) if isinstance(found, int | float) and 0 < found < math.inf else None


@dataclass(frozen=True)
class StoredArtifact:
    """Compiled code with its provenance. ``sha256``: hash of ``data``. ``source``: the source that it was compiled
    from."""

    sha256: str
    data: bytes
    target: Target
    compiler: str
    flags: tuple[str, ...]
    source: str
    source_sha256: str
    created: float = 0.0

    @staticmethod
    def read(artifact: Artifact, source: str) -> StoredArtifact:
        """Reads an artifact's file into a record to store. Raises ``DatabaseError`` if the file changed or is gone."""
        try:
            data = Path(artifact.path).read_bytes()
        except OSError as e:
            raise DatabaseError(
                f"cannot read the compiled kernel {artifact.path}: {e.strerror}", "Build it again"
            ) from None
        if hashlib.sha256(data).hexdigest() != artifact.sha256:
            raise DatabaseError(f"the compiled kernel {artifact.path} changed since it was built", "Build it again")
        return StoredArtifact(
            artifact.sha256,
            data,
            artifact.target,
            artifact.compiler,
            artifact.flags,
            source,
            artifact.source_sha256,
        )


@dataclass(frozen=True)
class StoredKernel:
    """One of the best kernels of a task on a device model; rank 1 is the best.

    ``seconds``: the final time, from its last check. Compare kernels by their gains, which are paired, not by this
    time. ``peak_fraction``: share of the device's peak, by the workload's operations. It may exceed 1 for a kernel that
    executes fewer operations. ``state``: ``verified``, or ``stale`` when its template has changed since. ``compiler``
    comes from the artifact's row.
    """

    task: Task
    device_model: str
    rank: int
    schedule: Schedule
    program: LaunchProgram
    seconds: float
    artifact_sha256: str
    peak_fraction: float | None = None
    run_id: str | None = None
    trial_number: int | None = None
    state: str = "verified"
    compiler: str = ""
    updated: float = 0.0

    @property
    def final_seconds(self) -> float:
        return self.seconds

    @property
    def template_version(self) -> int:
        return self.schedule.version


@dataclass(frozen=True)
class StoredModel:
    """A cost model's snapshot. ``trials``: number of trials that it was trained on."""

    id: str
    feature_version: str
    data: bytes
    trials: int
    created: float


@dataclass(frozen=True)
class Miss:
    """A look-up that found no tuned kernel. ``first``, ``last``: seconds since the epoch."""

    op: str
    params: Pairs
    target_key: str
    count: int
    first: float
    last: float


@dataclass(frozen=True)
class DatabaseStats:
    """Number of rows by table, and sizes in bytes. ``bytes``: the whole database, with its log; ``artifact_bytes``: its
    compiled code."""

    rows: Mapping[str, int]
    bytes: int
    artifact_bytes: int


# --------------------------------------------------------------------------- records for pages and metrics


@dataclass(frozen=True)
class Totals:
    """Counts over the whole database.

    ``runs`` by ``StoredRun.state``; ``failed``: number of failed trials by kind of failure; ``kernels``: number of
    pairs of task and device model with a best kernel; ``devices``: number of device models with runs.
    """

    runs: Mapping[str, int]
    trials: int
    failed: Mapping[str, int]
    kernels: int
    workloads: int
    devices: int


@dataclass(frozen=True)
class RunFilter:
    """A filter of runs: a run must match every given field.

    ``op``: the operator's name, even if its program was first stored under another name. ``state``: one of
    ``RUN_STATES``, as of ``StoredRun.state``. ``search``: words that must all match, in any case. A word matches a part
    of the run's identifier, operator, device model, strategy, host or target's name, a parameter (``m=512``), or a tag
    (``#slow``).
    """

    op: str | None = None
    state: str | None = None
    device_model: str | None = None
    workload_key: str | None = None
    strategy: str | None = None
    search: str = ""


@dataclass(frozen=True)
class RunProgress:
    """A run's progress.

    ``last_number``: the highest trial number, -1 without a trial. ``search_seconds``: least search time of a trial,
    ``None`` without a success. ``each``: average seconds between the latest trials, ``None`` for too few. ``phase``:
    the phase that the run reports. ``deadline``: when its search ends at the latest. ``finished``, ``deadline``:
    seconds since the epoch.
    """

    state: str
    trials: int
    last_number: int
    search_seconds: float | None
    finished: float | None
    each: float | None = None
    phase: str | None = None
    deadline: float | None = None


@dataclass(frozen=True)
class TrialPoint:
    """The fields of a trial that charts need, without its schedule.

    ``status``: ``ok`` or a ``FailureKind``'s value. ``seconds`` and ``spread`` are ``None`` for a failure. ``dropped``:
    timing stopped early, as in ``Measurement``.
    """

    run_id: str
    number: int
    template: str
    status: str
    seconds: float | None
    spread: float | None
    prediction: float | None
    origin: str
    created: float
    dropped: bool = False


@dataclass(frozen=True)
class TrialRow:
    """A trial with its run and its run's task, for lists over several runs."""

    run_id: str
    workload_key: str
    target_key: str
    trial: TrialRecord


@dataclass(frozen=True)
class OperatorSummary:
    """Counts for an operator's name, which workloads have as their name or as an alias.

    ``kernels``: number of kernels of rank 1. ``last_started``: start of its newest run, in seconds since the epoch;
    ``None`` without a run.
    """

    op: str
    workloads: int
    runs: int
    trials: int
    kernels: int
    last_started: float | None


@dataclass(frozen=True)
class DeviceSummary:
    """Counts for a device model and a target's name, over all numbers of threads. ``last_started``: start of its newest
    run, in seconds since the epoch."""

    device_model: str
    target_name: str
    runs: int
    trials: int
    last_started: float


@dataclass(frozen=True)
class TaskSummary:
    """A task on a device model: its number of runs, which may be 0, and its best kernel, if there is one."""

    task: Task
    device_model: str
    runs: int
    trials: int
    last_started: float | None
    best: StoredKernel | None


@dataclass(frozen=True)
class KernelView:
    """A best kernel and its improvement over the default schedule.

    ``default_seconds``: search time of the default schedule, the first trial of the kernel's run; ``None`` if that
    trial failed or is unknown. ``trial_seconds``: search time of the kernel's own trial. ``gain`` over the default
    schedule, as the run's final measured it; ``None`` if no final compared them.
    """

    kernel: StoredKernel
    default_seconds: float | None
    trial_seconds: float | None
    gain: Gain | None = None

    @property
    def speedup(self) -> float | None:
        """The gain's ratio, else the ratio of the search times, which has no interval."""
        if self.gain is not None:
            return self.gain.ratio
        return self.default_seconds / self.trial_seconds if self.default_seconds and self.trial_seconds else None
