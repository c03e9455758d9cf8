"""Attention kernels under NVRTC: they compile without warnings, and untuned ones keep everything in registers."""

from __future__ import annotations

import random

import pytest

from harness.nvrtc import spilled
from tilewright.backends.cuda.archs import VARIANTS, target
from tilewright.core import Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import get_template

TEMPLATE = get_template("cuda_attention")


def task_of(variant: str, dtype: str, d: int, lq: int = 4096) -> Task:
    sizes = {"b": 1, "h": 16, "lq": lq, "lk": 4096, "d": d, "is_causal": lq > 1}
    return Task(get_operator("attention").workload(**sizes, dtype=dtype), target(variant))


CASES = [("sm_90a", "bfloat16", 64), ("sm_90a", "float16", 128), ("sm_80", "float16", 128), ("sm_120", "float32", 64)]


@pytest.mark.parametrize(("variant", "dtype", "d"), CASES)
def test_defaults_spill_nothing(variant: str, dtype: str, d: int) -> None:
    task = task_of(variant, dtype, d)
    assert spilled(task, TEMPLATE.default(task)) == 0


@pytest.mark.parametrize(("variant", "dtype", "d"), [c for c in CASES if c[:2] != ("sm_90a", "float16")])
def test_parts_and_their_merge_spill_nothing(variant: str, dtype: str, d: int) -> None:
    task = task_of(variant, dtype, d, lq=1)
    schedule = TEMPLATE.default(task)
    assert int(schedule.values["KP"]) > 1
    assert spilled(task, schedule) == 0


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("d", [64, 80, 128, 256])
def test_every_default_spills_nothing(variant: str, dtype: str, d: int) -> None:
    task = task_of(variant, dtype, d)
    assert spilled(task, TEMPLATE.default(task)) == 0


@pytest.mark.nightly
def test_random_schedules_of_warp_groups_spill_nothing() -> None:
    rng = random.Random(6)
    for d in (64, 128, 256):
        task = task_of("sm_90a", "bfloat16", d)
        sampled = [s for s in (TEMPLATE.space(task).sample(rng) for _ in range(60)) if s.values["groups"]]
        assert sampled
        assert not [dict(s.values) for s in sampled[:8] if spilled(task, s)]


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_most_random_schedules_spill_nothing(dtype: str) -> None:
    task, rng = task_of("sm_90a", dtype, 64), random.Random(5)
    results = [spilled(task, TEMPLATE.space(task).sample(rng)) for _ in range(12)]
    assert sum(x > 0 for x in results) <= 2
