"""Parts as kernels: digits of fused indices, what an int holds, element types, accumulators."""

from __future__ import annotations

from tilewright.kernels.expression.expr import axis, load
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.te import argmax, compute, input, program
from tilewright.kernels.templates.cuda.kernels import digits, fits, supported
from tilewright.kernels.templates.cuda.reduction import Accumulators

A = axis("i")


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
