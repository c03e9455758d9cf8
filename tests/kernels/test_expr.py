"""Expression nodes: building, checks, traversal, identity, JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.dtypes import VALUES
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression.expr import FLOATS, INTEGERS, Expr, ValueNumbers, const, same

LOGIC = ("and", "or", "not")


def f32(name: str = "l0") -> Expr:
    return Expr("var", "float32", (), name)


@st.composite
def expressions(draw: st.DrawFn, dtype: str | None = None, depth: int = 4) -> Expr:
    """Any well-typed expression over two axes and a few tensors."""
    dtype = dtype or draw(st.sampled_from(list(VALUES)))
    again = lambda d: draw(expressions(d, depth - 1))  # noqa: E731
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if dtype == "index" and draw(st.booleans()):
            return ex.axis(draw(st.sampled_from(["i0", "r0"])))
        if dtype != "index" and draw(st.booleans()):
            return ex.load(draw(st.sampled_from(["x0", "x1"])), dtype, (ex.axis("i0"),))
        if dtype == "bool":
            return const(draw(st.booleans()), dtype)
        if dtype in FLOATS:
            return const(draw(st.floats()), dtype)
        return const(draw(st.integers(-100, 100)), dtype)
    if dtype == "bool":
        op = draw(st.sampled_from([*ex.COMPARISONS, *LOGIC]))
        if op == "not":
            return ex.logic(op, again("bool"))
        if op in LOGIC:
            return ex.logic(op, again("bool"), again("bool"))
        inner = draw(st.sampled_from(["float32", "int32", "index"]))
        return ex.compare(op, again(inner), again(inner))
    ops = ["add", "sub", "mul", "min", "max", "neg", "abs", "select", "cast"]
    ops += [*ex.FUNCTIONS, "div"] if dtype in FLOATS else ["floordiv", "mod"]
    ops = [o for o in ops if o not in ex.TF32 or dtype == "float32"]
    op = draw(st.sampled_from(ops))
    if op == "select":
        return ex.select(again("bool"), again(dtype), again(dtype))
    if op == "cast":
        return ex.cast(again(draw(st.sampled_from(["float32", "int32"]))), dtype)
    if op in ex.FUNCTIONS:
        return ex.unary(op, again(dtype))
    if op in ("floordiv", "mod"):
        return ex.binary(op, again(dtype), const(draw(st.integers(1, 9)), dtype))
    return ex.binary(op, again(dtype), again(dtype))


@settings(deadline=None, derandomize=True, max_examples=50)
@given(expressions())
def test_json_round_trip(e):
    text = json.dumps(e.to_json(), allow_nan=False)
    again = Expr.from_json(json.loads(text))
    assert same(e, again)
    assert json.dumps(again.to_json()) == text
    assert repr(again) == repr(e)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(expressions(), expressions())
def test_same_is_equality_of_json(a, b):
    assert same(a, b) == (json.dumps(a.to_json()) == json.dumps(b.to_json()))
    assert same(a, a)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(expressions())
def test_map_keeps_and_replaces(e):
    assert e.map(lambda n: None) is e
    copied = e.map(lambda n: Expr(n.op, n.dtype, n.args, n.value))
    assert copied is not e
    assert same(copied, e)
    moved = e.substitute({"i0": ex.axis("j")})
    assert "i0" not in moved.axes()
    assert ("j" in moved.axes()) == ("i0" in e.axes())
    assert same(moved.substitute({"j": ex.axis("i0")}), e)


def test_walk_goes_parents_first_and_left_to_right():
    e = (f32("a") + f32("b")) * -f32("c")
    assert [n.value or n.op for n in e.walk()] == ["mul", "add", "a", "b", "neg", "c"]


def test_shared_nodes_are_rebuilt_once():
    e = f32()
    for _ in range(60):
        e = e * e  # 2**60 nodes if walked as a tree
    calls = 0

    def count(node: Expr) -> None:
        nonlocal calls
        calls += 1

    assert e.map(count) is e
    assert calls == 61
    assert ValueNumbers().of(e) == 60


def test_numbers_and_operators():
    x, i = f32("x"), ex.axis("i")
    assert repr(2 * x - 1 / x) == "((2.0 * x) - (1.0 / x))"
    assert repr(-abs(x) + 3) == "(neg(abs(x)) + 3.0)"
    assert repr(x**3) == "((x * x) * x)"
    assert repr((i < 4) & ~(i == 2) | (x != 0)) == "(((i < 4) & not((i == 2))) | (x != 0.0))"
    assert repr(i // 3 + i % 3) == "((i // 3) + (i % 3))"
    assert (3 - i).args[0].value == 3
    assert type((x + 1).args[1].value) is float


def test_numpy_scalars_are_numbers_on_either_side():
    x = f32("x")
    for number in (np.float32(0.5), np.float64(0.5), np.float16(0.5)):
        assert repr(number * x) == "(0.5 * x)"
        assert repr(x * number) == "(x * 0.5)"
    assert repr(ex.axis("i") + np.int64(3)) == "(i + 3)"


def test_index_arithmetic_drops_what_does_nothing():
    i = ex.axis("i")
    for e in (i + 0, 0 + i, i * 1, 1 * i, i - 0, i // 1):
        assert e is i
    assert [(i * 0).value, (i % 1).value, (ex.wrap(7) // 2).value, (-ex.wrap(7)).value] == [0, 0, 3, -7]
    assert repr(0 - i) == "(0 - i)"


@pytest.mark.parametrize(
    "build",
    [
        lambda x, i: x + i,
        lambda x, i: x // 2,
        lambda x, i: i / 2,
        lambda x, i: i // 0,
        lambda x, i: i // -2,
        lambda x, i: i % i,
        lambda x, i: i + 0.5,
        lambda x, i: ex.const(math.inf, "int32"),
        lambda x, i: i**0.5,
        lambda x, i: i**9,
        lambda x, i: x & x,
        lambda x, i: (i < 1) + (i < 2),
        lambda x, i: -(i < 1),
        lambda x, i: ex.select(x, x, x),
        lambda x, i: ex.unary("exp", i),
        lambda x, i: ex.cast(x, "float99"),
        lambda x, i: x + "1",
        lambda x, i: x if x > 0 else -x,
        lambda x, i: 0 < i < 3,
    ],
)
def test_ill_typed_expressions_are_refused(build):
    with pytest.raises(TypeError):
        build(f32("x"), ex.axis("i"))


def test_whole_tensors_and_indices_mix():
    t = ex.load("x0", "int32", (ex.axis("i"),))
    assert (t + ex.axis("i")).dtype == "index"
    assert (t * 2).dtype == "int32"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 1e-300, 0.1])
def test_unusual_constants_survive_json(value):
    e = Expr.from_json(json.loads(json.dumps(const(value, "float64").to_json(), allow_nan=False)))
    assert repr(e.value) == repr(value)
    assert same(e, const(value, "float64"))


def test_zero_and_minus_zero_differ():
    assert not same(const(0.0, "float32"), const(-0.0, "float32"))
    assert not same(const(1, "int32"), const(1, "int64"))


def test_integers_are_known():
    assert {ex.ITEMSIZE[d] for d in INTEGERS if d not in ex.PACKED} == {1, 2, 4, 8}
