"""The Tensor Core template: its contract on the emulator, what it matches, and what it chooses."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from mma_programs import EIGHT_BITS, OUT, PRODUCTS, QUICK, factor, product

from tilewright.backends.cuda.archs import VARIANTS
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.emulator import EmulatedKernel, run
from tilewright.core import EXACT, Candidate, IllegalSchedule, Task
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, templates_for
from tilewright.kernels.templates.cuda_mma.geometry import STAGING_GAP, STAGING_RUN
from tilewright.kernels.templates.cuda_mma.match import match
from tilewright.kernels.templates.cuda_mma.template import CUDA_MMA
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.cuda_template import CudaTemplateContract, empty_output, emulated
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of

MMA = CUDA_MMA


class TestContract(CudaTemplateContract):
    """Every layout of every dtype at odd sizes; aligned ones where they take another path."""

    templates = ("cuda_mma",)
    programs = QUICK


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_mma",)
    programs = PRODUCTS
    targets = ("sm_80", "sm_90a", "sm_120")
    schedules = 12


@pytest.mark.nightly
class TestContractSanitized(CudaTemplateContract):
    templates = ("cuda_mma",)
    programs = PRODUCTS
    schedules = 3
    sanitize = ("address", "undefined")


class TestEightBitReals(CudaTemplateContract):
    """Ada and later multiply them; whatever their layout."""

    templates = ("cuda_mma",)
    programs = EIGHT_BITS
    targets = ("sm_89",)
    architecture = "sm_89"


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_sums_of_eight_bit_reals_say_how_far_they_round(name: str) -> None:
    program = EIGHT_BITS[name]()
    task = task_of(program, cuda_target("sm_89"))
    assert MMA.lower(Candidate(task, MMA.default(task))).program.rounding == 2.0**11
    assert not MMA.matches(task_of(program, cuda_target("sm_80")))
    exact = dataclasses.replace(task, workload=dataclasses.replace(task.workload, precision=EXACT))
    assert not MMA.matches(exact)
    with pytest.raises(IllegalSchedule, match="exactly"):
        MMA.space(exact)


def test_16_bit_results_of_float64_sums_are_stored_as_they_are() -> None:
    task = task_of(product("float64", 4096, 4096, 4096, out="bfloat16"), cuda_target("sm_90a"))
    values = MMA.default(task).values
    assert (values["BM"], values["BN"], values["store_shared"]) == (128, 128, False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_float64_is_left_to_ordinary_units_where_these_are_as_fast(variant: str) -> None:
    task = _matmul(256, 256, 256, variant, "float64")
    faster = variant in ("sm_80", "sm_90a")
    assert MMA.matches(task) == faster
    assert default_schedule(task).template == ("cuda_mma" if faster else "cuda_simt")


def test_eight_bit_reals_that_something_else_reads_are_no_product() -> None:
    x, y = te.input("x", (16, 32), "float8_e4m3fn"), te.input("y", (16, 32), "float8_e4m3fn")
    z = te.compute((16, 16), lambda i, j: te.sum(32, lambda r: factor(x[i, r]) * factor(y[j, r])))
    more = te.compute((16, 16), lambda i, j: z[i, j] + te.cast(x[i, j], "float32"))
    assert match(te.program(z)[0]) is not None
    assert match(te.program(more)[0]) is None


# --------------------------------------------------------------------------- what matches


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_match_the_template(name: str) -> None:
    found = match(PRODUCTS[name]())
    assert found is not None
    assert found.instruction.dtype in OUT


OTHERS = (
    "matmul", "matmul_epilogue", "conv2d", "long_integers", "scaled", "squared_distance", "products", "least",
    "gathered", "depthwise", "rows", "fused",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_contractions_are_left_to_ordinary_units(name: str) -> None:
    """Float32 without TF32 rounding, other bodies, other reductions, scales inside of the sum."""
    task = task_of(CONTRACTIONS[name](), cuda_target("sm_80"))
    assert not MMA.matches(task)
    with pytest.raises(IllegalSchedule, match="not a product"):
        MMA.space(task)


def _simple(term: Callable[[te.Expr, te.Expr], te.Expr], x: str, y: str) -> Program:
    a, b = te.input("x", (16, 32), x), te.input("y", (32, 16), y)
    return te.program(te.compute((16, 16), lambda i, j: te.sum(32, lambda r: term(a[i, r], b[r, j]))))[0]


@pytest.mark.parametrize(
    ("term", "x", "y"),
    [
        (lambda a, b: te.cast(a, "int32") * te.cast(b, "int32"), "uint8", "uint8"),
        (lambda a, b: te.cast(a, "float32") * te.cast(b, "float32"), "float16", "bfloat16"),
        (lambda a, b: te.round_tf32(a) * b, "float32", "float32"),
        (lambda a, b: te.cast(a, "float64") * te.cast(b, "float64"), "float16", "float16"),
        (lambda a, b: te.cast(a, "float32") * te.cast(b, "float32"), "int8", "int8"),
        (lambda a, b: te.cast(a, "float32") * te.cast(b, "float32") * 2.0, "float16", "float16"),
        (lambda a, b: te.cast(a, "float32") - te.cast(b, "float32"), "float16", "float16"),
    ],
)
def test_programs_that_are_almost_products_do_not_match(
    term: Callable[[te.Expr, te.Expr], te.Expr], x: str, y: str
) -> None:
    assert match(_simple(term, x, y)) is None


def test_a_padding_other_than_zero_is_no_product() -> None:
    x, y = te.input("x", (16, 32), "float16"), te.input("y", (32, 16), "float16")
    bad = te.compute((16, 16), lambda i, j: te.sum(32, lambda r: te.select(
        r < i, te.cast(x[i, r], "float32"), 1.0) * te.cast(y[r, j], "float32")))  # fmt: skip
    assert match(te.program(bad)[0]) is None


def test_cuda_mma_comes_before_cuda_simt() -> None:
    task = _matmul(64, 64, 64, "sm_80")
    assert [t.name for t in templates_for(task)][:2] == ["cuda_mma", "cuda_simt"]
    assert default_schedule(task).template == "cuda_mma"


@pytest.mark.parametrize(
    ("left", "right", "rounded"),
    [("round", "round", {"fa", "fb"}), ("truncate", "truncate", set()), ("round", "truncate", {"fa"})],
)
def test_operands_are_rounded_where_the_program_rounds_them(left: str, right: str, rounded: set[str]) -> None:
    rules = {"round": te.round_tf32, "truncate": te.truncate_tf32}
    p = _simple(lambda a, b: rules[left](a) * rules[right](b), "float32", "float32")
    task = task_of(p, cuda_target("sm_80"))
    source = MMA.lower(Candidate(task, MMA.default(task))).source
    assert set(re.findall(r"(f[ab])\[i\]\[e\] = tw::to_tf32", source)) == rounded


# --------------------------------------------------------------------------- schedules


def _matmul(m: int, n: int, k: int, variant: str = "sm_90a", dtype: str = "bfloat16", **more: object) -> Task:
    if dtype == "float32":
        more["precision"] = "tf32"
    workload = get_operator("matmul").workload(m=m, n=n, k=k, dtype=dtype, **more)
    return Task(workload, cuda_target(variant))


SHAPES = (
    (4096, 4096, 4096), (8192, 8192, 8192), (1, 4096, 4096), (8, 4096, 4096), (16, 4096, 4096), (64, 4096, 4096),
    (1000, 37, 513), (4095, 4095, 4095), (49, 512, 4608), (3136, 64, 576),
)  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_defaults_of_the_usual_shapes(variant: str) -> None:
    """Legal everywhere; enough blocks for the machine, and large tiles where there is work for them."""
    for dtype in OUT if variant == "sm_90a" else ("bfloat16",):
        for m, n, k in SHAPES:
            task = _matmul(m, n, k, variant, dtype)
            schedule = MMA.default(task)
            MMA.space(task).check(schedule)
            p = MMA.plan(MMA.found(Program.loads(task.workload.program)), task.target, schedule.values)
            if m >= 4095:
                assert p.bm * p.bn >= 128 * 128
                assert not p.split_k
            if m <= 16:
                assert p.bm == 16
            if (m, n) == (49, 512):
                assert p.split_k or task.target.limit["sms"] == 16  # few tiles are enough for Jetson
    assert MMA.default(_matmul(4095, 4095, 4095, variant)).values["copy_b"] == "pack"


@pytest.mark.parametrize("dtype", OUT)
def test_members_keep_within_the_machine(dtype: str) -> None:
    rng = random.Random(dtype)
    turned = {"trans_a": True, "trans_b": True}
    # Every type in both layouts, every machine with two types.
    machines = [(("sm_80", turned), ("sm_90a", {})), (("sm_90a", turned), ("sm_120", {}))]
    for variant, layout in machines[list(OUT).index(dtype) % 2]:
        task = _matmul(1000, 513, 260, variant, dtype, **layout)
        limits = task.target.limit
        space = MMA.space(task)
        assert space.size > 1000
        for schedule in (space.sample(rng) for _ in range(10)):
            p = MMA.plan(MMA.found(Program.loads(task.workload.program)), task.target, schedule.values)
            blocks = p.min_blocks
            assert p.shared <= limits["shared_per_block"]
            assert blocks * (p.shared + limits["shared_reserved"]) <= limits["shared_per_sm"]
            assert p.registers <= 255
            assert p.registers * p.threads * blocks <= limits["registers_per_sm"]
            assert p.threads * blocks <= limits["threads_per_sm"]
            for s in p.sides:
                assert s.direct == (s.copy > 0)
                assert s.copy <= s.source.vector * s.item
                assert s.rounds(p.threads) <= 16 or not s.direct


def test_rules_say_why() -> None:
    task = _matmul(4096, 4096, 4096, "sm_120")
    space = MMA.space(task)
    good = dict(MMA.default(task).values)
    for change, reason in (
        ({"WARPS_M": 8, "BM": 64}, "a warp has at least 16 rows"),
        ({"WARPS_N": 1, "WARPS_M": 1}, "accumulators"),
        ({"BK": 128, "STAGES": 5}, "shared memory"),
        ({"min_blocks": 3}, "shared memory"),
        ({"split_k": True}, "split_k is on exactly"),
    ):
        with pytest.raises(IllegalSchedule, match=reason):
            space.schedule({**good, **change})


def test_alignment_is_that_of_the_widest_access() -> None:
    def align(k: int, copy: str) -> int:
        task = _matmul(64, 63, k, trans_b=True)
        values = {**MMA.default(task).values, "copy_a": copy, "copy_b": copy}
        return MMA.lower(Candidate(task, MMA.space(task).schedule(values))).program.align

    assert align(64, "async16") == 16
    assert align(68, "async8") == 8
    assert align(66, "async4") == 4
    assert align(65, "gather") == align(65, "pack") == 2


# --------------------------------------------------------------------------- memory


LAID = ((False, False), (True, True))


@cache
def aligned() -> tuple[dict[tuple[str, tuple[bool, bool]], Candidate], EmulatedKernel]:
    """Aligned products of all types in both layouts, compiled together."""
    tasks = {(d, t): _matmul(128, 128, 128, "sm_90a", d, trans_a=t[0], trans_b=t[1]) for d in OUT for t in LAID}
    made = {key: Candidate(task, MMA.default(task)) for key, task in tasks.items()}
    return made, emulated([MMA.lower(c) for c in made.values()], cuda_target("sm_90a"), profile=True)


@pytest.mark.parametrize("dtype", OUT)
@pytest.mark.parametrize("layout", LAID)
def test_default_schedules_waste_no_shared_or_global_memory_cycles(dtype: str, layout: tuple[bool, bool]) -> None:
    """Fragments without bank conflicts, whole sectors in every global access."""
    candidates, kernel = aligned()
    candidate = candidates[dtype, layout]
    program, made = Program.loads(candidate.task.workload.program), MMA.lower(candidate)
    inputs = random_arrays(program, 3)
    got = empty_output(program.output.shape, program.output.dtype)
    report = run(kernel, made.program, launch_values(candidate), inputs, got)
    assert report.ok, report.bugs
    check(program, inputs, got)
    profile = report.profile
    assert profile["ldmatrix_conflicts"] == 0
    assert dtype != "float64" or profile["bank_conflicts"] == 0
    assert profile["idle_stages"] == 0 or profile["waits"] > 0
    for kind in ("global_load", "global_store"):
        assert profile[kind]["sectors"] == profile[kind]["ideal_sectors"], (kind, profile["lines"])


def test_strips_with_gaps_are_read_where_they_were_written() -> None:
    """Strips of more columns than a run of shared memory have gaps between the runs."""
    task, rng = _matmul(64, 128, 64), random.Random(0)
    program, space = Program.loads(task.workload.program), MMA.space(task)
    drawn = (Candidate(task, space.sample(rng)) for _ in range(400))
    candidate = next(c for c in drawn if f" + c / {STAGING_RUN} * {STAGING_GAP}" in MMA.lower(c).source)
    made, inputs = MMA.lower(candidate), random_arrays(program, 5)
    got = empty_output(program.output.shape, program.output.dtype)
    report = run(emulated([made], cuda_target("sm_90a")), made.program, launch_values(candidate), inputs, got)
    assert report.ok, report.bugs
    check(program, inputs, got)


def test_numbers_of_a_schedule() -> None:
    task = _matmul(4096, 4096, 4096)
    numbers = MMA.static(task, MMA.default(task))
    assert numbers["tensor_core"] == 1
    assert numbers["waves"] == pytest.approx(512 / 132)
    assert numbers["shared_bytes"] == 4 * (128 + 256) * 64 * 2
    assert np.isclose(numbers["shared_bytes_per_flop"], 2 * (64 + 64) / (2 * 64 * 64))
