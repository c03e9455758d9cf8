"""Pooling, batch normalisation and activations of ``tilewright.nn``, and their operators."""

from __future__ import annotations

import math
import random as chance
from typing import Any

import numpy as np
import pytest
import scipy.special
from windowed_reference import LAYOUTS, first, last, random, run, traced, windows

from tilewright import nn, te
from tilewright.core import OperatorError, UsageError
from tilewright.kernels.expression.numerics import from_bfloat16, to_bfloat16
from tilewright.kernels.expression.program import Program
from tilewright.kernels.nn.reduce import cummax_positions, cummin_positions
from tilewright.kernels.operators import get_operator

NEAR = {"rtol": 1e-12, "atol": 1e-13}


def _pooled(x: Any, how: Any, reduce: Any) -> Any:
    places = list(windows(x, *how))
    out = np.zeros((*x.shape[:2], *(n + 1 for n in places[-1][0])))
    for place, seen in places:
        out[(slice(None), slice(None), *place)] = reduce(seen)
    return out


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_pooling_in_both_layouts(spatial: int) -> None:
    rng = chance.Random(spatial)
    largest, mean = getattr(nn, f"max_pool{spatial}d"), getattr(nn, f"avg_pool{spatial}d")
    name = LAYOUTS[spatial][1]
    for seed in range(6):
        kernel = tuple(rng.choice((1, 2, 3)) for _ in range(spatial))
        stride = tuple(rng.choice((1, 2, 3)) for _ in range(spatial))
        padding = tuple(rng.randrange(k // 2 + 1) for k in kernel)
        dilation = tuple(rng.choice((1, 2)) for _ in range(spatial))
        x = random(2, 2, *(rng.choice((5, 6)) for _ in range(spatial)), seed=seed)
        how = (kernel, stride, padding, dilation)
        expected = _pooled(x, how, lambda seen: np.max(seen, axis=0))
        np.testing.assert_array_equal(run(lambda x, how=how: largest(x, *how), x), expected)
        np.testing.assert_array_equal(first(run(lambda x, how=how: largest(x, *how, layout=name), last(x))), expected)
        how = (kernel, stride, padding, (1,) * spatial)
        for counted in (True, False):
            count = np.prod(kernel) if counted else None
            expected = _pooled(x, how, lambda seen, count=count: sum(seen) / (count or len(seen)))
            three = how[:3]
            got = run(lambda x, three=three, counted=counted: mean(x, *three, counted), x)
            np.testing.assert_allclose(got, expected, **NEAR)
            got = run(lambda x, three=three, counted=counted: mean(x, *three, counted, layout=name), last(x))
            np.testing.assert_allclose(first(got), expected, **NEAR)


def test_the_stride_is_the_window_unless_given() -> None:
    op = get_operator("max_pool2d")
    sizes = {"n": 1, "c": 2, "h": 9, "w": 8}
    assert op.workload(**sizes, kernel_size="3,2").output.shape == (1, 2, 3, 4)
    assert op.workload(**sizes, kernel_size="3,2").key == op.workload(**sizes, kernel_size=(3, 2), stride="3,2").key


def test_nothing_to_guard_leaves_no_condition() -> None:
    program = traced(lambda x: nn.max_pool2d(x, 2), random(1, 2, 4, 4))
    assert "select" not in {e.op for e in program.stages[0].body[0].walk()}
    assert program.stages[0].monoid is not None
    assert program.stages[0].monoid.name == "max"


def test_pooling_keeps_special_values() -> None:
    x = np.full((1, 1, 5), -np.inf)
    x[0, 0, 4] = np.nan
    got = run(lambda x: nn.max_pool1d(x, 3, 1, 1), x)
    np.testing.assert_array_equal(got[0, 0], [-np.inf, -np.inf, -np.inf, np.nan, np.nan])
    op = get_operator("max_pool1d")
    assert op.numpy is not None
    np.testing.assert_array_equal(op.numpy(x, kernel_size=3, stride=1, padding=1), got)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("seen", "at"),
    [
        ([[1, 3, 2], [0, 3, 3]], 1), ([[1, NAN, INF], [NAN, 2, 0]], 3), ([[-INF] * 3] * 2, 0), ([[-0.0, 0, 0]] * 2, 0),
    ],
)  # fmt: skip
def test_positions_are_of_the_first_number_or_the_last_nan_and_never_in_the_padding(seen: Any, at: int) -> None:
    x = np.array(seen, np.float64)[None, None]
    assert run(lambda x: nn.max_pool_positions(x, (2, 3)), x) == at
    assert run(lambda x: nn.adaptive_max_pool_positions(x, 1), x) == at
    around = run(lambda x: nn.max_pool_positions(x, (4, 5), padding=(2, 2), stride=(9, 9)), x[..., :1, :2])
    assert around == (1 if seen[0][1] > seen[0][0] or seen[0][1] != seen[0][1] else 0)


def test_positions_of_uneven_windows_are_those_of_the_values() -> None:
    x = random(2, 3, 7, 5)
    largest = run(lambda x: nn.adaptive_max_pool(x, (3, 4)), x)
    at = run(lambda x: nn.adaptive_max_pool_positions(x, (3, 4)), x)
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(2, 3, -1), at.reshape(2, 3, -1), 2).ravel(), largest.ravel()
    )


