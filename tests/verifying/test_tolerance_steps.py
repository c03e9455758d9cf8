"""Tolerances where rounding meets steps, masks and narrow types: neither too tight nor without meaning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilewright.core import Value
from tilewright.dtypes import DTYPES
from tilewright.kernels import te
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate, index_bounds
from tilewright.verifying.exact import whole_reach
from tilewright.verifying.inputs import RECIPES, Array, Recipe, make_inputs
from tilewright.verifying.references import Interval, References
from tilewright.verifying.verify import mismatch

Params = dict[str, Value]
Case = tuple[str, Params]

CASES: list[Case] = [
    ("softmax", {"shape": "6,700"}),
    ("log_softmax", {"shape": "6,700"}),
    ("layer_norm", {"shape": "6,700", "residual": True}),
    ("rms_norm", {"shape": "6,700"}),
    ("attention", {"b": 1, "h": 4, "lq": 33, "lk": 40, "d": 16, "hk": 2, "is_causal": True}),
    ("attention", {"b": 1, "h": 2, "lq": 33, "lk": 40, "d": 16, "score_mod": "30*tanh(score/30) - 0.1*abs(q-k)"}),
    ("attention", {"b": 1, "h": 2, "lq": 33, "lk": 40, "d": 16, "mask": "bool"}),
    ("tbs", {"b": 1, "seq": 40, "heads": 2, "hidden": 16}),
    ("sum", {"shape": "6,1000", "dim": 1}),
    ("prod", {"shape": "6,20", "dim": 1}),
    ("argmax", {"shape": "6,1000", "dim": 1}),
    ("norm", {"shape": "6,1000", "dim": 1}),
    ("cumsum", {"shape": "6,1000"}),
    ("elementwise", {"shape": "40,40", "fn": "exp(-x*x)*tanh(y) + erf(x)*rsqrt(abs(y)+0.1) + log(abs(x)+0.5)"}),
    (
        "elementwise",
        {"shape": "40,40", "fn": "sin(x*9 + y)*cos(x*y) + log1p(exp(y)) - pow(abs(x*y), 2.5) + pow(2, x*y)"},
    ),
    ("elementwise", {"shape": "40,40", "fn": "floor(x*3.7) + where(x*0.3 > y*0.7, x, y)"}),
    ("dequant_matmul", {"m": 20, "n": 30, "k": 64, "group_size": 16}),
]


def interval(p: Program, n: int) -> tuple[Interval, tuple[Array, ...], Recipe]:
    reach, exact = whole_reach(p)
    recipe = Recipe(RECIPES[n].kind, RECIPES[n].seed, RECIPES[n].place, reach)
    values = make_inputs(p, recipe, index_bounds(p))
    block = tuple(slice(0, m) for m in p.output.shape)
    (found,) = References(p).intervals(recipe, values, [block], exact if recipe.kind == "whole" else frozenset())
    return found, values, recipe


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("name", "params"), CASES)
def test_honest_results_pass_and_wrong_ones_do_not(name: str, params: Params, dtype: str) -> None:
    op = get_operator(name)
    workload = op.workload(**{**params, "dtype": dtype})
    program = Program.loads(workload.program)
    for n in (0, 2):
        found, values, recipe = interval(program, n)
        got = decode(op.numpy(*values, **dict(workload.params)), program.output.dtype)  # type: ignore[misc]
        assert mismatch(got, found, recipe) is None
        assert found.free is None
        if got.dtype.kind == "f" and got.any():
            large = np.abs(got) > np.median(np.abs(got)) / 2
            off = 1 + 16 * DTYPES[dtype].unit + 4e-4
            assert mismatch(np.where(large, got * off, got).astype(got.dtype), found, recipe), dtype


def requantised(scale: float) -> tuple[Program, Callable[..., Array]]:
    x = te.input("x", (64, 64))
    stepped = te.compute((64, 64), lambda i, j: te.floor(x[i, j] * scale + 0.5))
    clamped = te.compute((64, 64), lambda i, j: te.cast(te.minimum(te.maximum(stepped[i, j], -128.0), 127.0), "int8"))
    program, _ = te.program(clamped)

    def single(v: Array) -> Array:
        return np.clip(np.floor(v * np.float32(scale) + np.float32(0.5)), -128, 127).astype(np.int8)

    return program, single


def test_a_whole_result_may_be_one_off_only_where_rounding_decides() -> None:
    program, single = requantised(30.7)
    found, values, recipe = interval(program, 0)
    got = single(*values)
    assert mismatch(got, found, recipe) is None
    width = found.high.astype(int) - found.low
    assert width.max() <= 1
    assert (width > 0).mean() < 0.01
    for wrong in (got + (got < 100), np.where(np.arange(64) == 63, 0, got)):
        assert mismatch(wrong.astype(np.int8), found, recipe)


def test_a_tie_may_fall_either_way() -> None:
    x = te.input("x", (50,))
    program, _ = te.program(te.compute((50,), lambda i: te.floor(x[i] * 0.1 + 0.5)))
    values = (np.arange(50, dtype=np.float32) * 10 + 5,)  # 0.1 is not exact: the product is next to a tie
    block = (slice(0, 50),)
    (found,) = References(program).intervals(Recipe("normal", 0, "end"), values, [block], frozenset())
    single = np.floor(values[0] * np.float32(0.1) + np.float32(0.5))
    assert mismatch(single, found, RECIPES[0]) is None
    assert mismatch(evaluate(program, values).astype(np.float32), found, RECIPES[0]) is None
    assert mismatch(single + 2, found, RECIPES[0])


def test_a_condition_that_rounding_decides_allows_both_branches() -> None:
    x, y = te.input("x", (4,)), te.input("y", (4,))
    body = te.compute((4,), lambda i: te.select(x[i] * 3.3 > y[i], 100.0, -100.0))
    program, _ = te.program(body)
    values = (np.float32([1, 1, 1, 1]), np.float32([3.3, 3.2, 3.4, 3.3]))
    (found,) = References(program).intervals(Recipe("normal", 0, "end"), values, [(slice(0, 4),)], frozenset())
    assert (found.low[[0, 3]] <= -100).all()
    assert (found.high[[0, 3]] >= 100).all()
    assert abs(found.low[1] - 100) < 1e-3
    assert abs(found.high[2] + 100) < 1e-3


def test_masks_of_minus_infinity_leave_finite_tolerances_and_are_exact_themselves() -> None:
    x = te.input("x", (9, 9))
    masked = te.compute((9, 9), lambda i, j: te.select(j <= i, x[i, j] * 0.37, -np.inf))
    program, _ = te.program(te.compute((9, 9), lambda i, j: te.exp(masked[i, j] - 0.1)))
    found, values, recipe = interval(program, 0)
    assert found.free is None
    got = np.exp(np.where(np.tri(9, dtype=bool), values[0] * np.float32(0.37), -np.inf) - np.float32(0.1))
    assert mismatch(got.astype(np.float32), found, recipe) is None
    assert np.abs(found.high[~np.tri(9, dtype=bool)]).max() <= 1e-34


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_reals_are_checked_to_a_step(dtype: str) -> None:
    x = te.input("x", (64, 40))
    program, _ = te.program(te.compute((64,), lambda i: te.sum(40, lambda r: x[i, r] * 0.3), dtype=dtype))
    found, values, recipe = interval(program, 0)
    exact = evaluate(program, values)
    from tilewright.verifying.inputs import rounded

    assert mismatch(rounded(exact, dtype), found, recipe) is None
    assert mismatch(rounded(exact * 1.5, dtype), found, recipe)


def test_what_an_8_bit_real_cannot_hold_must_be_what_it_becomes() -> None:
    x = te.input("x", (3,))
    program, _ = te.program(te.compute((3,), lambda i: x[i] * 1.1, dtype="float8_e4m3fn"))
    values = (np.float32([1, 500, -500]),)
    (found,) = References(program).intervals(Recipe("normal", 0, "end"), values, [(slice(0, 3),)], frozenset())
    assert mismatch(np.float32([1.125, np.nan, np.nan]), found, RECIPES[0]) is None
    assert mismatch(np.float32([1.125, 448, -448]), found, RECIPES[0])
