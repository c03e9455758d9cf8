"""Rewrites of programs: the same values, in the same memory, for any program they are given."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from contraction_programs import capsule, conv, transposed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.kernels import te
from tilewright.kernels.expression.expr import Expr, axis, compare, const, select
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate
from tilewright.kernels.rewrite import inlined, normal_forms, simplified, split, squeezed
from tilewright.kernels.templates.cpu_contraction.match import evaluate_index
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.kernels import random_arrays
from tilewright.testing.programs import PROGRAMS


def same_values(one: Program, other: Program, seed: int = 0) -> None:
    """Both programs give equal elements in equal places of memory."""
    inputs = random_arrays(one, seed)
    assert one.inputs == other.inputs
    x, y = np.asarray(evaluate(one, inputs)), np.asarray(evaluate(other, inputs))
    assert x.size == y.size
    np.testing.assert_allclose(y.reshape(-1), x.reshape(-1), rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------ simplify


def text(e: Expr, **extents: int) -> str:
    return repr(simplified(e, extents))


def test_what_the_divisor_divides_leaves_the_division() -> None:
    q, f = axis("q"), axis("f")
    assert text((q * 2 + f + 1) // 2, q=5, f=2) == "(q + ((f + 1) // 2))"
    assert text((q * 2 + f + 1) % 2, q=5, f=2) == "((f + 1) % 2)"
    assert evaluate_equal((q * 6 - 7 + f) // 3, {"q": 5, "f": 9})


def test_divisions_within_one_multiple_vanish() -> None:
    q, f = axis("q"), axis("f")
    assert text((q * 4 + f) // 4, q=3, f=4) == "q"
    assert text((q * 4 + f) % 4, q=3, f=4) == "f"
    assert text((f + 8) % 4, f=4) == "f"


def test_sums_are_collected() -> None:
    a, b = axis("a"), axis("b")
    assert text(a + b - a, a=3, b=3) == "b"
    assert text((a + 1) * 2 - 2, a=3) == "(a * 2)"
    assert text(a - a, a=3) == "0"


def test_conditions_that_always_hold_go() -> None:
    a, b = axis("a"), axis("b")
    always, sometimes = a < 5, b > 1
    e = select(always & sometimes, axis("a"), axis("b"))
    assert text(e, a=5, b=5) == "select((b > 1), a, b)"
    assert text(select(always, axis("a"), axis("b")), a=5, b=5) == "a"
    assert text(select(~always, axis("a"), axis("b")), a=5, b=5) == "b"
    assert text(select(~always | sometimes, axis("a"), axis("b")), a=5, b=5) == "select((b > 1), a, b)"


OUTCOMES = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


@pytest.mark.parametrize("op", OUTCOMES)
def test_comparisons_go_where_every_position_agrees_and_nowhere_else(op: str) -> None:
    a, b = axis("a"), axis("b")
    for k in range(-2, 7):
        e = select(compare(op, a, const(k, "index")), a, b)
        outcomes = {OUTCOMES[op](i, k) for i in range(5)}
        known = "" if len(outcomes) > 1 else "a" if True in outcomes else "b"
        assert text(e, a=5, b=5) == (known or repr(e)), k


def evaluate_equal(e: Expr, extents: dict[str, int]) -> bool:
    short = simplified(e, extents)
    names = list(extents)
    return all(
        evaluate_index(e, dict(zip(names, p, strict=True))) == evaluate_index(short, dict(zip(names, p, strict=True)))
        for p in np.ndindex(*extents.values())
    )


EXTENTS = {"a": 5, "b": 3, "c": 2}
indices = st.recursive(
    st.sampled_from([axis(x) for x in EXTENTS]),
    lambda inner: st.one_of(
        st.builds(lambda x, y: x + y, inner, inner),
        st.builds(lambda x, y: x - y, inner, inner),
        st.builds(lambda x, k: x * k, inner, st.integers(-4, 4)),
        st.builds(lambda x, k: x + k, inner, st.integers(-9, 9)),
        st.builds(lambda x, d: x // d, inner, st.integers(1, 6)),
        st.builds(lambda x, d: x % d, inner, st.integers(1, 6)),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(e=indices)
def test_any_index_keeps_its_value(e: Expr) -> None:
    assert evaluate_equal(e, EXTENTS)


# ------------------------------------------------------------------ split


def test_groups_and_phases_become_axes() -> None:
    grouped = split(conv(1, (8, 8), 16, 64, 3, 1, 1, groups=4))
    assert grouped.stages[0].extents == (1, 8, 8, 4, 16)
    phases = split(transposed(1, 4, 6, 3, 5, 4, 2, 1))
    assert phases.stages[0].extents == (1, 4, 2, 6, 2, 5)
    # The divisions that are left are functions of the phases alone.
    left = [e for e in phases.stages[0].body[0].walk() if e.op in ("floordiv", "mod")]
    assert left
    assert all(e.axes() <= {"i2", "i4"} for e in left)


def test_axes_whose_extent_the_divisor_does_not_divide_stay() -> None:
    p = transposed(1, 4, 4, 3, 5, 3, 2, 1)  # 7 x 7
    assert split(p) is p


def test_nested_divisions_split_twice() -> None:
    x = te.input("x", (4, 2, 3, 5))
    p, _ = te.program(te.compute((24,), lambda i: te.sum(5, lambda r: x[i // 6, i % 6 // 3, i % 3, r])))
    assert split(p).stages[0].extents == (4, 2, 3)
    same_values(p, split(p))


def test_divisors_that_do_not_nest_stay() -> None:
    x = te.input("x", (6, 4))
    p, _ = te.program(te.compute((24,), lambda i: te.sum(2, lambda r: x[i // 4, i % 6 // 2 + r])))
    assert split(p) is p


def test_only_chains_of_one_shape_are_split() -> None:
    x = te.input("x", (4, 6))
    y = te.compute((24,), lambda i: te.sum(2, lambda r: x[i // 6, i % 6]))
    p, _ = te.program(te.compute((12,), lambda i: y[2 * i]))
    assert split(p) is p


# ------------------------------------------------------------------ squeeze and inline


def test_axes_of_one_element_go() -> None:
    p = conv(1, (9,), 4, 6, 1)
    (stage,) = squeezed(p).stages
    assert (stage.extents, stage.reduce) == ((9, 6), (4,))
    x = te.input("x", (1, 1))
    one, _ = te.program(te.compute((1, 1), lambda i, j: te.sum((1, 1), lambda r, s: x[i + r, j + s])))
    (stage,) = squeezed(one).stages
    assert (stage.extents, stage.reduce) == ((1,), (1,))


def test_maps_in_front_are_inlined() -> None:
    x = te.input("x", (6, 5))
    turned = te.compute((5, 6), lambda i, j: x[j, i] * 2.0)
    p, _ = te.program(te.compute((5,), lambda i: te.sum(6, lambda r: turned[i, r])))
    assert len(inlined(p).stages) == 1
    same_values(p, inlined(p))


@pytest.mark.parametrize("name", [n for n, made in (PROGRAMS | CONTRACTIONS).items() if not made().results])
def test_every_normal_form_computes_the_program(name: str) -> None:
    p = (PROGRAMS | CONTRACTIONS)[name]()
    for other in normal_forms(p):
        same_values(p, other)


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_convolution_keeps_its_values(data: st.DataObject) -> None:
    def pick(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    kind = data.draw(st.sampled_from(["plain", "transposed", "capsule"]))
    k, stride, pad = pick(1, 3), pick(1, 3), pick(0, 1)
    p: Any
    if kind == "plain":
        g = pick(1, 3)
        p = conv(pick(1, 2), (pick(3, 5), pick(3, 5)), 2 * g, 2 * g, k, stride, pad, groups=g, epilogue="br")
    elif kind == "transposed":
        k = max(k, 2)
        p = transposed(1, pick(2, 4), pick(2, 4), 2, 3, k, stride, pad, extra=pick(0, stride - 1))
    else:
        p = capsule(1, pick(3, 5), pick(3, 5), 2, 2, k, stride, pad, 2)
    for other in normal_forms(p):
        same_values(p, other)
