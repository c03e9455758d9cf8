"""Parts as kernels: digits of fused indices, what an int holds, element types, accumulators."""

from __future__ import annotations

from tilewright.kernels.expression.expr import axis, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.te import argmax, compute, input, program
from tilewright.kernels.templates.cuda.functions import Function
from tilewright.kernels.templates.cuda.grid import Grid
from tilewright.kernels.templates.cuda.kernels import fits, supported
from tilewright.kernels.templates.cuda.reduction import Accumulators
from tilewright.kernels.templates.cuda.runs import Run
from tilewright.kernels.templates.cuda.text import Names, declarations, digits, printer

A = axis("i")


def test_digits_of_a_fused_index_are_printed() -> None:
    assert digits({"a": 5, "b": 1, "c": 7}, "e") == {
        "a": "int(unsigned(e) / 7u)", "b": "0", "c": "int(unsigned(e) % 7u)",
    }  # fmt: skip
    assert digits({"a": 5, "b": 7}, "e", wide=True) == {"a": "e / 7L", "b": "e % 7L"}
    assert digits({"a": 5}, "e") == {"a": "e"}
    assert digits({}, "e") == {}


def test_variables_that_are_used_are_declared_and_what_they_are_computed_from_is_used() -> None:
    used = {"b", "c"}
    texts = digits({"a": 5, "b": 1, "c": 7}, "e")
    declared = declarations(texts, used, "e", "", "long")
    assert declared == "const long b = 0;\nconst long c = int(unsigned(e) % 7u);\n"
    assert used == {"b", "c", "e"}
    used = {"b"}
    assert declarations(texts, used, "e") == "    const int b = 0;\n"
    assert used == {"b"}, "a constant is computed from nothing"


def test_a_printer_says_which_axes_and_tensors_its_text_uses() -> None:
    flat = Program((Tensor("x0", (5, 7), "float32"), Tensor("x1", (1,), "float32")), ())
    names = Names({"i": "ib", "j": "(j + 1)", "k": "k"}, set())
    p = printer(flat, {"i": 5, "j": 6, "k": 3}, names, {}, (), used=names.used)
    assert (
        p.scalar(load("x0", "float32", (axis("i"), axis("j")))) == "tw::load_global<float>(x0 + ((ib) * 7 + ((j + 1))))"
    )
    assert names.used == {"ib", "j", "x0"}
    p.scalar(load("x1", "float32", (axis("k"),)))
    assert names.used == {"ib", "j", "x0", "x1"}, "the index of one element is not printed"


def test_functions_take_what_they_use() -> None:
    taken = {"x": "int *x", "y": "int *y", "n": "int n", "k": "int k"}
    f = Function("f", "int", taken, "    return x[n];\n", {"n", "k", "x"})
    assert f.define() == "TW_DEVICE int f(int *x, int n, int k) {\n    return x[n];\n}\n"
    assert f.call(n="2", y="none") == "f(x, 2, k)"


def test_vectors_lie_in_order_at_their_multiples() -> None:
    row = Linear(0, {"i": 12, "j": 1})
    assert [Run((("j", 12),)).width(row, v, 4) for v in (1, 2, 4, 8)] == [1, 2, 4, 1]
    assert Run((("j", 12),)).width(row, 4, 8) == 2
    assert Run((("j", 12),)).width(row.plus(2), 4, 4) == 1
    assert Run((("j", 10),)).width(row, 4, 4) == 1
    assert Run((("j", 10),), ragged=True).width(row, 4, 4) == 4
    assert Run((("i", 3), ("j", 12))).width(row, 4, 4) == 4
    assert Run((("i", 3), ("j", 8))).step(row) is None
    odd = Linear(0, {"j": 1, "k": 5})
    assert Run((("j", 12),)).widest(odd, 1) == 1
    assert Run((("j", 12),), single=frozenset("k")).widest(odd, 1) == 4


def test_a_grid_has_a_place_for_every_output() -> None:
    grid = Grid({"i": 5, "j": 12}, 32, each=2, own={"j": 4})
    assert (grid.extents, grid.items, grid.per_block, grid.blocks, grid.ragged) == ({"i": 5, "j": 3}, 15, 64, 1, True)
    assert "if (e >= 15) break;" in grid.walk(lambda pad: f"{pad}f(e);\n")
    for loops in (grid.loops(), Grid({"i": 64, "j": 8}, 32, each=4).loops()):
        for name in "ij":
            mine = [x for part in loops for x in part if x.axis == name]
            assert [x.extent for x in mine[1:]] == [x.step for x in mine[:-1]]
            assert mine[-1].step == 1
    assert Grid({"i": 1023}, 256, own={"i": 4}, left=3).items == 1020 // 4 + 3
    assert Grid({"i": 100}, 128, lanes=32).per_block == 4


def test_indices_that_no_int_holds() -> None:
    big = {"x": Tensor("x", ((1 << 31) - 8,), "int8")}
    assert not fits(big, (load("x", "int8", (A,)),), {"i": 4}, (4,))
    assert not fits({}, (A * 1000000,), {"i": 1 << 20}, (4,))
    assert fits({}, (A * 1000,), {"i": 1 << 20}, (4,))


def test_kernels_of_every_element_type_are_right() -> None:
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
