"""The map template for CUDA: its contract on the emulator, flat positions, tiles without bank conflicts, traffic."""

from __future__ import annotations

import itertools

import pytest

from harness import gpu_programs
from harness.gpu_profile import excess_sectors, profile, profiles
from harness.gpu_programs import MAPS
from tilewright.backends.cuda.archs import VARIANTS, target
from tilewright.core import Candidate, IllegalSchedule, Target
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.elementwise import Elementwise, elementwise
from tilewright.kernels.templates import templates_for
from tilewright.kernels.templates.cuda.banks import wavefronts
from tilewright.kernels.templates.cuda_map.plan import TransposedTile, plan, widest, widest_read
from tilewright.kernels.templates.cuda_map.template import CUDA_MAP
from tilewright.testing import programs
from tilewright.testing.cuda_template import CudaTemplateContract
from tilewright.testing.kernels import task_of

TEMPLATE = CUDA_MAP
SM80 = target("sm_80")


class TestContract(CudaTemplateContract):
    templates = ("cuda_map",)
    programs = MAPS
    schedules = 2


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_map",)
    programs = {**programs.PROGRAMS, **MAPS}  # noqa: RUF012
    targets = ("sm_80", "sm_90a", "sm_120")
    schedules = 12


@pytest.mark.nightly
class TestContractSanitized(CudaTemplateContract):
    templates = ("cuda_map",)
    programs = MAPS
    schedules = 3
    sanitize = ("address", "undefined")


@pytest.mark.nightly
class TestContractRaces(CudaTemplateContract):
    templates = ("cuda_map",)
    programs = MAPS
    schedules = 2
    sanitize = ("thread",)


def matched(program: Program) -> Elementwise:
    found = elementwise(program)
    assert found is not None
    return found


# ------------------------------------------------------------------ matching


def test_stages_become_one_expression_over_few_axes() -> None:
    assert matched(gpu_programs.chain(12, 40)).axes == (("i0", 12), ("i1", 40))
    assert matched(gpu_programs.whole_tail(99)).axes == (("i0", 99),)
    assert [n for _, n in matched(gpu_programs.permuted(3, 17, 4, 20)).axes] == [80, 51]
    assert [n for _, n in matched(gpu_programs.transposed_half(2, 40, 68)).axes] == [2, 68, 40]


def test_a_reshape_leaves_no_trace() -> None:
    p = matched(programs.reshape(6, 20))
    assert p.axes == (("i1", 120),)
    assert repr(p.value) == "x0[i1]"


def test_vectors_are_as_wide_as_memory_allows() -> None:
    wide = {
        n: widest(matched(MAPS[n]())) for n in ("chain", "residual_half", "pixels", "table_rows", "padded", "flags")
    }
    assert wide == {"chain": 4, "residual_half": 8, "pixels": 4, "table_rows": 8, "padded": 4, "flags": 16}
    assert widest(matched(gpu_programs.chain(12, 42))) == 2
    assert widest_read(matched(gpu_programs.transposed(72, 100))) == 4
    assert widest_read(matched(gpu_programs.transposed_bytes(52, 36))) == 4


def repeated() -> Program:
    """An expensive map that is read over and over."""
    x = te.input("x", (8, 64))
    y = te.compute((8, 64), lambda i, j: te.exp(x[i, j]))
    return te.program(te.compute((64, 64, 8), lambda i, j, k: y[k, i] * y[k, j]))[0]


@pytest.mark.parametrize("program", [repeated(), gpu_programs.softmax(), programs.matmul()])
def test_programs_that_are_not_elementwise_are_refused(program: Program) -> None:
    task = task_of(program, SM80)
    assert not TEMPLATE.matches(task)
    with pytest.raises(IllegalSchedule, match="is not elementwise"):
        TEMPLATE.space(task)


def test_the_template_generates_for_cuda_only() -> None:
    program = gpu_programs.chain()
    assert templates_for(task_of(program, SM80))[0].name == "cuda_map"
    assert not TEMPLATE.matches(task_of(program, Target("cpu", "portable", "x86_64", (), 16, 16)))


