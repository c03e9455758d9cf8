"""Attention kernels under NVRTC: they compile without warnings, and untuned ones keep everything in registers."""

from __future__ import annotations

import random

import pytest

from tilewright.backends.cuda.archs import VARIANTS, target
from tilewright.backends.cuda.build import flags
from tilewright.backends.cuda.nvrtc import NoNvrtc, Nvrtc, find_nvrtc
from tilewright.backends.cuda.ptxas import parse_log
from tilewright.core import Candidate, Schedule, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import full_source, get_template

TEMPLATE = get_template("cuda_attention")


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    try:
        return find_nvrtc("sm_120")
    except NoNvrtc as error:
        pytest.skip(str(error))


def task_of(variant: str, dtype: str, d: int) -> Task:
    sizes = {"b": 1, "h": 16, "lq": 4096, "lk": 4096, "d": d, "is_causal": True}
    return Task(get_operator("attention").workload(**sizes, dtype=dtype), target(variant))


def spilled(nvrtc: Nvrtc, task: Task, schedule: Schedule) -> int:
    """Bytes that the kernel keeps in memory for want of registers; any warning fails."""
    _, log = nvrtc.compile(full_source(Candidate(task, schedule)), flags(task.target))
    report = parse_log(log)
    assert not report.warnings
    return sum(u.spill_stores + u.spill_loads + u.frame_bytes for u in report.kernels.values())


CASES = [("sm_90a", "bfloat16", 64), ("sm_80", "float16", 128), ("sm_120", "float32", 64)]


@pytest.mark.parametrize(("variant", "dtype", "d"), CASES)
def test_defaults_spill_nothing(nvrtc: Nvrtc, variant: str, dtype: str, d: int) -> None:
    task = task_of(variant, dtype, d)
    assert spilled(nvrtc, task, TEMPLATE.default(task)) == 0


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("d", [64, 80, 128, 256])
def test_every_default_spills_nothing(nvrtc: Nvrtc, variant: str, dtype: str, d: int) -> None:
    task = task_of(variant, dtype, d)
    assert spilled(nvrtc, task, TEMPLATE.default(task)) == 0


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_most_random_schedules_spill_nothing(nvrtc: Nvrtc, dtype: str) -> None:
    task, rng = task_of("sm_90a", dtype, 64), random.Random(5)
    results = [spilled(nvrtc, task, TEMPLATE.space(task).sample(rng)) for _ in range(12)]
    assert sum(x > 0 for x in results) <= 2
