"""What the database hands out: frozen values without a tie to a connection."""

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
"""How many of a task's best kernels keep their compiled code."""

RUN_STATES = ("running", "done", "interrupted", "failed")
KERNEL_STATES = ("verified", "stale")


@dataclass(frozen=True)
class StoredRun:
    """One tuning run and what came of it so far.

    ``state`` is ``running`` only while its process lives (as far as this host can tell).
    ``trials``: how many are stored; ``failed``: of these, how many by kind of failure;
    ``search_seconds``: the least time of these, as the search measured it; ``None`` without a success.
    ``next_number``: one past the highest trial number stored, 0 without a trial.
    ``finished``, ``started``: seconds since the epoch.
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
        """The trial of this run that won its final; ``None`` where none did."""
        trial = self._best.get("trial") if self.won else None
        return trial if isinstance(trial, int) and trial >= 0 else None

    @property
    def final_seconds(self) -> float | None:
        """The winner's final time; ``None`` where no kernel of this run won a final."""
        return self._final("seconds") if self.won else None

    @property
    def best_seconds(self) -> float | None:
        """``final_seconds``, else ``search_seconds``: what rates and shares of a peak are of."""
        return self.final_seconds or self.search_seconds

    @property
    def peak_fraction(self) -> float | None:
        """The share of the device's peak that ``best_seconds`` is, by the peak that the final measured."""
        share, seconds, best = self._final("peak_fraction"), self._final("seconds"), self.best_seconds
        return share * (seconds / best) if share and seconds and best else None

    @property
    def _best(self) -> Mapping[str, Any]:
        """What the final stored of its winner; summaries may be of any version."""
        found = self.summary.get("best")
        return found if isinstance(found, Mapping) else {}

    @property
    def won(self) -> bool:
        """Whether its own kernel won its final, and no earlier run's; not while it goes on again."""
        return self.state != "running" and self._best.get("run") == self.id and self._final("seconds") is not None

    def _final(self, name: str) -> float | None:
        found = self._best.get(name)
        return float(found) if isinstance(found, int | float) and 0 < found < math.inf else None


@dataclass(frozen=True)
class StoredArtifact:
    """Compiled code with its provenance; ``sha256`` names ``data``, ``source`` is what it came from."""

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
        """An artifact's file as a value to store. Raises ``DatabaseError`` if it changed or is gone."""
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
    """One of the best kernels of a task on a device model, rank 1 the best.

    ``seconds``: the final time, in its last check; compare kernels by gains (paired), never by this.
    ``peak_fraction``: share of the device's peak, by the workload's operations: above 1 where the kernel needs fewer.
    ``state``: ``verified``, or ``stale`` when its template has changed since. ``compiler`` comes from the
    artifact's row.
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
    """A cost model's snapshot. ``trials``: how many it was trained on."""

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
    """Rows by table and sizes in bytes: the file with its log, and the compiled code within it."""

    rows: Mapping[str, int]
    bytes: int
    artifact_bytes: int


# --------------------------------------------------------------------------- what pages and metrics show


@dataclass(frozen=True)
class Totals:
    """How much there is of everything.

    ``runs`` by state, as ``StoredRun.state`` has it; ``failed``: of the ``trials``, how many by kind of failure;
    ``kernels``: tasks on device models that have a best kernel; ``devices``: device models that runs were on.
    """

    runs: Mapping[str, int]
    trials: int
    failed: Mapping[str, int]
    kernels: int
    workloads: int
    devices: int


@dataclass(frozen=True)
class RunFilter:
    """Which runs: those that agree with everything that is given.

    ``op``: of this operator, also where its program was first stored under another name. ``state``: one of
    ``RUN_STATES``, as ``StoredRun.state`` has it. ``search``: words, each of which is in the run's identifier,
    operator, device model, strategy, host or target's name, whatever the case, is a parameter (``m=512``), or
    one of its tags (``#slow``).
    """

    op: str | None = None
    state: str | None = None
    device_model: str | None = None
    workload_key: str | None = None
    strategy: str | None = None
    search: str = ""


@dataclass(frozen=True)
class RunProgress:
    """How far a run is. ``last_number``: the highest trial number, -1 without a trial.

    ``search_seconds``: least time of a trial, ``None`` without a success; ``finished``: seconds since the epoch.
    ``each``: seconds from one of the last trials to the next, ``None`` for too few. ``phase``: what the run says it is
    at; ``deadline``: when its search ends at the latest, seconds since the epoch.
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
    """What charts need of a trial, without its schedule.

    ``status``: ``ok`` or a ``FailureKind``'s value; ``seconds`` and ``spread`` are ``None`` for a failure. ``dropped``:
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
    """A trial among those of several runs, with its run's task."""

    run_id: str
    workload_key: str
    target_key: str
    trial: TrialRecord


@dataclass(frozen=True)
class OperatorSummary:
    """An operator: a name, of workloads or an alias of theirs. ``kernels``: of rank 1.

    ``last_started``: when its newest run was started, seconds since the epoch; ``None`` without a run.
    """

    op: str
    workloads: int
    runs: int
    trials: int
    kernels: int
    last_started: float | None


@dataclass(frozen=True)
class DeviceSummary:
    """What was tuned on a device model for a target of this name, whatever its number of threads."""

    device_model: str
    target_name: str
    runs: int
    trials: int
    last_started: float


@dataclass(frozen=True)
class TaskSummary:
    """A task on a device model: its runs and its best kernel, each of which may be missing."""

    task: Task
    device_model: str
    runs: int
    trials: int
    last_started: float | None
    best: StoredKernel | None


@dataclass(frozen=True)
class KernelView:
    """A best kernel and what it improved on.

    ``default_seconds``: search time of the default schedule, the first trial of the kernel's run; ``None`` where that
    failed or is not known. ``trial_seconds``: search time of the kernel's own trial. ``gain``: over the default
    schedule, as the final of its run measured it; ``None`` where no final compared the two.
    """

    kernel: StoredKernel
    default_seconds: float | None
    trial_seconds: float | None
    gain: Gain | None = None

    @property
    def speedup(self) -> float | None:
        """The gain's ratio, else the ratio of the two search times, which has no interval."""
        if self.gain is not None:
            return self.gain.ratio
        return self.default_seconds / self.trial_seconds if self.default_seconds and self.trial_seconds else None
