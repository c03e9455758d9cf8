"""Chains of stages that read their neighbours: what is one, what a box needs, and that every schedule is right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from neighbour_programs import PROGRAMS, blur, clamped, heat, pooled, shrinking
from partition_programs import mlp, softmax_of

from tilewright.backends import get_backend
from tilewright.core import Candidate
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.neighbours import neighbours
from tilewright.kernels.templates import default_schedule, get_template, templates_for
from tilewright.kernels.templates.cpu_neighbours.interior import interior
from tilewright.kernels.templates.cpu_neighbours.regions import regions
from tilewright.kernels.templates.cpu_neighbours.space import rolled
from tilewright.testing.kernels import task_of
from tilewright.testing.template import TemplateContract

TARGETS = [get_backend("cpu").targets(n)[0] for n in (1, 3)]


class TestNeighbours(TemplateContract):
    templates = ("cpu_neighbours",)
    # The same forms with fewer stages and terms: more of them are only more text.
    programs = {  # noqa: RUF012
        **PROGRAMS, "heat": partial(heat, steps=2), "clamped": partial(clamped, steps=2, wide=2),
        "blur": partial(blur, taps=3), "pooled": partial(pooled, c=2, k=2), "shrinking": partial(shrinking, wide=2),
    }  # fmt: skip
    schedules = 1


def _program(out: te.TensorRef) -> Program:
    return te.program(out)[0]


def one_step() -> Program:
    return heat(steps=1)


def rows() -> Program:
    return _program(softmax_of(te.input("x", (6, 8))))


def turned() -> Program:
    """A box of the result needs two boxes of the stage before it."""
    x = te.input("x", (9, 9))
    y = te.compute((9, 9), lambda i, j: te.exp(x[i, j]))
    return _program(te.compute((8, 8), lambda i, j: y[i, j] + y[j + 1, i]))


def gathered() -> Program:
    x, at = te.input("x", (9,)), te.input("at", (7,), "int32", low=0, high=8)
    y = te.compute((9,), lambda i: te.exp(x[i]))
    return _program(te.compute((7,), lambda i: y[te.minimum(te.maximum(at[i], 0), 8)] + y[i]))


def wrapped() -> Program:
    x = te.input("x", (9,))
    y = te.compute((9,), lambda i: te.exp(x[i]))
    return _program(te.compute((9,), lambda i: y[(i + 1) % 9] + y[i]))


def rounded() -> Program:
    x = te.input("x", (9,))
    y = te.compute((9,), lambda i: te.cast(te.exp(x[i]), "bfloat16"))
    return _program(te.compute((8,), lambda i: te.cast(y[i + 1], "float32") + te.cast(y[i], "float32")))


@pytest.mark.parametrize("make", [one_step, rows, mlp, turned, gathered, wrapped, rounded])
def test_what_is_no_chain(make: Callable[[], Program]) -> None:
    assert neighbours(make()) is None


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("unsharp", "weighted")])
def test_chains_are_computed_by_their_template(name: str) -> None:
    assert templates_for(task_of(PROGRAMS[name](), TARGETS[0]))[0].name == "cpu_neighbours"


def test_a_stage_read_at_one_place_is_no_stage() -> None:
    x = te.input("x", (40,))
    y = te.compute((40,), lambda i: te.exp(x[i]))
    z = te.compute((39,), lambda i: y[i] + y[i + 1])
    n = neighbours(_program(te.compute((39,), lambda i: te.sqrt(z[i]))))
    assert n is not None
    assert [link.name for link in n.links] == ["s0", "s2"]


def test_what_a_box_needs_of_every_stage() -> None:
    n = neighbours(shrinking(66, 134))
    assert n is not None
    found = regions(n, (10, 64))
    assert [found.of[x.name].widths for x in n.links] == [(14, 68), (12, 66), (10, 64)]
    assert found.of["s0"].totals == (14 * 6, 68 * 2)
    assert found.of["s0"].computed == 14 * 6 * 68 * 2
    assert found.bytes == (14 * 96 + 12 * 96) * 4, "rows may begin in the middle of a line"


def test_borders_end_where_the_tensor_does() -> None:
    n = neighbours(heat(20, 64, 3))
    assert n is not None
    assert [regions(n, (10, 64)).of[x.name].widths for x in n.links] == [(12, 64), (11, 64), (10, 64)]


def test_strides_and_channels() -> None:
    n = neighbours(pooled(22, 41))
    assert n is not None
    assert n.links[0].follows == (0, 1, 2)
    assert regions(n, (1, 5, 20)).of["s0"].widths == (1, 11, 41)


def test_rings_hold_the_rows_that_are_still_read() -> None:
    n = neighbours(heat(64, 128, 3))
    assert n is not None
    assert rolled(n) == 0
    found = regions(n, (32, 128), 0, 2).of
    assert found["s1"].scratch.shape == (4, 144), "two rows and their neighbours"
    assert found["s0"].scratch.shape == (8, 144), "six rows"
    assert found["s1"].widths == (33, 128), "a box is computed once"


def test_what_is_the_same_for_all_rows_is_computed_before_them() -> None:
    task = task_of(PROGRAMS["weighted"](), TARGETS[0])
    source = get_template("cpu_neighbours").lower(Candidate(task, default_schedule(task))).source
    n = neighbours(Program.loads(task.workload.program))
    assert n is not None
    assert n.links[0].follows == (1,)
    assert source.index("s0 + (") < source.index("s1_next")


def test_no_condition_is_left_inside() -> None:
    n = neighbours(blur())
    assert n is not None
    inside = interior(n.links[0].value, {"i0": 33, "i1": 77})
    assert inside.ranges == {"i0": (0, 32), "i1": (2, 74)}
    assert not any(x.op == "select" for x in inside.value.walk())


def test_only_the_result_is_stored_in_full() -> None:
    task = task_of(heat(256, 512), TARGETS[1])
    kernel = get_template("cpu_neighbours").lower(Candidate(task, default_schedule(task)))
    assert isinstance(kernel.program.workspace, int)
    assert kernel.program.workspace < 3 * 256 * 512 * 4


def test_a_chain_is_a_segment_of_a_longer_program() -> None:
    """What reads all of a chain's result cuts the program behind it."""
    x = te.input("x", (64, 96))
    y = te.compute((62, 94), lambda i, j: te.sum((3, 3), lambda r, s: 0.1 * x[i + r, j + s]))
    z = te.compute((60, 92), lambda i, j: te.sum((3, 3), lambda r, s: y[i + r, j + s]))
    task = task_of(_program(te.compute((1,), lambda _: te.sum((60, 92), lambda i, j: z[i, j]))), TARGETS[0])
    assert "cpu_neighbours" in str(dict(default_schedule(task).values))


def test_a_stage_that_is_read_behind_a_condition_which_never_holds_is_left_out() -> None:
    x = te.input("x", (70,))
    never = te.compute((70,), lambda i: te.exp(x[i]))
    out = te.compute((70,), lambda i: te.select(i >= 70, never[i] + never[i - 1], 2.0 * x[i]))
    assert neighbours(_program(out)) is None
