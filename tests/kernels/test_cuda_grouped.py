"""Grouped contractions on GPUs: the contract on the emulator, rows distributed in every way, and what is computed how."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from grouped_programs import (
    PROGRAMS,
    TENSOR_CORES,
    byte_experts,
    cut_experts,
    eight_bit_experts,
    experts,
    half_experts,
    half_frames,
    half_routed,
)

from harness.nvrtc import spilled
from tilewright.backends.cpu.targets import parse_target
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.emulator import build, run
from tilewright.core import EXACT, Candidate, LaunchProgram, Task, Value, evaluate
from tilewright.kernels import nn, te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.grouped import grouped
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.templates import default_schedule, full_source, get_template, lower, templates_for
from tilewright.kernels.templates.cuda_grouped.template import SORTED_ROWS_KNOBS
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.testing.cuda_template import ORDERS, CudaTemplateContract, empty_output
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of

GROUPED, BY_GROUPS = get_template("cuda_grouped"), get_template("cuda_grouped_wgmma")
TARGET, HOPPER = cuda_target("sm_80"), cuda_target("sm_90a")
WARP_GROUPS = (half_experts, half_routed, half_frames, byte_experts, cut_experts, eight_bit_experts)
"""What warp groups multiply of it."""


class TestContract(CudaTemplateContract):
    templates = ("cuda_grouped",)
    programs = {f.__name__: f for f in (experts, half_experts, half_routed, half_frames)}  # noqa: RUF012


class TestWarpGroups(CudaTemplateContract):
    """Hopper's: rows are brought together, then the copy engine fetches tiles of them."""

    templates = ("cuda_grouped_wgmma",)
    programs = {f.__name__: f for f in WARP_GROUPS[:-1]}  # noqa: RUF012
    targets = ("sm_90a",)
    architecture = "sm_90a"


class TestEightBitReals(CudaTemplateContract):
    """Ada and later multiply them; whoever asks for exact sums is left to others."""

    templates = ("cuda_grouped",)
    programs = {"eight_bit_experts": eight_bit_experts}  # noqa: RUF012
    targets = ("sm_89",)
    architecture = "sm_89"


def test_sums_of_eight_bit_reals_say_how_far_they_round() -> None:
    program = eight_bit_experts()
    task = task_of(program, cuda_target("sm_89"))
    assert GROUPED.lower(Candidate(task, GROUPED.default(task))).program.rounding == 2.0**11
    assert not GROUPED.matches(task_of(program, TARGET))
    assert not GROUPED.matches(replace(task, workload=replace(task.workload, precision=EXACT)))
    assert not get_template("cpu_grouped").matches(task_of(program, parse_target("cpu:portable", 1)))


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_grouped",)
    programs = PROGRAMS | TENSOR_CORES
    targets = ("sm_80", "sm_90a")
    schedules = 8


@pytest.mark.nightly
class TestWarpGroupsThoroughly(TestWarpGroups):
    programs = {f.__name__: f for f in WARP_GROUPS}  # noqa: RUF012
    schedules = 12
    sanitize = ("address", "undefined")


@pytest.mark.nightly
class TestContractSanitized(CudaTemplateContract):
    templates = ("cuda_grouped",)
    programs = PROGRAMS | TENSOR_CORES
    schedules = 3
    sanitize = ("address", "undefined")


@pytest.mark.parametrize("name", [*PROGRAMS, *TENSOR_CORES])
def test_what_computes_a_grouped_contraction(name: str) -> None:
    program = (PROGRAMS | TENSOR_CORES)[name]()
    found = templates_for(task_of(program, TARGET))
    assert found[0] is GROUPED
    g = grouped(program)
    assert g is not None
    matrix = name in TENSOR_CORES or name in ("half_experts", "turned_experts")
    plan = GROUPED.plan(g, TARGET, GROUPED.default(task_of(program, TARGET)).values)
    assert plan.member.template.name == ("cuda_mma" if matrix else "cuda_simt")
    by_groups = BY_GROUPS.matches(task_of(program, HOPPER))
    assert by_groups == (name in {f.__name__ for f in WARP_GROUPS})


def few(task: Task) -> Task:
    """The task on a device of two multiprocessors."""
    limits = tuple((k, 2 if k == "sms" else v) for k, v in task.target.limits)
    return replace(task, target=replace(task.target, limits=limits))


