"""Verifies stored winners with the current compiler and templates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from tilewright import backends
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Failure, IllegalSchedule, Target
from tilewright.database import Database, StoredArtifact, StoredKernel
from tilewright.kernels import templates
from tilewright.measure.local_target import LocalTarget, find_local_target
from tilewright.measure.measuring import Runner
from tilewright.tuner.user_kernel import template_version


@dataclass(frozen=True)
class Verified:
    """Result of verifying a stored kernel: its new time, or why it must not be served."""

    kernel: StoredKernel
    seconds: float | None
    problem: str | None


def verify(database: Database, *, op: str | None = None, device: str = "auto") -> Iterator[Verified]:
    """Rebuild, check and time the best kernel of every task on this machine's device models.

    ``device``: cores, a GPU, ``emulator``, or ``auto``: the processor and, if there is one, the GPU. A kernel of an
    older template version is rebuilt with the current version (a new version makes a record stale, not lost). A
    correct kernel is stored with the new code; a wrong kernel is marked stale.
    """
    stored = [k for k in database.kernels(op) if k.rank == 1]
    stored.sort(key=lambda k: (k.task.target.kind, k.task.target.key))
    for _, group in groupby(stored, key=lambda k: k.task.target.key):
        kernels = list(group)
        place = local_target_here(kernels[0].task.target, device)
        mine = [k for k in kernels if place is not None and k.device_model == place.device.model]
        if place is None or not mine:
            continue
        with place.lock(on_wait=lambda holder: None), place.builder() as builder, place.runner() as runner:
            for kernel in mine:
                yield _one(database, kernel, builder, runner)


def local_target_here(target: Target, device: str) -> LocalTarget | None:
    """This machine's measurement target for ``target``; ``None`` if the machine or ``device`` does not run it."""
    backend = backends.backend_for(target) if device == "auto" else backends.backend_of(device)
    if target.kind not in backend.kinds or not backend.runs_here(target):
        return None
    return find_local_target(target, device, target.threads)


def _one(database: Database, kernel: StoredKernel, builder: Builder, runner: Runner) -> Verified:
    def stale(why: str) -> Verified:
        database.update_kernel(kernel, state="stale")
        return Verified(kernel, None, why)

    version = template_version(database, kernel)
    if version is None:
        return stale(f"its template {kernel.schedule.template} is gone")
    candidate = Candidate(kernel.task, replace(kernel.schedule, version=version))
    try:
        built = builder.build([candidate], alone=True)[0]
    except IllegalSchedule as e:
        return stale(f"its schedule is no longer legal: {e}")
    if isinstance(built, Failure):
        return stale(f"it no longer builds: {built.message}")
    assert isinstance(built, Artifact)
    problem = runner.verify(kernel.task, (candidate, built))
    if problem is not None:
        return stale(f"{problem.kind.value}: {problem.message}")
    outcome = runner.run(kernel.task, [(candidate, built)], None)[0]
    if isinstance(outcome, Failure):
        return stale(f"{outcome.kind.value}: {outcome.message}")
    share = None
    if kernel.peak_fraction is not None:
        share = kernel.peak_fraction * kernel.seconds / outcome.seconds
    fresh = replace(
        kernel, schedule=candidate.schedule, program=built.program, artifact_sha256=built.sha256,
        seconds=outcome.seconds, peak_fraction=share, state="verified", compiler=built.compiler,
    )  # fmt: skip
    others = [k for k in database.task_kernels(kernel.task, kernel.device_model) if k.rank != kernel.rank]
    source = templates.full_source(candidate)
    database.set_kernels(
        kernel.task,
        kernel.device_model,
        kernel.run_id,
        [fresh, *others],
        [StoredArtifact.read(built, source)],
    )
    return Verified(kernel, outcome.seconds, None)
