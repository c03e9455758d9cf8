"""Recurrences: what is one, how it is walked, and that every schedule is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from recurrence_programs import PROGRAMS, linear, long_average, middle_sums, selective_scan

from tilewright.backends import get_backend
from tilewright.core import Candidate, IllegalSchedule
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.recurrence import recurrence
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import get_template, templates_for
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_kernel, task_of
from tilewright.testing.template import TemplateContract

TARGETS = [get_backend("cpu").targets(n)[0] for n in (1, 3)]


class TestRecurrences(TemplateContract):
    templates = ("cpu_scan",)
    programs = PROGRAMS
    schedules = 2


def _program(out: te.TensorRef) -> Program:
    return te.program(out)[0]


def _sums(m: int = 6, n: int = 8) -> te.TensorRef:
    x = te.input("x", (m, n))
    return te.compute((m, n), lambda t, c: te.scan("sum", t, x[t, c]))


def earlier() -> Program:
    s = _sums()
    return _program(te.compute((5, 8), lambda t, c: s[t + 1, c] - s[t, c]))


def last_only() -> Program:
    s = _sums()
    return _program(te.compute((8,), lambda c: s[5, c]))


def both_axes() -> Program:
    s = _sums()
    return _program(te.compute((6, 8), lambda i, j: te.scan("sum", j, s[i, j])))


def normalised() -> Program:
    x = te.input("x", (6, 8))
    top = te.compute((6,), lambda i: te.max(8, lambda r: x[i, r]))
    return _program(te.compute((6, 8), lambda i, j: te.scan("sum", j, te.exp(x[i, j] - top[i]))))


def both_reduced() -> Program:
    s = _sums()
    return _program(te.compute((1,), lambda _: te.sum((6, 8), lambda t, c: s[t, c])))


def without() -> Program:
    x = te.input("x", (6, 8))
    return _program(te.compute((6,), lambda i: te.sum(8, lambda r: x[i, r])))


@pytest.mark.parametrize("make", [earlier, last_only, both_axes, normalised, both_reduced, without])
def test_what_is_no_recurrence(make: Callable[[], Program]) -> None:
    assert recurrence(make()) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_recurrences_are_computed_by_their_template(name: str) -> None:
    assert [t.name for t in templates_for(task_of(PROGRAMS[name](), TARGETS[0]))] == ["cpu_scan"]


def test_cumsum_is_one() -> None:
    operator = get_operator("cumsum")
    assert operator.example
    assert recurrence(Program.loads(operator.workload(**operator.example).program)) is not None


def test_a_part_of_a_program_is_one() -> None:
    (best, *_) = templates_for(task_of(normalised(), TARGETS[0]))
    task = task_of(normalised(), TARGETS[0])
    assert "cpu_scan" in str(dict(best.default(task).values)), "the scan of a partition has a template of its own"


def test_eight_bit_reals_are_left_to_the_generic_template() -> None:
    x = te.input("x", (6, 8), "float8_e5m2")
    task = task_of(
        _program(te.compute((6, 8), lambda t, c: te.scan("sum", t, te.cast(x[t, c], "float32")))), TARGETS[0]
    )
    with pytest.raises(IllegalSchedule, match="8-bit reals"):
        get_template("cpu_scan").space(task)
    assert [t.name for t in templates_for(task)] == ["cpu_generic"]


def test_the_normal_form() -> None:
    r = recurrence(selective_scan())
    assert r is not None
    assert (r.before, r.sequence, r.after, r.reduced) == ((("i0", 2),), ("i1", 21), (("i2", 19),), (("i3", 6),))
    assert r.scans[0].live == (1,), "the product of the decays is no part of what is computed"
    merged = recurrence(middle_sums(5))
    assert merged is not None
    assert [n for _, n in merged.after] == [21]


def test_nothing_is_stored_but_the_result() -> None:
    template = get_template("cpu_scan")
    for make in (selective_scan, lambda: long_average(100)):
        task = task_of(make(), TARGETS[0])
        default = template.default(task)
        (nest,) = template.nests(task, default)
        assert [a.tensor for a in nest.accesses if a.store] == [Program.loads(task.workload.program).output.name]


def test_blocks_of_one_sequence_are_walked_by_several_threads() -> None:
    template = get_template("cpu_scan")
    task = task_of(long_average(100_000), TARGETS[1])
    default = template.default(task)
    assert default.values["blocks"] == 3
    totals, walk = template.nests(task, default)
    assert (totals.axes["i0"], walk.axes["i0"]) == (66_672, 100_000)
    assert "total_s0_1" in template.lower(Candidate(task, default)).source
    assert not template.space(task).note
    short = template.space(task_of(long_average(150), TARGETS[1]))
    assert short.note.endswith("its 150 elements are fewer than 64 for each of 3 threads")
    assert not template.space(task_of(long_average(150), TARGETS[0])).note, "there is one thread"


def test_vectors_along_an_axis_outside_of_the_sequence_end_with_it() -> None:
    """Its last block has one element more than whole vectors, and each lane writes a row of the result."""
    x = te.input("x", (5, 33))
    program = _program(te.compute((33, 5, 2), lambda i, t, c: te.scan("sum", t, x[t, i])))
    template, task = get_template("cpu_scan"), task_of(program, TARGETS[0])
    space = template.space(task)
    counts = [n for n in space.options["vectors"] if int(n) > 1]
    assert counts
    values = template.default(task).values
    candidates = [Candidate(task, space.schedule({**values, "vector": "i0", "vectors": n})) for n in counts]
    kernels = [template.lower(c) for c in candidates]
    library = compile_kernels(kernels, TARGETS[0])
    inputs = random_arrays(program)
    for candidate, kernel in zip(candidates, kernels, strict=True):
        check(program, inputs, run_kernel(library, kernel, launch_values(candidate), inputs, task.workload.output))


def test_sums_that_depend_on_each_other_are_not_cut() -> None:
    x = te.input("x", (100_000,))
    a = te.compute((100_000,), lambda t: te.scan("sum", t, x[t]))
    task = task_of(_program(te.compute((100_000,), lambda t: te.scan(linear(), t, (0.5, a[t])))), TARGETS[1])
    space = get_template("cpu_scan").space(task)
    assert {k.name: k.values for k in space.knobs}["blocks"] == (1,)
    assert space.note == "The sequence is walked from end to end by one thread: 2 recurrences run along it together"
