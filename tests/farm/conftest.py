"""Certificates, tasks and candidates that the farm's tests share."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.farm import SHA256
from tilewright.backends import parse_target
from tilewright.core import Artifact, Candidate, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import lower, task_space
from tilewright.measure.runner import Item


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A farm's certificates for loopback addresses."""
    from tilewright.farm.pki.certificates import create_authority

    folder = tmp_path_factory.mktemp("certs") / "farm"
    create_authority(folder, ["localhost"], 30)
    return folder


@pytest.fixture(scope="session")
def task() -> Task:
    return Task(get_operator("matmul").workload(m=64, n=64, k=64), parse_target("cpu:portable"))


@pytest.fixture(scope="session")
def make_items(task: Task) -> Callable[[int], list[Item]]:
    """So many different candidates with one artifact, ``testing.farm.CODE``, for devices that only pretend."""

    def make(count: int) -> list[Item]:
        rng, space = random.Random(1), task_space(task)
        found: dict[str, Candidate] = {}
        while len(found) < count:
            c = Candidate(task, space.sample(rng))
            found[c.key] = c
        program = lower(next(iter(found.values()))).program
        return [(c, Artifact("", SHA256, program, task.target, "cc", (), "")) for c in found.values()]

    return make
