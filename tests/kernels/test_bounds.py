"""Intervals hold every value, and reads are refused exactly where a point is outside."""

from __future__ import annotations

import operator as py
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core import OperatorError
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression.bounds import Bounds, check_reads
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.program import Stage

ROWS, TERMS = 7, 4
FIXED = settings(deadline=None, derandomize=True, max_examples=150)
Recipe = Any

_TWO = {"add": py.add, "sub": py.sub, "min": min, "max": max}
_COMPARE = {"lt": py.lt, "le": py.le, "gt": py.gt, "ge": py.ge, "eq": py.eq, "ne": py.ne}


def indices(depth: int = 3) -> st.SearchStrategy[Recipe]:
    leaf = st.one_of(st.just(("i",)), st.just(("r",)), st.tuples(st.just("const"), st.integers(-6, 6)))
    if depth == 0:
        return leaf
    again = indices(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(st.sampled_from(list(_TWO)), again, again),
        st.tuples(st.just("neg"), again),
        st.tuples(st.just("mul"), again, st.integers(-3, 3)),
        st.tuples(st.sampled_from(["floordiv", "mod"]), again, st.integers(1, 5)),
    )


def conditions(depth: int = 2) -> st.SearchStrategy[Recipe]:
    leaf = st.tuples(st.sampled_from(list(_COMPARE)), indices(2), indices(1))
    if depth == 0:
        return leaf
    again = conditions(depth - 1)
    return st.one_of(leaf, st.tuples(st.sampled_from(["and", "or"]), again, again), st.tuples(st.just("not"), again))


def build(recipe: Recipe) -> Expr:
    op, *rest = recipe
    if op in ("i", "r"):
        return ex.axis(f"{op}0")
    if op == "const":
        return ex.wrap(rest[0])
    if op == "mul":
        return build(rest[0]) * rest[1]
    if op in ("floordiv", "mod"):
        return ex.binary(op, build(rest[0]), rest[1])
    if op == "neg":
        return -build(rest[0])
    if op in _COMPARE:
        return ex.compare(op, build(rest[0]), build(rest[1]))
    if op in ("and", "or", "not"):
        return ex.logic(op, *map(build, rest))
    return ex.binary(op, build(rest[0]), build(rest[1]))


def value(recipe: Recipe, i: int, r: int) -> int:
    op, *rest = recipe
    again = lambda part: value(part, i, r)  # noqa: E731
    if op in ("i", "r"):
        return i if op == "i" else r
    if op == "const":
        return rest[0]
    if op == "mul":
        return again(rest[0]) * rest[1]
    if op in ("floordiv", "mod"):
        return again(rest[0]) // rest[1] if op == "floordiv" else again(rest[0]) % rest[1]
    if op == "neg":
        return -again(rest[0])
    if op == "not":
        return not again(rest[0])
    a, b = again(rest[0]), again(rest[1])
    if op in ("and", "or"):
        return (a and b) if op == "and" else (a or b)
    return (_COMPARE | _TWO)[op](a, b)


POINTS = [(i, r) for i in range(ROWS) for r in range(TERMS)]


@FIXED
@given(indices(4))
def test_intervals_hold_every_value(recipe):
    low, high = Bounds({"i0": (0, ROWS - 1), "r0": (0, TERMS - 1)}).of(build(recipe))
    assert all(low <= value(recipe, i, r) <= high for i, r in POINTS)


@FIXED
@given(indices(3), conditions(), st.booleans())
def test_intervals_hold_where_a_condition_does(recipe, condition, holds):
    bounds = Bounds({"i0": (0, ROWS - 1), "r0": (0, TERMS - 1)})
    low, high = bounds.of(build(recipe), bounds.facts(build(condition), holds, {}))
    taken = [value(recipe, i, r) for i, r in POINTS if bool(value(condition, i, r)) == holds]
    assert all(low <= v <= high for v in taken)


@FIXED
@given(indices(3), conditions(), conditions(0), st.integers(1, 12))
def test_a_read_is_refused_exactly_where_a_point_is_outside(recipe, outer, inner, extent):
    """The read stands in the first branch of one select within the second branch of another."""
    read = ex.load("x0", "float32", (build(recipe),))
    body = ex.select(build(outer), 0.0, ex.select(build(inner), read, 1.0))
    stage = Stage("s0", (ROWS, TERMS), (), (body.substitute({"r0": ex.axis("i1")}),), "float32")
    outside = any(
        not 0 <= value(recipe, i, r) < extent for i, r in POINTS if not value(outer, i, r) and value(inner, i, r)
    )
    try:
        check_reads(stage, {"x0": (extent,)})
        refused = False
    except OperatorError:
        refused = True
    assert refused == outside
