"""Contractions compiled and run here, on every instruction set that this machine has."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.backends.cpu.targets import parse_target, runs_here
from tilewright.core import Candidate, Target, Task
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates.cpu_contraction.template import CPU_CONTRACTION
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_kernel, task_of

TEMPLATE = CPU_CONTRACTION
VARIANTS = [
    v for v in ("avx512", "avx2", "portable", "neon") if runs_here(parse_target(f"cpu:{v}", allow_foreign=True))
]
TARGETS = {(v, t): parse_target(f"cpu:{v}", threads=t) for v in VARIANTS for t in (1, 3)}


def matmul(**params: int | bool | str) -> Program:
    return Program.loads(get_operator("batch_matmul" if "b" in params else "matmul").workload(**params).program)


def conv(**params: int | bool | str) -> Program:
    return Program.loads(get_operator("conv2d").workload(**params).program)


def pairwise(kind: str, m: int, n: int, k: int, dtype: str = "float32") -> Program:
    x, y, s = te.input("x", (m, k), dtype), te.input("y", (n, k), dtype), te.input("s", (k,), dtype)
    bodies: dict[str, Any] = {
        "sqdist": lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2),
        "chebyshev": lambda i, j: te.max(k, lambda r: te.abs(x[i, r] - y[j, r])),
        "least": lambda i, j: te.min(k, lambda r: x[i, r] * y[j, r] + x[i, r]),
        "prod": lambda i, j: te.prod(k, lambda r: 1.0 + 0.1 * x[i, r] * y[j, r]),
        "scaled": lambda i, j: te.sum(k, lambda r: x[i, r] * s[r] * y[j, r]),
        "kernel": lambda i, j: te.sum(k, lambda r: te.exp(-te.abs(x[i, r])) * te.maximum(y[j, r], 0.0)),
    }
    return te.program(te.compute((m, n), bodies[kind]))[0]


def transposed_residual(m: int, n: int, k: int) -> Program:
    x, y, z = te.input("x", (m, k)), te.input("y", (k, n)), te.input("z", (n, m))
    c = te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * y[r, j]))
    return te.program(te.compute((m, n), lambda i, j: te.cast(c[i, j] + z[j, i] * te.cast(i, "float32"), "float64")))[0]


def grouped(b: int, m: int, n: int, k: int) -> Program:
    """Batch axes in the middle of the output, read by both sides in another order."""
    x, y = te.input("x", (m, b, k)), te.input("y", (b, k, n))
    return te.program(te.compute((m, b, n), lambda i, p, j: te.sum(k, lambda r: x[i, p, r] * y[p, r, j])))[0]


def reversed_rows(m: int, n: int, k: int) -> Program:
    """Negative strides, an offset, and an index with // and %."""
    x, y = te.input("x", (m + 2, 2 * k)), te.input("y", (k, n))
    return te.program(
        te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[m + 1 - i, 2 * r] * y[(r // 2) * 2 % k, n - 1 - j]))
    )[0]


def dequantised(m: int, n: int, k: int) -> Program:
    x, w, s = te.input("x", (m, k)), te.input("w", (k, n), "int8"), te.input("s", (n,))
    return te.program(
        te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * (te.cast(w[r, j], "float32") * s[j])))
    )[0]


def gathered(m: int, n: int, k: int) -> Program:
    x, rows, y = te.input("x", (11, k)), te.input("rows", (m,), "int32"), te.input("y", (k, n))
    return te.program(te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[rows[i], r] * y[r, j])))[0]


