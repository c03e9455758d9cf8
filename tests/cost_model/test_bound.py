"""What is estimated of a schedule's least time: beside its machine code, and as a feature."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tilewright.backends.cuda import archs
from tilewright.backends.cuda.nvrtc import NoNvrtc
from tilewright.backends.cuda.sass import NoDisassembler
from tilewright.checking.check import subject_of
from tilewright.checking.machine_code import costs
from tilewright.core import Candidate, Target, Task
from tilewright.cost_model.bound import estimated, least_cycles
from tilewright.cost_model.features import LEAST, STATIC, FeatureExtractor, static_of
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, get_template


def task(target: str | Target, op: str = "matmul", **params: Any) -> Task:
    return Task(get_operator(op).workload(**params), archs.target(target) if isinstance(target, str) else target)


SQUARE = {"m": 1024, "n": 1024, "k": 1024}


@pytest.mark.parametrize(
    ("variant", "op", "params"),
    [
        ("sm_90a", "matmul", {**SQUARE, "dtype": "bfloat16"}),
        ("sm_80", "matmul", {**SQUARE, "precision": "tf32_truncated"}),
        ("sm_80", "matmul", SQUARE),
        ("sm_80", "softmax", {"shape": (4096, 1024)}),
    ],
)
def test_estimates_of_defaults_are_near_what_their_machine_code_needs(
    variant: str, op: str, params: dict[str, Any]
) -> None:
    t = task(variant, op, **params)
    schedule = default_schedule(t)
    try:
        [read] = [c.bound for c in costs(subject_of(Candidate(t, schedule))) if c.bound is not None]
    except (NoNvrtc, NoDisassembler) as e:
        pytest.skip(e.message)
    guessed = estimated(t, get_template(schedule.template).static(t, schedule))
    assert guessed.by == read.by
    assert guessed.cycles == pytest.approx(read.cycles, rel=0.02)


def test_the_bound_is_a_feature_of_cuda_schedules_alone() -> None:
    t = task("sm_80", **SQUARE)
    features = FeatureExtractor(t)
    schedule = default_schedule(t)
    column = features.names.index(f"{STATIC}{LEAST}")
    known = get_template(schedule.template).static(t, schedule)
    assert features.matrix([schedule])[0, column] == np.float32(estimated(t, known).cycles)
    elsewhere = task(Target("cpu", "avx512", "", (), 64, 32), **SQUARE)
    assert LEAST not in static_of(elsewhere)(default_schedule(elsewhere))


def test_what_is_not_known_of_a_users_kernel_gives_no_estimate() -> None:
    t = task("sm_80", **SQUARE)
    schedule = default_schedule(t)
    known = dict(get_template(schedule.template).static(t, schedule))
    assert math.isfinite(least_cycles(t, known) or math.nan)
    for unknown in ({**known, "global_bytes": math.nan}, {"waves": 1.0}):
        assert math.isnan(least_cycles(t, unknown) or 0.0)


@pytest.mark.parametrize("d", [64, 128])
def test_an_attention_in_segments_has_schedules_and_an_estimate(d: int) -> None:
    t = task("sm_90a", "attention", b=2, h=16, lq=2048, lk=2048, d=d, dtype="bfloat16")
    template, rng = get_template("cuda_partition"), random.Random(0)
    for _ in range(200):
        assert math.isfinite(least_cycles(t, template.static(t, template.space(t).sample(rng))) or math.nan)
