"""The Hopper template: its contract on the emulator, what it matches and refuses, and what it chooses."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache

import numpy as np
import pytest
from mma_programs import LAYOUTS, OUT, PRODUCTS, cut, dense, factor, product, scaled

from tilewright.backends.cuda.archs import VARIANTS
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.emulator import EmulatedKernel, build, run
from tilewright.core import Candidate, IllegalSchedule, Task, evaluate
from tilewright.kernels import nn, te
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.templates import default_schedule, full_source, templates_for
from tilewright.kernels.templates.cuda_wgmma.default import raster_group
from tilewright.kernels.templates.cuda_wgmma.geometry import aligned, resident_clusters
from tilewright.kernels.templates.cuda_wgmma.match import match, refuses
from tilewright.kernels.templates.cuda_wgmma.template import CUDA_WGMMA
from tilewright.testing.cuda_template import ORDERS, CudaTemplateContract, empty_output, emulated
from tilewright.testing.kernels import Array, check, launch_values, random_arrays, task_of


def batched(shared: bool, k: int = 72) -> Program:
    """Three products, of one B for all or of one each."""
    x, y = te.input("x", (3, 40, k), "bfloat16"), te.input("y", (24, k) if shared else (3, 24, k), "bfloat16")

    def at(b: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        return factor(y[j, r] if shared else y[b, j, r])

    z = te.compute((3, 40, 24), lambda b, i, j: te.sum(k, lambda r: factor(x[b, i, r]) * at(b, j, r)))
    return te.program(te.compute((3, 40, 24), lambda b, i, j: te.cast(z[b, i, j], "bfloat16")))[0]


SIZES = {"float16": (72, 136, 200), "bfloat16": (72, 136, 200), "int8": (70, 48, 304)}
ALIGNED: Mapping[str, Callable[[], Program]] = {
    f"{dtype}_{a}_{b}": lambda dtype=dtype, a=a, b=b: product(dtype, *SIZES[dtype], a, b, OUT[dtype])
    for dtype in SIZES
    for a, b in (LAYOUTS if dtype == "bfloat16" else (("mk", "nk"),))
}
WGMMA: Mapping[str, Callable[[], Program]] = {
    **ALIGNED,
    "one_row": lambda: product("bfloat16", 1, 40, 136, "mk", "nk", "bfloat16"),
    "one_column": lambda: product("float16", 70, 1, 48, "mk", "nk"),
    "shallow": lambda: product("bfloat16", 130, 24, 8, "mk", "nk", "bfloat16"),
    "deep": lambda: product("float16", 64, 16, 1096, "mk", "nk"),
    "wide": lambda: product("bfloat16", 130, 520, 72, "mk", "kn", "bfloat16"),
    "e4m3": lambda: product("float8_e4m3fn", 70, 48, 304, "mk", "nk", "bfloat16"),
    "e5m2": lambda: product("float8_e5m2", 64, 40, 96, "mk", "nk"),
    "scaled": lambda: scaled(66, 256, 528),
    "scaled_columns": lambda: scaled(13, 136, 528, by_column=True, bias=True, dtype="float8_e5m2"),
    "scaled_fours": lambda: scaled(66, 136, 1008, by_column=True),
    "tf32": lambda: cut(70, 48, 100),
    "dense": dense,
    "batched": lambda: batched(False),
    "rounds": lambda: product("bfloat16", 130, 152, 520, "mk", "nk", "bfloat16"),
    "many": lambda: batched(False, 264),
    "tokens": lambda: product("bfloat16", 13, 264, 520, "mk", "nk", "bfloat16"),
    "tokens_int8": lambda: product("int8", 13, 136, 304, "mk", "nk", "int32"),
}
THOROUGH: Mapping[str, Callable[[], Program]] = {
    **WGMMA, "shared": lambda: batched(True), "scaled_odd": lambda: scaled(66, 136, 1008),
}  # fmt: skip


def few(task: Task, sms: int = 2) -> Task:
    """The task on a device of so few multiprocessors, where blocks walk over several tiles."""
    limits = tuple((k, sms if k == "sms" else v) for k, v in task.target.limits)
    return dataclasses.replace(task, target=dataclasses.replace(task.target, limits=limits))


class TestContract(CudaTemplateContract):
    templates = ("cuda_wgmma",)
    programs = WGMMA
    targets = ("sm_90a",)
    architecture = "sm_90a"


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_wgmma",)
    programs = THOROUGH
    targets = ("sm_90a",)
    architecture = "sm_90a"
    schedules = 12


@pytest.mark.parametrize("sanitize", [("address", "undefined"), ("thread",)], ids="-".join)
@pytest.mark.parametrize(("name", "cluster"), [("bfloat16_mk_nk", "1x1"), ("bfloat16_km_kn", "2x1"), ("rounds", "2x2")])
def test_no_sanitizer_reports(sanitize: tuple[str, ...], name: str, cluster: str) -> None:
    task = task_of(WGMMA[name](), cuda_target("sm_90a"))
    schedule = CUDA_WGMMA.space(task).schedule({
        **CUDA_WGMMA.default(task).values, "BM": 64, "GROUPS": 1, "BN": 64, "STAGES": 2, "persistent": True,
        "split_k": False, "SPLIT": 1, "CLUSTER": cluster, "ping_pong": False, "tail": False, "tail_rows": False,
    })  # fmt: skip
    candidate = Candidate(task, schedule)
    made = CUDA_WGMMA.lower(candidate)
    kernel = build(full_source(candidate, emulated=True), [made.symbol], sanitize=sanitize)
    if kernel.unchecked:
        pytest.skip(kernel.unchecked)
    program = Program.loads(task.workload.program)
    inputs = random_arrays(program, 1)
    for order, copies in (("random:3", "eager"), ("fifo", "lazy")):
        got = empty_output(program.output.shape, program.output.dtype)
        report = run(kernel, made.program, launch_values(candidate), inputs, got, order=order, copies=copies)
        if report.unchecked:
            pytest.skip(report.unchecked)
        assert report.ok, report.bugs
        check(program, inputs, got, reference(program, inputs))


WALKED = ("wide", "dense", "batched", "bfloat16_km_kn")


def walking(name: str) -> list[Candidate]:
    program = WGMMA[name]()
    task, rng = few(task_of(program, cuda_target("sm_90a"))), random.Random(name)
    space = CUDA_WGMMA.space(task)
    sampled = [space.sample(rng) for _ in range(400)]
    small = [
        s
        for s in sampled
        if s.values["persistent"]
        and s.values["BM"] == 64
        and int(s.values["BN"]) <= 64
        and int(s.values["STAGES"]) <= 4
    ]
    chosen = [s for way in (True, False) for s in [x for x in small if x.values["store_boxes"] == way][:2]]
    return [Candidate(task, s) for s in chosen]


@pytest.mark.parametrize("name", WALKED)
def test_blocks_that_walk_over_many_tiles(name: str) -> None:
    """Two multiprocessors: the ring, its phases and the boxes of results go on from tile to tile."""
    computes(walking(name), together(walking, WALKED))


# --------------------------------------------------------------------------- sides exchanged


def small(
    name: str, more: Mapping[str, object], sms: int = 2, programs: Mapping[str, Callable[[], Program]] = WGMMA
) -> Candidate:
    """A schedule of small tiles on so many multiprocessors, with some of its decisions given."""
    task = few(task_of(programs[name](), cuda_target("sm_90a")), sms)
    space = CUDA_WGMMA.space(task)
    depth = next(x for x in space.knobs if x.name == "BK").values[0]
    least = {"SWAP": False, "BM": 64, "GROUPS": 1, "BK": depth, "STAGES": 2, "CLUSTER": "1x1", "store_boxes": False,
             "ping_pong": False, "tail": False, "tail_rows": False}  # fmt: skip
    values = {**CUDA_WGMMA.default(task).values, **least, "split_k": False, "SPLIT": 1, **more}
    return Candidate(task, space.schedule(values))


@cache
def together(of: Callable[[str], list[Candidate]], names: tuple[str, ...]) -> EmulatedKernel:
    """The candidates of all names, compiled as one unit."""
    return emulated([CUDA_WGMMA.lower(c) for name in names for c in of(name)], cuda_target("sm_90a"))


def computes(candidates: Sequence[Candidate], kernel: EmulatedKernel | None = None) -> None:
    """Runs schedules of one program in several orders, and compares."""
    made = [CUDA_WGMMA.lower(c) for c in candidates]
    kernel = kernel or emulated(made, candidates[0].task.target)
    program = Program.loads(candidates[0].task.workload.program)
    inputs = random_arrays(program, 1)
    expected = reference(program, inputs)
    for candidate, k in zip(candidates, made, strict=True):
        for order, copies in (*ORDERS, ("random:8", "eager")):
            got = empty_output(program.output.shape, program.output.dtype)
            report = run(kernel, k.program, launch_values(candidate), inputs, got, order=order, copies=copies)
            assert report.ok, (dict(candidate.schedule.values), order, copies, report.bugs)
            check(program, inputs, got, expected)


EXCHANGED: Mapping[str, tuple[dict[str, object], ...]] = {
    "bfloat16_km_kn": ({"BN": 64}, {"BN": 128, "BM": 128, "GROUPS": 2, "persistent": True}),
    "one_row": ({"BN": 8},),
    "dense": ({"BN": 32, "persistent": True}, {"BN": 16, "CLUSTER": "1x2"}),
    "tokens": ({"BN": 8, "split_k": True, "SPLIT": 3}, {"BN": 16, "CLUSTER": "2x1", "persistent": True}),
    "tokens_int8": ({"BN": 16, "persistent": True}, {"BN": 8, "CLUSTER": "1x2"}),
}


def exchanged(name: str) -> list[Candidate]:
    return [small(name, {"SWAP": True, **more}) for more in EXCHANGED[name]]


@pytest.mark.parametrize("name", EXCHANGED)
def test_exchanged_sides_compute_the_reference(name: str) -> None:
    candidates = exchanged(name)
    computes(candidates, together(exchanged, tuple(EXCHANGED)))
    for c in candidates:
        found = CUDA_WGMMA.found(Program.loads(c.task.workload.program))
        assert CUDA_WGMMA.nests(c.task, c.schedule)[0].axes["m"] == found.n


# --------------------------------------------------------------------------- clusters

CLUSTERED: Mapping[str, tuple[dict[str, object], ...]] = {
    # An odd number of tiles along m, and of tiles along n: the last block of a cluster has nothing to store.
    "wide": (
        {"CLUSTER": "2x1", "BN": 64, "persistent": True, "store_boxes": True},
        {"CLUSTER": "1x2", "BN": 192, "persistent": False, "store_boxes": False},
    ),
    "bfloat16_km_kn": (
        {"CLUSTER": "2x1", "BN": 128},
        {"CLUSTER": "1x2", "BN": 64, "persistent": True},
    ),
    "deep": ({"CLUSTER": "1x2", "BN": 8, "split_k": True, "SPLIT": 3},),
    "int8_mk_nk": ({"CLUSTER": "1x2", "BN": 32, "persistent": True}, {"CLUSTER": "2x1", "BN": 16}),
    "batched": ({"CLUSTER": "1x2", "BN": 16, "persistent": True},),
    "tf32": ({"CLUSTER": "2x1", "BN": 32, "store_boxes": True}, {"CLUSTER": "1x2", "BN": 16, "persistent": True}),
}


def clustered(name: str) -> list[Candidate]:
    return [small(name, more) for more in CLUSTERED[name]]


@pytest.mark.parametrize("name", CLUSTERED)
def test_clusters_compute_the_reference(name: str) -> None:
    candidates = clustered(name)
    assert all("TW_CLUSTER(2)" in CUDA_WGMMA.lower(c).source for c in candidates)
    computes(candidates, together(clustered, tuple(CLUSTERED)))


FOUR: Mapping[str, Callable[[], Program]] = {
    # Five tiles of rows: the second cluster of four has one of them, and that ends within it.
    "tall": lambda: product("bfloat16", 290, 40, 264, "mk", "nk", "bfloat16"),
    "turned": lambda: product("float16", 200, 200, 72, "km", "kn"),
    "bytes": lambda: product("int8", 70, 40, 304, "mk", "nk", "int32"),
}
FORMS = {"4x1": (32, 12), "1x4": (8, 12), "2x2": (16, 16)}
"""Columns of tiles with which clusters reach beyond the edges of ``tall``; multiprocessors that leave a last round."""
USES: Mapping[str, dict[str, object]] = {
    "plain": {"persistent": False, "store_boxes": True},
    "walking": {"persistent": True, "STAGES": 3},
    "turns": {"persistent": True, "ping_pong": True, "GROUPS": 2},
    "split": {"persistent": False, "split_k": True, "SPLIT": 2},
    "tail": {"persistent": True, "tail": True, "SPLIT": 2},
}


@pytest.mark.parametrize("form", FORMS)
def test_clusters_of_four_compute_the_reference(form: str) -> None:
    columns, sms = FORMS[form]
    candidates = [small("tall", {"CLUSTER": form, "BN": columns, **more}, sms, FOUR) for more in USES.values()]
    assert all("TW_CLUSTER(4)" in CUDA_WGMMA.lower(c).source for c in candidates)
    computes(candidates)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *(("turned", {"CLUSTER": form, "BN": 64, "persistent": True}) for form in FORMS),
        ("bytes", {"CLUSTER": "2x2", "BN": 16}),
    ],
)
def test_clusters_of_four_in_other_layouts(name: str, more: dict[str, object]) -> None:
    computes([small(name, more, programs=FOUR)])


# --------------------------------------------------------------------------- groups that take turns

TURNS: Mapping[str, tuple[dict[str, object], ...]] = {
    "wide": (
        {"BN": 64, "STAGES": 3, "store_boxes": True},
        {"BN": 128, "BM": 128, "STAGES": 2},
        {"BN": 64, "STAGES": 3, "CLUSTER": "2x1"},
    ),
    "batched": ({"BN": 8, "STAGES": 2, "CLUSTER": "1x2"},),
    "deep": ({"BN": 8, "STAGES": 5},),  # one tile a block: the other group has none
    "tokens": ({"SWAP": True, "BN": 8, "STAGES": 4},),
}


def turning(name: str) -> list[Candidate]:
    return [small(name, {"persistent": True, "ping_pong": True, "GROUPS": 2, **more}) for more in TURNS[name]]


@pytest.mark.parametrize("name", TURNS)
def test_groups_that_take_turns_compute_the_reference(name: str) -> None:
    computes(turning(name), together(turning, tuple(TURNS)))


# --------------------------------------------------------------------------- the last round

TAILS: Mapping[str, tuple[dict[str, object], ...]] = {
    "rounds": (
        {"BN": 64, "SPLIT": 2, "store_boxes": True},  # nine tiles for eight blocks
        {"BN": 64, "SPLIT": 3, "CLUSTER": "2x1"},
        {"BN": 32, "BM": 128, "GROUPS": 2, "SPLIT": 2},
    ),
    "tokens": ({"SWAP": True, "BN": 8, "SPLIT": 3},),
    "many": ({"BN": 8, "SPLIT": 2},),
}


def divided(name: str) -> list[Candidate]:
    return [small(name, {"persistent": True, "tail": True, **more}, 8) for more in TAILS[name]]


@pytest.mark.parametrize("name", TAILS)
def test_tiles_of_the_last_round_are_divided(name: str) -> None:
    candidates = divided(name)
    for candidate in candidates:
        main, merge = CUDA_WGMMA.lower(candidate).program.launches
        assert evaluate(main.grid[0], launch_values(candidate)) == 8
        assert merge.symbol == f"{main.symbol}_merge"
        assert CUDA_WGMMA.static(candidate.task, candidate.schedule)["tail_split"] == candidate.schedule.values["SPLIT"]
    computes(candidates, together(divided, tuple(TAILS)))


ROWS_OF_TAILS: Mapping[str, tuple[tuple[int, dict[str, object]], ...]] = {  # multiprocessors, decisions
    "rounds": (
        (4, {"BN": 64, "BM": 128, "GROUPS": 2, "store_boxes": True}),  # six tiles
        (4, {"BN": 32, "BM": 128, "GROUPS": 2, "CLUSTER": "2x1"}),
        (4, {"BN": 32, "BM": 192, "GROUPS": 3}),
    ),
    "scaled": ((3, {"BN": 32, "BM": 128, "GROUPS": 2}),),
}


def divided_by_rows(name: str) -> list[Candidate]:
    return [small(name, {"persistent": True, "tail_rows": True, **more}, sms) for sms, more in ROWS_OF_TAILS[name]]


@pytest.mark.parametrize("name", ROWS_OF_TAILS)
def test_rows_of_the_last_rounds_tiles_have_blocks_of_their_own(name: str) -> None:
    candidates = divided_by_rows(name)
    for candidate in candidates:
        groups = candidate.schedule.values["GROUPS"]
        lowered = CUDA_WGMMA.lower(candidate)
        assert len(lowered.program.launches) == 1
        assert lowered.program.workspace == 0
        assert f") * {groups}; work +=" in lowered.source or f" * {groups}; work +=" in lowered.source
    computes(candidates, together(divided_by_rows, tuple(ROWS_OF_TAILS)))


# --------------------------------------------------------------------------- scales of blocks of k

SCALED: Mapping[str, tuple[dict[str, object], ...]] = {
    "scaled": (
        {"BN": 192, "persistent": True},  # two scales of columns a tile
        {"BN": 64, "BM": 128, "GROUPS": 2, "CLUSTER": "1x2", "store_boxes": True},
        {"BN": 128, "BM": 128, "persistent": True},  # one sum of 64 rows of two
        {"BN": 192, "BM": 128, "GROUPS": 2, "persistent": True},  # one sum of each of two groups
        {"BN": 32, "BM": 128, "persistent": True, "CLUSTER": "1x2"},  # two sums, one for each 64 rows
        {"BN": 64, "GROUPS": 2, "persistent": True, "ping_pong": True},
        {"BN": 32, "persistent": True, "tail": True, "SPLIT": 2},
    ),
    "scaled_columns": (
        {"SWAP": True, "BN": 16, "CLUSTER": "2x1", "persistent": True},
        {"BN": 32, "persistent": True, "STAGES": 2},
        {"BN": 192, "STAGES": 2},
        {"BN": 64, "GROUPS": 2, "persistent": True, "ping_pong": True},
    ),
    "scaled_by_halves": (
        {"BN": 32, "persistent": True},
        {"BN": 64, "BM": 128},
    ),
    "scaled_fours": (
        {"BN": 32, "persistent": True, "STAGES": 3},
        {"BN": 64, "BM": 128, "SPLIT": 3, "split_k": True, "persistent": True},
        {"BN": 128, "BM": 128, "GROUPS": 2, "CLUSTER": "1x2", "persistent": True},
    ),
    "scaled_odd": (  # scales of an odd number of slots end at an odd multiple of 4 or 8 bytes
        {"BN": 32, "persistent": True, "STAGES": 3},
        {"BN": 64, "BM": 128, "GROUPS": 2, "STAGES": 7, "store_boxes": True, "persistent": True},
        {"BN": 64, "BM": 128, "GROUPS": 2, "STAGES": 7, "store_boxes": True, "CLUSTER": "1x2", "persistent": False},
    ),
    "scaled_columns_deep": (
        {"BN": 32, "BM": 128, "persistent": True, "STAGES": 3},
        {"BN": 96, "BM": 128, "persistent": True, "STAGES": 3},
        {"BN": 32, "persistent": True, "tail": True, "SPLIT": 2},
        {"BN": 32, "split_k": True, "SPLIT": 2},
    ),
}


def scaled_by_halves() -> Program:
    """Scales that are computed, of what lies in memory as 16-bit reals."""
    x, y = te.input("x", (66, 272), "float8_e4m3fn"), te.input("y", (40, 272), "float8_e4m3fn")
    of_x, of_y = te.input("of_x", (66, 3), "bfloat16"), te.input("of_y", (40, 3), "bfloat16")
    return te.program(nn.scaled_mm(x, y, of_x, of_y, trans_b=True))[0]


@pytest.mark.parametrize("name", SCALED)
def test_sums_of_blocks_are_scaled(name: str) -> None:
    more = {
        "scaled_columns_deep": lambda: scaled(66, 136, 1104, by_column=True),
        "scaled_by_halves": scaled_by_halves,
    }
    computes([small(name, values, 3, {**THOROUGH, **more}) for values in SCALED[name]])


def test_scales_of_four_steps_are_copied_at_once_where_blocks_walk() -> None:
    sources = [CUDA_WGMMA.lower(small("scaled_fours", {"BN": 32, "persistent": x})).source for x in (True, False)]
    assert ["cp_async<16>" in source for source in sources] == [True, False]
    assert ["cp_async<4>" in source for source in sources] == [False, True]


MISTAKES_IN_CLUSTERS = {
    "peer not ready": (
        "    tw::cluster_arrive();\n    tw::cluster_wait();\n    int slot",
        "    tw::sync();\n    int slot",
    ),
    "peer gone": ("tw::mbarrier_wait(empty + 8 * slot, turn ^ 1);\n                next();", "next();"),
    "peer not told": ("if (lane == 0) tw::mbarrier_arrive_cluster", "if (false) tw::mbarrier_arrive_cluster"),
    "told itself": ("tw::cluster_address(empty, rank ^ 1)", "tw::cluster_address(empty, rank)"),
    "arrivals of one block": ("(empty + 8 * s, 8)", "(empty + 8 * s, 4)"),
    "half for itself": (", bar, 3, ", ", bar, (tw::u16)(1 << rank), "),
    "the same half": ("+ rank * 32)", "+ 0 * 32)"),
}


MISTAKES_IN_FOURS = {
    "another row's blocks": ("(3 << rank / 2 * 2)", "3"),
    "another column's blocks": ("(5 << rank % 2)", "5"),
    "a column's blocks as a row's": ("(5 << rank % 2)", "(3 << rank / 2 * 2)"),
    "the same half": ("+ rank / 2 * 32)", "+ rank % 2 * 32)"),
    "arrivals of all blocks": ("(empty + 8 * s, 12)", "(empty + 8 * s, 16)"),
    "arrivals of two blocks": ("(empty + 8 * s, 12)", "(empty + 8 * s, 8)"),
    "column not told": ("if (lane < 2)", "if (lane < 1)"),
    "block told that shares nothing": ("rank ^ (lane % 2 + 1)", "rank ^ (lane % 2 + 2)"),
    "peer gone": MISTAKES_IN_CLUSTERS["peer gone"],
}


MISTAKES_IN_FOLDING = {
    "the block's sum not waited for": ("tw::wgmma_wait<0>();\n                    tw::wgmma_hold", "tw::wgmma_hold"),
    "slot given back before": ("multiply(now, 1, part[0]);\n", "multiply(now, 1, part[0]);\n release(now);\n"),
    "slot given back twice": ("multiply(now, 1, part[0]);\n", "release(now);\nmultiply(now, 1, part[0]);\n"),
    "the first rows again": ("multiply(now, 1, part[0])", "multiply(now, 0, part[0])"),
    "the sum before goes on": ("wgmma_e4m3<0, 0>(part, oa, ob, 0)", "wgmma_e4m3<0, 0>(part, oa, ob, 1)"),
    "the first block's scales": ("place_a(x2, m0 + lane, t * 128", "place_a(x2, m0 + lane, 0"),
    "scales of the first rows": ("t * 128, u * 32), m0", "t * 128, 0), m0"),
    "scales beyond the output": ("m0 + lane + u * 32 < 66 ? 4 : 0", "4"),
    "the other row's scales": ("of_rows[i][e / 2]", "of_rows[i][e % 2]"),
    "scales of other columns": ("n0 + lane * 128", "lane * 128"),
    "the last block alone": ("acc[i][4 * j + e] += part", "acc[i][4 * j + e] = part"),
}
MISTAKES_IN_TWO_SUMS = {
    "the other block's sum not waited for": ("tw::wgmma_wait<1>();", ""),
    "a block's sum not waited for": ("tw::wgmma_wait<0>();", ""),
    "the other block's slot given back": ("release(then);", "release(now);"),
    "one sum of both blocks": ("multiply(then, 0, part[1])", "multiply(then, 0, part[0])"),
    "scales of the block before": ("(scales + then * ", "(scales + now * "),
    "the last blocks left out": ("t < last; t += 2", "t + 2 < last; t += 2"),
}
MISTAKES_IN_SUMS_OF_ROWS = {
    "the block before": ("now = then;", ""),
    "given back after the first rows": (
        "multiply(then, 0, part[0]);\n",
        "release(now);\nmultiply(then, 0, part[0]);\n",
    ),
    "the first rows again": ("multiply(now, 1, part[1])", "multiply(now, 0, part[1])"),
}
MISTAKES_IN_COPIED_SCALES = {
    "not waited for": ("(full + 8 * s, 65)", "(full + 8 * s, 1)"),
    "said before they have come": ("mbarrier_arrive_copied", "mbarrier_arrive"),
    "of the first slot": ("(scales + then * 96 + 64 + lane", "(scales + 64 + lane"),
    "of other columns": ("+ lane % 4 * 4 + j / 2 * 16)", "+ lane % 4 * 4)"),
    "of the pair beside": ("of_four.v[j % 2 * 2 + e % 2]", "of_four.v[e % 2]"),
    "written over those that are read": (
        "tw::mbarrier_wait(empty + 8 * slot, turn ^ 1);\n                    const tw::u32 to = ring + 24576",
        "const tw::u32 to = ring + 24576",
    ),
    "of the first block": ("n0 + lane, t * 128", "n0 + lane, 0"),
    "slot given back before they are read": ("wgmma_wait<1>();\n", "wgmma_wait<1>();\n release(then);\n"),
}  # fmt: skip
MISTAKES_IN_FOUR_STEPS = {
    "the first four again": ("t / 4 * 4 * 128", "0"),
    "the first of four": ("u * 512 + t % 4 * 4", "u * 512"),
    "not waited for": ("tw::cp_wait<0>();", ""),
    "fetched once": ("if (t == 0 || t % 4 == 0) {", "if (t == 0) {"),
    "of one side": ("(full + 8 * s, 65)", "(full + 8 * s, 33)"),
    "scales beyond the output": ("m0 + lane + u * 32 < 66 ? 16 : 0", "16"),
}
MISTAKES = {
    "clusters": (MISTAKES_IN_CLUSTERS, "wide", CLUSTERED["wide"][0]),
    "clusters of four": (MISTAKES_IN_FOURS, "wide", CLUSTERED["wide"][0] | {"CLUSTER": "2x2"}),
    "folding": (MISTAKES_IN_FOLDING, "scaled", {"BM": 128, "BN": 128, "persistent": True}),
    "two sums": (MISTAKES_IN_TWO_SUMS, "scaled", {"BN": 64, "persistent": True}),
    "four steps": (MISTAKES_IN_FOUR_STEPS, "scaled_fours", {"BN": 32, "persistent": True}),
    "sums of rows": (MISTAKES_IN_SUMS_OF_ROWS, "scaled", {"BM": 128, "BN": 32, "persistent": True}),
    "copied scales": (MISTAKES_IN_COPIED_SCALES, "scaled_columns", {"BN": 32, "persistent": True}),
}


@lru_cache(maxsize=len(MISTAKES))
def spoilt(kind: str) -> tuple[Candidate, EmulatedKernel]:
    """Kernels of one schedule, each with a mistake, as one unit."""
    mistakes, name, more = MISTAKES[kind]
    candidate = small(name, more)
    k = CUDA_WGMMA.lower(candidate)
    texts = []
    for number, (right, wrong) in enumerate(mistakes.values()):
        assert right in k.source
        texts.append(k.source.replace(right, wrong).replace(k.symbol, f"spoilt{number}"))
    unit = prelude(candidate.task.target, emulated=True) + "".join(texts)
    return candidate, build(unit, [f"spoilt{n}" for n in range(len(texts))])


@lru_cache(maxsize=len(MISTAKES))
def known(kind: str) -> tuple[list[Array], Array]:
    """Their inputs, and what is right."""
    program = Program.loads(spoilt(kind)[0].task.workload.program)
    inputs = random_arrays(program, 1)
    return inputs, reference(program, inputs)


@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "what"), [(kind, what) for kind, (some, *_) in MISTAKES.items() for what in some])
def test_mistakes_are_noticed(kind: str, what: str) -> None:
    candidate, kernel = spoilt(kind)
    made = CUDA_WGMMA.lower(candidate).program
    number = list(MISTAKES[kind][0]).index(what)
    launches = tuple(dataclasses.replace(x, symbol=f"spoilt{number}") for x in made.launches)
    program = Program.loads(candidate.task.workload.program)
    inputs, expected = known(kind)

    def noticed(order: str, copies: str) -> bool:
        got = empty_output(program.output.shape, program.output.dtype)
        report = run(
            kernel, dataclasses.replace(made, launches=launches), launch_values(candidate), inputs, got, order=order,
            copies=copies,
        )  # fmt: skip
        if report.bugs:
            return True
        try:
            check(program, inputs, got, expected)
        except AssertionError:
            return True
        return False

    in_orders = (noticed(order, copies) for order, copies in ORDERS)
    assert all(in_orders) if what == "peer gone" else any(in_orders)


# --------------------------------------------------------------------------- what matches


@pytest.mark.parametrize("variant", VARIANTS)
def test_cuda_wgmma_is_for_hopper_alone_and_its_default(variant: str) -> None:
    task = Task(get_operator("matmul").workload(m=256, n=256, k=256, dtype="bfloat16"), cuda_target(variant))
    names = [t.name for t in templates_for(task)]
    assert ("cuda_wgmma" in names) == (variant == "sm_90a")
    if variant == "sm_90a":
        assert names[:2] == ["cuda_wgmma", "cuda_mma"]
        assert default_schedule(task).template == "cuda_wgmma"


CUT: Mapping[str, Callable[[], Program]] = {
    "cut_mk_kn": lambda: cut(48, 40, 80, "mk", "kn"),
    "cut_mk_nk_odd": lambda: cut(48, 40, 81),
}
REFUSED = {
    "bfloat16_mk_nk_odd": "whole number of 16 bytes",
    "int8_km_nk_even": "8-bit elements of operand x0 whose K",
    "float32_mk_nk_even": "rounds operand x0 to TF32",
    "cut_mk_kn": "32-bit elements of operand x1 whose K",
    "cut_mk_nk_odd": "whole number of 16 bytes",
    "conv_nhwc": "has 16 channels, of 64",
    "pairs": "whole number of 16 bytes",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_copy_engine_cannot_fetch_is_refused_with_the_reason(name: str) -> None:
    program = {**PRODUCTS, **CUT}[name]()
    found = match(program)
    assert found is not None
    assert REFUSED[name] in refuses(found)
    task = task_of(program, cuda_target("sm_90a"))
    assert not CUDA_WGMMA.matches(task)
    with pytest.raises(IllegalSchedule, match=REFUSED[name]):
        CUDA_WGMMA.space(task)


def test_what_is_to_be_exact_in_32_bits_is_left_to_other_templates() -> None:
    x, y = te.input("x", (48, 64)), te.input("y", (40, 64))
    z = te.compute((48, 40), lambda i, j: te.sum(64, lambda r: x[i, r] * y[j, r]))
    assert match(te.program(z)[0]) is None


def test_products_that_are_cut_to_tf32_take_warp_groups_by_default() -> None:
    for precision, trans_b, name in (
        ("tf32_truncated", True, "cuda_wgmma"), ("tf32_truncated", False, "cuda_relaid"), ("tf32", True, "cuda_mma"),
    ):  # fmt: skip
        task = _matmul(4096, 4096, 4096, "float32", precision=precision, trans_b=trans_b)
        assert default_schedule(task).template == name


# --------------------------------------------------------------------------- schedules


def _matmul(m: int, n: int, k: int, dtype: str = "bfloat16", **more: object) -> Task:
    return Task(get_operator("matmul").workload(m=m, n=n, k=k, dtype=dtype, **more), cuda_target("sm_90a"))


@pytest.mark.parametrize("size", [4096, 8192])
def test_squares_take_large_tiles_and_walk(size: int) -> None:
    values = CUDA_WGMMA.default(_matmul(size, size, size)).values
    assert int(values["BM"]) * int(values["BN"]) >= 128 * 192
    assert values["persistent"]
    assert int(values["STAGES"]) >= 3
    assert not values["split_k"]


@pytest.mark.parametrize(
    ("m", "n", "exchanged"), [(1, 14336, True), (16, 14336, True), (16, 512, False), (256, 8192, False)]
)
def test_few_rows_are_columns_where_that_fills_the_machine(m: int, n: int, exchanged: bool) -> None:
    values = CUDA_WGMMA.default(_matmul(m, n, 4096, trans_b=True)).values
    assert values["SWAP"] == exchanged


def test_tiles_that_run_at_once_are_nearly_square() -> None:
    """Tiles twice as wide as tall are walked twice as many down as across."""
    tiles = ((128, 256, "1x1"), (128, 256, "2x1"), (256, 128, "1x1"))
    chosen = {x: raster_group((1, 4, 8, 16), *x, 132) for x in tiles}
    assert list(chosen.values()) == [16, 8, 8]


def test_clusters_lie_within_groups_of_multiprocessors() -> None:
    """132 multiprocessors are eight groups of 16 and 18: four are left over by clusters of four."""
    assert [resident_clusters(132, blocks) for blocks in (1, 2, 4)] == [132, 66, 32]
    assert [resident_clusters(114, blocks) for blocks in (1, 2, 4)] == [114, 57, 28]
    assert [resident_clusters(sms, 4) for sms in (2, 8, 18)] == [1, 2, 4]


def test_deep_products_of_large_tiles_share_them_among_two() -> None:
    """Four blocks wait for the slowest of them at each slot; the few steps of a small product are over sooner alone."""
    for task in (_matmul(1024, 1024, 16384), _matmul(1024, 1024, 4096), _matmul(4096, 4096, 4096)):
        assert CUDA_WGMMA.default(task).values["CLUSTER"] in ("1x2", "2x1")
    assert CUDA_WGMMA.default(_matmul(1024, 1024, 1024)).values["CLUSTER"] == "1x1"


def test_few_rows_with_many_columns_share_k_in_wide_tiles() -> None:
    """Small tiles would read the rows once more for each; few slots on their way would leave memory idle."""
    values = CUDA_WGMMA.default(_matmul(128, 4096, 14336, trans_b=True)).values
    assert values["split_k"]
    assert max(int(values["BM"]), int(values["BN"])) >= 128


def test_many_short_tiles_are_stored_beside_products() -> None:
    values = CUDA_WGMMA.default(_matmul(16384, 16384, 1024)).values
    assert values["ping_pong"]
    assert CUDA_WGMMA.static(_matmul(16384, 16384, 1024), CUDA_WGMMA.default(_matmul(16384, 16384, 1024)))["turns"] == 2


def test_a_last_round_of_few_deep_tiles_is_divided() -> None:
    task = _matmul(2304, 2304, 16384)
    schedule = CUDA_WGMMA.default(task)
    assert schedule.values["tail"]
    p = CUDA_WGMMA.plan(CUDA_WGMMA.found(Program.loads(task.workload.program)), task.target, schedule.values)
    assert 0 < p.left * p.together < 132 <= p.whole * p.together
    assert not CUDA_WGMMA.default(_matmul(4096, 4096, 4096)).values["tail"]  # most multiprocessors have a tile then


def test_few_tiles_share_k() -> None:
    values = CUDA_WGMMA.default(_matmul(64, 512, 8192)).values
    assert values["split_k"]
    assert values["BM"] == 64


def test_members_keep_within_the_machine() -> None:
    rng = random.Random(1)
    for layout in ({}, {"trans_a": True}, {"trans_b": True}):
        task = _matmul(1000, 520, 1024, **layout)
        limits = task.target.limit
        space = CUDA_WGMMA.space(task)
        assert space.size > 1000
        for schedule in (space.sample(rng) for _ in range(30)):
            p = CUDA_WGMMA.plan(CUDA_WGMMA.found(Program.loads(task.workload.program)), task.target, schedule.values)
            assert aligned(p.memory) <= limits["shared_per_block"]
            assert p.threads <= limits["threads_per_block"]
            assert p.mi * p.sums + 40 <= 255
            made = CUDA_WGMMA.lower(Candidate(task, schedule)).program
            grid = evaluate(made.launches[0].grid[0], launch_values(Candidate(task, schedule)))
            assert grid <= 132 or not schedule.values["persistent"]


def test_rules_say_why() -> None:
    task = _matmul(4096, 4096, 4096)
    good = dict(CUDA_WGMMA.default(task).values)
    for change, reason in (
        ({"BM": 64, "GROUPS": 2}, "not a multiple of 64"),
        ({"BM": 256, "BN": 256, "GROUPS": 1}, "registers"),
        ({"BK": 128, "STAGES": 8}, "shared memory"),
        ({"split_k": True}, "does not store partial sums"),
        ({"split_k": True, "store_boxes": False}, "exactly when either split_k or tail"),
        ({"SWAP": True}, "not a value of knob 'SWAP'"),
        ({"tail": True, "SPLIT": 2, "persistent": False}, "last round"),
        ({"tail_rows": True, "persistent": False}, "last round"),
        ({"tail_rows": True, "GROUPS": 1, "BM": 64, "BN": 128}, "warp groups that share a tile"),
        ({"ping_pong": True, "GROUPS": 1, "BM": 64, "BN": 128}, "needs two warp groups"),
    ):
        with pytest.raises(IllegalSchedule, match=reason):
            CUDA_WGMMA.space(task).schedule({**good, **change})


def test_each_block_of_a_cluster_has_a_tile_and_whole_pieces_to_copy() -> None:
    task = _matmul(256, 144, 512, trans_b=True)
    least = {"BM": 64, "GROUPS": 1, "BK": 64, "STAGES": 2, "BN": 16, "CLUSTER": "1x1"}
    good = {**CUDA_WGMMA.default(task).values, **least}
    for change, legal in (
        ({"CLUSTER": "4x1", "BN": 32}, True),
        ({"CLUSTER": "4x1"}, False),  # a quarter of 16 rows of B is no whole pattern of eight
        ({"CLUSTER": "2x2"}, True),
        ({"CLUSTER": "1x4", "BN": 32}, True),
        ({"CLUSTER": "1x4", "BN": 64}, False),  # three tiles
    ):
        assert CUDA_WGMMA.space(task).allows({**good, **change}) == legal, change


def test_numbers_of_a_schedule() -> None:
    task = _matmul(4096, 4096, 4096)
    schedule = CUDA_WGMMA.default(task)
    numbers = CUDA_WGMMA.static(task, schedule)
    assert numbers["tensor_core"] == 1
    assert numbers["asynchronous"] == 2
    alone = CUDA_WGMMA.static(task, CUDA_WGMMA.space(task).schedule({**schedule.values, "CLUSTER": "1x1"}))
    assert (numbers["readers_a"], numbers["readers_b"]) == (1, 2)  # the default's pairs lie along m
    assert (alone["readers_a"], alone["readers_b"]) == (1, 1)
    assert numbers["global_bytes"] < alone["global_bytes"]
    bn = int(schedule.values["BN"])
    assert np.isclose(numbers["shared_bytes_per_flop"], 2 * (64 + bn) / (2 * 64 * bn))
