"""Tensor Core kernels under NVRTC: every schedule compiles, without warnings and nearly always without spills."""

from __future__ import annotations

import random

import pytest

from harness.nvrtc import compiled, measured, spilled
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import get_template

MMA = get_template("cuda_mma")

CASES = (
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16"},
    {"m": 1000, "n": 37, "k": 513, "dtype": "float16", "trans_a": True},
    {"m": 49, "n": 512, "k": 4608, "dtype": "bfloat16", "trans_b": True, "bias": True, "activation": "silu"},
    {"m": 1024, "n": 1000, "k": 1024, "dtype": "float32", "precision": "tf32", "trans_a": True},
    {"m": 512, "n": 512, "k": 1024, "dtype": "int8"},
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "float64"},
)


def _task(case: dict[str, object], variant: str) -> Task:
    return Task(get_operator("matmul").workload(**case), cuda_target(variant))


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c["dtype"]))
def test_defaults_do_not_spill(case: dict[str, object]) -> None:
    task = _task(case, "sm_90a")
    schedule = MMA.default(task)
    assert not spilled(task, schedule), dict(schedule.values)


@pytest.mark.parametrize("trans_a", [False, True])
def test_large_products_of_float64_are_bound_by_tensor_cores(trans_a: bool) -> None:
    """Instructions, shared memory and caches leave at least 0.9 of the matrix units' peak."""
    task = _task({**CASES[-1], "trans_a": trans_a, "trans_b": True}, "sm_90a")
    schedule = MMA.default(task)
    (cost,) = measured(task, schedule)
    assert cost.bound.by == "tensor"
    assert cost.bound.share > 0.9
    assert not spilled(task, schedule)


@pytest.mark.parametrize("variant", ["sm_80", "sm_90a", "sm_120"])
def test_random_schedules_compile(variant: str) -> None:
    rng = random.Random(variant)
    task = _task(CASES[int(rng.random() * 3)], variant)
    compiled(task, MMA.space(task).sample(rng))


@pytest.mark.nightly
@pytest.mark.parametrize("variant", ["sm_80", "sm_90a", "sm_120"])
def test_many_random_schedules_compile(variant: str) -> None:
    rng = random.Random(variant)
    count = 0
    for number in range(200):
        task = _task(CASES[number % len(CASES)], variant)
        count += spilled(task, MMA.space(task).sample(rng)) > 0
    assert count <= 10, f"{count} of 200 spill"
