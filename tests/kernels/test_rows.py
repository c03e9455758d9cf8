"""Row programs: what matches, and results of every schedule against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from row_programs import ROWS, argmax, backwards, layer_norm, norm, program_of, run_each, run_rows, welford

from harness.gpu_programs import softmax
from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate, IllegalSchedule, Schedule
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.testing.kernels import check, random_arrays, task_of
from tilewright.testing.template import TemplateContract


class TestRows(TemplateContract):
    templates = ("cpu_rows",)
    programs = ROWS


@pytest.mark.nightly
class TestRowsEverywhere(TemplateContract):
    templates = ("cpu_rows",)
    programs = ROWS
    schedules = 10
    targets = ("cpu:avx512", "cpu:avx2", "cpu:portable", "cpu:neon")


@pytest.mark.parametrize("keep", ["recompute", "memory"])
@pytest.mark.parametrize(
    "program",
    [softmax(1, (1 << 16) + 5), layer_norm(2, 1 << 16), norm(1, 256, 257), argmax(1, 70001), welford(1, 65537)],
    ids=["softmax", "layer_norm", "norm", "argmax", "welford"],
)
def test_long_rows_are_split_over_tasks(program: Program, keep: str) -> None:
    inputs = random_arrays(program)
    task = task_of(program, parse_target("auto", 3))
    knobs = {k.name: k.values for k in get_template("cpu_rows").space(task).knobs}
    assert knobs["pieces"] == (3, 6, 12)
    if keep in knobs["keep"]:
        check(program, inputs, run_rows(program, inputs, threads=3, keep=keep, pieces=6))


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("n", [9, 40, 700])
def test_special_values_pass_as_in_numpy(n: int, reciprocal: bool) -> None:
    program = softmax(8, n)
    x = random_arrays(program)[0]
    x[0, n // 2], x[1, n - 1], x[2, 0] = np.nan, np.inf, -np.inf
    x[3], x[4] = -np.inf, np.nan
    x[5, 1:] = -np.inf
    x[6] = 3e38
    with np.errstate(invalid="ignore"):
        expected = evaluate(program, [x])
    for got in run_each(program, [x], [{"keep": k, "reciprocal": reciprocal} for k in ("memory", "recompute")]):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("size", [1e-44, 3e-39, 1e38, 3e38, 0.0, np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_reciprocal_stands_for_any_division(size: float, dtype: str) -> None:
    x = te.input("x", (2, 50), dtype)
    top = te.compute((2,), lambda i: te.max(50, lambda r: te.abs(x[i, r])))
    program = program_of(te.compute((2, 50), lambda i, j: x[i, j] / top[i]))
    size = size * (1e-270 if 0 < size < 1e-30 else 1e270 if 1e30 < size < np.inf else 1) if dtype == "float64" else size
    value = np.linspace(-1, 1, 100).reshape(2, 50) * size if np.isfinite(size) else np.full((2, 50), size)
    value = value.astype(dtype)
    with np.errstate(all="ignore"):
        expected = value / np.abs(value).max(axis=1, keepdims=True)
    got = run_rows(program, [value], reciprocal=True)
    np.testing.assert_allclose(got, expected, rtol=4 * float(np.finfo(dtype).eps))


def test_a_large_mean_does_not_hurt_the_variance() -> None:
    program = layer_norm(4, 1000)
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((4, 1000)) + 4096.0).astype(np.float32)
    inputs = [x, np.ones(1000, np.float32), np.zeros(1000, np.float32)]
    np.testing.assert_allclose(run_rows(program, inputs), evaluate(program, inputs), rtol=0, atol=2e-3)


def test_argmax_takes_the_first_of_equals_and_nan() -> None:
    program = argmax(3, 200)
    x = np.zeros((3, 200), np.float32)
    x[0, [70, 150]] = 5.0
    x[1, [199, 101]] = np.nan
    assert run_rows(program, [x]).tolist() == [70, 101, 0]
    # Positions from the end: ties go to the last column, whatever order the columns are walked in.
    assert run_rows(backwards(3, 200), [x]).tolist() == [199 - 150, 0, 0]
    x[2] = -np.inf
    assert run_rows(program, [x]).tolist() == [70, 101, 0]
    # Two of them in one lane of a vector, whichever width it has.
    long = np.zeros((1, 2000), np.float32)
    long[0, [101, 1125]] = np.nan
    assert run_rows(argmax(1, 2000), [long]).tolist() == [101]


def _earlier(a: tuple[te.Expr, ...], b: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
    return te.select(a[1] > 0.5, a[0], b[0]), te.maximum(a[1], b[1])


def _refused() -> dict[str, Program]:
    x = te.input("x", (8, 32))
    first = te.monoid("first", (0.0, 0.0), _earlier, lambda value, _: value)
    total = te.compute((8,), lambda i: te.sum(32, lambda r: x[i, r]))
    return {
        "is not a row reduction": program_of(te.compute((8, 32), lambda i, j: x[i, j] + 1.0)),
        "reads rows whose elements do not lie one after the other": program_of(
            te.compute((32,), lambda j: te.sum(8, lambda r: x[r, j]))
        ),
        "writes its rows in another order": program_of(te.compute((32, 8), lambda j, i: x[i, j] / total[i])),
        "has a reduction whose order matters": program_of(
            te.compute((8,), lambda i: te.reduce(first, 32, lambda r: (x[i, r], te.select(x[i, r] > 0.0, 1.0, 0.0))))
        ),
    }


@pytest.mark.parametrize("reason", _refused())
def test_other_programs_are_refused_with_a_reason(reason: str) -> None:
    program = _refused()[reason]
    task = task_of(program, parse_target("auto"))
    assert not get_template("cpu_rows").matches(task)
    with pytest.raises(IllegalSchedule, match=reason):
        get_template("cpu_rows").lower(Candidate(task, Schedule("cpu_rows", 2, (), ())))