def test_positions_so_far_are_of_the_last_of_equals() -> None:
    x = np.array([[1.0, 3, 3, 2, 3], [1, NAN, 2, NAN, 9]])
    np.testing.assert_array_equal(run(lambda x: cummax_positions(x, 1), x), [[0, 1, 2, 2, 4], [0, 1, 1, 3, 3]])
    np.testing.assert_array_equal(run(lambda x: cummin_positions(x, 1), x), [[0] * 5, [0, 1, 1, 3, 3]])


def test_sixteen_bit_means_are_rounded_once() -> None:
    op = get_operator("avg_pool1d")
    assert op.numpy is not None
    workload = op.workload(n=1, c=1, w=4, kernel_size=4, dtype="bfloat16")
    stages = Program.loads(workload.program).stages
    assert [s.dtype for s in stages] == ["float32", "bfloat16"]
    bits = to_bfloat16(np.array([[[256.0, 1.0, 1.0, 1.0]]]))  # sums of 257 and 258 would be rounded in bfloat16
    np.testing.assert_array_equal(from_bfloat16(op.numpy(bits, kernel_size=4)), [[[65.0]]])


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"padding": 2}, "padding=2 is more than half of a window of 3"),
        ({"padding": "0,2"}, "padding=2 is more than half"),
        ({"padding": -1}, "padding=-1 is below 0"),
        ({"kernel_size": 0}, "kernel_size=0 is below 1"),
        ({"kernel_size": 9}, "a window of 9, dilation=1, reaches over 9 elements, past an input of 8"),
        ({"dilation": 4}, "a window of 3, dilation=4, reaches over 9"),
        ({"stride": 0}, "stride=0 is below 1"),
        ({"stride": (1, 1, 2)}, "stride=1,1,2 has 3 numbers"),
        ({"layout": "NWHC"}, "layout cannot be 'NWHC'"),
    ],
)
def test_windows_that_cannot_be(bad: dict[str, Any], says: str) -> None:
    op = get_operator("max_pool2d")
    good = {"n": 1, "c": 2, "h": 8, "w": 8, "kernel_size": 3}
    assert op.workload(**good, padding=1, dilation=3)
    with pytest.raises(UsageError, match=says) as caught:
        op.workload(**{**good, **bad})
    assert caught.value.hint
    assert caught.value.message.startswith("max_pool2d")


def test_pooling_is_of_reals() -> None:
    with pytest.raises(UsageError, match="avg_pool1d: input is int32"):
        nn.avg_pool1d(te.input("x", (1, 2, 8), "int32"), 2)
    op = get_operator("avg_pool1d")
    assert op.infer is not None
    with pytest.raises(UsageError, match="It takes one"):
        op.infer([(1, 2, 8), (2,)], kernel_size=2)


# --------------------------------------------------------------------------- batch normalisation