CASES: dict[str, Program] = {
    "dequantised": dequantised(13, 37, 16),
    "gathered": gathered(13, 37, 16),
    "plain": matmul(m=33, n=66, k=29),
    "deep": matmul(m=19, n=40, k=330),
    "row": matmul(m=1, n=100, k=33),
    "column": matmul(m=17, n=1, k=33),
    "tiny": matmul(m=2, n=3, k=1),
    "transposed a": matmul(m=45, n=33, k=70, trans_a=True, bias=True, activation="relu"),
    "transposed b": matmul(m=45, n=33, k=70, trans_b=True, bias=True, activation="gelu", residual=True),
    "float64": matmul(m=64, n=64, k=64, trans_a=True, trans_b=True, residual=True, dtype="float64"),
    "batch": matmul(b=3, m=13, n=40, k=21, bias=True, activation="silu", residual=True),
    "batch of rows": matmul(b=3, m=1, n=40, k=21),
    "batch transposed": matmul(b=2, m=13, n=40, k=21, trans_a=True, trans_b=True),
    "batch inside": grouped(3, 7, 20, 11),
    "conv padded": conv(n=2, ci=3, h=13, w=11, co=7, kh=3, kw=3, padding=1, bias=True, activation="relu"),
    "conv strided": conv(n=1, ci=4, h=13, w=20, co=7, kh=3, kw=5, stride=2, padding=2, dilation=2),
    "conv 1x1": conv(n=2, ci=8, h=9, w=9, co=7, kh=1, kw=1),
    "conv valid": conv(n=2, ci=8, h=9, w=30, co=7, kh=2, kw=3, bias=True, activation="gelu"),
    "squared distance": pairwise("sqdist", 21, 35, 18),
    "chebyshev": pairwise("chebyshev", 21, 35, 18),
    "chebyshev 64": pairwise("chebyshev", 21, 35, 18, "float64"),
    "least": pairwise("least", 21, 35, 18),
    "prod": pairwise("prod", 21, 35, 18),
    "scaled": pairwise("scaled", 21, 35, 18),
    "computed sides": pairwise("kernel", 9, 35, 18),
    "cast output": transposed_residual(21, 35, 18),
    "odd indices": reversed_rows(13, 37, 16),
}


def run(program: Program, target: Target, samples: int, seed: int, inputs: list[Any] | None = None) -> None:
    task = task_of(program, target)
    assert TEMPLATE.matches(task)
    space, rng = TEMPLATE.space(task), random.Random(seed)
    schedules = [TEMPLATE.default(task), *(space.sample(rng) for _ in range(samples))]
    verify(task, program, schedules, inputs or random_arrays(program, seed), target)


def verify(task: Task, program: Program, schedules: list[Any], inputs: list[Any], target: Target) -> None:
    candidates = [Candidate(task, s) for s in schedules]
    kernels = [TEMPLATE.lower(c) for c in candidates]
    library = compile_kernels(kernels, target)
    for c, kernel in zip(candidates, kernels, strict=True):
        got = run_kernel(library, kernel, launch_values(c), inputs, task.workload.output, target.threads, 7)
        try:
            check(program, inputs, got)
        except AssertionError as e:
            raise AssertionError(f"{dict(c.schedule.values)}: {e}") from None


@pytest.mark.sampled
@pytest.mark.parametrize("case", list(CASES))
def test_contractions_are_right_with_the_widest_vectors(case: str) -> None:
    run(CASES[case], TARGETS[VARIANTS[0], 1], 0, 1)


@pytest.mark.parametrize("channels", [4, 7, 9])
def test_what_remains_of_an_unrolled_sum_is_added(channels: int) -> None:
    """A window's loops stand in the register tile, and its innermost one is printed out in steps."""
    program, target = conv(n=1, ci=channels, h=5, w=9, co=20, kh=2, kw=3), TARGETS[VARIANTS[0], 1]
    task = task_of(program, target)
    space, rng = TEMPLATE.space(task), random.Random(2)
    drawn = (space.sample(rng) for _ in range(200))
    unrolled = {int(s.values["unroll"]): s for s in drawn if s.values["unroll"] != 1}
    assert len(unrolled) > 1
    verify(task, program, list(unrolled.values()), random_arrays(program, 5), target)


