"""Largest and smallest sums: steps of finite operands do not look for NaN, and NaN is found all the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.core import Candidate
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cpu_contraction.finite import extreme
from tilewright.kernels.templates.cpu_contraction.geometry import plan
from tilewright.kernels.templates.cpu_contraction.match import match
from tilewright.testing.kernels import compile_kernels, launch_values, random_arrays, run_kernel, task_of
from tilewright.testing.template import TemplateContract

TARGET = get_backend("cpu").targets(3)[0]
M, N, K = 20, 29, 40


def product(
    combine: Callable[..., te.Expr], term: Callable[[te.Expr, te.Expr], te.Expr], m: int = M, constant: bool = False
) -> Program:
    """The largest or smallest ``term`` of elements of a row and a column."""
    a, b = te.input("a", (m, K)), te.input("b", (K, N), constant=constant)
    return te.program(te.compute((m, N), lambda i, j: combine(K, lambda r: term(a[i, r], b[r, j]))))[0]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "largest_sum": lambda: product(te.max, lambda a, b: a + b),
    "smallest_difference": lambda: product(te.min, lambda a, b: b - a),
    "largest_product": lambda: product(te.max, lambda a, b: a * b),
}
LOOKED_FOR: dict[str, Callable[[], Program]] = {
    "two_operations": lambda: product(te.max, lambda a, b: te.abs(a - b)),
    "few_rows": lambda: product(te.max, lambda a, b: a + b, m=3),
    "packed_once": lambda: product(te.max, lambda a, b: a + b, constant=True),
    "sum": lambda: product(te.sum, lambda a, b: a * b),
}


class TestExtremes(TemplateContract):
    templates = ("cpu_contraction",)
    programs = PROGRAMS


def _function(program: Program) -> str:
    task = task_of(program, TARGET)
    found = match(Program.loads(task.workload.program))
    assert found is not None
    return extreme(plan(found, TARGET, get_template("cpu_contraction").default(task).values))


def test_which_steps_do_not_look_for_nan() -> None:
    assert [_function(make()) for make in PROGRAMS.values()] == ["larger", "smaller", "larger"]
    assert [_function(make()) for make in LOOKED_FOR.values()] == [""] * len(LOOKED_FOR)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("odd", [(np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 0.0), (-np.inf, 2.0)])
def test_what_is_not_finite(name: str, odd: tuple[float, float]) -> None:
    program = PROGRAMS[name]()
    task, template = task_of(program, TARGET), get_template("cpu_contraction")
    candidate = Candidate(task, template.default(task))
    kernel = template.lower(candidate)
    a, b = random_arrays(program)
    a[17, 7], b[7, 3] = odd
    with np.errstate(invalid="ignore"):
        expected = evaluate(program, [a, b])
    got = run_kernel(
        compile_kernels([kernel], TARGET), kernel, launch_values(candidate), [a, b], task.workload.output
    )  # fmt: skip
    np.testing.assert_allclose(got, expected, rtol=1e-6)
