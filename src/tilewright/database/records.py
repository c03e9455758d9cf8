"""What the database hands out: frozen values without a tie to a connection."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.core import Artifact, DatabaseError, LaunchProgram, Pairs, Schedule, Target, Task

RANKS = 3
"""How many of a task's best kernels keep their compiled code."""

RUN_STATES = ("running", "done", "interrupted", "failed")
KERNEL_STATES = ("verified", "stale")


@dataclass(frozen=True)
class StoredRun:
    """One tuning run and what came of it so far.

    ``state`` is ``running`` only while its process lives (as far as this host can tell).
    ``trials``: how many are stored; ``failed``: of these, how many by kind of failure;
    ``best_seconds``: least measured time within this run, ``None`` without a success.
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
    best_seconds: float | None = None
    next_number: int = 0


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

    ``seconds``: time of one call in its last check; compare kernels by paired runs, never by this.
    ``peak_fraction``: share of the device's peak, 0 to 1. ``state``: ``verified``, or ``stale`` when
    its template has changed since. ``compiler`` comes from the artifact's row.
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
