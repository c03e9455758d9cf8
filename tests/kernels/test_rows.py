"""Row programs: what matches, and results of every schedule against the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from row_programs import (
    any_above,
    argmax,
    double_product,
    group_norm,
    kept_dims,
    layer_norm,
    log_softmax,
    logsumexp,
    masked_softmax,
    matvec,
    norm,
    program_of,
    run_rows,
    softmax,
    welford,
    whole,
)

from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate, IllegalSchedule, Schedule
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.rows.match import match
from tilewright.testing.kernels import (
    check,
    random_arrays,
    task_of,
)
from tilewright.testing.programs import PROGRAMS
from tilewright.testing.template import TemplateContract

ROWS: dict[str, Callable[[], Program]] = {
    **{f"softmax_{n}": lambda n=n: softmax(5, n) for n in (1, 15, 16, 17, 1000)},  # type: ignore[misc]
    "softmax_bfloat16": lambda: softmax(3, 70, "bfloat16"),
    "softmax_float16": lambda: softmax(3, 45, "float16"),
    "softmax_float64": lambda: softmax(4, 37, "float64"),
    "masked_softmax": masked_softmax,
    "log_softmax": lambda: log_softmax(9, 100),
    "logsumexp": logsumexp,
    "layer_norm": lambda: layer_norm(6, 129),
    "layer_norm_residual": lambda: layer_norm(3, 48, residual=True),
    "layer_norm_bfloat16": lambda: layer_norm(3, 65, "bfloat16", True),
    "group_norm": group_norm,
    "norm": lambda: norm(3, 5, 70),
    "norm_of_one": lambda: norm(1, 9, 16, "float64"),
    "kept_dims": kept_dims,
    "argmax": argmax,
    "argmin_int32": lambda: argmax(4, 33, "int32", True),
    "argmax_int64": lambda: argmax(4, 20, "int64"),
    "welford": welford,
    "any_above": any_above,
    "whole": whole,
    "double_product": double_product,
    "matvec": matvec,
    "total": PROGRAMS["total"],
}  # fmt: skip


class TestRows(TemplateContract):
    templates = ("cpu_rows",)
    programs = ROWS
    schedules = 2
    targets = ("auto",)


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
    for keep in ("memory", "recompute"):
        got = run_rows(program, [x], keep=keep, reciprocal=reciprocal)
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


def _earlier(a: tuple[te.Expr, ...], b: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
    return te.select(a[1] > 0.5, a[0], b[0]), te.maximum(a[1], b[1])


def _unmatched() -> dict[str, Program]:
    x, y = te.input("x", (8, 32)), te.input("y", (8, 32))
    first = te.monoid("first", (0.0, 0.0), _earlier, lambda value, _: value)
    rolled = te.compute((8, 32), lambda i, j: te.exp(x[i, (j + 1) % 32]))
    total = te.compute((8,), lambda i: te.sum(32, lambda r: x[i, r]))
    return {
        "map": program_of(te.compute((8, 32), lambda i, j: x[i, j] + 1.0)),
        "product": PROGRAMS["matmul"](),
        "distances": PROGRAMS["chebyshev"](),
        "convolution": PROGRAMS["conv2d"](),
        "columns": program_of(te.compute((32,), lambda j: te.sum(8, lambda r: x[r, j]))),
        "window": program_of(te.compute((8, 30), lambda i, j: te.max(3, lambda r: x[i, j + r]))),
        "other row": program_of(te.compute((8, 32), lambda i, j: x[i, j] / total[7 - i])),
        "other element": program_of(te.compute((8,), lambda i: te.sum(32, lambda r: rolled[i, 31 - r]))),
        "order matters": program_of(
            te.compute((8,), lambda i: te.reduce(first, 32, lambda r: (x[i, r], te.select(x[i, r] > 0.0, 1.0, 0.0))))
        ),
        "outer product": program_of(te.compute((8, 8), lambda i, j: te.sum(32, lambda r: x[i, r] * y[j, r]))),
    }


@pytest.mark.parametrize("name", _unmatched())
def test_other_programs_do_not_match(name: str) -> None:
    program = _unmatched()[name]
    task = task_of(program, parse_target("auto"))
    assert not get_template("cpu_rows").matches(task)
    with pytest.raises(IllegalSchedule):
        get_template("cpu_rows").lower(Candidate(task, Schedule("cpu_rows", 1, (), ())))


def test_every_program_here_matches() -> None:
    assert all(match(make().dumps()) is not None for make in ROWS.values())


def test_neighbouring_axes_are_merged() -> None:
    found = match(norm(3, 5, 70).dumps())
    assert found is not None
    assert (found.rows, found.elements) == ((3,), (350,))
    found = match(group_norm().dumps())
    assert found is not None
    assert (found.rows, found.elements) == ((2, 3), (4, 19))
    found = match(masked_softmax().dumps())
    assert found is not None
    assert found.elements == (21,)