@pytest.mark.parametrize("case", ["plain", "deep", "transposed b", "batch", "conv padded", "chebyshev"])
def test_contractions_are_right_with_several_threads(case: str) -> None:
    run(CASES[case], TARGETS[VARIANTS[0], 3], 1, 2)


@pytest.mark.sampled
@pytest.mark.parametrize("variant", VARIANTS[1:])
@pytest.mark.parametrize("case", ["plain", "row", "transposed b", "float64", "conv strided", "squared distance"])
def test_contractions_are_right_with_narrower_vectors(case: str, variant: str) -> None:
    run(CASES[case], TARGETS[variant, 1], 1, 3)


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", list(CASES))
def test_every_case_everywhere(case: str, variant: str, threads: int) -> None:
    run(CASES[case], TARGETS[variant, threads], 12, 4)


def test_every_split_of_k_gives_the_same_sums() -> None:
    target = TARGETS[VARIANTS[0], 3]
    for program in (matmul(m=9, n=21, k=400, bias=True, activation="silu"), pairwise("chebyshev", 9, 21, 400)):
        task = task_of(program, target)
        space, rng = TEMPLATE.space(task), random.Random(0)
        split = [s for s in (space.sample(rng) for _ in range(300)) if int(s.values["TK"]) > 1][:3]
        assert len(split) == 3
        verify(task, program, split, random_arrays(program, 5), target)


def test_whole_numbers_come_out_exactly() -> None:
    program = matmul(m=70, n=70, k=70)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-8, 9, t.shape).astype(np.float32) for t in program.inputs]
    task = task_of(program, TARGETS[VARIANTS[0], 1])
    candidate = Candidate(task, TEMPLATE.default(task))
    kernel = TEMPLATE.lower(candidate)
    library = compile_kernels([kernel], task.target)
    got = run_kernel(library, kernel, launch_values(candidate), inputs, task.workload.output)
    assert np.array_equal(got, inputs[0] @ inputs[1])


@pytest.mark.parametrize("case", ["plain", "conv padded", "chebyshev", "transposed b"])
def test_nan_and_infinity_reach_the_output_elements_that_they_belong_to(case: str) -> None:
    program = CASES[case]
    inputs = random_arrays(program, 6)
    inputs[0].reshape(-1)[3] = np.nan
    inputs[1].reshape(-1)[5] = np.inf
    run(program, TARGETS[VARIANTS[0], 3], 1, 2, inputs)  # the kernels of test_threads


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    m=st.integers(1, 40), n=st.integers(1, 70), k=st.integers(1, 90),
    trans_a=st.booleans(), trans_b=st.booleans(), bias=st.booleans(), residual=st.booleans(),
    activation=st.sampled_from(["none", "relu", "gelu_tanh"]), seed=st.integers(0, 99), threads=st.sampled_from([1, 3]),
)  # fmt: skip
def test_any_schedule_of_any_matmul_is_right(
    m: int, n: int, k: int, seed: int, threads: int, **attributes: Any
) -> None:
    program = matmul(m=m, n=n, k=k, **attributes)
    target = TARGETS[VARIANTS[0], threads]
    if TEMPLATE.matches(task_of(program, target)):
        run(program, target, 1, seed)
    else:
        assert m == n == 1


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    n=st.integers(1, 2), ci=st.integers(1, 4), h=st.integers(3, 12), w=st.integers(3, 30), co=st.integers(2, 9),
    kh=st.integers(1, 3), kw=st.integers(1, 3), stride=st.integers(1, 3), padding=st.integers(0, 2),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_any_schedule_of_any_convolution_is_right(seed: int, **params: int) -> None:
    program = conv(**params)
    target = TARGETS[VARIANTS[0], 1]
    if TEMPLATE.matches(task_of(program, target)):
        run(program, target, 1, seed)
    else:
        assert program.output.size in (1, program.output.shape[1] * params["n"])
