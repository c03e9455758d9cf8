"""The CUDA template for ordinary units: its contract on the emulator, its space, what it chooses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from harness.nvrtc import measured
from tilewright.backends.cuda.archs import target
from tilewright.backends.cuda.build import flags
from tilewright.backends.cuda.nvrtc import NoNvrtc, Nvrtc, find_nvrtc
from tilewright.backends.cuda.ptxas import parse_log
from tilewright.backends.cuda.sass import NoDisassembler, disassemble, find_disassembler
from tilewright.backends.emulator import build, run
from tilewright.core import Candidate, IllegalSchedule, Schedule, Task
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.loopnest.footprint import FEATURES, footprint
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import full_source
from tilewright.kernels.templates.cuda_simt.template import CUDA_SIMT
from tilewright.testing.contractions import CONTRACTIONS, multiply
from tilewright.testing.cuda_template import CudaTemplateContract
from tilewright.testing.kernels import Array, check, launch_values, random_arrays, task_of

TEMPLATE = CUDA_SIMT


ALIKE = ("conv2d", "matrix_vector", "dot", "halves", "bytes_odd", "squared_distance", "products", "least")
"""Contractions that take the paths of others: only the nightly run has them on the emulator."""


class TestContract(CudaTemplateContract):
    templates = ("cuda_simt",)
    programs = {n: build for n, build in CONTRACTIONS.items() if n not in ALIKE}  # noqa: RUF012


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_simt",)
    targets = ("sm_80", "sm_90a", "sm_120")
    schedules = 12


@pytest.mark.nightly
class TestContractSanitized(CudaTemplateContract):
    templates = ("cuda_simt",)
    schedules = 3
    sanitize = ("address", "undefined")


@pytest.mark.nightly
class TestContractRaces(CudaTemplateContract):
    templates = ("cuda_simt",)
    schedules = 1
    sanitize = ("thread",)


def matmul(variant: str = "sm_90a", **sizes: int) -> Task:
    return Task(get_operator("matmul").workload(**sizes), target(variant))


# ------------------------------------------------------------------ the space


@pytest.mark.parametrize("name", ["no", "cpu"])
def test_the_template_generates_for_cuda_only(name: str) -> None:
    task = matmul(m=4, n=4, k=4)
    assert TEMPLATE.matches(task)
    other = task_of(CONTRACTIONS["matmul"](), type(task.target)(name, "", "", (), 16, 16))
    assert not TEMPLATE.matches(other)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"TM": 16, "TN": 16}, "accumulators leave no registers"),
        ({"BM": 16, "BN": 16, "TM": 8, "TN": 8}, "do not form whole warps"),
        ({"TM": 1, "TN": 1}, "more than 1024 threads"),
        ({"lanes_n": 1}, "do not divide into warps"),
        ({"stages": 4}, "direct copies take 1 or 2 stages"),
        ({"copy": "async"}, "cannot transpose"),
        ({"min_blocks": 4}, "do not fit a multiprocessor"),
        ({"BK": 8, "unroll": 16}, "unroll exceeds"),
        ({"unroll": 1}, "need an unrolled loop"),
        ({"split_k": True}, "split_k is on exactly"),
        ({"BN": 256, "TM": 16, "BK": 64}, "copies more than"),
    ],
)
def test_illegal_schedules_say_why(change: dict[str, int | str | bool], reason: str) -> None:
    task = matmul(m=4096, n=4096, k=4096)
    values = dict(TEMPLATE.default(task).values)
    with pytest.raises(IllegalSchedule, match=reason):
        TEMPLATE.space(task).schedule({**values, **change})


def test_shared_memory_decides_what_is_legal() -> None:
    change = {
        "BM": 128, "BN": 64, "BK": 16, "TM": 8, "TN": 4, "lanes_n": 8, "copy": "async", "stages": 4, "VA": 2, "VB": 2,
        "unroll": 8, "fragments": 2, "min_blocks": 1, "pad_a": 0, "pad_b": 0, "split_k": False, "SPLIT": 1, "GROUP": 1,
    }  # fmt: skip
    p = multiply(512, 512, 512, "float64", "float64", rows="km")
    TEMPLATE.space(task_of(p, target("sm_90a"))).schedule(change)
    with pytest.raises(IllegalSchedule, match="the tiles exceed 101376 bytes of shared memory"):
        TEMPLATE.space(task_of(p, target("sm_120"))).schedule(change)


@pytest.mark.parametrize("variant", ["sm_80", "sm_86", "sm_87", "sm_90a"])  # the others have limits of one of these
def test_every_schedule_fits_its_architecture(variant: str) -> None:
    task = matmul(variant, m=1024, n=1000, k=512)
    limit = task.target.limit
    rng = random.Random(variant)
    space = TEMPLATE.space(task)
    for schedule in (space.sample(rng) for _ in range(60)):
        numbers = TEMPLATE.static(task, schedule)
        blocks = int(schedule.values["min_blocks"])
        assert numbers["blocks_per_sm"] >= blocks
        assert numbers["shared_bytes"] <= int(limit["shared_per_block"])
        assert numbers["registers"] * numbers["threads"] * blocks <= int(limit["registers_per_sm"])


# ------------------------------------------------------------------ defaults


def test_the_default_of_a_large_product() -> None:
    task = matmul(m=4096, n=4096, k=4096)
    v = TEMPLATE.default(task).values
    assert (v["BM"], v["BN"], v["TM"], v["TN"]) == (128, 256, 16, 8)
    assert (v["VA"], v["VB"], v["stages"], v["fragments"], v["split_k"]) == (4, 4, 2, 2, False)


@pytest.mark.parametrize("sizes", [(1, 4096, 4096), (16, 4096, 4096), (49, 512, 4608), (64, 64, 65536)])
def test_defaults_fill_the_device(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    task = matmul(m=m, n=n, k=k)
    schedule = TEMPLATE.default(task)
    kernel = TEMPLATE.lower(Candidate(task, schedule))
    tiles = TEMPLATE.static(task, schedule)
    blocks = tiles["waves"] * tiles["blocks_per_sm"] * 132
    assert blocks >= 0.9 * 132
    assert len(kernel.program.launches) == 1 + bool(schedule.values["split_k"])


def computed(
    task: Task, schedule: Schedule, inputs: Sequence[Array], profile: bool = False
) -> tuple[Array, dict[str, object]]:
    """A schedule's result on the emulator, and counts."""
    candidate = Candidate(task, schedule)
    kernel = TEMPLATE.lower(candidate)
    unit = prelude(task.target, emulated=True) + kernel.source
    made = build(unit, [x.symbol for x in kernel.program.launches], profile=profile)
    output = Program.loads(task.workload.program).output
    out = np.empty(output.shape, output.dtype)
    report = run(made, kernel.program, launch_values(candidate), list(inputs), out)
    assert report.ok, report.bugs
    return out, dict(report.profile)


