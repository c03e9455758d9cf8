"""Programs: normal form, JSON, operation counts."""

from __future__ import annotations

import json

from tilewright.kernels import te
from tilewright.kernels.expression.expr import Expr, const
from tilewright.kernels.expression.program import (
    Monoid,
    Program,
    Stage,
    Tensor,
    count_ops,
    flops_per_point,
    strides_of,
)


def dense(m: int = 4, n: int = 5, k: int = 6) -> Program:
    a, b, c = te.input("a", (m, k)), te.input("b", (k, n)), te.input("c", (n,))
    d = te.compute((m, n), lambda i, j: te.sum(k, lambda r: a[i, r] * b[r, j]))
    return te.program(te.compute((m, n), lambda i, j: te.maximum(d[i, j] + c[j], 0.0)))[0]


def test_a_program_is_read_back_from_json():
    p = dense()
    text = p.dumps()
    again = Program.loads(text)
    assert again.dumps() == text
    assert json.loads(text) == json.loads(json.dumps(p.to_json()))
    assert Program.loads(text) is again
    assert [t.name for t in again.inputs] == ["x0", "x1", "x2"]
    assert again.output == Tensor("s1", (4, 5), "float32")
    assert set(again.tensors) == {"x0", "x1", "x2", "s0", "s1"}


def test_operations_of_a_program_are_counted():
    p = dense()
    assert flops_per_point(p.stages[0]) == 2
    assert flops_per_point(p.stages[1]) == 2
    assert p.flops == 4 * 5 * 6 * 2 + 4 * 5 * 2
    x = Expr("var", "float32", (), "x")
    y = x * 2.0 + 1.0
    assert count_ops(y * y) == 3  # the repeated part once
    assert count_ops(Program.loads(p.dumps()).stages[1].body[0]) == 2
    i = Expr("axis", "index", (), "i0")
    assert count_ops(te.select(i + 1 < 4, te.cast(x, "float64"), 0.0)) == 0
    argmax = te.program(te.compute((2,), lambda i: te.argmax(9, lambda r: te.input("x", (9,))[r])))[0]
    assert flops_per_point(argmax.stages[0]) == 1  # at least one a point


def test_a_stage_knows_its_axes_and_ranges():
    stage = dense().stages[0]
    assert stage.axes == ("i0", "i1")
    assert stage.reduce_axes == ("r0",)
    assert stage.ranges == {"i0": 4, "i1": 5, "r0": 6}
    assert stage.points == 120
    assert [x.value for x in stage.loads()] == ["x0", "x1"]
    assert Stage.from_json(stage.to_json()).to_json() == stage.to_json()


def test_strides_of_a_tensor_are_row_major():
    assert strides_of((2, 3, 4)) == (12, 4, 1)
    assert strides_of(()) == ()
    assert Tensor("x", (), "float32").size == 1


def test_monoid_round_trip():
    m = te.monoid("pair", (0.0, float("-inf")), lambda a, b: (a[0] + b[0], te.maximum(a[1], b[1])))
    again = Monoid.from_json(json.loads(json.dumps(m.to_json(), allow_nan=False)))
    assert again.to_json() == m.to_json()
    assert again.identity[1].value == float("-inf")
    assert const(0.0, "float32").to_json() == again.identity[0].to_json()


def test_scales_of_blocks_are_no_operations_of_each_step() -> None:
    x, w, s = te.input("x", (8, 64)), te.input("w", (64, 6)), te.input("s", (4, 6))
    by_block = te.compute((8, 6), lambda i, j: te.sum(64, lambda r: x[i, r] * (w[r, j] * s[r // 16, j])))
    each = te.compute((8, 6), lambda i, j: te.max(64, lambda r: x[i, r] * (w[r, j] * s[r // 16, j])))
    assert te.program(by_block)[0].flops == 8 * 6 * 64 * 2
    assert te.program(each)[0].flops == 8 * 6 * 64 * 3  # of a maximum they are
