"""What the language refuses: an error that names the operator, the expression and the rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.core import OperatorError, UsageError
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator

Body = Callable[[te.TensorRef, te.Expr, te.Expr], Any]

REFUSED: dict[str, tuple[Body, tuple[str, ...]]] = {
    "a function of numpy": (lambda x, i, j: np.exp(x[i, j]), ("np.exp", "x[i0, i1]", "te.abs exp")),
    "a function of math": (lambda x, i, j: math.exp(x[i, j]), ("x[i0, i1]", "te.abs exp")),
    "numpy's where": (lambda x, i, j: np.where(x[i, j] > 0, 1.0, 2.0), ("te.select",)),
    "numpy's sum": (lambda x, i, j: np.sum(x[i, j]), ("np.add",)),
    "python's max": (lambda x, i, j: max(x[i, j], 0.0), ("te.maximum", "x[i0, i1]")),
    "and": (lambda x, i, j: te.select(x[i, j] > 0 and x[i, j] < 1, x[i, j], 0.0), ("& | ~",)),
    "a chain of comparisons": (lambda x, i, j: te.select(0 < x[i, j] < 1, x[i, j], 0.0), ("te.select",)),
    "round": (lambda x, i, j: round(x[i, j]), ("x[i0, i1]",)),
    "float": (lambda x, i, j: float(x[i, j]), ("x[i0, i1]",)),
    "an axis as a size": (lambda x, i, j: sum(x[i, k] for k in range(j)), ("i1", "fixed numbers")),
    "a complex number": (lambda x, i, j: x[i, j] * 1j, ("1j", "real number")),
    "a text": (lambda x, i, j: x[i, j] + "a", ("'a'",)),
    "an array": (lambda x, i, j: x[i, j] * np.ones(3), ("ndarray",)),
    "a slice": (lambda x, i, j: x[i, 0:2], ("slice(0, 2, None)", "one whole number", "te.sum")),
    "an ellipsis": (lambda x, i, j: x[..., j], ("Ellipsis",)),
    "no axis": (lambda x, i, j: x[i, None], ("None",)),
    "a real index": (lambda x, i, j: x[i, 1.5], ("1.5", "whole number")),
    "a real value as an index": (lambda x, i, j: x[i, x[i, j]], ("x[i0, i1]", "whole number")),
    "a product of axes": (lambda x, i, j: x[i, te.minimum(i * j, 4)], ("multiplies two axes",)),
    "division of axes": (lambda x, i, j: x[i, j / 2], ("i1 / 2", "use //")),
    "division by an axis": (lambda x, i, j: x[i, 7 // (j + 1)], ("(i1 + 1)", "outside the language")),
    "remainder of a real": (lambda x, i, j: x[i, j] % 2, ("x[i0, i1]", "te.floor")),
    "a power of an axis": (lambda x, i, j: x[i, j**9], ("pow", "i1 is index", "1 to 8")),
    "a power of a text": (lambda x, i, j: x[i, j] ** "2", ("'2'", "real number")),
    "a shift": (lambda x, i, j: x[i, j << 1], ("i1", "outside the language")),
    "two types": (lambda x, i, j: x[i, j] + te.cast(x[i, j], "float64"), ("float32", "float64", "te.cast")),
    "arithmetic of conditions": (lambda x, i, j: (x[i, j] > 0) + 1, ("(x[i0, i1] > 0.0)", "te.select")),
    "a number as a condition": (lambda x, i, j: te.select(x[i, j], 1.0, 2.0), ("x[i0, i1] is float32",)),
    "logic of numbers": (lambda x, i, j: te.select(x[i, j] & x[i, j], 1.0, 2.0), ("x[i0, i1]", "is a number")),
    "a whole tensor": (lambda x, i, j: x * 2.0, ("x is a tensor", "x[i, j]")),
    "a number times a tensor": (lambda x, i, j: 2.0 * x, ("x is a tensor",)),
    "numpy of a tensor": (lambda x, i, j: np.exp(x), ("x is a tensor",)),
    "an element of a value": (lambda x, i, j: x[i, j][0], ("x[i0, i1]", "index the tensor once")),
    "iteration over a value": (lambda x, i, j: list(x[i, j]), ("x[i0, i1]", "te.sum")),
    "nothing": (lambda x, i, j: None, ("None", "not an expression")),
    "several values": (lambda x, i, j: (x[i, j], x[i, j]), ("tuple", "not an expression")),
    "a list in a sum": (lambda x, i, j: te.sum(3, lambda k: [x[i, k]]), ("list", "not an expression")),
    "a reduction in an expression": (lambda x, i, j: te.sum(3, lambda k: x[i, k]) + 1.0, ("whole value",)),
    "an unknown type": (lambda x, i, j: te.cast(x[i, j], "complex64"), ("complex64", "float32")),
    "too few indices": (lambda x, i, j: x[i], ("2 axes", "1 indices")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_expression_outside_the_language(what: str) -> None:
    body, said = REFUSED[what]

    @operator
    def mine(n: int) -> te.TensorRef:
        x = te.input("x", (n, 5))
        return te.compute((n, 5), lambda i, j: body(x, i, j))

    with pytest.raises(OperatorError) as caught:
        mine.workload(n=4)
    text = str(caught.value)
    assert text.startswith("mine (")
    assert "test_te_errors.py" in text
    for part in said:
        assert part in text, text
    assert caught.value.hint
    assert "\n" not in text


@pytest.mark.parametrize(
    "body",
    [
        lambda x, i, j: np.float32(2) * x[i, j] - np.float64(1),
        lambda x, i, j: np.add(x[i, j], np.float32(1)),
        lambda x, i, j: te.select(np.float32(0) < x[i, j], abs(x[i, j]), math.nan),
        lambda x, i, j: x[np.int64(1), (np.int64(1) + j) % 5],
        lambda x, i, j: sum(x[i, k] for k in range(5)),
        lambda x, i, j: x[i, j] ** 0.5 + 2 ** x[i, j] + x[i, j] ** -1 + x[i, j] ** 99,
    ],
)
def test_numbers_of_numpy_and_loops_of_python_are_welcome(body: Body) -> None:
    x = te.input("x", (4, 5))
    program, _ = te.program(te.compute((4, 5), lambda i, j: body(x, i, j)))
    assert program.output.dtype == "float32"


def test_arguments_over_two_to_the_31_elements_are_refused_and_stages_are_not() -> None:
    @operator
    def wide(n: int) -> te.TensorRef:
        x = te.input("x", (n, n))
        return te.compute((n,), lambda i: te.sum(n, lambda r: x[i, r]))

    with pytest.raises(UsageError, match="wide: tensor x has 65536x65536") as caught:
        wide.workload(n=1 << 16)
    assert "split it" in caught.value.hint

    @operator
    def long(n: int) -> te.TensorRef:
        x = te.input("x", (n,))
        return te.compute((n, n), lambda i, j: x[i] * x[j])

    with pytest.raises(UsageError, match="long"):
        long.workload(n=1 << 16)

    @operator
    def between(n: int) -> te.TensorRef:
        x = te.input("x", (n,))
        s = te.compute((n, n), lambda i, j: x[i] * x[j])
        return te.compute((n,), lambda i: te.max(n, lambda j: s[i, j]))

    assert between.workload(n=1 << 16).output.shape == (1 << 16,)


def _twice(n: int) -> Any:
    x = te.input("x", (n,))
    y = te.compute((n,), lambda i: x[i] * 2.0)
    return y, y


def _partly(n: int) -> Any:
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: x[i] * 2.0), x


def _number(n: int) -> Any:
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: x[i] * 2.0), n


def _nothing(n: int) -> Any:
    te.input("x", (n,))
    return ()


def _itself(n: int) -> te.TensorRef:
    x = te.input("x", (n,))
    y: te.TensorRef = te.compute((n,), lambda i: x[i] + y[i - 1])
    return y


def _unknown(n: int) -> te.TensorRef:
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: te.sine(x[i]))


def _strange(n: int) -> te.TensorRef:
    return nn.logsumexps(te.input("x", (n,)))  # type: ignore[no-any-return]


def _outside(n: int) -> te.TensorRef:
    x = te.input("x", (n,))
    y = te.compute((n,), lambda i: x[i] * 2.0, name="y")
    return te.compute((n,), lambda i: y[i + 1])


@pytest.mark.parametrize(
    ("define", "line", "message"),
    [
        (_twice, 0, "the operator returns one tensor twice. Return each tensor once"),
        (_partly, 0, "the operator returns an input unchanged. Return a te.compute(...)"),
        (_number, 0, "the operator returns int, not a tensor. Return a te.compute(...)"),
        (_nothing, 0, "the operator returns 0 tensors. Return one te.compute(...), or up to 8"),
        (_itself, 2, "y is read before it is defined, and a te.compute cannot read itself. A recurrence along an axis is a "
                     'te.scan, as in te.scan("sum", i, x[i]), or one with a te.monoid'),
        (_unknown, 2, "te has no function 'sine'. Did you mean te.sin?"),
        (_strange, 1, "nn has no function 'logsumexps'. Did you mean nn.logsumexp?"),
        (_outside, 3, "y is read at 4 along axis 0, which has 4 elements. Guard the read with te.select(condition, read, "
                      "other), or clamp the index with te.maximum and te.minimum"),
    ],
)  # fmt: skip
def test_what_to_write_instead(define: Callable[[int], Any], line: int, message: str) -> None:
    with pytest.raises(OperatorError) as error:
        operator(define).workload(n=4)
    where = f"{__file__}:{define.__code__.co_firstlineno + line}"
    assert str(error.value) == f"{define.__name__} ({where}): {message}"


def test_a_function_that_is_far_from_all() -> None:
    with pytest.raises(AttributeError, match=r"^te has no function 'zzz'\. It has abs, argmax") as error:
        te.zzz  # noqa: B018
    assert isinstance(error.value, OperatorError)
    assert not hasattr(te, "zzz")


def test_an_operator_that_is_called_with_arrays() -> None:
    with pytest.raises(UsageError, match="was called with arrays, but takes sizes") as error:
        operator(_unknown)(np.ones((300, 300)))
    assert "tilewright.autotune(_unknown)" in str(error.value)
    assert len(str(error.value)) < 300
