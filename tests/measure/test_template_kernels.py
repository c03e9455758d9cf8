"""Every template's kernels pass the checks: bounds that refuse an honest kernel would be useless."""

from __future__ import annotations

import random

import pytest

from tilewright.backends.cache import ArtifactCache
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Device, Target, Task, Workload
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import TEMPLATES
from tilewright.measure.runner import LocalRunner

WORKLOADS = [
    ("matmul", {"m": 33, "n": 47, "k": 8192}),
    ("matmul", {"m": 65, "n": 31, "k": 129, "bias": True, "activation": "gelu", "residual": True}),
    ("softmax", {"shape": "9,1000"}),
    ("conv2d", {"n": 1, "ci": 5, "h": 9, "w": 11, "co": 7, "kh": 3, "kw": 3, "stride": 2, "padding": 1}),
]


def check_all(workload: Workload, count: int, device: Device, target: Target, cache: ArtifactCache) -> None:
    task = Task(workload, target)
    rng = random.Random(0)
    candidates = []
    for template in TEMPLATES.values():
        if target.kind in template.kinds and template.matches(task):
            space = template.space(task)
            schedules = [template.default(task), *(space.sample(rng) for _ in range(count))]
            candidates += [Candidate(task, s) for s in schedules]
    assert candidates
    with Builder(target, cache=cache) as builder:
        built = builder.build(candidates)
    with LocalRunner(device, target, references="") as runner:
        for candidate, artifact in zip(candidates, built, strict=True):
            assert isinstance(artifact, Artifact), artifact
            problem = runner.verify(task, (candidate, artifact))
            assert problem is None, f"{problem} of {candidate.schedule.to_json()}"


@pytest.mark.parametrize(("name", "params"), WORKLOADS)
def test_honest_kernels_pass(
    name: str, params: dict[str, int], device: Device, target: Target, cache: ArtifactCache
) -> None:
    check_all(get_operator(name).workload(**params), 1, device, target, cache)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "params"), WORKLOADS)
def test_many_honest_kernels_pass(
    name: str, params: dict[str, int], device: Device, target: Target, cache: ArtifactCache
) -> None:
    check_all(get_operator(name).workload(**params), 40, device, target, cache)
