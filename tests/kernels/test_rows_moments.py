"""Row programs: mean and squared deviations in one pass, and the last pass by blocks of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from row_programs import group_norm, layer_norm, program_of, run_each, run_rows

from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate, IllegalSchedule
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cpu_rows.moments import paired
from tilewright.kernels.templates.cpu_rows.program import RowProgram, match
from tilewright.testing.kernels import check, random_arrays, task_of


def variance(m: int, n: int, dtype: str = "float32", scale: float = 1.0, ddof: int = 0) -> Program:
    """Of a multiple of the elements, as it is often written: sums first, divided where they are read."""
    x = te.input("x", (m, n), dtype)

    def value(i: te.Expr, j: te.Expr) -> te.Expr:
        real = te.cast(x[i, j], "float32") if "16" in dtype else x[i, j]
        return real if scale == 1.0 else real * scale

    total = te.compute((m,), lambda i: te.sum(n, lambda r: value(i, r)))
    squares = te.compute((m,), lambda i: te.sum(n, lambda r: (total[i] / n - value(i, r)) ** 2))
    return program_of(te.compute((m,), lambda i: squares[i] / (n - ddof)))


def mean_and_spread(m: int = 3, n: int = 90) -> Program:
    """The mean is read on its own, and a maximum is taken in the same pass."""
    x, y = te.input("x", (m, n)), te.input("y", (m, n))
    total = te.compute((m,), lambda i: te.sum(n, lambda r: x[i, r] * y[i, r]))
    mean = te.compute((m,), lambda i: total[i] * (1.0 / n))
    top = te.compute((m,), lambda i: te.max(n, lambda r: x[i, r]))
    spread = te.compute((m,), lambda i: te.sum(n, lambda r: (y[i, r] * x[i, r] - mean[i]) ** 2))
    return program_of(te.compute((m, n), lambda i, j: (x[i, j] - top[i]) * te.sqrt(spread[i]) + mean[i]))


def gelu_norm(m: int = 3, n: int = 150) -> Program:
    """The elements cost much, so that a schedule may keep them in memory."""
    x = te.input("x", (m, n))
    e = te.compute((m, n), lambda i, j: te.tanh(x[i, j]) * x[i, j])
    mean = te.compute((m,), lambda i: te.sum(n, lambda r: e[i, r] * (1.0 / n)))
    var = te.compute((m,), lambda i: te.sum(n, lambda r: (e[i, r] - mean[i]) ** 2))
    return program_of(te.compute((m, n), lambda i, j: (e[i, j] - mean[i]) * te.rsqrt(var[i] + 1e-3)))


PAIRED: dict[str, Callable[[], Program]] = {
    **{f"layer_norm_{n}": lambda n=n: layer_norm(5, n) for n in (65, 128, 500, 1000)},  # type: ignore[misc]
    "layer_norm_residual": lambda: layer_norm(3, 300, residual=True),
    "layer_norm_bfloat16": lambda: layer_norm(3, 201, "bfloat16", True),
    "layer_norm_float16": lambda: layer_norm(3, 160, "float16"),
    "layer_norm_float64": lambda: layer_norm(3, 133, "float64"),
    "group_norm": lambda: group_norm(2, 3, 4, 83),
    "group_norm_even": lambda: group_norm(2, 3, 4, 128),
    "variance": lambda: variance(3, 257, ddof=1),
    "variance_scaled": lambda: variance(3, 131, scale=-0.5),
    "variance_bfloat16": lambda: variance(3, 140, "bfloat16"),
    "mean_and_spread": mean_and_spread,
    "gelu_norm": gelu_norm,
}
SHARED = ("layer_norm_65", "layer_norm_bfloat16", "group_norm", "variance", "gelu_norm")
"""Those whose rows are divided among threads: the rest of a kernel is the same."""


def _matched(program: Program) -> RowProgram:
    found = match(program)
    assert found is not None
    return found


def _schedules(program: Program, threads: int, **knobs: Any) -> list[dict[str, Any]]:
    """The values of all schedules with such knobs."""
    space = get_template("cpu_rows").space(task_of(program, parse_target("auto", threads)))
    return [dict(s.values) for s in space if all(s.values[k] == v for k, v in knobs.items())]


@pytest.mark.parametrize("name", PAIRED)
def test_moments_take_a_pass_less(name: str) -> None:
    found = _matched(PAIRED[name]())
    assert (made := paired(found)) is not None
    assert made.passes == found.passes - 1
    assert sum(map(made.accumulates, made.stages)) == sum(map(found.accumulates, found.stages)) - 1


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "threads"), [*((n, 1) for n in PAIRED), *((n, 3) for n in SHARED)])
def test_moments_give_the_reference(name: str, threads: int) -> None:
    program = PAIRED[name]()
    chosen = list(
        {(v["rows"], v["vectors"], v["keep"]): v for v in _schedules(program, threads, moments=True)}.values()
    )
    assert chosen
    # Of each program another two, from both halves, so that all occur; with threads one of them.
    turn, half = list(PAIRED).index(name), (len(chosen) + 1) // 2
    few = [chosen[turn % half], chosen[-1 - turn % half]] if threads == 1 else chosen[-1:]
    inputs = random_arrays(program)
    for got in run_each(program, inputs, few, threads=threads):
        check(program, inputs, got)


def _unpaired() -> dict[str, Program]:
    m, n = 4, 100
    x, y = te.input("x", (m, n)), te.input("y", (m, n))
    total = te.compute((m,), lambda i: te.sum(n, lambda r: x[i, r]))
    other = te.compute((m,), lambda i: te.sum(n, lambda r: y[i, r]))
    coarse = te.compute((m,), lambda i: te.cast(te.cast(total[i] * (1.0 / n), "bfloat16"), "float32"))

    def spread(mean: Callable[[te.Expr], te.Expr], power: int = 2) -> Program:
        return program_of(te.compute((m,), lambda i: te.sum(n, lambda r: (x[i, r] - mean(i)) ** power)))

    return {
        "no mean": spread(lambda i: total[i] * (1.02 / n)),
        "shifted": spread(lambda i: total[i] * (1.0 / n) + 1e-3),
        "of another": spread(lambda i: other[i] * (1.0 / n)),
        "rounded": spread(lambda i: coarse[i]),
        "cubes": spread(lambda i: total[i] * (1.0 / n), 3),
        "products": program_of(
            te.compute(
                (m,),
                lambda i: te.sum(n, lambda r: (x[i, r] - total[i] * (1.0 / n)) * (y[i, r] - other[i] * (1.0 / n))),
            )
        ),
    }


@pytest.mark.parametrize("name", _unpaired())
def test_what_only_looks_alike_keeps_its_passes(name: str) -> None:
    found = _matched(_unpaired()[name])
    assert paired(found) is None


@pytest.mark.parametrize("n", [1000, 1024, 8192])
@pytest.mark.parametrize("vectors", [4, 8])
def test_a_large_mean_costs_one_pass_no_more_than_two(n: int, vectors: int) -> None:
    program = variance(6, n)
    x = (np.random.default_rng(n).standard_normal((6, n)) + 1e4).astype(np.float32)
    expected = x.astype(np.float64).var(axis=1)

    knobs = [{"moments": moments, "vectors": vectors, "rows": 1} for moments in (True, False)]
    one, two = (float(np.abs(got / expected - 1).max()) for got in run_each(program, [x], knobs))
    assert one <= 2 * two + 1e-6


@pytest.mark.parametrize("value", [0.0, 1e4, -3e15, 1e18, 1e-30])
def test_constant_rows_have_no_variance(value: float) -> None:
    program = variance(2, 333)
    x = np.full((2, 333), value, np.float32)
    got = run_rows(program, [x], moments=True, vectors=8)
    assert np.all((got >= 0) & (got <= np.float32(value * 1e-6) ** 2))


@pytest.mark.parametrize("n", [131, 400])
def test_special_values_give_nan(n: int) -> None:
    program = layer_norm(7, n)
    inputs = random_arrays(program)
    x = inputs[0]
    x[0, 0], x[1, n - 1], x[2, n // 2], x[3, 1] = np.inf, np.inf, -np.inf, np.nan
    x[4, n - 1], x[5, [3, n - 2]] = np.nan, (np.inf, -np.inf)
    got = run_rows(program, inputs, moments=True, vectors=4)
    assert np.isnan(got[:6]).all()
    np.testing.assert_allclose(got[6], evaluate(layer_norm(1, n), [x[6:], *inputs[1:]])[0], rtol=1e-4, atol=1e-5)
    assert np.isnan(run_rows(variance(7, n), [x], moments=True, vectors=4)[:6]).all()


@pytest.mark.parametrize("n", [1 << 16, (1 << 16) + 21])
def test_pieces_of_a_row_merge_their_moments(n: int) -> None:
    for program in (layer_norm(2, n), variance(1, n)):
        inputs = random_arrays(program)
        inputs[0] += np.linspace(-3, 3, n, dtype=np.float32)
        check(program, inputs, run_rows(program, inputs, threads=3, moments=True, vectors=8, pieces=6))


# --------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("rows", "n", "moments", "threads"),
    # Any three of these together.
    [
        (rows, n, moments, 3 if (rows == 8) ^ (n == 2500) ^ moments else 1)
        for rows in (2, 8) for n in (2048, 2500) for moments in (False, True)
    ],
)  # fmt: skip
def test_columns_of_rows_that_need_not_come_out_even(n: int, rows: int, moments: bool, threads: int) -> None:
    program = layer_norm(11, n)
    inputs = random_arrays(program)
    knobs: dict[str, Any] = {"columns": 1024, "rows": rows, "vectors": 4, "prefetch": 0, "moments": moments}
    check(program, inputs, run_rows(program, inputs, threads=threads, **knobs))


def test_columns_with_rows_of_two_axes() -> None:
    b, h, n = 3, 5, 3000
    x, w, s = te.input("x", (b, h, n)), te.input("w", (n,)), te.input("s", (h, b))
    z = te.input("z", (n,))
    top = te.compute((b, h), lambda p, q: te.max(n, lambda r: te.abs(x[p, q, r])))
    out = te.compute((b, h, n), lambda p, q, j: x[p, q, j] * (1.0 / top[p, q]) * w[j] + s[q, p] * z[j])
    program = program_of(out)
    inputs = random_arrays(program)
    knobs: dict[str, Any] = {"columns": 1024, "rows": 4, "vectors": 8, "prefetch": 0}
    check(program, inputs, run_rows(program, inputs, threads=1, **knobs))


def test_columns_are_for_what_rows_share() -> None:
    def columns(program: Program) -> tuple[Any, ...]:
        space = get_template("cpu_rows").space(task_of(program, parse_target("auto")))
        return {k.name: k.values for k in space.knobs}["columns"]

    assert columns(layer_norm(8, 8192)) == (0, 512, 1024, 2048)
    assert columns(layer_norm(8, 1024)) == (0,)
    assert columns(variance(8, 8192)) == (0,)


@pytest.mark.parametrize(
    "knobs",
    [
        {"columns": 1024, "rows": 1},
        {"columns": 0, "rows": 8},
        {"columns": 1024, "rows": 4, "vectors": 1},
        {"moments": True, "vectors": 2, "columns": 0, "rows": 1},
    ],
)
def test_schedules_that_gain_nothing_are_illegal(knobs: dict[str, Any]) -> None:
    task, template = task_of(layer_norm(8, 8192), parse_target("auto")), get_template("cpu_rows")
    default = template.default(task)
    with pytest.raises(IllegalSchedule):
        template.lower(Candidate(task, template.space(task).schedule({**default.values, **knobs})))
