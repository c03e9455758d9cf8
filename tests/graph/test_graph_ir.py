"""Graphs are checked as they are built."""

from __future__ import annotations

import numpy as np
import pytest
import small_graphs as graphs

from tilewright.core import UsageError
from tilewright.graph import OPERATIONS, GraphBuilder
from tilewright.kernels.anonymous import from_program


def test_shapes_follow_from_the_operations() -> None:
    graph = graphs.encoder_layer()
    assert graph.values[graph.outputs[0]].shape == (1, 16, 32)
    assert {graph.values[n.output].dtype for n in graph.nodes} == {"float32"}


def test_what_nothing_reads_is_left_out() -> None:
    b = GraphBuilder()
    x = b.input("x", (4,), "float32")
    b.constant("unread", np.ones(3))
    b.add("exp", [x])
    assert [n.operation for n in b.build([b.add("relu", [x])]).nodes] == ["relu"]


@pytest.mark.parametrize(
    ("operation", "inputs", "attributes", "said"),
    [
        ("rellu", ["x"], {}, "no operation 'rellu'"),
        ("relu", ["y"], {}, "reads 'y', which is not a value yet"),
        ("matmul", ["x", "x"], {}, "cannot multiply"),
        ("add", ["x", "w"], {}, "do not stretch to one shape"),
        ("reshape", ["x"], {"shape": (5,)}, "does not become"),
        ("slice", ["x"], {"dim": 1, "start": 9, "end": 12}, "selects nothing"),
        ("relu", ["x"], {"slope": 1}, "slope"),
        ("relu", ["n"], {}, "input is int64"),
        ("pow", ["n", "n"], {}, "an operand has a whole-number type"),
        ("add", ["x", "n"], {}, "float32 and int64"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(operation: str, inputs: list[str], attributes: dict[str, object], said: str) -> None:
    b = GraphBuilder()
    b.input("x", (4, 8), "float32")
    b.input("n", (4, 8), "int64")
    b.constant("w", np.ones((3, 3), np.float32))
    with pytest.raises(UsageError, match=said):
        b.add(operation, inputs, attributes)


def test_a_name_is_defined_once_and_outputs_exist() -> None:
    b = GraphBuilder()
    b.input("x", (4,), "float32")
    with pytest.raises(UsageError, match="defined twice"):
        b.input("x", (4,), "float32")
    with pytest.raises(UsageError, match="no outputs"):
        b.build([])
    with pytest.raises(UsageError, match="not a value yet"):
        b.build(["y"])


UNARY = ["neg", "abs", "exp", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "relu", "silu", "erf", "floor", "log",
         "softplus", "gelu", "hardswish", "hardsigmoid", "elu", "leaky_relu"]  # fmt: skip


def test_every_unary_operation_keeps_shape_and_type() -> None:
    for dtype in ("float32", "float16", "bfloat16"):
        b = GraphBuilder()
        x = b.input("x", (4, 8), dtype)
        for name in UNARY:
            made = b.values[b.add(name, [x])]
            assert (made.shape, made.dtype) == ((4, 8), dtype), name
    assert set(UNARY) <= set(OPERATIONS)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[[],[]]", '[[["x0",[4],"float32"]],[[]]]'])
def test_a_damaged_program_is_no_operator(text: str) -> None:
    from tilewright.core import OperatorError

    with pytest.raises(OperatorError, match="program of f"):
        from_program("f", text)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "float64", "float32", "float16", "bool"])
def test_numbers_beside_conditions_alone_keep_their_own_type(dtype: str) -> None:
    b = GraphBuilder()
    c = b.input("c", (4,), "bool")
    x, y = (b.constant(n, np.array(v, dtype)) for n, v in (("x", 1), ("y", 0)))
    assert b.values[b.add("where", [c, x, y])].dtype == dtype


def test_what_is_added_before_an_error_is_taken_back() -> None:
    b = GraphBuilder()
    x = b.input("x", (4,), "float32")

    def add() -> None:
        with b.attempt():
            b.constant("k", np.ones(3, np.float32))
            b.add("add", [b.add("relu", [x], output="y"), "k"])

    with pytest.raises(UsageError):
        add()
    assert list(b.values) == ["x"]
    b.constant("k", np.ones(4, np.float32))
    b.add("add", [x, "k"], output="y", name="y")
    assert [n.operation for n in b.build(["y"]).nodes] == ["add"]
