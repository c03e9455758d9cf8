"""Functions of nn that users' operators are made of: padding, concatenation, groups, logarithms of sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

import tilewright
from tilewright import nn, te
from tilewright.core import UsageError
from tilewright.kernels.operator import operator
from tilewright.kernels.reference import evaluate

Array = np.ndarray[Any, Any]
V = np.random.default_rng(0).standard_normal((3, 4, 5))
U = np.random.default_rng(1).standard_normal((3, 2, 5))


def x(dtype: str = "float64") -> te.TensorRef:
    return te.input("x", (3, 4, 5), dtype)


def y(dtype: str = "float64") -> te.TensorRef:
    return te.input("y", (3, 2, 5), dtype)


def computed(make: Callable[..., te.TensorRef], *values: Array) -> Array:
    names = "xyz"
    refs = [te.input(n, v.shape, v.dtype.name) for n, v in zip(names, values, strict=False)]
    return evaluate(te.program(make(*refs), refs)[0], list(values))


def grouped(v: Array, groups: int) -> Array:
    parts = v.reshape(v.shape[0], groups, -1)
    centred = parts - parts.mean(-1, keepdims=True)
    return np.asarray((centred / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)).reshape(v.shape))


PADS = [((1, 2), ((0, 0), (0, 0), (1, 2))), ((0, 1, 2, 0), ((0, 0), (2, 0), (0, 1))), ((), ((0, 0),) * 3)]
RESULTS: list[tuple[str, Callable[..., te.TensorRef], Callable[[], Array]]] = [
    ("logsumexp of all", nn.logsumexp, lambda: scipy.special.logsumexp(V)),
    ("logsumexp", lambda a: nn.logsumexp(a, (0, -1)), lambda: scipy.special.logsumexp(V, axis=(0, 2))),
    ("logsumexp kept", lambda a: nn.logsumexp(a, 1, True), lambda: scipy.special.logsumexp(V, axis=1, keepdims=True)),
    *((f"pad {p}", lambda a, p=p: nn.pad(a, p, 7.0), lambda q=q: np.pad(V, q, constant_values=7.0)) for p, q in PADS),
    ("pad that cuts off", lambda a: nn.pad(a, (-1, 2, 0, -3)), lambda: np.pad(V[:, :1, 1:], ((0, 0), (0, 0), (0, 2)))),
    ("cat of one", lambda a: nn.cat([a]), lambda: V),
    ("cat", lambda a: nn.cat([a, a, a], -1), lambda: np.concatenate([V, V, V], -1)),
    ("group_norm", lambda a: nn.group_norm(a, 2), lambda: grouped(V, 2)),
    ("group_norm, a group a channel", lambda a: nn.group_norm(a, 4), lambda: grouped(V, 4)),
    ("add", lambda a: nn.add(a, a, alpha=2.5), lambda: 3.5 * V),
    ("mul", lambda a: nn.mul(a, a), lambda: V * V),
    ("var of var_mean", lambda a: nn.var_mean(a, (0, -1))[0], lambda: V.var((0, 2), ddof=1)),
    ("mean of var_mean", lambda a: nn.var_mean(a, 1, 0, True)[1], lambda: V.mean(1, keepdims=True)),
    ("var of all", lambda a: nn.var_mean(a, correction=3)[0], lambda: V.var(ddof=3)),
]


@pytest.mark.parametrize(("make", "want"), [r[1:] for r in RESULTS], ids=[r[0] for r in RESULTS])
def test_functions_of_layout_compute_what_numpy_computes(
    make: Callable[..., te.TensorRef], want: Callable[[], Array]
) -> None:
    np.testing.assert_allclose(computed(make, V), want(), rtol=1e-12, atol=1e-14)


def test_functions_of_several_inputs_compute_what_numpy_computes() -> None:
    got = computed(lambda a, b: nn.cat([a, b, a], 1), V, U)
    np.testing.assert_array_equal(got, np.concatenate([V, U, V], 1))
    weight, bias = V[0, :, 0].copy(), V[1, :, 1].copy()
    got = computed(lambda a, w, b: nn.group_norm(a, 2, w, b), V, weight, bias)
    np.testing.assert_allclose(got, grouped(V, 2) * weight[:, None] + bias[:, None], rtol=1e-12, atol=1e-14)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_logsumexp_of_infinities() -> None:
    v = V.copy()
    v[0], v[1, 0, 0], v[2, 0, 0] = -np.inf, np.inf, np.nan
    np.testing.assert_array_equal(computed(lambda a: nn.logsumexp(a, (1, 2)), v), [-np.inf, np.inf, np.nan])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.pad(x(), (1,)), "pad=1 does not fit a tensor of 3 axes"),
        (lambda: nn.pad(x(), (1,) * 8), "does not fit"),
        (lambda: nn.pad(x(), (-3, -2)), "has no elements"),
        (lambda: nn.cat([]), "no tensor is given"),
        (lambda: nn.cat([x(), y()], 0), r"tensor 2 is \(3, 2, 5\) of float64, and the first \(3, 4, 5\)"),
        (lambda: nn.cat([x(), y("float32")], 1), "of float32"),
        (lambda: nn.cat([x()], 3), "dim=3 is not an axis"),
        (lambda: nn.group_norm(x(), 3), "do not fall into 3 groups"),
        (lambda: nn.group_norm(x(), 2, te.input("w", (3,), "float64")), r"weight has shape \(3,\)"),
        (lambda: nn.group_norm(x(), 2, eps=-1.0), "eps=-1.0 is negative"),
        (lambda: nn.logsumexp(x(), 7), "dim=7 is not an axis"),
        (lambda: nn.var_mean(x(), 1, 99), "correction=99 of "),
    ],
)
def test_what_does_not_fit(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_a_name_that_is_close() -> None:
    with pytest.raises(AttributeError, match=r"nn has no function 'log_sum_exp'. Did you mean nn.logsumexp\?"):
        _ = nn.log_sum_exp


@operator
def block(n: int, c: int, w: int) -> te.TensorRef:
    a, b = te.input("a", (n, c, w)), te.input("b", (n, c, w))
    both = nn.pad(nn.cat([a, b], 1), (1, 1))
    return nn.logsumexp(nn.group_norm(nn.add(both, both), 4), -1)


def test_a_kernel_of_all_of_them(tmp_path: Path) -> None:
    a, b = (np.random.default_rng(s).standard_normal((2, 6, 20)).astype(np.float32) for s in (0, 1))
    result = tilewright.tune(block, n=2, c=6, w=20, trials=3, cost_model="random", db=tmp_path / "t.db")
    both = np.pad(np.concatenate([a, b], 1), ((0, 0), (0, 0), (1, 1))).astype(np.float64)
    want = scipy.special.logsumexp(grouped(2 * both, 4), axis=-1)
    np.testing.assert_allclose(result.kernel(a, b), want, rtol=1e-4)
