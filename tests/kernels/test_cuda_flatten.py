"""Positions in flat tensors, axes walked as one, parts as kernels."""

from __future__ import annotations

import pytest

from tilewright.kernels.expression.expr import Expr, axis, cast, load
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.te import argmax, compute, input, maximum, minimum, program, select
from tilewright.kernels.templates.cuda.flatten import collapse, flat, linear, position
from tilewright.kernels.templates.cuda.kernels import digits, fits, supported
from tilewright.kernels.templates.cuda.reduction import Accumulators

A, J, K = axis("i"), axis("j"), axis("k")
T = Tensor("x", (6, 20), "float32")


@pytest.mark.parametrize(
    ("index", "const", "steps"),
    [
        ((A, J), 0, {"i": 20, "j": 1}),
        ((A - 1, J * 2 + 3), -17, {"i": 20, "j": 2}),
        (((A * 8 + J) // 20, (A * 8 + J) % 20), 0, {"i": 8, "j": 1}),
        (((A * 8 + J) // 20, (A * 8 + J) % 20 - 1), -1, {"i": 8, "j": 1}),
        ((A // 2, (A % 2) * 10 + J), 0, {"i": 10, "j": 1}),
    ],
)
def test_positions(index: tuple[Expr, Expr], const: int, steps: dict[str, int]) -> None:
    found = position(load("x", "float32", index), T)
    assert found.const == const
    assert not found.rest
    assert {a: found.of(a) for a in steps} == steps


def test_positions_that_are_no_linear_form_keep_their_terms() -> None:
    table = load("t", "int32", (A,))
    found = position(load("x", "float32", (minimum(maximum(cast(table, "index"), 0), 5), J)), T)
    assert found.step("j") == 1
    assert found.step("i") is None
    ((_, step),) = found.rest
    assert step == 20
    assert linear((A + J) % 7).step("i") is None


def test_axes_that_every_read_fuses_are_one() -> None:
    reads = flat(load("x", "float32", (A, J)) + load("y", "float32", (A, J)), {"x": T, "y": Tensor("y", (6, 20), "f")})
    (merged,), (axes,) = collapse((reads,), ((("i", 6), ("j", 20)),))
    assert axes == (("j", 120),)
    assert repr(merged) == "(x[j] + y[j])"
    (kept,), (axes,) = collapse((select(A < J, reads, 0.0),), ((("i", 6), ("j", 20)),))
    assert axes == (("i", 6), ("j", 20))
    assert kept.axes() == {"i", "j"}
    (single,), (axes,) = collapse((load("x", "float32", (A * 20 + K,)),), ((("i", 1), ("k", 20)),))
    assert (repr(single), axes) == ("x[k]", (("k", 20),))


def test_digits() -> None:
    assert digits(("a", "b", "c"), (5, 1, 7), "e", False) == {
        "a": "int(unsigned(e) / 7u)", "b": "0", "c": "int(unsigned(e) % 7u)",
    }  # fmt: skip
    assert digits(("a", "b"), (5, 7), "e", True) == {"a": "e / 7L", "b": "e % 7L"}
    assert digits(("a",), (5,), "e", False) == {"a": "e"}
    assert digits((), (), "e", False) == {}


def test_indices_that_no_int_holds() -> None:
    big = {"x": Tensor("x", ((1 << 31) - 8,), "int8")}
    assert not fits(big, (load("x", "int8", (A,)),), {"i": 4}, (4,))
    assert not fits({}, (A * 1000000,), {"i": 1 << 20}, (4,))
    assert fits({}, (A * 1000,), {"i": 1 << 20}, (4,))


def test_element_types() -> None:
    x = input("x", (4,))
    assert supported(program(compute((4,), lambda i: x[i] * 2.0))[0])
    eight = Program((Tensor("x0", (4,), "float8_e5m2"),), program(compute((4,), lambda i: x[i] * 2.0))[0].stages)
    assert not supported(eight)


def test_components_are_combined_before_they_are_replaced() -> None:
    x = input("x", (9,))
    made = program(compute((), lambda: argmax(9, lambda r: x[r])))[0]
    monoid = made.stages[0].monoid
    assert monoid is not None
    acc = Accumulators(made, monoid)
    assert acc.types == ("float", "long")
    assert (acc.slot, acc.bytes) == (8, 16)
    lines = acc.combine(("p", "q"), "").splitlines()
    assert [x.split(" = ")[0] for x in lines[-2:]] == ["a0", "a1"]
    assert not acc.ordered
    assert acc.across(1, "") == ""
