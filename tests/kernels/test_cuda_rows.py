"""The row template for CUDA: its contract on the emulator, what it matches, its space, its traffic."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache

import numpy as np
import pytest
from row_programs import kept_dims, masked_softmax

from harness import gpu_programs
from harness.gpu_profile import excess_sectors, profile, profiles
from harness.gpu_programs import ROWS
from tilewright.backends.cuda.archs import VARIANTS, target
from tilewright.backends.emulator import EmulatedKernel, run
from tilewright.core import Candidate, IllegalSchedule, Target
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.row_reduction import RowReduction, row_reduction
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import default_schedule, templates_for
from tilewright.kernels.templates.cuda_rows.plan import Analysis, plan
from tilewright.kernels.templates.cuda_rows.template import CUDA_ROWS
from tilewright.testing import contractions
from tilewright.testing.catalogue import examples
from tilewright.testing.cuda_template import CudaTemplateContract, emulated
from tilewright.testing.kernels import Array, check, launch_values, random_arrays, task_of

TEMPLATE = CUDA_ROWS
SM80 = target("sm_80")


class TestContract(CudaTemplateContract):
    templates = ("cuda_rows",)
    programs = {**ROWS, "kept_dims": kept_dims, "shared_mask": masked_softmax}  # noqa: RUF012


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_rows",)
    programs = examples("language", "contraction", "rows on GPUs")
    targets = ("sm_80", "sm_90a", "sm_120")
    schedules = 12


@pytest.mark.nightly
class TestContractSanitized(CudaTemplateContract):
    templates = ("cuda_rows",)
    programs = ROWS
    schedules = 3
    sanitize = ("address", "undefined")


@pytest.mark.nightly
class TestContractRaces(CudaTemplateContract):
    templates = ("cuda_rows",)
    programs = ROWS
    schedules = 2
    sanitize = ("thread",)


def matched(program: Program) -> RowReduction:
    found = row_reduction(program)
    assert found is not None
    return found


def values_of(program: Program, inputs: list[Array], **knobs: int | str) -> Array:
    """The output of the default schedule with some knobs changed, on the emulator."""
    candidate = changed(program, **knobs)
    return computed(candidate, emulated([TEMPLATE.lower(candidate)], SM80), program, inputs)


def changed(program: Program, **knobs: int | str) -> Candidate:
    task = task_of(program, SM80)
    return Candidate(task, TEMPLATE.space(task).schedule({**TEMPLATE.default(task).values, **knobs}))


def computed(candidate: Candidate, kernel: EmulatedKernel, program: Program, inputs: list[Array]) -> Array:
    lowered = TEMPLATE.lower(candidate)
    output = np.empty(program.output.shape, program.output.dtype)
    report = run(kernel, lowered.program, launch_values(candidate), inputs, output)
    assert report.ok, report.bugs
    return output


# ------------------------------------------------------------------ what it computes


def test_programs_that_are_not_row_reductions_are_refused() -> None:
    wide = te.input("x", (2, (1 << 30) - 100), "int8")
    most = te.program(te.compute((2,), lambda i: te.max((1 << 30) - 100, lambda k: wide[i, k])))[0]
    for program, reason in (
        (contractions.aligned(), "is not a row reduction"),
        (most, "has indices that no int holds"),
    ):
        task = task_of(program, SM80)
        assert not TEMPLATE.matches(task)
        with pytest.raises(IllegalSchedule, match=reason):
            TEMPLATE.space(task)


def test_the_template_generates_for_cuda_only() -> None:
    program = gpu_programs.softmax()
    assert TEMPLATE.matches(task_of(program, SM80))
    assert not TEMPLATE.matches(task_of(program, Target("cpu", "portable", "x86_64", (), 16, 16)))


def test_cuda_rows_comes_first_for_rows() -> None:
    for program in (gpu_programs.softmax(), gpu_programs.row_sums(), gpu_programs.variances()):
        task = task_of(program, SM80)
        assert templates_for(task)[0].name == "cuda_rows"
        assert default_schedule(task).template == "cuda_rows"


# ------------------------------------------------------------------ passes


def test_what_passes_share_is_kept() -> None:
    kept = Analysis(matched(gpu_programs.softmax()), True)
    assert [(i.name, i.first) for i in kept.items] == [("s1", 1), ("c0", 0)]
    assert not Analysis(matched(gpu_programs.softmax()), False).items
    norm = Analysis(matched(gpu_programs.layer_norm()), True)
    assert [i.store for i in norm.items] == ["tw::bf16"]  # weights, which all rows read, are not kept
    assert not Analysis(matched(gpu_programs.row_sums()), True).items


def test_shared_memory_is_used_again() -> None:
    task = task_of(gpu_programs.softmax(1, 4096), SM80)
    values = {**TEMPLATE.default(task).values, "keep": "shared"}
    p = plan(matched(gpu_programs.softmax(1, 4096)), values)
    # The exponentials lie where the inputs did.
    assert p.places["s1"] is p.places["c0"]
    assert p.memory.bytes < 4096 * 4 + 512


KEPT = gpu_programs.softmax(35, 44)
WAYS = list(itertools.product(("registers", "shared", "none"), ((1, 64), (8, 64), (32, 64), (64, 128))))


@cache
def ways() -> tuple[list[Candidate], EmulatedKernel]:
    """All ways, compiled together."""
    found = []
    for keep, (lanes, threads) in WAYS:
        order, vector = ("rows", 1) if lanes == 1 else ("columns", 1 if lanes == 64 else 4)
        if (lanes * vector >= 88) or (keep == "registers" and lanes == 1):
            vector, keep = 1, "none"
        found.append(changed(KEPT, keep=keep, lanes=lanes, threads=threads, order=order, vector=vector, pieces=1))
    return found, emulated([TEMPLATE.lower(c) for c in found], SM80)


@pytest.mark.parametrize("way", range(len(WAYS)), ids=[f"{keep}-{lanes}" for keep, (lanes, _) in WAYS])
def test_every_way_to_keep(way: int) -> None:
    inputs = random_arrays(KEPT, 2)
    candidates, kernel = ways()
    check(KEPT, inputs, computed(candidates[way], kernel, KEPT, inputs))


@pytest.mark.parametrize("program", [gpu_programs.whole_sum(6000), gpu_programs.row_argmax(3, 1600, "float32")])
def test_rows_in_pieces(program: Program) -> None:
    task = task_of(program, SM80)
    inputs = random_arrays(program, 3)
    assert int(TEMPLATE.default(task).values["pieces"]) > 1
    for pieces in (2, 4):
        got = values_of(program, inputs, pieces=pieces, lanes=64, threads=64, vector=1, order="columns", keep="none")
        check(program, inputs, got)
    schedule = TEMPLATE.default(task)
    assert len(TEMPLATE.lower(Candidate(task, schedule)).program.launches) == 2
    assert [n.name for n in TEMPLATE.nests(task, schedule)] == ["pass0", "combine"]
    assert TEMPLATE.static(task, schedule)["split_k"] == schedule.values["pieces"]


SM90 = target("sm_90a")


@cache
def clustered() -> dict[str, tuple[Program, Candidate]]:
    """Rows that clusters share, in every way to keep them, with blocks of one warp and of more."""
    found: dict[str, tuple[Program, Candidate]] = {}
    for program, vector in ((gpu_programs.softmax(3, 5003, "bfloat16"), 1), (gpu_programs.layer_norm(2, 2056), 4)):
        task = task_of(program, SM90)
        space = TEMPLATE.space(task)
        for keep, (pieces, lanes) in itertools.product(space.options["keep"], ((2, 32), (4, 128), (8, 64))):
            values = {"threads": lanes, "lanes": lanes, "vector": vector, "order": "columns"}
            if space.allows(whole := {**values, "keep": keep, "pieces": pieces}):
                found[f"{len(program.inputs)}-{keep}-{pieces}"] = program, Candidate(task, space.schedule(whole))
    return found


@pytest.mark.parametrize("sanitize", [(), pytest.param(("thread",), marks=pytest.mark.nightly)], ids="-".join)
def test_clusters_share_rows_in_every_order(sanitize: tuple[str, ...]) -> None:
    kernels = [TEMPLATE.lower(c) for _, c in clustered().values()]
    built = emulated(kernels, SM90, sanitize=sanitize)
    assert {name.split("-")[1] for name in clustered()} == {"registers", "shared", "inputs", "none"}
    for number, ((program, _), lowered) in enumerate(zip(clustered().values(), kernels, strict=True)):
        inputs = random_arrays(program, 6)
        output = np.empty(
            program.output.shape, program.output.dtype if program.output.dtype != "bfloat16" else "uint16"
        )
        order = ("fifo", "lifo", "random:3")[number % 3]
        report = run(built, lowered.program, {}, inputs, output, order=order)
        assert report.ok, report.bugs
        check(program, inputs, output)


def test_narrow_results_take_short_exponentials() -> None:
    wide, narrow = changed(gpu_programs.softmax(6, 40)), gpu_programs.softmax(6, 40, "float16")
    assert "exp_approx" not in TEMPLATE.lower(wide).source
    assert "exp_approx" in TEMPLATE.lower(changed(narrow)).source
    x = random_arrays(narrow, 7)[0]
    x[:3] *= 40.0  # most weights are next to nothing
    check(narrow, [x], values_of(narrow, [x]))


def test_infinities_and_nans_stay_in_their_rows() -> None:
    program = gpu_programs.softmax(6, 40)
    x = random_arrays(program, 4)[0]
    x[1, 3], x[2, :], x[4, 7] = math.nan, -math.inf, math.inf
    got = values_of(program, [x])
    with np.errstate(invalid="ignore"):
        expected = evaluate(program, [x])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    assert np.isnan(got[1]).all()
    np.testing.assert_allclose(got[[0, 3, 5]], expected[[0, 3, 5]], rtol=1e-5)


def test_an_order_that_matters_is_kept_among_lanes() -> None:
    # First of two: associative, not commutative; neutral is what is not there yet.
    def first(a: tuple[te.Expr, ...], b: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
        return (te.select(a[0] < -1e9, b[0], a[0]),)

    x = te.input("x", (5, 32))
    pick = te.monoid("pick", (-1e10,), first)
    program = te.program(te.compute((5,), lambda i: te.reduce(pick, 32, lambda r: (x[i, r],))))[0]
    inputs = random_arrays(program, 5)
    for lanes in (2, 32):
        got = values_of(program, inputs, lanes=lanes, threads=64, vector=1, order="columns", keep="none", pieces=1)
        np.testing.assert_array_equal(got, inputs[0][:, 0])


# ------------------------------------------------------------------ the space


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"lanes": 64, "threads": 32, "vector": 1}, "more threads than a block"),
        ({"lanes": 32, "threads": 512, "vector": 4}, "have no column"),
        ({"order": "rows"}, "take single columns"),
        ({"threads": 1024, "lanes": 2}, "have no row"),
        ({"lanes": 1, "threads": 64, "vector": 1, "keep": "none"}, "neighbouring threads lie along rows"),
    ],
)
def test_illegal_schedules_are_refused(change: dict[str, int | str], reason: str) -> None:
    task = task_of(gpu_programs.softmax(64, 52), SM80)
    with pytest.raises(IllegalSchedule, match=reason):
        TEMPLATE.space(task).schedule({**TEMPLATE.default(task).values, **change})


@pytest.mark.parametrize(("m", "n"), [(4096, 1024), (8192, 4096), (16, 262144), (100000, 16), (3, 1), (1000, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_defaults_at_real_sizes(m: int, n: int, dtype: str) -> None:
    for variant in VARIANTS:
        task = task_of(gpu_programs.softmax(m, n, dtype), target(variant))
        schedule = TEMPLATE.default(task)
        TEMPLATE.space(task).check(schedule)
        p = plan(matched(gpu_programs.softmax(m, n, dtype)), schedule.values)
        assert p.memory.bytes <= int(task.target.limit["shared_per_block"])
        if n % 1024 == 0:
            assert p.vector * (2 if dtype == "float16" else 4) == 16


# ------------------------------------------------------------------ traffic


@pytest.mark.parametrize(
    "program",
    [gpu_programs.softmax(4, 512), gpu_programs.layer_norm(4, 1024, "float32"), gpu_programs.column_sums(64, 64),
     gpu_programs.row_sums(32, 256), gpu_programs.softmax(2, 2048, "float16")],
)  # fmt: skip
def test_defaults_waste_no_traffic(program: Program) -> None:
    task = task_of(program, target("sm_90a"))
    counts = profile(task, TEMPLATE.default(task))
    assert counts["bank_conflicts"] == 0
    assert excess_sectors(counts) <= 1.05


def test_kept_rows_meet_no_bank_conflicts() -> None:
    rng = random.Random(3)
    for program in (gpu_programs.softmax(64, 256), gpu_programs.softmax_channels(1, 8, 16, 16)):
        task = task_of(program, SM80)
        shared = [s for s in (TEMPLATE.space(task).sample(rng) for _ in range(200)) if s.values["keep"] == "shared"]
        for schedule, counts in zip(shared[:4], profiles(task, shared[:4]), strict=True):
            assert counts["bank_conflicts"] == 0, dict(schedule.values)
