"""The contract of every registered template, and the registry."""

from __future__ import annotations

import dataclasses

import pytest

from tilewright.core import Candidate, IllegalSchedule, Schedule, Target, Task, UsageError, Value
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import (
    FALLBACKS,
    TEMPLATES,
    default_schedule,
    generating,
    get_template,
    lower,
    task_space,
    templates_for,
)  # fmt: skip
from tilewright.kernels.templates.cuda.static import STATIC, StaticFeatures
from tilewright.testing import programs
from tilewright.testing.kernels import task_of
from tilewright.testing.schedules import covering
from tilewright.testing.template import TemplateContract

PORTABLE = Target("cpu", "portable", "x86_64", (), 16, 16)


class TestContract(TemplateContract):
    # test_contraction_run, test_dot and test_rows have products, convolutions and rows of these forms, run alike;
    # test_recurrence and test_scatter_kernels run these very scans and scatters.
    elsewhere = ("cpu_contraction", "cpu_dot", "cpu_rows", "cpu_scan", "cpu_scatter")


def test_every_field_of_static_features_is_one_of_the_numbers_that_cost_models_know():
    given = {"target", "work"}
    assert {f.name for f in dataclasses.fields(StaticFeatures)} - given < STATIC.keys()


@pytest.mark.nightly
class TestContractThoroughly(TemplateContract):
    schedules = 40
    targets = ("cpu:avx512", "cpu:avx2", "cpu:portable", "cpu:neon")


def test_names_are_the_templates_own() -> None:
    for name, template in TEMPLATES.items():
        assert template.name == name
        assert get_template(name) is template
    assert set(FALLBACKS) <= set(TEMPLATES)
    assert len(TEMPLATES) == len(list(TEMPLATES))


def test_templates_of_a_kind_of_target_are_found_by_name() -> None:
    for kind in ("cpu", "cuda", "opencl", "unknown"):
        assert generating(kind) == tuple(t for t in TEMPLATES.values() if kind in t.kinds)
    assert set(generating("cpu", "cuda")) == set(TEMPLATES.values())


def test_unknown_names_and_targets() -> None:
    with pytest.raises(UsageError, match="unknown template 'nope'"):
        get_template("nope")
    with pytest.raises(KeyError):
        TEMPLATES["nope"]
    strange = Target("abacus", "wood", "x86_64", (), 16, 16)
    with pytest.raises(UsageError, match="no template generates code"):
        templates_for(task_of(programs.matmul(), strange))


def test_the_generic_template_is_the_last_resort() -> None:
    matmul, welford = task_of(programs.matmul(), PORTABLE), task_of(programs.welford(), PORTABLE)
    assert [t.name for t in templates_for(matmul)] == ["cpu_contraction"]
    assert [t.name for t in templates_for(welford)] == ["cpu_generic"]
    assert TEMPLATES["cpu_generic"].matches(matmul)


@pytest.mark.parametrize(
    ("operator", "sizes", "first"),
    [
        ("linear", {"m": 1, "n": 40, "k": 48}, "cpu_rows"),
        ("linear", {"m": 1, "n": 40, "k": 48, "dtype": "float16"}, "cpu_rows"),
        ("linear", {"m": 1, "n": 40, "k": 48, "constant": "weight"}, "cpu_contraction"),
        ("linear", {"m": 2, "n": 40, "k": 48}, "cpu_contraction"),
        ("matmul", {"m": 40, "n": 1, "k": 48}, "cpu_rows"),
        ("matmul", {"m": 1, "n": 40, "k": 48}, "cpu_contraction"),
        ("matmul", {"m": 1, "n": 40, "k": 48, "dtype": "bfloat16"}, "cpu_dot"),
    ],
)
def test_a_single_row_reads_a_matrix_where_it_is(operator: str, sizes: dict[str, Value], first: str) -> None:
    """By default: to copy the matrix so that its columns lie side by side costs several times the product."""
    task = Task(get_operator(operator).workload(**sizes), PORTABLE)
    assert default_schedule(task).template == first


def test_default_space_and_lowering_go_together() -> None:
    for build in (programs.matmul, programs.softmax):
        task = task_of(build(), PORTABLE)
        schedule = default_schedule(task)
        task_space(task).check(schedule)
        kernel = lower(Candidate(task, schedule))
        assert f"TW_ENTRY({kernel.symbol})" in kernel.source


def test_a_schedule_of_another_version_is_refused() -> None:
    task = task_of(programs.softmax(), PORTABLE)
    old = dataclasses.replace(default_schedule(task), version=0)
    with pytest.raises(IllegalSchedule, match="version 0"):
        lower(Candidate(task, old))


def test_few_schedules_are_those_that_show_most() -> None:
    first, same, other, last = (
        Schedule("t", 1, (("a", a), ("b", b)), (("c", c),)) for a, b, c in [(1, 1, 1), (1, 1, 2), (2, 2, 1), (2, 1, 2)]
    )
    assert covering([first, first, same, other, last], 2) == [first, other]
    assert covering([first, same, other, last], 3) == [first, other, same]
    assert covering([first, first], 3) == [first]
    assert covering([first, same, other, last], 1, beside=[first]) == [other]