DEALT: dict[str, Callable[[int, int], np.ndarray]] = {
    "all in the first": lambda m, _: np.zeros(m),
    "all in the last": lambda m, groups: np.full(m, groups - 1),
    "falling": lambda m, groups: np.linspace(groups - 1, 0, m).round(),
    "outside": lambda m, groups: np.resize([-5, groups + 3, 2**31 - 1, -(2**31)], m),
    "one apart": lambda m, groups: np.where(np.arange(m) == m // 2, 1, groups - 1),
}
"""Groups of rows, given how many rows and groups there are."""


SPLIT = {"split_k": True, "SPLIT": 2, "BK": 32, "STAGES": 2, "store_shared": False}
SMALL: dict[str, Value] = {
    "BM": 64, "GROUPS": 1, "BN": 64, "BK": 64, "STAGES": 2, "CLUSTER": "1x1", "ping_pong": False, "split_k": False,
    "SPLIT": 1, "store_boxes": False, "gather": False,
}  # fmt: skip
IN_PLACE = {**SMALL, "gather": True, "STAGES": 4}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("make", "template", "knobs"),
    [
        (lambda: experts(m=70), GROUPED, {}),
        (half_routed, GROUPED, {}),
        (half_routed, GROUPED, SPLIT),
        # Two multiprocessors: blocks walk over tiles.
        (lambda: half_experts(150, 72), BY_GROUPS, SMALL),
        (lambda: half_experts(150, 136, 200), BY_GROUPS, {**SMALL, "CLUSTER": "1x2", "STAGES": 3}),
        (lambda: half_experts(150, 200, 200), BY_GROUPS, {**SMALL, "CLUSTER": "1x4"}),
        (lambda: half_experts(150, 24, 264), BY_GROUPS, {**SMALL, "split_k": True, "SPLIT": 2}),
        # Rows fetched where they lie: a tile's second group may have none.
        (lambda: half_experts(200, 72, 200), BY_GROUPS, {**IN_PLACE, "BM": 128, "GROUPS": 2, "store_boxes": True}),
        (lambda: half_experts(150, 24, 264), BY_GROUPS, {**IN_PLACE, "BK": 128, "split_k": True, "SPLIT": 2}),
        (lambda: half_experts(150, 200, 200), BY_GROUPS, {**IN_PLACE, "GROUPS": 2, "ping_pong": True, "GROUP": 4}),
        (lambda: half_experts(150, 104, 64), BY_GROUPS, {**SMALL, "BN": 128, "store_boxes": True}),
    ],
    ids=[
        "float32", "bfloat16", "split", "groups", "groups-pairs", "groups-fours", "groups-split", "in-place",
        "in-place-split", "in-place-turns", "rows-stored",
    ],
)  # fmt: skip
def test_rows_may_be_distributed_to_groups_in_any_way(
    make: Callable[[], Program], template: PlannedTemplate[Any, Any], knobs: dict[str, Value]
) -> None:
    """Empty groups, and tiles that are full to the last row, too; results do not depend on the order of threads."""
    program = make()
    task = task_of(program, TARGET) if template is GROUPED else few(task_of(program, HOPPER))
    values = {**template.default(task).values, "BM": 16, "GROUP": 1, **knobs}
    candidate = Candidate(task, template.space(task).schedule(values))
    made = template.lower(candidate)
    kernel = build(full_source(candidate, emulated=True), [x.symbol for x in made.program.launches])
    inputs = random_arrays(program, 1)
    at = next(n for n, t in enumerate(program.inputs) if t.dtype == "int32")
    groups = grouped(program)
    assert groups is not None
    for name, deal in DEALT.items():
        inputs[at] = deal(inputs[at].size, groups.groups).astype("int32").reshape(inputs[at].shape)
        results, right = [], reference(program, inputs)
        for order, copies in (*ORDERS[:2], ("random:3", "eager")):
            got = empty_output(program.output.shape, program.output.dtype)
            report = run(kernel, made.program, launch_values(candidate), inputs, got, order=order, copies=copies)
            assert report.ok, (name, report.bugs)
            check(program, inputs, got, right)
            results.append(got.tobytes())
        assert len(set(results)) == 1, name


