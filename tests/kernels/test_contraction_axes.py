"""Epilogues that use axes beside reads of the same axes: they are computed element by element."""

from __future__ import annotations

from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cpu_contraction.geometry import plan
from tilewright.kernels.templates.cpu_contraction.match import match
from tilewright.kernels.templates.cpu_contraction.store import Epilogue
from tilewright.testing.kernels import task_of


def masked_scores(m: int = 9, n: int = 33, k: int = 5) -> Program:
    x, y = te.input("x", (m, k)), te.input("y", (k, n))
    product = te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * y[r, j]))
    return te.program(te.compute((m, n), lambda i, j: te.select(j <= i, product[i, j] * 0.5, -1.0)))[0]


def test_axes_beside_reads() -> None:
    program = masked_scores()
    target = parse_target("cpu:portable")
    task = task_of(program, target, "masked")
    template = get_template("cpu_contraction")
    schedule = template.default(task)
    found = match(program)
    assert found is not None
    epilogue = Epilogue(plan(found, target, schedule.values))
    assert not epilogue.inline
    assert not epilogue.vector
    assert template.lower(Candidate(task, schedule)).source
