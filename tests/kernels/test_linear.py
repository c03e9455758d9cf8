"""Linear forms say what the expressions that they are read from do, at every point."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.kernels.expression.expr import Expr, axis, binary, cast, load, wrap
from tilewright.kernels.expression.linear import Linear, atom, flat_step, linearise, total
from tilewright.kernels.templates.cpu_contraction.match import evaluate_index

FIXED = settings(deadline=None, derandomize=True, max_examples=150)
A, J = axis("i"), axis("j")
POINTS = [{"i": i, "j": j} for i in (-3, 0, 1, 5) for j in (-2, 0, 4, 7)]


def indices(depth: int = 4) -> st.SearchStrategy[Expr]:
    leaf = st.one_of(st.sampled_from([A, J]), st.integers(-6, 6).map(wrap))
    if depth == 0:
        return leaf
    again = indices(depth - 1)
    return st.one_of(
        leaf,
        st.builds(binary, st.sampled_from(["add", "sub", "mul", "min", "max"]), again, again),
        st.builds(lambda a: -a, again),
        st.builds(binary, st.sampled_from(["floordiv", "mod"]), again, st.integers(1, 5)),
    )


def value(form: Linear, at: Mapping[str, int]) -> int:
    rest = sum(c * evaluate_index(e, at) for e, c in form.rest)
    return form.const + rest + sum(c * at[a] for a, c in form.axes.items())


def check(form: Linear, wanted: Mapping[int, int]) -> None:
    """The form's values at ``POINTS``, that of its expression, and that nothing in it is of no use."""
    assert {n: value(form, p) for n, p in enumerate(POINTS)} == wanted
    assert {n: evaluate_index(form.expr(), p) for n, p in enumerate(POINTS)} == wanted
    assert all(form.coef.values())
    assert set(form.atoms) == {n for n in form.coef if n not in ("i", "j")}
    assert all(repr(e) == n for n, e in form.atoms.items())


def values(e: Expr) -> dict[int, int]:
    return {n: evaluate_index(e, p) for n, p in enumerate(POINTS)}


@FIXED
@given(indices())
def test_a_form_has_the_expressions_values(e: Expr) -> None:
    form = linearise(e)
    check(form, values(e))
    assert linearise(form.expr()) == form
    check(form.ordered(), values(e))
    assert [n for n in form.ordered().coef if n in form.axes] == sorted(form.axes)


@FIXED
@given(indices(3), indices(3), st.integers(-4, 4))
def test_arithmetic_is_that_of_the_values(e: Expr, f: Expr, k: int) -> None:
    a, b = linearise(e), linearise(f)
    check(a.plus(b, k), values(e + f * k))
    check(a.plus(k), values(e + k))
    check(a.times(k), values(e * k))
    check(total(((e, k), (f, 3))), values(e * k + f * 3))


@FIXED
@given(indices(), st.integers(1, 6))
def test_a_form_is_its_quotient_and_what_is_left(e: Expr, by: int) -> None:
    quotient, left = linearise(e).divided(by)
    check(quotient.times(by).plus(left), values(e))
    assert 0 <= left.const < by
    assert all(c % by for c in left.coef.values())


@FIXED
@given(indices(), st.integers(-4, 4))
def test_a_step_is_what_a_step_adds(e: Expr, by: int) -> None:
    form = linearise(e)
    step = form.step("i")
    moved = [evaluate_index(e, {**p, "i": p["i"] + 1}) - evaluate_index(e, p) for p in POINTS]
    if step is None:
        assert "i" in form.opaque
        return
    assert moved == [step] * len(POINTS)
    check(form.without("i"), values(e.substitute({"i": wrap(0)})))
    check(form.substitute("i", linearise(J * 2 + by)), values(e.substitute({"i": J * 2 + by})))


@pytest.mark.parametrize(
    ("e", "const", "coef"),
    [
        (A * 3 + J - 2, -2, {"i": 3, "j": 1}),
        (-(J * 2) + J + J, 0, {}),
        ((A + 1) * 4 - (J - 1), 5, {"i": 4, "j": -1}),
        ((A // 2) * 6 + A, 0, {"(i // 2)": 6, "i": 1}),
        ((A * J) * 2, 0, {"(i * j)": 2}),
        ((A - A + 3) * J, 0, {"j": 3}),
    ],
)
def test_expressions_have_linear_forms(e: Expr, const: int, coef: dict[str, int]) -> None:
    assert linearise(e) == Linear(const, coef)


def test_equal_terms_are_one() -> None:
    read = cast(load("t", "int32", (A,)), "index")
    form = linearise(read * 2 + J + cast(load("t", "int32", (A,)), "index"))
    ((term, factor),) = form.rest
    assert (repr(term), factor, form.of("j")) == (repr(read), 3, 1)
    assert (form.step("j"), form.step("i"), form.step("k")) == (1, None, 0)
    assert [repr(e) for e, _ in form.terms] == [repr(read), "j"]
    assert linearise(read - read) == Linear()


def test_a_reader_says_what_a_term_is() -> None:
    def halved(e: Expr) -> Linear:
        """Halves of even multiples."""
        inner = linearise(e.args[0], halved)
        quotient, left = inner.divided(2)
        return quotient if e.op == "floordiv" and left == Linear() else atom(e)

    assert linearise((A * 4 + J * 2) // 2 - J, halved) == Linear(0, {"i": 2})
    assert linearise((A * 4 + J) // 2, halved).axes == {}


def test_steps_of_flat_positions() -> None:
    assert flat_step((A, J * 2), (10, 1), "j") == 2
    assert flat_step((A, J * 2), (10, 1), "i") == 10
    assert flat_step((A % 4, J), (10, 1), "i") is None
    assert flat_step((A // 2, J), (10, 1), "j") == 1
    assert flat_step((), (), "i") == 0
