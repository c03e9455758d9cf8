"""Scans: the language, their identity, the interpreter, and who computes them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.backends.cuda.archs import target
from tilewright.core import OperatorError
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import operator
from tilewright.kernels.reference import evaluate, evaluate_block
from tilewright.kernels.templates import templates_for
from tilewright.testing.kernels import task_of
from tilewright.testing.programs import recurrence, running_maxima, running_sums
from tilewright.verifying.projection import project
from tilewright.verifying.tolerance import error_program

SHAPE = (4, 90, 5)


def scanned(name: str, axis: int) -> Program:
    x = te.input("x", SHAPE)
    return te.program(te.compute(SHAPE, lambda *i: te.scan(name, i[axis], x[i])))[0]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "ufunc"), [("sum", np.add), ("prod", np.multiply), ("max", np.maximum), ("min", np.minimum)]
)
def test_every_prefix_of_simple_monoids(name: str, ufunc: np.ufunc, axis: int) -> None:
    a = np.random.default_rng(0).standard_normal(SHAPE)
    want = ufunc.accumulate(a, axis=axis)
    program = scanned(name, axis)
    for memory in (1 << 14, 1 << 26):
        np.testing.assert_allclose(evaluate(program, [a], memory), want, rtol=1e-9, atol=1e-12)
    block = (slice(1, 3), slice(40, 71), slice(2, 5))
    np.testing.assert_allclose(evaluate_block(program, [a], block), want[block], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("memory", [1 << 14, 1 << 26])
def test_a_recurrence_keeps_the_order(memory: int) -> None:
    program = recurrence(70, 3)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((70, 3)), rng.standard_normal((70, 3))
    h, total = np.zeros(3), np.zeros(3)
    for t in range(70):
        h = np.tanh(a[t]) * h + b[t]
        total += h
    np.testing.assert_allclose(evaluate(program, [a, b], memory), total, rtol=1e-10)


def test_a_later_stage_reads_prefixes_of_its_block_only_where_needed() -> None:
    x = te.input("x", (3, 5000))
    sums = te.compute((3, 5000), lambda i, j: te.scan("sum", j, x[i, j]))
    steps = te.compute((3, 4999), lambda i, j: sums[i, j + 1] - sums[i, j])
    program, _ = te.program(steps)
    a = np.random.default_rng(2).standard_normal((3, 5000))
    for memory in (1 << 14, 1 << 26):
        np.testing.assert_allclose(evaluate(program, [a], memory), a[:, 1:], atol=1e-10)


def test_not_a_number_and_infinity_stay_in_every_later_prefix() -> None:
    a = np.ones(SHAPE)
    a[2, 40, 1] = np.nan
    for name in ("sum", "max"):
        out = evaluate(scanned(name, 1), [a])
        assert np.isnan(out[2, 40:, 1]).all()
        assert not np.isnan(out[2, :40, 1]).any()


def test_identity_and_counts() -> None:
    program = scanned("sum", 1)
    (stage,) = program.stages
    assert (stage.scan, stage.reduce, stage.terms) == (1, (), 90)
    assert program.flops == stage.points == 4 * 90 * 5
    assert Program.loads(program.dumps()).dumps() == program.dumps()
    assert Program.loads(program.dumps()).stages[0].scan == 1
    assert not program.plain
    x = te.input("x", (6,))
    plain, _ = te.program(te.compute((6,), lambda i: x[i] + 1.0))
    assert plain.plain
    assert len(json.loads(plain.dumps())[1][0]) == 6  # nothing is written for stages that are no scan


def test_reductions_and_scans_over_the_same_elements_differ() -> None:
    assert scanned("sum", 1).dumps() != scanned("sum", 2).dumps() != scanned("max", 2).dumps()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda x, i, j: te.scan("sum", j + 1, x[i, j]), "none of its axes"),
        (lambda x, i, j: te.scan("sum", j, x[i, j]) * 2.0, "a scan is the whole value"),
        (lambda x, i, j: te.scan("mean", j, x[i, j]), "knows no 'mean'"),
        (lambda x, i, j: te.scan("sum", j, te.sum(3, lambda r: x[i, r])), "do not nest"),
        (lambda x, i, j: te.scan("sum", j, x[i, j] > 0.0), "of conditions"),
        (lambda x, i, j: te.scan("sum", j, None), "not an expression"),
    ],
)
def test_scans_that_are_none(body, says: str) -> None:  # type: ignore[no-untyped-def]
    @operator
    def wrong(m: int, n: int) -> te.TensorRef:
        x = te.input("x", (m, n))
        return te.compute((m, n), lambda i, j: body(x, i, j))

    with pytest.raises(OperatorError, match="wrong") as caught:
        wrong.workload(m=4, n=5)
    assert says in caught.value.message


@pytest.mark.parametrize("build", [running_sums, running_maxima, recurrence])
def test_scans_have_a_template_on_cpus_and_the_generic_one_on_gpus(build) -> None:  # type: ignore[no-untyped-def]
    assert [t.name for t in templates_for(task_of(build(), get_backend("cpu").targets()[0]))] == ["cpu_scan"]
    assert [t.name for t in templates_for(task_of(build(), target("sm_80")))] == ["cuda_generic"]


def test_a_scan_is_checked_like_a_sum_of_that_length_and_not_projected() -> None:
    program = scanned("sum", 1)
    a = np.random.default_rng(0).integers(-3, 4, SHAPE).astype(np.float32)
    assert project(program, [a], 0) is None
    derived = error_program(program)
    assert any(s.scan == 1 for s in derived.program.stages)
