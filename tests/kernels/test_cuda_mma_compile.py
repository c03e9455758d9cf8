"""Tensor Core kernels under NVRTC: every schedule compiles, without warnings and nearly always without spills."""

from __future__ import annotations

import random

import pytest

from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.cuda.build import flags
from tilewright.backends.cuda.nvrtc import NoNvrtc, Nvrtc, find_nvrtc
from tilewright.backends.cuda.ptxas import Usage, parse_log
from tilewright.core import Candidate, Schedule, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import full_source, get_template

MMA = get_template("cuda_mma")

CASES = (
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16"},
    {"m": 1000, "n": 37, "k": 513, "dtype": "float16", "trans_a": True},
    {"m": 49, "n": 512, "k": 4608, "dtype": "bfloat16", "trans_b": True, "bias": True, "activation": "silu"},
    {"m": 1024, "n": 1000, "k": 1024, "dtype": "float32", "precision": "tf32", "trans_a": True},
    {"m": 512, "n": 512, "k": 1024, "dtype": "int8"},
)


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    try:
        return find_nvrtc("sm_120")
    except NoNvrtc as reason:
        pytest.skip(str(reason))


def compiled(nvrtc: Nvrtc, task: Task, schedule: Schedule) -> dict[str, Usage]:
    source = full_source(Candidate(task, schedule))
    _, log = nvrtc.compile(source, flags(task.target))
    report = parse_log(log)
    assert not report.warnings, (dict(schedule.values), log)
    assert "warning" not in log, log
    assert report.kernels
    return dict(report.kernels)


def spills(kernels: dict[str, Usage]) -> bool:
    return any(u.spill_stores or u.spill_loads or u.frame_bytes for u in kernels.values())


def _task(case: dict[str, object], variant: str) -> Task:
    return Task(get_operator("matmul").workload(**case), cuda_target(variant))


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c["dtype"]))
def test_defaults_do_not_spill(nvrtc: Nvrtc, case: dict[str, object]) -> None:
    task = _task(case, "sm_90a")
    schedule = MMA.default(task)
    assert not spills(compiled(nvrtc, task, schedule)), dict(schedule.values)


@pytest.mark.parametrize("variant", ["sm_80", "sm_90a", "sm_120"])
def test_random_schedules_compile(nvrtc: Nvrtc, variant: str) -> None:
    rng = random.Random(variant)
    task = _task(CASES[int(rng.random() * 3)], variant)
    compiled(nvrtc, task, MMA.space(task).sample(rng))


@pytest.mark.nightly
@pytest.mark.parametrize("variant", ["sm_80", "sm_90a", "sm_120"])
def test_many_random_schedules_compile(nvrtc: Nvrtc, variant: str) -> None:
    rng = random.Random(variant)
    spilled = 0
    for number in range(200):
        task = _task(CASES[number % len(CASES)], variant)
        spilled += spills(compiled(nvrtc, task, MMA.space(task).sample(rng)))
    assert spilled <= 10, f"{spilled} of 200 spill"
