"""The generic CUDA template: its contract on the emulator, its launches, what it is used for."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from harness import gpu_programs
from tilewright.backends.cuda.archs import target
from tilewright.backends.emulator import EmulatedKernel, run
from tilewright.core import Candidate, IllegalSchedule, LaunchProgram, Target
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import FALLBACKS, templates_for
from tilewright.kernels.templates.cuda_generic.template import CUDA_GENERIC
from tilewright.testing import contractions, programs
from tilewright.testing.catalogue import examples
from tilewright.testing.cuda_template import CudaTemplateContract, emulated
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of

TEMPLATE = CUDA_GENERIC
SM80 = target("sm_80")


class TestContract(CudaTemplateContract):
    templates = ("cuda_generic",)
    programs = programs.PROGRAMS


@pytest.mark.nightly
class TestContractThoroughly(CudaTemplateContract):
    templates = ("cuda_generic",)
    programs = examples("language", "contraction", "rows on GPUs", "map on GPUs", "window on GPUs")
    targets = ("sm_80", "sm_90a", "sm_120")
    schedules = 12


@pytest.mark.nightly
class TestContractSanitized(CudaTemplateContract):
    templates = ("cuda_generic",)
    programs = programs.PROGRAMS
    schedules = 3
    sanitize = ("address", "undefined")


@pytest.mark.nightly
class TestContractRaces(CudaTemplateContract):
    templates = ("cuda_generic",)
    programs = programs.PROGRAMS
    sanitize = ("thread",)


def test_cuda_generic_is_the_last_resort() -> None:
    assert "cuda_generic" in FALLBACKS
    assert TEMPLATE.matches(task_of(contractions.aligned(), SM80))
    assert "cuda_generic" not in [t.name for t in templates_for(task_of(contractions.aligned(), SM80))]


def test_the_template_generates_for_cuda_only() -> None:
    assert not TEMPLATE.matches(task_of(programs.softmax(), Target("cpu", "portable", "x86_64", (), 16, 16)))


def test_intermediates_lie_in_the_workspace() -> None:
    program = gpu_programs.softmax(9, 52)
    task = task_of(program, SM80)
    values = dict(TEMPLATE.default(task).values)
    values |= {k: False for k in values if k.endswith(("_inline", "_epilogue"))}
    kernel = TEMPLATE.lower(Candidate(task, TEMPLATE.space(task).schedule(values)))
    assert len(kernel.program.launches) == 4
    assert kernel.program.workspace == 256 + 2048 + 256  # 9, 468 and 9 floats, each to a multiple of 256 bytes
    assert [p for x in kernel.program.launches for p in x.parameters] == [
        ("tensor", 0), ("workspace", 0),
        ("tensor", 0), ("workspace", 0), ("workspace", 256),
        ("workspace", 256), ("workspace", 2304),
        ("workspace", 256), ("workspace", 2304), ("tensor", 1),
    ]  # fmt: skip
    assert LaunchProgram.from_json(kernel.program.to_json()) == kernel.program


LANES = (1, 4, 32, 0)


@cache
def shared_by_lanes() -> tuple[dict[tuple[str, int], Candidate], EmulatedKernel]:
    """Reductions by so many lanes, where a space has them, compiled together."""
    found: dict[tuple[str, int], Candidate] = {}
    for name in ("row_argmax", "variances", "any_true", "column_sums", "whole_sum"):
        program = gpu_programs.ROWS[name]()
        task = task_of(program, SM80)
        space, (stage,) = TEMPLATE.space(task), program.stages
        for lanes in (n for n in LANES if n in space.options[f"{stage.name}_lanes"]):
            wanted = {f"{stage.name}_lanes": lanes, f"{stage.name}_threads": 64, f"{stage.name}_each": 1}
            found[name, lanes] = Candidate(task, space.schedule({**TEMPLATE.default(task).values, **wanted}))
    return found, emulated([TEMPLATE.lower(c) for c in found.values()], SM80)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", ["row_argmax", "variances", "any_true", "column_sums", "whole_sum"])
def test_reductions_shared_by_lanes(name: str, lanes: int) -> None:
    candidates, kernel = shared_by_lanes()
    candidate = candidates.get((name, lanes))
    if candidate is None:
        pytest.skip("the elements are too few")
    program = gpu_programs.ROWS[name]()
    inputs = random_arrays(program, 6)
    output = np.empty(program.output.shape, program.output.dtype)
    for order in ("fifo", "random:3"):
        report = run(kernel, TEMPLATE.lower(candidate).program, launch_values(candidate), inputs, output, order=order)
        assert report.ok, report.bugs
        check(program, inputs, output)


def test_illegal_schedules_are_refused() -> None:
    task = task_of(gpu_programs.whole_sum(), SM80)
    space, default = TEMPLATE.space(task), TEMPLATE.default(task).values
    with pytest.raises(IllegalSchedule, match="do not go together"):
        space.schedule({**default, "s0_lanes": 0, "s0_threads": 32})
    softmax = task_of(gpu_programs.softmax(), SM80)
    with pytest.raises(IllegalSchedule, match="merged into another"):
        TEMPLATE.space(softmax).schedule({**TEMPLATE.default(softmax).values, "s1_inline": True, "s1_threads": 512})


def large(n: int) -> Program:
    """A map of ``n`` elements."""
    x, y = te.input("x", (n,), "int8"), te.input("y", (64,), "int8")
    return te.program(te.compute((n,), lambda i: x[i] + y[i % 64]))[0]


def test_large_tensors_are_indexed_in_64_bits() -> None:
    task = task_of(large((1 << 31) - 8), SM80)
    source = TEMPLATE.lower(Candidate(task, TEMPLATE.default(task))).source
    assert "const long e = " in source
    small = task_of(large(1 << 20), SM80)
    assert "const int e = " in TEMPLATE.lower(Candidate(small, TEMPLATE.default(small))).source
