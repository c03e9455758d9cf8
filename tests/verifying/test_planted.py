"""Mistakes planted into honest results: each one that a bound can tell is noticed, and none of the honest ones is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import numpy_dtype
from tilewright.kernels import te
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.verifying import tolerance
from tilewright.verifying.inputs import Array
from tilewright.verifying.references import tolerance_inputs
from tilewright.verifying.verify import Verifier

F = np.float32
Kernel = Callable[..., Any]


def problem(p: Program, compute: Kernel) -> str | None:
    """What the checks say of a function of float32 and whole arrays that leaves a result, or several, as a kernel."""

    def run(pointers: Sequence[int]) -> None:
        views = []
        for t, address in zip((*p.inputs, *p.outputs), pointers, strict=True):
            kind = numpy_dtype(t.dtype)
            data: Any = (ctypes.c_char * (t.size * kind.itemsize)).from_address(address)
            views.append(np.frombuffer(data, kind).reshape(t.shape))
        count = len(p.inputs)
        decoded = [decode(v, t.dtype) for v, t in zip(views[:count], p.inputs, strict=True)]
        given = [v.astype(F) if v.dtype == np.float16 else v for v in decoded]
        results = compute(*given)
        for view, t, result in zip(views[count:], p.outputs, results if p.results else [results], strict=True):
            if isinstance(result, np.ma.MaskedArray):  # not written where masked
                view[~np.ma.getmaskarray(result)] = result.compressed()
            else:
                view[...] = encode(np.asarray(result, F), t.dtype) if t.dtype.startswith(("f", "bf")) else result

    return verifier(p.dumps()).check(run)


@lru_cache(maxsize=1)
def verifier(text: str) -> Verifier:
    return Verifier(Program.loads(text))


def built_in(name: str, **params: Any) -> Program:
    return Program.loads(get_operator(name).workload(**params).program)


def row_of(x: Array, row: int, value: Any) -> Array:
    x = np.array(x)
    x[row] = value
    return x


# --------------------------------------------------------------------------- monoids of several parts


def reduced(monoid: te.Monoid, m: int, n: int, terms: Callable[..., tuple[Any, ...]]) -> Program:
    x = te.input("x", (m, n))
    return te.program(te.compute((m,), lambda i: te.reduce(monoid, n, lambda r: terms(x[i, r]))))[0]


def _merge(a: Any, b: Any) -> tuple[Any, ...]:
    count, delta = a[0] + b[0], b[1] - a[1]
    share = te.select(count > 0.0, b[0] / count, 0.0)
    return count, a[1] + delta * share, a[2] + b[2] + delta * delta * a[0] * share


def welford(n: int) -> Program:
    m = te.monoid("welford", (0.0, 0.0, 0.0), _merge, lambda count, mean, squares: squares / count)
    return reduced(m, 8, n, lambda v: (1.0, v, 0.0))


def serial_welford(x: Array) -> Array:
    mean, squares = np.zeros(len(x), F), np.zeros(len(x), F)
    for k in range(x.shape[1]):
        delta = x[:, k] - mean
        mean += delta * (F(1) / F(k + 1))
        squares += delta * delta * F(k) * (F(1) / F(k + 1))
    return squares / F(x.shape[1])


@pytest.mark.parametrize("n", [64, 4096, 20000])
def test_a_variance_of_merged_parts_passes_in_any_order_and_not_with_a_term_or_a_count_wrong(n: int) -> None:
    p = welford(n)
    assert problem(p, serial_welford) is None
    assert problem(p, lambda x: x.var(1)) is None
    assert problem(p, lambda x: ((x - x.mean(1, keepdims=True)) ** 2).sum(1) / F(n)) is None
    assert problem(p, lambda x: x.var(1) * F(1 + 3e-4))
    assert problem(p, lambda x: row_of(x.var(1), 3, x[3, :-1].var()))
    assert problem(p, lambda x: row_of(x.var(1), 3, x[3, 1:].var()))
    if n < 20000:
        assert problem(p, lambda x: x.var(1, ddof=1))


def online_logsumexp(n: int) -> Program:
    def combine(a: Any, b: Any) -> tuple[Any, ...]:
        top = te.maximum(a[0], b[0])
        return top, a[1] * te.exp(a[0] - top) + b[1] * te.exp(b[0] - top)

    m = te.monoid("logsumexp", (-1e30, 0.0), combine, lambda top, total: top + te.log(total))
    return reduced(m, 8, n, lambda v: (v, 1.0))


def logsumexp(x: Array) -> Array:
    top = x.max(1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(x - top).sum(1)), F)


def serial_logsumexp(x: Array) -> Array:
    top, total = np.full(len(x), -1e30, F), np.zeros(len(x), F)
    for k in range(x.shape[1]):
        new = np.maximum(top, x[:, k])
        total = total * np.exp(top - new) + np.exp(x[:, k] - new)
        top = new
    return top + np.log(total)


@pytest.mark.parametrize("n", [64, 4096, 20000])
def test_an_online_logsumexp_passes_in_any_order_and_not_without_a_term(n: int) -> None:
    p = online_logsumexp(n)
    assert problem(p, serial_logsumexp) is None
    assert problem(p, logsumexp) is None
    assert problem(p, lambda x: logsumexp(x) + F(1e-3))
    for part in (slice(0, -1), slice(1, None)):
        assert problem(p, lambda x, part=part: row_of(logsumexp(x), 3, logsumexp(x[3:4, part])[0]))
    assert problem(p, lambda x: logsumexp(np.delete(x, np.s_[5::8], 1)))


def test_a_linear_recurrence_passes_and_not_with_one_step_lost() -> None:
    decay, x = te.input("decay", (512, 8), low=0.0, high=1.0), te.input("x", (512, 8))
    m = te.monoid("linear", (1.0, 0.0), lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), lambda s, at: at)
    p, _ = te.program(te.compute((512, 8), lambda t, c: te.scan(m, t, (decay[t, c], x[t, c]))), [decay, x])

    def run(lost: int) -> Kernel:
        def compute(decay: Array, x: Array) -> Array:
            state, out = np.zeros(8, F), np.zeros((512, 8), F)
            for t in range(512):
                state = decay[t] * state + (x[t] if t != lost else F(0))
                out[t] = state
            return out

        return compute

    assert problem(p, run(-1)) is None
    assert problem(p, run(256))
    assert problem(p, lambda decay, x: run(-1)(decay, x) * F(1 + 1e-4))


@pytest.mark.parametrize("n", [16, 300, 4096])
def test_a_product_of_many_factors_passes_and_not_without_one(n: int) -> None:
    p = built_in("prod", shape=f"8,{n}", dim=1)
    assert problem(p, lambda x: np.multiply.reduce(x, 1)) is None
    assert problem(p, lambda x: np.cumprod(x, 1)[:, -1]) is None
    assert problem(p, lambda x: np.multiply.reduce(x, 1) * F(1 + 1e-3))
    assert problem(p, lambda x: row_of(np.multiply.reduce(x, 1), 3, np.prod(x[3, :-1])))


# --------------------------------------------------------------------------- long sums


@pytest.mark.parametrize("n", [4096, 65536])
def test_a_sum_of_squares_about_the_mean_passes_and_not_without_its_last_term(n: int) -> None:
    x = te.input("x", (8, n))
    total = te.compute((8,), lambda i: te.sum(n, lambda k: x[i, k]))
    p, _ = te.program(te.compute((8,), lambda i: te.sum(n, lambda k: (x[i, k] - total[i] / n) ** 2)))
    about: Kernel = lambda x: ((x - x.mean(1, keepdims=True)) ** 2).sum(1)  # noqa: E731
    assert problem(p, about) is None
    assert problem(p, lambda x: serial_welford(x) * F(n)) is None
    assert problem(p, lambda x: row_of(about(x), 3, about(x)[3] - (x[3, -1] - x[3].mean()) ** 2))


def softmax(x: Array, left_out: Any = None) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    counted = e if left_out is None else np.delete(e, left_out, 1)
    return np.asarray(e / counted.sum(1, keepdims=True), F)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1000, 4096])
def test_a_softmax_passes_and_not_without_a_term_in_its_sum(n: int, dtype: str) -> None:
    p = built_in("softmax", shape=f"8,{n}", dtype=dtype)
    assert problem(p, softmax) is None
    for left_out in (0, n - 1, np.s_[3::16]):
        assert problem(p, lambda x, left_out=left_out: softmax(x, left_out))


def attention(q: Array, k: Array, v: Array, ignored: Any = ()) -> Array:
    s = np.asarray(q @ k.swapaxes(2, 3) / np.sqrt(F(q.shape[3])), F)
    s[..., ignored] = -np.inf
    e = np.exp(s - s.max(3, keepdims=True))
    return np.asarray(e @ v / e.sum(3, keepdims=True), F)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_an_attention_passes_and_not_without_a_key(dtype: str) -> None:
    p = built_in("attention", b=1, h=2, lq=32, lk=1024, d=32, dtype=dtype)
    assert problem(p, attention) is None
    for key in (0, 77, 1023):
        assert problem(p, lambda q, k, v, key=key: attention(q, k, v, key))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_layer_norm_passes_and_not_with_one_element_less_in_its_variance(dtype: str) -> None:
    p = built_in("layer_norm", shape="8,512", dtype=dtype)

    def norm(x: Array, w: Array, b: Array, ddof: int = 0) -> Array:
        spread = np.sqrt(x.var(1, ddof=ddof, keepdims=True) + F(1e-5))
        return np.asarray((x - x.mean(1, keepdims=True)) / spread * w + b, F)

    assert problem(p, norm) is None
    assert problem(p, lambda x, w, b: norm(x, w, b, 1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_long_16_bit_sum_passes_and_not_without_a_term(dtype: str) -> None:
    p = built_in("sum", shape="8,65536", dim=1, dtype=dtype)
    total: Kernel = lambda x: x.sum(1, dtype=F)  # noqa: E731
    assert problem(p, total) is None
    assert problem(p, lambda x: row_of(total(x), 3, total(x)[3] - x[3, np.flatnonzero(x[3])[-1]]))
    assert problem(p, lambda x: x.astype(np.float16).cumsum(1, dtype=np.float16)[:, -1])


# --------------------------------------------------------------------------- positions, counts, conditions


def best_of(n: int, better: Callable[..., te.Reduction], m: int = 41) -> Program:
    x = te.input("x", (m, n))
    y = te.compute((m, n), lambda i, j: te.exp(x[i, j]) * 3.0)
    return te.program(te.compute((m,), lambda i: better(n, lambda k: y[i, k])))[0]


@pytest.mark.parametrize(("better", "numpy"), [(te.argmax, np.argmax), (te.argmin, np.argmin)])
@pytest.mark.parametrize("n", [50, 1000])
def test_a_position_of_computed_values_is_the_best_or_as_good(n: int, better: Any, numpy: Any) -> None:
    p = best_of(n, better)
    single: Kernel = lambda x: numpy(np.exp(x) * F(3), 1)  # noqa: E731
    assert problem(p, single) is None
    assert problem(p, lambda x: n - 1 - numpy((np.exp(x) * F(3))[:, ::-1], 1)) is None  # the last of equals
    for row, wrong in ((-1, 0), (5, n - 1), (0, n), (7, -1)):
        assert problem(p, lambda x, row=row, wrong=wrong: row_of(single(x), row, wrong))
    assert problem(p, lambda x: np.ma.array(single(x), mask=np.arange(41) == 40))


def test_a_position_of_the_second_best_is_as_good_up_to_rounding() -> None:
    def combine(a: Any, b: Any) -> tuple[Any, ...]:
        first = a[0] >= b[0]
        pick: Kernel = lambda n: te.select(first, a[n], b[n])  # noqa: E731
        runner: Kernel = lambda n: te.select(  # noqa: E731
            first, te.select(a[2] >= b[0], a[n + 2], b[n]), te.select(a[0] >= b[2], a[n], b[n + 2])
        )
        return pick(0), pick(1), runner(0), runner(1)

    types = ("float32", "int64", "float32", "int64")
    m = te.monoid("top2", (-np.inf, -1, -np.inf, -1), combine, lambda v, i, w, j: j, types)
    x = te.input("x", (20, 300))
    term: Kernel = lambda i, r: (te.exp(x[i, r]), te.cast(r, "int64"), -np.inf, -1)  # noqa: E731
    p, _ = te.program(te.compute((20,), lambda i: te.reduce(m, 300, lambda r: term(i, r))))
    second: Kernel = lambda x: np.argsort(-np.exp(x), 1, kind="stable")[:, 1]  # noqa: E731
    assert problem(p, second) is None
    assert problem(p, lambda x: np.argsort(-np.exp(x), 1, kind="stable")[:, 0])
    assert problem(p, lambda x: row_of(second(x), 4, np.argsort(-x[4])[2]))


def test_of_a_value_and_its_position_each_must_be_right() -> None:
    x = te.input("x", (20, 300))
    y = te.compute((20, 300), lambda i, j: te.exp(x[i, j]) * 3.0)
    value = te.compute((20,), lambda i: te.max(300, lambda k: y[i, k]))
    place = te.compute(
        (20,), lambda i: te.cast(te.compute((20,), lambda i: te.argmax(300, lambda k: y[i, k]))[i], "int32")
    )
    there = te.compute((20,), lambda i: x[i, place[i]])
    p, _ = te.program((value, place, there))

    def honest(x: Array) -> tuple[Array, ...]:
        y = np.exp(x) * F(3)
        return y.max(1), y.argmax(1), x[np.arange(20), y.argmax(1)]

    assert problem(p, honest) is None
    for n in range(3):

        def wrong(x: Array, n: int = n) -> tuple[Array, ...]:
            out = list(honest(x))
            out[n] = row_of(out[n], 6, out[n][6] * F(1.00001) if n == 0 else 1 if n == 1 else x[6, 1])
            return tuple(out)

        assert (problem(p, wrong) or "").startswith(f"output number {n}")


def test_a_count_may_be_off_by_what_rounding_decides_only() -> None:
    x = te.input("x", (20, 5000))
    p, _ = te.program(te.compute((20,), lambda i: te.sum(5000, lambda k: te.cast(te.exp(x[i, k]) > 1.5, "int32"))))
    count: Kernel = lambda x: (np.exp(x) > F(1.5)).sum(1)  # noqa: E731
    assert problem(p, count) is None
    assert problem(p, lambda x: row_of(count(x), 3, count(x)[3] - 1))
    assert problem(p, lambda x: np.ma.array(count(x), mask=np.arange(20) == 9))


def test_whether_any_of_many_conditions_holds_may_be_unsure_only_where_one_is() -> None:
    x = te.input("x", (40, 3))
    m = te.monoid("any", (False,), lambda a, b: (a[0] | b[0],), dtype="bool")
    p, _ = te.program(te.compute((40,), lambda i: te.reduce(m, 3, lambda k: (x[i, k] * 0.3 > 0.5,))))
    honest: Kernel = lambda x: (x * F(0.3) > F(0.5)).any(1)  # noqa: E731
    assert problem(p, honest) is None
    assert problem(p, lambda x: row_of(honest(x), 4, ~honest(x)[4]))
    found = tolerance.error_program(p)
    at = (np.where(np.arange(120) == 7, 5 / 3, 1.0).reshape(40, 3),)  # one is next to the edge
    assert np.flatnonzero(evaluate(found.program, tolerance_inputs(found, p, at)) > 1).tolist() == [2]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
def test_an_element_never_written_is_found_whatever_its_type_holds(dtype: str) -> None:
    x = te.input("x", (300,))
    condition = te.compute((300,), lambda i: x[i] * 0.3 > 0.1)
    p, _ = te.program(condition if dtype == "bool" else te.compute((300,), lambda i: te.cast(condition[i], dtype)))
    honest: Kernel = lambda x: x * F(0.3) > F(0.1)  # noqa: E731
    assert problem(p, honest) is None
    assert problem(p, lambda x: np.ma.array(honest(x), mask=np.arange(300) == 299))
    assert problem(p, lambda x: row_of(honest(x), 17, ~honest(x)[17]))
