"""Handwritten kernels through the real builder; see handmade.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from handmade import SIZES, lower

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.targets import detect
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Device, Schedule, Target, Task
from tilewright.kernels.operators import get_operator
from tilewright.measure import runner
from tilewright.measure.runner import Item


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Kernels that take next to no time are not given little time for everything else: this machine may be busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "LEAST_DEADLINE", 60.0)
        yield


@pytest.fixture(scope="session")
def target() -> Target:
    return detect(threads=1)


@pytest.fixture(scope="session")
def device() -> Device:
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return Device(f"cpu:{core}", "test")


@pytest.fixture(scope="session")
def cache() -> ArtifactCache:
    return ArtifactCache()


@pytest.fixture(scope="session")
def small_task(target: Target) -> Task:
    return Task(get_operator("matmul").workload(**SIZES), target)


@pytest.fixture
def task(small_task: Task) -> Task:
    return small_task


@pytest.fixture(scope="session")
def builder(target: Target, cache: ArtifactCache) -> Iterator[Builder]:
    with Builder(target, cache=cache, lower=lower) as b:
        yield b


Make = Callable[..., Item]


@pytest.fixture(scope="session")
def make(small_task: Task, builder: Builder) -> Make:
    """A built kernel by the name of its body; ``reps`` is the launch argument."""

    def build(name: str, reps: int = 1, of: Task | None = None) -> Item:
        schedule = Schedule("handmade", 1, (("body", name),), (("reps", reps),))
        candidate = Candidate(of or small_task, schedule)
        artifact = builder.build([candidate])[0]
        assert isinstance(artifact, Artifact), artifact
        return candidate, artifact

    return build