@cache
def profiled(rows: str, columns: str, dtype: str) -> dict[str, object]:
    p = multiply(256, 256, 64, dtype, dtype, rows, columns)
    task = task_of(p, target("sm_90a"))
    inputs = random_arrays(p)
    out, profile = computed(task, TEMPLATE.default(task), inputs, profile=True)
    check(p, inputs, out)
    return profile


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [("mk", "kn"), ("km", "nk")])
def test_defaults_on_aligned_shapes_have_no_conflicts_and_full_sectors(rows: str, columns: str, dtype: str) -> None:
    profile = profiled(rows, columns, dtype)
    assert profile["bank_conflicts"] == 0
    for kind in ("global_load", "global_store"):
        counted = profile[kind]
        assert isinstance(counted, dict)
        assert counted["sectors"] == counted["ideal_sectors"] > 0
        assert counted["requests"] * 32 * 16 <= counted["sectors"] * 32 * 1.01  # 16 bytes a lane


# ------------------------------------------------------------------ words of bytes


@pytest.mark.parametrize("label", ["bytes", "bytes_odd"])
def test_products_of_bytes_are_computed_four_at_a_time(label: str) -> None:
    p = CONTRACTIONS[label]()
    task = task_of(p, target("sm_80"), label)
    kernel = TEMPLATE.lower(Candidate(task, TEMPLATE.default(task)))
    inputs = random_arrays(p)
    check(p, inputs, computed(task, TEMPLATE.default(task), inputs)[0])
    assert "tw::dp4a(a[q][i], b[r][j], acc[q][i][r][j])" in kernel.source
    # A is read along K as it lies, or its bytes change places; B always does.
    assert kernel.source.count("tw::transpose_bytes(w);") == (1 if label == "bytes" else 2)
    numbers = TEMPLATE.static(task, TEMPLATE.default(task))
    wide = task_of(multiply(16, 48, 64, "int32", "int32"), target("sm_80"))
    depth = {name: {k.name: k.values for k in TEMPLATE.space(t).knobs}["BK"] for name, t in (("8", task), ("32", wide))}
    assert depth["8"][0] == 4 * depth["32"][0]
    assert numbers["tile_k"] % 4 == 0


def test_other_whole_numbers_are_multiplied_one_by_one() -> None:
    for label in ("int8_dot", "long_integers"):  # signed by unsigned; eight bytes
        task = task_of(CONTRACTIONS[label](), target("sm_80"), label)
        assert "dp4a" not in TEMPLATE.lower(Candidate(task, TEMPLATE.default(task))).source


