"""The stencil template for CUDA: its contract on the emulator, what it matches and shares."""

from __future__ import annotations

import pytest
from stencil_programs import PROGRAMS as STENCILS

from harness import gpu_programs
from harness.gpu_profile import excess_sectors, profile
from harness.gpu_programs import WINDOWS
from tilewright.backends.cuda.archs import target
from tilewright.core import Candidate, IllegalSchedule, Target
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.reduce_window import Window
from tilewright.kernels.loopnest.footprint import footprint
from tilewright.kernels.templates import templates_for
from tilewright.kernels.templates.cuda_stencil.match import Stencil, match
from tilewright.kernels.templates.cuda_stencil.plan import plan
from tilewright.kernels.templates.cuda_stencil.template import CUDA_STENCIL
from tilewright.testing import contractions, programs
from tilewright.testing.catalogue import examples
from tilewright.testing.cuda_template import CudaTemplateContract
from tilewright.testing.kernels import task_of

TEMPLATE = CUDA_STENCIL
SM80 = target("sm_80")
CASES = {**WINDOWS, "nhwc_global": STENCILS["nhwc_global"]}


class TestContract(CudaTemplateContract):
    templates = ("cuda_stencil",)
    programs = CASES
    schedules = 3


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_stencil",)
    programs = examples("language", "contraction", "window on GPUs")
    targets = ("sm_80", "sm_90a", "sm_120")
    schedules = 12


@pytest.mark.nightly
class TestContractSanitized(CudaTemplateContract):
    templates = ("cuda_stencil",)
    programs = CASES
    schedules = 3
    sanitize = ("address", "undefined")


def matched(program: Program) -> Stencil:
    found = match(program)
    assert found is not None
    return found


def test_windows_of_programs_are_found() -> None:
    found = {name: matched(f()).windows for name, f in WINDOWS.items()}
    assert found["depthwise"] == (Window("i2", "r1", 1, 1), Window("i3", "r2", 1, 1))
    assert found["depthwise_last"] == (Window("i1", "r0", 2, 1), Window("i2", "r1", 1, 2))
    assert found["max_pool"] == (Window("i2", "r0", 2, 1), Window("i3", "r1", 2, 1))
    assert found["running_mean"] == (Window("i1", "r0", 1, 1),)


def test_what_neighbours_share_is_read_once() -> None:
    s = matched(gpu_programs.depthwise())
    values = {"threads": 64, "axis": "i2", "outputs": 4, "vector": 1, "unroll": False}
    p = plan(s, values)
    # Three taps for four outputs: six rows of the input, not twelve.
    assert p.offsets == (0, 1, 2, 3, 4, 5)
    assert len(p.shared) == 1
    task = task_of(gpu_programs.depthwise(), SM80)
    source = TEMPLATE.lower(Candidate(task, TEMPLATE.space(task).schedule(values))).source
    assert source.count("tw::load_global<float>(x0") == 6
    strided = plan(matched(gpu_programs.max_pool()), values)
    assert strided.offsets == tuple(range(9))
    dilated = plan(matched(gpu_programs.depthwise_last()), {**values, "axis": "i2", "outputs": 2})
    assert dilated.offsets == (0, 1, 2, 3, 4, 5)


def test_the_nest_says_what_a_thread_computes() -> None:
    task = task_of(gpu_programs.depthwise(h=32, w=64), SM80)
    found = {}
    for outputs in (1, 4):
        values = {"threads": 64, "axis": "i2", "outputs": outputs, "vector": 1, "unroll": True}
        found[outputs] = footprint(TEMPLATE.nests(task, TEMPLATE.space(task).schedule(values)), SM80)
    one, four = found[1], found[4]
    # A warp's lanes times the neighbours of each, all taps printed out, in a quarter of the blocks.
    assert (one["block.outputs"], four["block.outputs"]) == (32, 4 * 32)
    assert four["unroll"] == 4 * one["unroll"] == 4 * 9
    assert (one["parallel"], four["parallel"]) == (2 * 5 * 32, 2 * 5 * 8)
    assert four["bytes.l1"] < one["bytes.l1"]


def test_vectors_lie_along_channels() -> None:
    assert matched(gpu_programs.depthwise_last()).widest == 8
    assert matched(gpu_programs.depthwise_last(dtype="float32")).widest == 4
    assert matched(gpu_programs.depthwise_last(c=12)).widest == 4
    assert matched(gpu_programs.depthwise()).widest == 1


@pytest.mark.parametrize(
    "program",
    [contractions.aligned(), programs.conv2d(), contractions.grouped_conv(), gpu_programs.softmax(),
     gpu_programs.row_sums(), gpu_programs.chain()],
)  # fmt: skip
def test_programs_without_windows_are_refused(program: Program) -> None:
    task = task_of(program, SM80)
    assert not TEMPLATE.matches(task)
    with pytest.raises(IllegalSchedule, match="is not a stencil"):
        TEMPLATE.space(task)


def test_the_template_generates_for_cuda_only() -> None:
    program = gpu_programs.depthwise_last()
    assert templates_for(task_of(program, SM80))[0].name == "cuda_stencil"
    assert not TEMPLATE.matches(task_of(program, Target("cpu", "portable", "x86_64", (), 16, 16)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"axis": "i1"}, "not a value of knob"),
        ({"outputs": 16}, "not a value of knob"),
        ({"vector": 2}, "not a value of knob"),
    ],
)
def test_illegal_schedules_are_refused(change: dict[str, int | str], reason: str) -> None:
    task = task_of(gpu_programs.depthwise(), SM80)
    with pytest.raises(IllegalSchedule, match=reason):
        TEMPLATE.space(task).schedule({**TEMPLATE.default(task).values, **change})


def test_defaults_compute_several_outputs_where_there_are_enough() -> None:
    last = task_of(gpu_programs.depthwise_last(16, 112, 112, 96), target("sm_90a"))
    assert (TEMPLATE.default(last).values["vector"], TEMPLATE.default(last).values["outputs"]) == (8, 4)
    small = TEMPLATE.default(task_of(gpu_programs.depthwise_last(16, 56, 28, 128), target("sm_90a"))).values
    assert (small["vector"], small["outputs"], small["threads"]) == (8, 4, 64)
    few = TEMPLATE.default(task_of(gpu_programs.depthwise_last(1, 56, 28, 128), target("sm_90a"))).values
    assert few["outputs"] == 1
    first = task_of(gpu_programs.depthwise(16, 96, 56, 56), target("sm_90a"))
    assert (TEMPLATE.default(first).values["axis"], TEMPLATE.default(first).values["outputs"]) == ("i2", 4)


def test_channels_innermost_waste_no_traffic() -> None:
    task = task_of(gpu_programs.average_pool_last(1, 10, 9, 32), target("sm_90a"))
    counts = profile(task, TEMPLATE.default(task))
    assert counts["bank_conflicts"] == 0
    assert excess_sectors(counts) <= 1.05


def test_conditions_that_always_hold_are_not_printed() -> None:
    task = task_of(gpu_programs.depthwise(1, 4, 8, 8), SM80)
    values = {"threads": 64, "axis": "i2", "outputs": 4, "vector": 1, "unroll": True}
    source = TEMPLATE.lower(Candidate(task, TEMPLATE.space(task).schedule(values))).source
    # Only the first row may lie above the input, and only the last below; both sides of the width are open.
    tests = [line for line in source.splitlines() if "if (" in line and "r2" in line]
    assert len(tests) == 6
    assert [line.count("i2") for line in tests] == [1, 0, 1, 1, 1, 1]
