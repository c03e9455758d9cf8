"""The language: normalisation, what it refuses, and the proof that reads stay inside."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.core import OperatorError
from tilewright.kernels.expression.program import Program
from tilewright.kernels.te import trace


def text(output: te.TensorRef) -> str:
    return te.program(output)[0].dumps()


# --------------------------------------------------------------------------- identity


def test_names_are_no_part_of_a_program():
    def define(a: str, b: str, c: str) -> str:
        x, y = te.input(a, (4, 5)), te.input(b, (5, 3))
        z = te.compute((4, 3), lambda p, q: te.sum(5, lambda s: x[p, s] * y[s, q]), name=c)
        return text(te.compute((4, 3), lambda u, v: te.exp(z[u, v])))

    assert define("a", "b", "c") == define("weights", "data", "product")


def test_a_users_name_of_a_monoid_is_no_part_of_a_program():
    x = te.input("x", (4, 5))

    def define(name: str) -> str:
        both = te.monoid(name, (0.0, 0.0), lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda s, n: s / n)
        return text(te.compute((4,), lambda i: te.reduce(both, 5, lambda r: (x[i, r], 1.0))))

    assert define("mean") == define("sum") == define("argmax")
    assert '"custom"' in define("sum")


def test_a_users_sum_is_the_sum():
    x = te.input("x", (4, 5))
    mine = te.monoid("my_total", (0.0,), lambda a, b: a[0] + b[0])
    ours = te.compute((4,), lambda i: te.sum(5, lambda r: x[i, r]))
    assert text(te.compute((4,), lambda i: te.reduce(mine, 5, lambda r: x[i, r]))) == text(ours)


def test_order_of_inputs():
    x, y = te.input("x", (4,)), te.input("y", (4,))
    out = te.compute((4,), lambda i: y[i] / x[i])
    program, labels = te.program(out)
    assert labels == ("x", "y")  # as declared, not as read
    assert repr(program.stages[0].body[0]) == "(x1[i0] / x0[i0])"
    assert te.program(out, [y, x])[1] == ("y", "x")


def test_shared_stages_occur_once():
    x = te.input("x", (4,))
    a = te.compute((4,), lambda i: x[i] * 2.0)
    b = te.compute((4,), lambda i: a[i] + 1.0)
    program, _ = te.program(te.compute((4,), lambda i: a[i] * b[i]))
    assert [s.name for s in program.stages] == ["s0", "s1", "s2"]


def test_results_have_the_dtype_asked_for():
    x = te.input("x", (4,), "float16")
    assert te.compute((4,), lambda i: x[i], dtype="float32").dtype == "float32"
    assert te.compute((4,), lambda i: te.sum(4, lambda r: x[r]), dtype="float32").dtype == "float32"
    assert te.compute((4,), lambda i: i * 2).dtype == "int64"
    assert te.compute((4,), lambda i: 1.5).dtype == "float32"
    assert te.compute((4,), lambda i: x[i] > 0).dtype == "bool"
    assert te.compute((), lambda: te.sum(4, lambda r: x[r])).shape == ()


def test_a_finished_program_holds_names_only():
    x = te.input("x", (3, 3))
    out = te.compute((3,), lambda i: te.sum(3, lambda r: x[i, r]))
    with pytest.raises(TypeError, match="no name yet"):
        out.definition.body[0].to_json()
    program, _ = te.program(out)
    assert Program.loads(program.dumps()).dumps() == program.dumps()


def test_default_dtype_of_a_traced_operator():
    def define() -> te.TensorRef:
        x = te.input("x", (4,))
        total = te.monoid("total", (0.0,), lambda a, b: a[0] + b[0])
        return te.compute((1,), lambda i: te.reduce(total, 4, lambda r: x[r]))

    assert trace(define, "float64")[0].output.dtype == "float64"
    assert trace(define)[0].output.dtype == "float32"
    assert te.input("x", (1,)).dtype == "float32"


# --------------------------------------------------------------------------- refusals


def _nested() -> te.TensorRef:
    x = te.input("x", (4, 4))
    return te.compute((4,), lambda i: te.compute((4,), lambda j: x[i, j])[0])


def _accumulator_outside() -> te.TensorRef:
    return te.compute((4,), lambda i: te.left(0, "float32"))


def _nested_reduction() -> te.TensorRef:
    x = te.input("x", (4, 4))
    return te.compute((4,), lambda i: te.sum(4, lambda r: te.sum(4, lambda s: x[r, s])))


def _stray_reduce_axis() -> te.TensorRef:
    x = te.input("x", (4,))
    kept = []
    te.sum(4, lambda r: kept.append(r) or x[r])
    return te.compute((4,), lambda i: x[kept[0]])


def _monoid_that_reads() -> te.TensorRef:
    x = te.input("x", (4,))
    bad = te.monoid("bad", (0.0,), lambda a, b: a[0] + b[0] * x[0])
    return te.compute((4,), lambda i: te.reduce(bad, 4, lambda r: x[r]))


def _two_of_a_name() -> te.TensorRef:
    x, y = te.input("x", (4,)), te.input("x", (4,))
    return te.compute((4,), lambda i: x[i] + y[i])


def _too_deep() -> te.TensorRef:
    x = te.input("x", (4,))

    def chain(i: te.Expr) -> te.Expr:
        e = x[i]
        for _ in range(400):
            e = e + 1.0
        return e

    return te.compute((4,), chain)


def _too_many() -> te.TensorRef:
    x = te.input("x", (4,))

    def square(i: te.Expr) -> te.Expr:
        e = x[i]
        for _ in range(100):
            e = e * e
        return e

    return te.compute((4,), square)


def _reduction_plus() -> te.TensorRef:
    x = te.input("x", (4,))
    return te.compute((4,), lambda i: te.sum(4, lambda r: x[r]) * 2.0)


def _float_index() -> te.TensorRef:
    x = te.input("x", (4,))
    return te.compute((4,), lambda i: x[te.cast(te.cast(i, "float32") * 0.5, "int32")])


@pytest.mark.parametrize(
    ("define", "says"),
    [
        (_nested, "another compute"),
        (_accumulator_outside, "outside of a monoid"),
        (_nested_reduction, "do not nest"),
        (_stray_reduce_axis, "another compute or reduction"),
        (_monoid_that_reads, "sees its accumulators only"),
        (_two_of_a_name, "same name"),
        (_too_deep, "nested 402 deep"),
        (_too_many, "operations"),
        (_reduction_plus, "whole value"),
        (_float_index, "real arithmetic"),
        (lambda: te.compute((4,), lambda i: te.input("x", (4, 4))[i * i, i]), "multiplies two axes"),
        (lambda: te.compute((4,), lambda i: te.input("x", (4,))[0.5]), "whole number"),
        (lambda: te.compute((0,), lambda i: 1.0), "at least 1"),
        (lambda: te.compute(4, lambda i: 1.0), "Write (4,)"),
        (lambda: te.compute((4,), lambda i: te.sum(0, lambda r: 1.0)), "at least 1"),
        (lambda: te.compute((4,), lambda i: te.sum(3, lambda r: r < i)), "conditions"),
        (lambda: te.compute((4,), lambda i: te.argmax(3, lambda r: r < i)), "conditions"),
        (lambda: te.input("x", (4,), "float99"), "unknown dtype"),
        (lambda: te.input("x", (4,)), "unchanged"),
        (lambda: te.monoid("m", (0.0, 0.0), lambda a, b: a[0] + b[0]), "2 components into 1"),
        (lambda: te.monoid("m", (0.0,), lambda a, b: a[0], dtype=("float32", "int32")), "2 dtypes"),
    ],
)
def test_malformed_definitions_are_refused(define, says):
    with pytest.raises(OperatorError) as caught:
        te.program(define())
    assert says in str(caught.value)


def test_a_program_that_reads_an_input_it_does_not_take():
    x, y = te.input("x", (4,)), te.input("y", (4,))
    with pytest.raises(OperatorError, match="input y is read"):
        te.program(te.compute((4,), lambda i: x[i] + y[i]), [x])


def test_unused_inputs_of_an_operator():
    def define() -> te.TensorRef:
        x, _ = te.input("x", (4,)), te.input("spare", (4,))
        return te.compute((4,), lambda i: x[i])

    with pytest.raises(OperatorError, match="spare is never read"):
        trace(define)


def test_tensors_are_no_numbers():
    x = te.input("x", (4,))
    with pytest.raises(TypeError, match=r"x\[i, j\]"):
        te.compute((4,), lambda i: te.exp(x))
    with pytest.raises(TypeError, match="iterated"):
        list(x)


# --------------------------------------------------------------------------- reads stay inside

x10 = te.input("x", (10,))
INSIDE = {
    "plain": lambda i: x10[i],
    "reversed": lambda i: x10[9 - i],
    "strided": lambda i: x10[(i * 3) // 4 + 2],
    "modulo": lambda i: x10[(i * 7 + 3) % 10],
    "clamped": lambda i: x10[te.minimum(te.maximum(i * 2 - 5, 0), 9)],
    "guarded": lambda i: te.select((i >= 1) & (i < 9), x10[i - 1] + x10[i + 1], 0.0),
    "guarded below": lambda i: te.select(i < 1, 0.0, x10[i - 1]),
    "guarded by or": lambda i: te.select((i < 3) | (i > 6), 0.0, x10[i + 3] + x10[i - 3]),
    "guarded by not": lambda i: te.select(~(i >= 5), x10[i + 5], 0.0),
    "guarded twice": lambda i: te.select(i >= 2, te.select(i < 8, x10[i + 2], x10[i - 2]), 0.0),
    "guarded when scaled": lambda i: te.select(2 * i >= 3, x10[i - 2], 0.0),
    "guarded sum": lambda i: te.sum(3, lambda r: te.select((i + r >= 1) & (i + r < 11), x10[i + r - 1], 0.0)),
    "guarded phase": lambda i: te.select(((i + 1) % 2 == 0) & ((i + 1) // 2 < 5), x10[(i + 1) // 2 + 5], 0.0),
    "guarded by equality": lambda i: te.select(i == 4, x10[i * 2 + 1], 0.0),
    "provable point by point": lambda i: te.select(i % 4 == 3, x10[i - 3], 0.0),
    "correlated": lambda i: x10[i + 5 - 2 * (i // 2)],
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_reads_that_are_inside(name):
    te.program(te.compute((10,), INSIDE[name]))


OUTSIDE = {
    "beyond": (lambda i: x10[i + 1], "read at 10"),
    "before": (lambda i: x10[i - 3], "read at -3"),
    "guarded off by one": (lambda i: te.select(i <= 9, x10[i + 1], 0.0), "read at 10"),
    "guarded on the wrong side": (lambda i: te.select(i < 9, 0.0, x10[i + 1]), "read at 10"),
    "guard of something else": (lambda i: te.select(x10[i] > 0.0, x10[i + 1], 0.0), "read at 10"),
    "in a condition": (lambda i: te.select((i < 9) & (x10[i + 1] > 0.0), 1.0, 0.0), "read at 10"),
    "or is no and": (lambda i: te.select((i >= 1) | (i < 9), x10[i - 1], 0.0), "read at -1"),
    "in a reduction": (lambda i: te.sum(3, lambda r: x10[i + r]), "read at 10"),
    "correlated": (lambda i: x10[i + 9 - 2 * (i // 2)], "read at 10"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_reads_that_are_not(name):
    define, says = OUTSIDE[name]
    with pytest.raises(OperatorError) as caught:
        te.program(te.compute((10,), define))
    assert says in str(caught.value)
    assert "te.select" in caught.value.hint


def test_reads_of_stages_are_checked_too():
    x = te.input("x", (4,))
    a = te.compute((4,), lambda i: x[i] * 2.0, name="doubled")
    with pytest.raises(OperatorError, match="doubled is read at 4 along axis 0, which has 4"):
        te.program(te.compute((5,), lambda i: a[i]))


def test_gathers_are_kept_inside():
    x, at = te.input("x", (10,)), te.input("at", (6,), "int32")
    program, _ = te.program(te.compute((6,), lambda i: x[at[i] * 2 + 1]))
    (index,) = program.stages[0].loads()[0].args
    assert (index.op, index.args[0].op) == ("min", "max")


def test_too_large_to_enumerate_asks_for_a_guard():
    n = 1 << 23
    x = te.input("x", (n,))
    with pytest.raises(OperatorError, match="not provably inside"):
        te.program(te.compute((n,), lambda i: x[i + 5 - 7 * ((i + 5) // 7) + 3 * (i // 3)]))


def test_padding_of_a_strided_window():
    x = te.input("x", (2, 8, 57, 57))

    def body(b: te.Expr, c: te.Expr, h: te.Expr, w: te.Expr) -> te.Expr:
        y, z = h * 2 - 1, w * 2 - 1
        return te.select((y >= 0) & (z >= 0) & (y < 57) & (z < 57), x[b, c, y, z], 0.0)

    assert te.program(te.compute((2, 8, 29, 29), body))[0].output.shape == (2, 8, 29, 29)
    with pytest.raises(OperatorError, match="read at 57 along axis 2"):
        te.program(te.compute((2, 8, 30, 29), lambda b, c, h, w: te.select(h > 0, x[b, c, h * 2 - 1, w], 0.0)))
