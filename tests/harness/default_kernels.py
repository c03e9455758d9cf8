"""Databases of kernels with default schedules: compiled, not timed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tilewright.core import Artifact, Candidate, Task, Workload
from tilewright.database import Database, StoredArtifact, StoredKernel
from tilewright.extent import greatest
from tilewright.kernels import templates
from tilewright.measure.local_target import find_local_target


def default_kernels(workloads: Iterable[Workload], path: Path, target: str = "auto") -> None:
    """Compile each workload's default schedule, many in a library, and store the kernel as if it had been tuned.

    A kernel of a workload with symbolic sizes is stored for all sizes of its ranges.
    """
    refused = built_defaults(workloads, path, target)
    assert not refused, refused


def built_defaults(workloads: Iterable[Workload], path: Path, target: str = "auto") -> list[str]:
    """Does as :func:`default_kernels`, and returns a line for each workload that has no kernel."""
    place = find_local_target(target, "auto", 1)
    tasks = [Task(w, place.target) for w in {w.key: w for w in workloads}.values()]
    candidates = [Candidate(t, templates.default_schedule(t).at(greatest(t.workload.ranges))) for t in tasks]
    with place.builder() as builder:
        results = builder.build(candidates)
    refused = []
    with Database.open(path) as database:
        for candidate, built in zip(candidates, results, strict=True):
            if not isinstance(built, Artifact):
                refused.append(f"{candidate.task.workload.op}: {built}")
                continue
            kernel = StoredKernel(
                candidate.task, "", 1, candidate.schedule, built.program, 1e-6, built.sha256, state="verified"
            )  # fmt: skip
            artifact = StoredArtifact.read(built, templates.full_source(candidate))
            database.set_kernels(candidate.task, place.device.model, None, [kernel], [artifact])
    return refused