# ------------------------------------------------------------------ the space


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tile": 0}, "read belongs to tiles"),
        ({"each": 4}, "each belongs to plain kernels"),
        ({"tile": 16, "threads": 1024}, "no part of a tile"),
        ({"vector": 8}, "not a value of knob"),
    ],
)
def test_illegal_schedules_are_refused(change: dict[str, int], reason: str) -> None:
    task = task_of(gpu_programs.transposed(), SM80)
    with pytest.raises(IllegalSchedule, match=reason):
        TEMPLATE.space(task).schedule({**TEMPLATE.default(task).values, **change})


def test_the_tail_is_written_by_itself() -> None:
    task = task_of(gpu_programs.whole_tail(1023), SM80)
    schedule = TEMPLATE.space(task).schedule({**TEMPLATE.default(task).values, "vector": 4})
    kernel = TEMPLATE.lower(Candidate(task, schedule))
    assert kernel.program.align == 16
    assert kernel.program.launches[0].grid[0] == -(-(1023 // 4 + 3) // 256)


# ------------------------------------------------------------------ bank conflicts


def test_wavefronts_of_shared_memory_are_counted() -> None:
    assert wavefronts([4 * n for n in range(32)], 4) == 1
    assert wavefronts([128 * n for n in range(32)], 4) == 32
    assert wavefronts([0] * 32, 4) == 1
    assert wavefronts([2 * n for n in range(32)], 2) == 1
    assert wavefronts([16 * n for n in range(32)], 16) == 1
    assert wavefronts([32 * n for n in range(32)], 16) == 5
    assert wavefronts([64 * n for n in range(32)], 16) == 13


@pytest.mark.parametrize("item", [1, 2, 4, 8])
def test_some_padding_avoids_all_conflicts(item: int) -> None:
    width = max(1, 4 // item)
    tile = min(128, 32 * width)
    t = TransposedTile(item, tile, tile, width, width)
    assert t.conflicts == 0
    assert t.layout.injective()
    assert t.layout.strides[0] % 2 == 1


@pytest.mark.parametrize(
    "name", ["transposed", "transposed_half", "transposed_bytes", "transposed_doubles", "permuted"]
)
def test_defaults_have_no_conflicts(name: str) -> None:
    for variant in VARIANTS:
        task = task_of(MAPS[name](), target(variant))
        schedule = TEMPLATE.default(task)
        p = plan(matched(MAPS[name]()), schedule.values)
        assert p.tile
        assert sum(t.conflicts for t in p.transposed.values()) == 0
    assert profile(task, schedule)["bank_conflicts"] == 0


def test_conflicts_are_what_the_emulator_counts() -> None:
    program = gpu_programs.transposed(64, 64)
    task = task_of(program, SM80)
    schedules = [
        TEMPLATE.space(task).schedule({"threads": 64, "each": 1, "tile": tile, "vector": vector, "read": read})
        for tile, vector, read in itertools.product((16, 32), (1, 2, 4), (1, 4))
    ]
    for schedule, counts in zip(schedules, profiles(task, schedules), strict=True):
        (t,) = plan(matched(program), schedule.values).transposed.values()
        assert (counts["bank_conflicts"] > 0) == (t.conflicts > 0), schedule.values


# ------------------------------------------------------------------ traffic


@pytest.mark.parametrize(
    "program",
    [gpu_programs.chain(64, 256), gpu_programs.transposed(128, 128), gpu_programs.transposed_bytes(128, 128),
     gpu_programs.transposed_half(1, 128, 128), gpu_programs.table_rows(64, 256), gpu_programs.quantise(16, 256)],
)  # fmt: skip
def test_defaults_waste_no_traffic(program: Program) -> None:
    task = task_of(program, target("sm_90a"))
    assert excess_sectors(profile(task, TEMPLATE.default(task))) <= 1.05