def test_words_along_k_are_copied_asynchronously() -> None:
    p = multiply(32, 32, 64, "int8", "int32", columns="nk")
    task = task_of(p, target("sm_80"))
    space, rng = TEMPLATE.space(task), random.Random(0)
    found = [s for s in (space.sample(rng) for _ in range(60)) if s.values["copy"] == "async"]
    assert found
    assert all(s.values["VA"] == s.values["VB"] == 4 for s in found)
    inputs = random_arrays(p)
    check(p, inputs, computed(task, found[0], inputs)[0])


def test_sums_of_bytes_wrap_around() -> None:
    k = 1 << 18
    p = multiply(1, 2, k, "int8", "int32")
    task = task_of(p, target("sm_80"))
    a, b = np.full((1, k), -128, np.int8), np.full((k, 2), -128, np.int8)
    b[:, 1] = 127
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert np.abs(exact).min() > 1 << 31
    assert computed(task, TEMPLATE.default(task), [a, b])[0].tolist() == exact.astype(np.int32).tolist()


def test_bytes_take_a_quarter_of_the_instructions() -> None:
    """Of a large product's main loop, from machine code: one for more than three multiply-adds."""
    try:
        find_disassembler()
    except NoDisassembler as e:
        pytest.skip(str(e))
    task = task_of(multiply(4096, 4096, 1022, "int8", "int32"), target("sm_80"))
    candidate = Candidate(task, TEMPLATE.default(task))
    cubin, _ = compiler("sm_80").compile(full_source(candidate), flags(task.target))
    loop = disassemble(cubin)[candidate.symbol].main_loop
    dots = sum(x.opcode.startswith("IDP.4A.S8.S8") for x in loop)
    assert 4 * dots > 3 * len(loop)


# ------------------------------------------------------------------ features


def test_nests_count_the_work() -> None:
    task = matmul(m=256, n=256, k=512)
    space = TEMPLATE.space(task)
    rng = random.Random(2)
    for schedule in [TEMPLATE.default(task), *(space.sample(rng) for _ in range(20))]:
        nests = TEMPLATE.nests(task, schedule)
        split = int(schedule.values["SPLIT"])
        assert len(nests) == (2 if split > 1 else 1)
        f = footprint(nests, task.target)
        assert tuple(f) == tuple(FEATURES)
        assert all(np.isfinite(v) and v >= 0 for v in f.values())
        assert footprint(nests[:1], task.target)["flops"] == task.workload.flops
        blocks = (256 // int(schedule.values["BM"])) * (256 // int(schedule.values["BN"])) * split
        assert footprint(nests[:1], task.target)["parallel"] == blocks


# ------------------------------------------------------------------ the compiler's view


def compiler(variant: str) -> Nvrtc:
    try:
        return find_nvrtc(variant)
    except NoNvrtc as e:
        pytest.skip(str(e))


def compile_all(task: Task, schedules: list[Schedule]) -> None:
    nvrtc = compiler(task.target.variant)
    for schedule in schedules:
        candidate = Candidate(task, schedule)
        _, log = nvrtc.compile(full_source(candidate), flags(task.target))
        used = parse_log(log).kernels[candidate.symbol]
        assert used.registers * TEMPLATE.static(task, schedule)["threads"] <= 65536, dict(schedule.values)


@pytest.mark.parametrize(
    ("variant", "labels"), [("sm_80", ("matmul", "fused")), ("sm_90a", ("conv2d",)), ("sm_120", ("halves", "gathered"))]
)
def test_sampled_sources_compile(variant: str, labels: tuple[str, ...]) -> None:
    rng = random.Random(variant)
    for label in labels:
        task = task_of(CONTRACTIONS[label](), target(variant), label)
        compile_all(task, [TEMPLATE.space(task).sample(rng)])


@pytest.mark.nightly
@pytest.mark.parametrize("variant", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize(
    "label", [n for n, make in CONTRACTIONS.items() if CUDA_SIMT.matches(task_of(make(), target("sm_80"), n))]
)
def test_many_sources_compile(label: str, variant: str) -> None:
    rng = random.Random(f"{variant} {label}")
    task = task_of(CONTRACTIONS[label](), target(variant), label)
    compile_all(task, [TEMPLATE.default(task), *(TEMPLATE.space(task).sample(rng) for _ in range(15))])


@pytest.mark.parametrize(
    ("dtype", "changes"), [("float32", {}), ("float32", {"trans_a": True, "trans_b": True}), ("float64", {})]
)
def test_the_default_of_a_large_product_issues_little_but_multiply_adds(dtype: str, changes: dict[str, bool]) -> None:
    workload = get_operator("matmul").workload(m=4096, n=4096, k=4096, dtype=dtype, **changes)
    task = Task(workload, target("sm_90a"))
    [cost] = measured(task, TEMPLATE.default(task))
    assert cost.spills == 0
    assert cost.bound is not None
    by_issue = cost.bound.share * cost.bound.cycles / cost.bound.busy["issue"]
    assert by_issue >= 0.9
    assert cost.bound.share >= 0.85  # with operands in the same bank of registers