def test_batch_norm_along_any_axis() -> None:
    x, mean, var, weight, bias = random(3, 4, 5), random(4), random(4) ** 2, random(4, seed=1), random(4, seed=2)
    expected = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-3) * weight[:, None] + bias[:, None]
    got = run(lambda *a: nn.batch_norm(*a, eps=1e-3), x, mean, var, weight, bias)
    np.testing.assert_allclose(got, expected, **NEAR)
    got = run(lambda *a: nn.batch_norm(*a, eps=1e-3, dim=-1), last(x), mean, var, weight, bias)
    np.testing.assert_allclose(first(got), expected, **NEAR)
    got = run(nn.batch_norm, x, mean, var)
    np.testing.assert_allclose(got, (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5), **NEAR)


def test_a_negative_variance_gives_nan() -> None:
    op = get_operator("batch_norm")
    assert op.numpy is not None
    inputs = [np.ones((1, 2)), np.zeros(2), np.array([-1.0, 1.0])]
    for got in (run(nn.batch_norm, *inputs), op.numpy(*inputs, affine=False)):
        assert np.isnan(got).tolist() == [[True, False]]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"dim": 2}, "dim=2 is not an axis of shape=.3, 4."),
        ({"dim": -3}, "dim=-3 is not an axis"),
        ({"shape": "3,0"}, "shape=3,0 is not positive"),
        ({"shape": "5"}, "dim=1 is not an axis"),
        ({"eps": -1}, "eps=-1.0 is negative"),
    ],
)
def test_batch_norms_that_cannot_be(bad: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=f"batch_norm: {says}") as caught:
        get_operator("batch_norm").workload(**{"shape": "3,4", **bad})
    assert caught.value.hint


def test_batch_norm_of_vectors_that_do_not_conform() -> None:
    refs = [te.input(n, s) for n, s in (("x", (3, 4)), ("mean", (4,)), ("var", (3,)))]
    with pytest.raises(UsageError, match=r"running_var has shape \(3,\)") as caught:
        nn.batch_norm(*refs)
    assert "each of 4 channels" in caught.value.hint
    op = get_operator("batch_norm")
    assert op.infer is not None
    with pytest.raises(UsageError, match=r"dim=1 is not an axis of an input of shape \(4,\)"):
        op.infer([(4,), (4,), (4,)], affine=False)


# --------------------------------------------------------------------------- activations and element types


@pytest.mark.parametrize(
    ("fn", "meaning"),
    [
        (nn.relu, lambda x: np.maximum(x, 0)),
        (nn.gelu, lambda x: x * scipy.special.ndtr(x)),
        (lambda x: nn.gelu(x, approximate="tanh"),
         lambda x: x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        (nn.silu, lambda x: x * scipy.special.expit(x)),
        (nn.sigmoid, scipy.special.expit),
        (nn.tanh, np.tanh),
    ],
)  # fmt: skip
def test_activations_compute_what_numpy_computes(fn: Any, meaning: Any) -> None:
    x = random(3, 50)
    np.testing.assert_allclose(run(fn, x), meaning(x), rtol=1e-11, atol=1e-14)
    assert np.isnan(run(fn, np.array([np.nan]))).all()


def test_gelu_has_two_forms() -> None:
    with pytest.raises(UsageError, match="approximate cannot be 'erf'"):
        nn.gelu(te.input("x", (3,)), approximate="erf")  # type: ignore[arg-type]


def test_a_cast_is_part_of_the_stage_before() -> None:
    half = te.input("x", (3, 4), "float16")
    assert nn.relu(half).dtype == "float32"
    assert nn.relu(te.input("x", (3,), "float64")).dtype == "float64"
    rounded = nn.cast(nn.relu(half), "float16")
    assert rounded.dtype == "float16"
    assert [s.dtype for s in te.program(rounded)[0].stages] == ["float16"]
    total = te.compute((3,), lambda i: te.sum(4, lambda k: te.cast(half[i, k], "float32")))
    program = te.program(nn.cast(total, "bfloat16"))[0]
    assert [s.dtype for s in program.stages] == ["bfloat16"]
    assert program.stages[0].monoid is not None
    assert program.stages[0].monoid.identity[0].dtype == "float32"
    assert nn.cast(total, "float32") is total
    assert [s.dtype for s in te.program(nn.cast(half, "float32"))[0].stages] == ["float32"]
    with pytest.raises((TypeError, OperatorError), match="float99"):
        nn.cast(total, "float99")
