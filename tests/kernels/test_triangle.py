"""Products with triangles and bands: steps that a tile's rows lack are skipped, unless what they meet is not finite."""

from __future__ import annotations

import numpy as np
import pytest
from triangle_programs import CONDITIONS, PROGRAMS

from tilewright.backends import get_backend
from tilewright.core import Candidate, Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cpu_contraction.geometry import plan
from tilewright.kernels.templates.cpu_contraction.match import match
from tilewright.kernels.templates.cpu_contraction.triangle import guards
from tilewright.testing.kernels import compile_kernels, launch_values, random_arrays, run_kernel, task_of
from tilewright.testing.programs import conv2d, matmul
from tilewright.testing.template import TemplateContract

TARGET = get_backend("cpu").targets(1)[0]


class TestTriangles(TemplateContract):
    templates = ("cpu_contraction",)
    programs = PROGRAMS
    schedules = 1


def _guards(task: Task) -> int:
    template = get_template("cpu_contraction")
    found = match(Program.loads(task.workload.program))
    assert found is not None
    return len(guards(plan(found, task.target, template.default(task).values)))


def test_what_is_skipped() -> None:
    counts = {name: _guards(task_of(make(), TARGET)) for name, make in PROGRAMS.items()}
    assert counts == {"lower": 1, "upper": 1, "band": 2, "steep": 1, "corner": 1}
    assert _guards(task_of(matmul(), TARGET)) == _guards(task_of(conv2d(), TARGET)) == 0


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_is_not_finite_reaches_the_rows_that_skip_it(name: str) -> None:
    program = PROGRAMS[name]()
    task, template = task_of(program, TARGET), get_template("cpu_contraction")
    candidate = Candidate(task, template.default(task))
    kernel = template.lower(candidate)
    a, b = random_arrays(program)
    b[45, 3], b[2, 20] = np.inf, np.inf
    expected = reference(program, [a, b])
    got = run_kernel(
        compile_kernels([kernel], TARGET), kernel, launch_values(candidate), [a, b], task.workload.output
    )  # fmt: skip
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    assert np.isnan(expected).any(), "zero times infinity"
    finite = np.isfinite(expected)
    np.testing.assert_allclose(got[finite], expected[finite], rtol=1e-4, atol=1e-4)