def test_a_tile_holds_rows_of_one_group() -> None:
    """The tables that the first launch leaves: every row once, in its group's tiles; others have none."""
    program = experts(m=50, groups=4)
    task = task_of(program, TARGET)
    candidate = Candidate(task, GROUPED.space(task).schedule({**GROUPED.default(task).values, "BM": 16, "GROUP": 1}))
    made = GROUPED.lower(candidate)
    kernel = build(full_source(candidate, emulated=True), [x.symbol for x in made.program.launches])
    inputs = random_arrays(program, 1)
    inputs[2] = np.array([0] * 16 + [3, 1] * 17, "int32")
    # The tables as a second result, where the launch would have its workspace.
    tables = np.zeros(evaluate(made.program.workspace, {}) // 4, np.int32)
    sort = replace(made.program.launches[0], parameters=tuple(("tensor", n) for n in range(5)))
    got = empty_output(program.output.shape, program.output.dtype)
    report = run(kernel, LaunchProgram((sort,)), {}, inputs, got, tables)
    assert {b.kind for b in report.bugs} == {"uninitialized"}  # the result, and rows of tiles without rows
    tiles = 50 // 16 + 4
    order, batches = tables[: tiles * 16].reshape(tiles, 16), tables[tiles * 16 : tiles * 17]
    assert list(batches) == [0, -1, 1, 1, -1, 3, 3]
    rows = np.arange(50)
    for group in range(4):
        held = order[batches == group].ravel()
        mine = rows[inputs[2] == group]
        assert list(held[: len(mine)][np.argsort(held[: len(mine)])]) == list(mine)
        assert set(held[len(mine) :]) <= {50}


def test_blocks_walk_over_tiles_that_have_rows() -> None:
    """Where tiles without rows lay between others, each block would meet another number of them."""
    program = half_experts(150, 72)
    task = task_of(program, HOPPER)
    values = {**BY_GROUPS.default(task).values, **SMALL, "GROUP": 1}
    candidate = Candidate(task, BY_GROUPS.space(task).schedule(values))
    made = BY_GROUPS.lower(candidate)
    kernel = build(full_source(candidate, emulated=True), [x.symbol for x in made.program.launches])
    inputs = random_arrays(program, 1)
    at = next(n for n, t in enumerate(program.inputs) if t.dtype == "int32")
    groups = grouped(program).groups
    inputs[at] = np.array([0] * 65 + [groups - 1] * 85, "int32")
    # The workspace as a second result.
    tables = np.zeros(evaluate(made.program.workspace, launch_values(candidate)) // 4, np.int32)
    given = tuple(("tensor", n) for n in range(len(inputs) + 2))
    sort = replace(made.program.launches[0], parameters=given)
    run(kernel, LaunchProgram((sort,)), {}, inputs, empty_output(program.output.shape, program.output.dtype), tables)
    tiles = 150 // 64 + groups
    batches, used = tables[tiles * 64 :][:tiles], tables[tiles * 65]
    assert used == 4
    assert list(batches[:used]) == [0, 0, groups - 1, groups - 1]


@pytest.mark.parametrize("template", [GROUPED, BY_GROUPS], ids=lambda t: t.name)
def test_experts_of_two_layers_are_two_kernels(template: PlannedTemplate[Any, Any]) -> None:
    """What lies between is a tensor of the workspace, as are the tables of both."""
    x, g = te.input("x", (40, 32), "bfloat16"), te.input("g", (40,), "int32")
    w, v = te.input("w", (4, 32, 48), "bfloat16"), te.input("v", (4, 48, 32), "bfloat16")
    hidden = nn.cast(nn.relu(nn.grouped_matmul(x, w, g)), "bfloat16")
    program = te.program(nn.cast(nn.grouped_matmul(hidden, v, g), "bfloat16"))[0]
    task = task_of(program, TARGET if template is GROUPED else HOPPER)
    candidate = Candidate(task, default_schedule(task))
    assert candidate.schedule.values["cut"] == f"s0+s1:{template.name} s2:{template.name}"
    made = lower(candidate)
    kernel = build(full_source(candidate, emulated=True), [s.symbol for s in made.program.launches])
    inputs, got = random_arrays(program, 1), empty_output(program.output.shape, program.output.dtype)
    report = run(kernel, made.program, launch_values(candidate), inputs, got, order="random:5")
    assert report.ok, report.bugs
    check(program, inputs, got)


def test_sizes_that_neighbours_in_memory_cross_are_left_to_others() -> None:
    """Rows that lie side by side are no neighbours once they are sorted, so nothing reads them in vectors."""
    x, w, g = te.input("x", (32, 20)), te.input("w", (3, 32, 16)), te.input("g", (20,), "int32")
    out = te.compute((20, 16), lambda i, j: te.sum(32, lambda r: x[r, i] * w[g[i], r, j]))
    task = task_of(te.program(out)[0], TARGET)
    assert grouped(Program.loads(task.workload.program)) is not None
    assert not GROUPED.matches(task)


def test_loops_are_those_of_groups_of_equal_size() -> None:
    task = task_of(experts(40, 64, 64, 5), TARGET)
    sort, product = GROUPED.nests(task, GROUPED.default(task))
    assert (sort.axes, sort.flops_per_point) == ({"z": 5, "m": 40}, 0)
    assert (product.axes["z"], product.axes["m"]) == (5, 8)


MIXTURES = (
    {"m": 4096, "n": 4096, "k": 4096, "groups": 8, "dtype": "bfloat16"},
    {"m": 8192, "n": 1408, "k": 2048, "groups": 64, "dtype": "bfloat16"},
    {"m": 1000, "n": 37, "k": 513, "groups": 16, "dtype": "float16"},
    {"m": 64, "n": 2048, "k": 1024, "groups": 32, "dtype": "float32"},
)


@pytest.mark.parametrize("sizes", MIXTURES[:1], ids=lambda c: f"{c['groups']} {c['dtype']}")
def test_defaults_do_not_spill(sizes: dict[str, object]) -> None:
    _unspilled(sizes, "sm_80")


@pytest.mark.nightly
@pytest.mark.parametrize("variant", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("sizes", MIXTURES, ids=lambda c: f"{c['groups']} {c['dtype']}")
def test_no_default_spills(sizes: dict[str, object], variant: str) -> None:
    _unspilled(sizes, variant)


def _unspilled(sizes: dict[str, object], variant: str) -> None:
    task = _mixture(sizes, variant)
    for template in templates_for(task):
        schedule = template.default(task)
        assert not spilled(task, schedule), (template.name, dict(schedule.values))


def _mixture(sizes: dict[str, object], variant: str) -> Task:
    return Task(get_operator("grouped_matmul").workload(**sizes), cuda_target(variant))


def test_many_rows_are_brought_together_for_warp_groups() -> None:
    """Few rows are read where they lie: memory bounds both kernels then, and the copy is a launch more."""
    few, many = _mixture({**MIXTURES[0], "m": 256}, "sm_90a"), _mixture(MIXTURES[0], "sm_90a")
    assert [t.name for t in templates_for(many)] == ["cuda_grouped_wgmma", "cuda_grouped"]
    assert [t.name for t in templates_for(few)] == ["cuda_grouped", "cuda_grouped_wgmma"]
    schedule = BY_GROUPS.default(many)
    assert [x.name for x in BY_GROUPS.nests(many, schedule)] == ["sort", "s0"]
    copied = BY_GROUPS.space(many).schedule({**schedule.values, "gather": False})
    assert [x.name for x in BY_GROUPS.nests(many, copied)] == ["sort", "gather", "s0"]


@pytest.mark.parametrize(
    ("sizes", "group"),
    [
        ({"m": 32768, "n": 1536, "k": 2048, "groups": 128}, 1),
        ({"m": 8192, "n": 28672, "k": 4096, "groups": 8}, 8),
        ({"m": 300, "n": 1536, "k": 2048, "groups": 128}, 1),
    ],
)
def test_no_more_rows_of_tiles_are_walked_together_than_a_group_has(sizes: dict[str, object], group: int) -> None:
    values = BY_GROUPS.default(_mixture({**sizes, "dtype": "bfloat16"}, "sm_90a")).values
    assert values["GROUP"] == group


def test_tiles_of_rows_that_lie_apart_have_no_choice_of_some_knobs() -> None:
    space = BY_GROUPS.space(_mixture(MIXTURES[0], "sm_90a"))
    values = {k.name: k.values for k in space.knobs}
    assert {k: v for k, v in values.items() if k in SORTED_ROWS_KNOBS} == SORTED_ROWS_KNOBS


@pytest.mark.nightly
def test_many_random_schedules_compile() -> None:
    rng, count = random.Random(1), 0
    for number in range(80):
        sizes = MIXTURES[number % len(MIXTURES)]
        task = Task(get_operator("grouped_matmul").workload(**sizes), TARGET)
        count += spilled(task, GROUPED.space(task).sample(rng)) > 0
    assert count <= 4, f"{count} of 80 spill"


@pytest.mark.nightly
def test_many_random_schedules_of_warp_groups_compile() -> None:
    rng, count = random.Random(1), 0
    for number in range(40):
        task = _mixture(MIXTURES[number % 2], "sm_90a")
        count += spilled(task, BY_GROUPS.space(task).sample(rng)) > 0
    assert count <= 2, f"{count} of 40 spill"
