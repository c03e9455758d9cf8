"""Honest float32 results pass, whatever the order of summation; planted mistakes do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.verifying.exact import whole_reach
from tilewright.verifying.inputs import RECIPES, Array, Recipe, make_inputs
from tilewright.verifying.references import Interval, References, tolerance_inputs
from tilewright.verifying.tolerance import error_program
from tilewright.verifying.verify import mismatch

F = np.float32


def interval(p: Program, recipe: Recipe, values: tuple[Array, ...]) -> Interval:
    block = tuple(slice(0, n) for n in p.output.shape)
    stages = whole_reach(p)[1] if recipe.kind == "whole" else frozenset[str]()
    (found,) = References(p).intervals(recipe, values, [block], stages)
    return found


def check(p: Program, compute: Callable[..., Any], recipes: tuple[Recipe, ...] = RECIPES) -> list[str | None]:
    out = []
    for r in recipes:
        recipe = Recipe(r.kind, r.seed, r.place, whole_reach(p)[0])
        values = make_inputs(p, recipe, {})
        got = np.asarray(compute(*values), p.output.dtype)
        out.append(mismatch(got, interval(p, recipe, values), recipe))
    return out


def matmul(m: int, n: int, k: int, **attributes: Any) -> Program:
    return Program.loads(get_operator("matmul").workload(m=m, n=n, k=k, **attributes).program)


# The orders in which kernels sum: one running total, blocks of k, vector lanes, pairwise.
def sequential(a: Array, b: Array) -> Array:
    c = np.zeros((a.shape[0], b.shape[1]), F)
    for r in range(a.shape[1]):
        c += a[:, r : r + 1] * b[r : r + 1]
    return c


def split(parts: int) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        c = np.zeros((a.shape[0], b.shape[1]), F)
        for x, y in zip(np.array_split(a, parts, 1), np.array_split(b, parts, 0), strict=True):
            c += sequential(x, y)
        return c

    return run


@pytest.mark.parametrize("k", [1, 2, 7, 64, 513, 8192])
@pytest.mark.parametrize("how", [sequential, split(4), split(16), np.matmul])
def test_honest_products_pass(k: int, how: Callable[[Array, Array], Array]) -> None:
    assert check(matmul(16, 24, k), how) == [None, None, None]


def test_the_bound_is_within_two_orders_of_honest_errors() -> None:
    p = matmul(32, 32, 2048)
    values = make_inputs(p, RECIPES[0], {})
    found = interval(p, RECIPES[0], values)
    error = np.abs(sequential(*values) - evaluate(p, values)).max()
    width = np.median((found.high.astype(float) - found.low) / 2)
    assert 2 * error < width < 100 * error


def test_what_a_rounding_to_tf32_leaves_adds_no_error() -> None:
    plain, parts = matmul(8, 8, 256), matmul(8, 8, 256, precision="tf32x3")
    values = make_inputs(plain, RECIPES[0], {})
    found = [interval(p, RECIPES[0], values) for p in (plain, parts)]
    alone, three = (np.median((x.high.astype(float) - x.low) / 2) for x in found)
    assert alone < three < 2 * alone  # three times as many products: the root of 3


def skip_one(a: Array, b: Array) -> Array:
    return sequential(a[:, :-1], b[:-1])


def wrong_tail(a: Array, b: Array) -> Array:
    c = sequential(a, b)
    c[-1, -1] = c[-1, -2]
    return c


def off_by_little(a: Array, b: Array) -> Array:
    c = sequential(a, b)
    c[3, 4] *= F(1 + 3e-3)
    c[3, 4] += F(0.5)
    return c


def half_precision(a: Array, b: Array) -> Array:
    return sequential(a.astype(np.float16).astype(F), b)


@pytest.mark.parametrize("k", [16, 512, 8192])
@pytest.mark.parametrize("bug", [skip_one, wrong_tail, off_by_little])
def test_planted_mistakes_fail_on_every_set(k: int, bug: Callable[[Array, Array], Array]) -> None:
    for problem in check(matmul(16, 24, k), bug):
        assert problem
        assert "expected" in problem


@pytest.mark.parametrize("k", [16, 512, 8192])
def test_rounded_inputs_fail_where_they_round(k: int) -> None:
    problems = check(matmul(16, 24, k), half_precision)
    assert problems[0]
    assert problems[1]
    assert problems[2] is None  # small whole numbers are exact in half precision too


def test_a_single_dropped_product_shows_on_whole_numbers() -> None:
    p = matmul(8, 8, 4096)
    recipe = Recipe("whole", 2, "odd", whole_reach(p)[0])
    a, b = make_inputs(p, recipe, {})
    found = interval(p, recipe, (a, b))
    assert np.array_equal(found.low, found.high)
    for r in (0, 1000, 4095):
        c = sequential(a, b)
        assert mismatch(c, found, recipe) is None
        lost = a[2, r] * b[r, 5]
        c[2, 5] -= lost
        assert (mismatch(c, found, recipe) is None) == (lost == 0)


def erf(x: Array) -> Array:
    from scipy.special import erf as exact

    return np.asarray(exact(x), F)


def test_a_bias_added_twice_fails_and_once_passes() -> None:
    p = matmul(16, 24, 256, bias=True)
    assert check(p, lambda a, b, c: sequential(a, b) + c) == [None] * 3
    assert all(check(p, lambda a, b, c: sequential(a, b) + c + c))
    assert all(check(p, lambda a, b, c: sequential(a, b)))


@pytest.mark.parametrize("k", [8, 300, 8192])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_activations_are_right_within_their_tolerance(k: int, activation: str) -> None:
    p = matmul(16, 24, k, activation=activation)
    operator = get_operator("matmul")
    assert operator.numpy is not None

    def honest(a: Array, b: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(operator.numpy(a, b, activation=activation), F)  # type: ignore[misc]

    assert check(p, honest) == [None] * 3
    assert all(check(p, lambda a, b: honest(a[:, 1:], b[1:])))


SOFTMAX = Program.loads(get_operator("softmax").workload(shape=(12, 700)).program)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True), F)


def test_softmax_is_right_within_its_tolerance() -> None:
    assert check(SOFTMAX, softmax) == [None] * 3
    assert all(check(SOFTMAX, lambda x: softmax(x) * F(1 + 1e-4)))
    assert all(check(SOFTMAX, lambda x: np.pad(softmax(x[:, :-1]), ((0, 0), (0, 1)))))


def test_squared_distance_and_chebyshev() -> None:
    x, y = te.input("x", (9, 300)), te.input("y", (11, 300))
    square, _ = te.program(te.compute((9, 11), lambda i, j: te.sum(300, lambda r: (x[i, r] - y[j, r]) ** 2)))
    largest, _ = te.program(te.compute((9, 11), lambda i, j: te.max(300, lambda r: te.abs(x[i, r] - y[j, r]))))
    gap = lambda a, b: a[:, None] - b[None]  # noqa: E731
    assert check(square, lambda a, b: (gap(a, b) ** 2).sum(2, dtype=F)) == [None] * 3
    assert check(square, lambda a, b: (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T)[2] is None
    assert all(check(square, lambda a, b: (gap(a, b)[..., 1:] ** 2).sum(2, dtype=F)))
    assert check(largest, lambda a, b: np.abs(gap(a, b)).max(2)) == [None] * 3
    assert all(check(largest, lambda a, b: np.abs(gap(a, b)).max(2) * F(1.00001) + F(1e-3)))


def test_a_padded_convolution() -> None:
    operator = get_operator("conv2d")
    params = {"n": 1, "ci": 6, "h": 9, "w": 8, "co": 5, "kh": 3, "kw": 3, "padding": 1}
    p = Program.loads(operator.workload(**params).program)
    assert operator.numpy is not None
    assert check(p, lambda x, w: operator.numpy(x, w, padding=1)) == [None] * 3  # type: ignore[misc]
    assert all(check(p, lambda x, w: operator.numpy(np.roll(x, 1, 3), w, padding=1)))  # type: ignore[misc]


def test_layernorm_with_means_and_roots() -> None:
    m, n = 6, 500
    x = te.input("x", (m, n))
    mean = te.compute((m,), lambda i: te.sum(n, lambda r: x[i, r] * (1.0 / n)))
    var = te.compute((m,), lambda i: te.sum(n, lambda r: (x[i, r] - mean[i]) ** 2 * (1.0 / n)))
    p, _ = te.program(te.compute((m, n), lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(var[i] + 1e-5)))

    def norm(x: Array) -> Array:
        mu = x.mean(1, keepdims=True, dtype=F)
        v = ((x - mu) ** 2).mean(1, keepdims=True, dtype=F)
        return (x - mu) / np.sqrt(v + F(1e-5))

    assert check(p, norm) == [None] * 3
    assert all(check(p, lambda x: norm(x) * F(1.001)))


def test_logs_of_normal_values_and_their_nans() -> None:
    x = te.input("x", (40,))
    p, _ = te.program(te.compute((40,), lambda i: te.log(x[i])))
    with np.errstate(invalid="ignore"):
        assert check(p, np.log, RECIPES[:2]) == [None] * 2
        assert all(check(p, lambda v: np.log(np.abs(v)), RECIPES[:2]))
        assert all(check(p, lambda v: np.log(v) * F(1.0001), RECIPES[:2]))


def test_products_that_never_round_need_no_tolerance() -> None:
    x = te.input("x", (40,))
    p, _ = te.program(te.compute((40,), lambda i: te.maximum(-x[i], 0.5)))
    found = interval(p, RECIPES[0], make_inputs(p, RECIPES[0], {}))
    assert (found.high - found.low).max() <= 1e-34


def test_where_a_divisor_overflows_nothing_may_be_left() -> None:
    x, v = te.input("x", (4,)), te.input("v", (4,))
    p = te.program(te.compute((4,), lambda i: x[i] / (1.0 + te.exp(-x[i])) * v[i]))[0]
    derived = error_program(p)
    at = (np.array([-89.0, -88.0, -60.0, 3.0]), np.full(4, 90.0))
    value, error = evaluate(p, at), evaluate(derived.program, tolerance_inputs(derived, p, at))
    with np.errstate(over="ignore"):
        kernel = at[0].astype(F) / (F(1) + np.exp(-at[0].astype(F))) * F(90)
    assert kernel[0] == 0
    assert abs(value[0]) > 1e-35
    assert (np.abs(kernel - value) <= error).all()
    assert (error[1:] < 1e-4 * np.abs(value[1:]) + 2e-35).all()
