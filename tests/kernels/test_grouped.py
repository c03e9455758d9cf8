"""The template of grouped contractions: what it takes, and that every schedule is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from grouped_programs import PROGRAMS, experts, routed, tokens

from tilewright.backends import get_backend
from tilewright.kernels import te
from tilewright.kernels.families.grouped import CHOSEN, ROWS, WHOLE, grouped
from tilewright.kernels.templates import get_template, templates_for
from tilewright.testing.kernels import task_of
from tilewright.testing.template import TemplateContract

TARGET = get_backend("cpu").targets(1)[0]


class TestGrouped(TemplateContract):
    templates = ("cpu_grouped",)
    programs = PROGRAMS
    schedules = 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_grouped_contractions_have_a_template(name: str) -> None:
    # Several rows for each index are a contraction of many small batches as well.
    others = ["cpu_contraction"] if name == "frames" else []
    assert [t.name for t in templates_for(task_of(PROGRAMS[name](), TARGET))] == ["cpu_grouped", *others]


def test_sources_of_a_group() -> None:
    found = grouped(tokens())
    assert found is not None
    assert {(s.how, found.program.tensors[s.tensor].shape) for s in found.sources} == {
        (ROWS, (8, 40)), (WHOLE, (20,)), (CHOSEN, (3, 20, 16))
    }  # fmt: skip
    assert (found.groups, found.typical, found.row) == (3, 5, 16)
    found = grouped(routed())
    assert found is not None
    assert [s.size for s in found.sources if s.how == ROWS] == [24, 1]
    assert sum(s.how == CHOSEN for s in found.sources) == 2
    assert found.rows.size == 22


Body = Callable[[te.Expr, te.Expr, te.TensorRef, te.TensorRef, te.TensorRef], te.Reduction]


@pytest.mark.parametrize(
    "body",
    [
        lambda i, j, x, w, g: te.sum(20, lambda r: x[i, r] * w[0, r, j]),
        lambda i, j, x, w, g: te.sum(20, lambda r: x[i, r] * w[g[r], r, j]),
        lambda i, j, x, w, g: te.sum(20, lambda r: x[j, r] * w[g[j], r, i]),
        lambda i, j, x, w, g: te.sum(20, lambda r: x[i, r] * w[g[i], i, j]),
        lambda i, j, x, w, g: te.sum(20, lambda r: te.select(r < i, x[i, r], 0.0) * w[g[i], r, j]),
        lambda i, j, x, w, g: te.sum(20, lambda r: te.cast(i, "float32") * x[i, r] * w[g[i], r, j]),
    ],
)
def test_what_is_not_grouped(body: Body) -> None:
    x, w, g = te.input("x", (20, 20)), te.input("w", (3, 20, 20)), te.input("g", (20,), "int32")
    program = te.program(te.compute((20, 20), lambda i, j: body(i, j, x, w, g)))[0]
    assert grouped(program) is None


def test_loops_read_every_matrix_and_row_once() -> None:
    template, task = get_template("cpu_grouped"), task_of(experts(40, 64, 64, 5), TARGET)
    brought, product, placed = template.nests(task, template.default(task))
    assert (brought.flops_per_point, placed.flops_per_point) == (0, 0)
    assert product.axes["group"] * product.axes["m"] == 40
    assert {a.tensor for a in product.accesses} == {"rows0", "x1", "sorted"}
