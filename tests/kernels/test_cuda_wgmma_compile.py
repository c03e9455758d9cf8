"""Kernels of warp groups under NVRTC: every schedule compiles, without warnings and nearly always without spills."""

from __future__ import annotations

import random

import pytest
from mma_programs import product

from harness.nvrtc import measured, spilled
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Task
from tilewright.kernels.expression.expr import FLOAT8
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, get_template
from tilewright.kernels.templates.cuda_wgmma.template import CUDA_WGMMA
from tilewright.testing.kernels import task_of

CASES = (
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16"},
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "float16", "trans_b": True},
    {"m": 1000, "n": 520, "k": 512, "dtype": "float16", "trans_a": True},
    {"m": 49, "n": 512, "k": 4608, "dtype": "bfloat16", "trans_b": True, "bias": True, "activation": "silu"},
    {"m": 512, "n": 512, "k": 1024, "dtype": "int8", "trans_b": True},
    {"m": 4096, "n": 4096, "k": 4096, "dtype": "float32", "trans_b": True, "precision": "tf32_truncated"},
    {"m": 16384, "n": 16384, "k": 1024, "dtype": "bfloat16"},
    {"m": 2304, "n": 2304, "k": 16384, "dtype": "bfloat16"},
    {"m": 16, "n": 14336, "k": 4096, "dtype": "bfloat16", "trans_b": True, "bias": True},
)


@pytest.mark.parametrize(
    ("dtype", "arch", "template"),
    [(FLOAT8[0], "sm_90a", "cuda_wgmma"), (FLOAT8[1], "sm_89", "cuda_mma"), (FLOAT8[0], "sm_120", "cuda_mma")],
)
def test_products_of_eight_bit_reals_do_not_spill(dtype: str, arch: str, template: str) -> None:
    """The types have the same registers, and instructions that the primitives' test compiles for all architectures."""
    task = task_of(product(dtype, 1024, 1024, 1024, "mk", "nk", "bfloat16"), cuda_target(arch))
    assert not spilled(task, get_template(template).default(task))


@pytest.mark.parametrize("by_column", [False, True])
def test_sums_that_are_scaled_by_blocks_do_not_spill(by_column: bool) -> None:
    # 64 rows share k, 4000 end within a tile.
    for m, arch in ((4096, "sm_90a"), (16, "sm_90a"), (64, "sm_90a"), (4000, "sm_90a"), (4096, "sm_89")):
        workload = get_operator("scaled_mm").workload(m=m, n=4096, k=4096, trans_b=True, by_column=by_column)
        task = Task(workload, cuda_target(arch))
        assert not spilled(task, default_schedule(task))


@pytest.mark.parametrize("by_column", [False, True])
def test_sums_that_are_scaled_are_bound_by_the_matrix_units_and_products_do_not_wait_for_each_other(
    by_column: bool,
) -> None:
    workload = get_operator("scaled_mm").workload(m=4096, n=4096, k=4096, trans_b=True, by_column=by_column)
    task = Task(workload, cuda_target("sm_90a"))
    default = CUDA_WGMMA.default(task)
    # Of 256 rows there are two sums of 64 for each thread, of which one alone is held beside.
    for more in ({}, {"BM": 256, "BN": 128, "STAGES": 4}):
        [cost] = measured(task, CUDA_WGMMA.space(task).schedule({**default.values, **more}))
        assert cost.spills == 0
        assert cost.bound is not None
        assert cost.bound.by == "tensor"
        assert cost.bound.share > 0.95
        waits = [x for x in cost.code.main_loop if x.opcode == "WARPGROUP.DEPBAR.LE"]
        products = [x for x in cost.code.main_loop if "GMMA" in x.opcode]
        assert len(waits) < len(products) / 2, "assemblers add a wait behind each product where they see no other way"


def _task(case: dict[str, object]) -> Task:
    return Task(get_operator("matmul").workload(**case), cuda_target("sm_90a"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['dtype']}_{c['m']}")
def test_defaults_do_not_spill(case: dict[str, object]) -> None:
    task = _task(case)
    schedule = CUDA_WGMMA.default(task)
    assert not spilled(task, schedule), dict(schedule.values)


def test_kernels_of_windows_do_not_spill() -> None:
    params = {"n": 32, "ci": 72, "h": 28, "w": 30, "co": 256, "kh": 3, "kw": 3, "stride": 2, "padding": 1}
    task = Task(get_operator("conv2d").workload(**params, layout="NHWC", dtype="float16"), cuda_target("sm_90a"))
    schedule = CUDA_WGMMA.default(task)
    assert not spilled(task, schedule), dict(schedule.values)


@pytest.mark.parametrize(("form", "trans_a"), [("1x4", True), ("2x2", False)])
def test_clusters_of_four_do_not_spill(form: str, trans_a: bool) -> None:
    task = _task({"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16", "trans_a": trans_a})
    values = {**CUDA_WGMMA.default(task).values, "CLUSTER": form}
    assert not spilled(task, CUDA_WGMMA.space(task).schedule(values))


def test_random_schedules_compile() -> None:
    rng = random.Random(5)
    for case in CASES[2::2]:
        task = _task(case)
        assert not spilled(task, CUDA_WGMMA.space(task).sample(rng))


@pytest.mark.nightly
def test_many_random_schedules_compile() -> None:
    rng = random.Random(6)
    count = 0
    for number in range(200):
        task = _task(CASES[number % len(CASES)])
        count += spilled(task, CUDA_WGMMA.space(task).sample(rng)) > 0
    assert count <= 2, f"{count} of 200 spill"
