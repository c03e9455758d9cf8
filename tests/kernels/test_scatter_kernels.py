"""The template of scatters: what it takes, and that every schedule is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scatter_programs import PROGRAMS, added_rows, counts

from tilewright.backends import get_backend
from tilewright.core import Candidate
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.scatter import scatter
from tilewright.kernels.templates import get_template, templates_for
from tilewright.testing.kernels import task_of
from tilewright.testing.template import TemplateContract

TARGETS = [get_backend("cpu").targets(n)[0] for n in (1, 3)]


class TestScatters(TemplateContract):
    templates = ("cpu_scatter",)
    programs = PROGRAMS
    schedules = 3


def _program(body: Callable[[te.Expr, te.TensorRef, te.TensorRef], te.Reduction]) -> Program:
    at, x = te.input("at", (20,), "int32"), te.input("x", (20,))
    return te.program(te.compute((7,), lambda b: body(b, at, x)))[0]


@pytest.mark.parametrize(
    "body",
    [
        lambda b, at, x: te.sum(20, lambda r: te.select(b < at[r], x[r], 0.0)),
        lambda b, at, x: te.sum(20, lambda r: te.select((at[r] == b) & (x[r] > 0.0), x[r], 0.0)),
        lambda b, at, x: te.sum(20, lambda r: te.select(te.cast(at[r], "index") == b, x[r], 1.0)),
        lambda b, at, x: te.sum(20, lambda r: te.select(r == b, x[r] + te.cast(at[r], "float32"), 0.0)),
        lambda b, at, x: te.sum(20, lambda r: te.select(te.cast(at[b], "index") == b, x[r], 0.0)),
        lambda b, at, x: te.sum(20, lambda r: x[r] * te.cast(at[r], "float32")),
    ],
)
def test_what_is_no_scatter(body: Callable[[te.Expr, te.TensorRef, te.TensorRef], te.Reduction]) -> None:
    assert scatter(_program(body)) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_scatters_are_walked_by_their_template(name: str) -> None:
    assert [t.name for t in templates_for(task_of(PROGRAMS[name](), TARGETS[0]))] == ["cpu_scatter"]


def test_threads_have_copies_or_pieces_of_rows() -> None:
    template = get_template("cpu_scatter")
    task = task_of(counts(1000, 100_000), TARGETS[1])
    default = template.default(task)
    assert default.values["copies"] == 3
    (workspace,) = {template.lower(Candidate(task, default)).program.workspace}
    assert workspace == 3 * int(default.values["ways"]) * (1024 + 32) * 4
    long_rows = task_of(added_rows(100_000, 512, 16), TARGETS[1])
    assert template.default(long_rows).values["copies"] == 1, "copies would be larger than all sources"
    assert template.default(long_rows).values["piece"] < 512


def test_one_thread_adds_in_the_order_of_the_sources() -> None:
    template = get_template("cpu_scatter")
    task = task_of(PROGRAMS["largest_of_rows"](), TARGETS[0])
    assert template.lower(Candidate(task, template.default(task))).program.workspace == 0
    (nest,) = template.nests(task, template.default(task))
    assert [a.tensor for a in nest.accesses if a.store] == ["s0"]
