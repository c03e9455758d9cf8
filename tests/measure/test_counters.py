"""The child that runs kernels for their counters, on the emulator, and what its parent makes of what ``ncu`` says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gpu_handmade import SIZES, lower

from scripted_ncu import ScriptedNcu
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.ncu import Counters, Profiler
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Schedule, Task, TilewrightError
from tilewright.kernels.operators import get_operator
from tilewright.measure.counters import CALLS, Compiled, read_counters
from tilewright.measure.local_target import LocalTarget, find_local_target


@pytest.fixture(scope="module")
def built(cache: ArtifactCache) -> dict[str, Compiled]:
    """Kernels by the name of their text."""
    task = Task(get_operator("matmul").workload(**SIZES), archs.target("sm_90a"))
    names = ("good", "two", "misaligned")
    candidates = [Candidate(task, Schedule("handmade", 1, (("body", name),), (("reps", 1),))) for name in names]
    with Builder(task.target, cache=cache, lower=lower, emulated=True) as builder:
        made = builder.build(candidates)
    found = {}
    for name, candidate, artifact in zip(names, candidates, made, strict=True):
        assert isinstance(artifact, Artifact), artifact
        code = Path(artifact.path).read_bytes()
        found[name] = Compiled(task.workload, artifact.program, candidate.schedule.launch, code)
    return found


@pytest.fixture(scope="module")
def place() -> LocalTarget:
    return find_local_target("cuda:sm_90a", "emulator")


def symbols(kernel: Compiled) -> list[str]:
    return [x.symbol for x in kernel.program.launches]


def read(folder: Path, place: LocalTarget, *kernels: Compiled) -> list[dict[str, Counters] | TilewrightError]:
    launches = [s for k in kernels for _ in range(CALLS) for s in symbols(k)]
    return read_counters(kernels, place, Profiler(str(ScriptedNcu(folder, launches).program)), 60.0)


def test_every_launch_of_every_kernel_has_its_counters(
    tmp_path: Path, place: LocalTarget, built: dict[str, Compiled]
) -> None:
    good, two = read(tmp_path, place, built["good"], built["two"])
    assert isinstance(good, dict)
    assert isinstance(two, dict)
    assert list(good) == symbols(built["good"])
    assert list(two) == symbols(built["two"])
    assert len(two) == 2
    assert all(x.values["cycles"] == 401_234 for x in (*good.values(), *two.values()))


def test_a_kernel_that_does_not_run_costs_no_other_its_counters(
    tmp_path: Path, place: LocalTarget, built: dict[str, Compiled]
) -> None:
    damaged = replace(built["good"], code=b"no code")
    bad, good = read(tmp_path, place, damaged, built["two"])
    assert isinstance(bad, TilewrightError)
    assert isinstance(good, dict)


def test_a_kernel_that_takes_the_device_with_it_ends_the_run_with_its_error(
    tmp_path: Path, place: LocalTarget, built: dict[str, Compiled]
) -> None:
    good, bad, after = read(tmp_path, place, built["good"], built["misaligned"], built["two"])
    assert isinstance(good, dict)
    assert isinstance(bad, TilewrightError)
    assert "misaligned" in bad.message
    assert isinstance(after, TilewrightError)


def test_where_no_kernel_runs_its_error_is_told_and_no_other_names_are_tried(
    tmp_path: Path, place: LocalTarget, built: dict[str, Compiled]
) -> None:
    ncu = ScriptedNcu(tmp_path, (), unknown="n/a")
    damaged = replace(built["good"], code=b"no code")
    with pytest.raises(TilewrightError) as error:
        read_counters([damaged], place, Profiler(str(ncu.program)), 60.0)
    assert "No kernels" not in error.value.message
    assert len(ncu.asked) == 1
