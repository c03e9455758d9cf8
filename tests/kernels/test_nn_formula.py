"""Formulas as text: what they mean, the same in NumPy, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.nn.formula import expression, names, numpy_value
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate

X = np.random.default_rng(0).standard_normal(60)
Y = np.random.default_rng(1).standard_normal(60)

MEANINGS = {
    "x*2 + y": X * 2 + Y,
    "-x / (y + 10)": -X / (Y + 10),
    "x**3 - y**2 + +x": X**3 - Y**2 + X,
    "where(x > y and not y < 0, x, y*0.5)": np.where((X > Y) & ~(Y < 0), X, Y * 0.5),
    "where(x >= 0.5 or y <= -0.5 or x == y, 1, inf)": np.where((X >= 0.5) | (Y <= -0.5), 1, np.inf),
    "maximum(minimum(x, 1), -1) + (x > 0)": np.clip(X, -1, 1) + (X > 0),
    "(x > 0) + (y > 0)": 1.0 * (X > 0) + (Y > 0),
    "exp(x) + log(abs(y)) + sqrt(abs(x)) + rsqrt(abs(y)) + tanh(x) + floor(y*3)": np.exp(X) + np.log(np.abs(Y))
    + np.sqrt(np.abs(X)) + 1 / np.sqrt(np.abs(Y)) + np.tanh(X) + np.floor(Y * 3),
    "sin(x) * cos(y*90) + log1p(abs(x)) - pow(abs(y), x) + pow(2, x)": np.sin(X) * np.cos(Y * 90)
    + np.log1p(np.abs(X)) - np.abs(Y) ** X + 2**X,
    "relu(x) + silu(y) + sigmoid(x)": np.maximum(X, 0) + Y / (1 + np.exp(-Y)) + 1 / (1 + np.exp(-X)),
    "2*pi + 0*x": 2 * np.pi + 0 * X,
    "7//2 + 7%4 + 2**3 + 0*x": 3 + 3 + 8 + 0 * X,
}  # fmt: skip


@pytest.mark.parametrize("text", [*MEANINGS, "gelu(x) - gelu_tanh(y) * erf(x)"])
def test_a_formula_as_an_expression_and_in_numpy(text: str) -> None:
    x, y = te.input("x", (60,), "float64"), te.input("y", (60,), "float64")
    read = names("op", text)
    used = [(n, ref, v) for n, ref, v in (("x", x, X), ("y", y, Y)) if n in read]

    def body(i: te.Expr) -> te.Expr:
        return expression("op", text, {n: ref[i] for n, ref, _ in used}, "float64")

    program, _ = te.program(te.compute((60,), body), [ref for _, ref, _ in used])
    got = evaluate(program, [v for _, _, v in used])
    np.testing.assert_allclose(got, numpy_value("op", text, {n: v for n, _, v in used}), rtol=1e-13)
    if text in MEANINGS:
        np.testing.assert_allclose(got, MEANINGS[text], rtol=1e-13)


def test_axes_stay_whole_numbers_among_themselves() -> None:
    out = te.compute(
        (9, 9), lambda i, j: expression("op", "where(q // 2 >= k % 3, 1, 0.5)", {"q": i, "k": j}, "float32")
    )
    program, _ = te.program(out, [])
    (stage,) = program.stages
    assert {e.dtype for e in stage.body[0].args[0].walk()} == {"bool", "index"}
    i, j = np.indices((9, 9))
    np.testing.assert_array_equal(evaluate(program, []), np.where(i // 2 >= j % 3, 1, 0.5))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a formula"),
        ("x +", "not a formula"),
        ("x; y", "not a formula"),
        ("w * 2", "names w"),
        ("sinh(x)", "calls sinh"),
        ("x.real", "uses x.real"),
        ("__import__('os').system('true')", "calls"),
        ("(lambda: x)()", "calls"),
        ("[x for x in y]", "uses [x for x in y]"),
        ("x[0]", "uses x[0]"),
        ("'text'", "holds 'text'"),
        ("True", "holds True"),
        ("1j * x", "holds 1j"),
        ("x if y else x", "uses"),
        ("x < y < 1", "compares"),
        ("x is y", "compares"),
        ("x @ y", "uses x @ y"),
        ("~x", "uses ~x"),
        ("x ** 0.5", "pow(a, b)"),
        ("x ** y", "pow(a, b)"),
        ("x ** 99", "pow(a, b)"),
        ("maximum(x)", "1 arguments"),
        ("exp(x, y)", "2 arguments"),
        ("exp(x=x)", "arguments"),
        ("where(x, x, y)", "condition"),
        ("x and y", "number"),
        ("x % 2", "te.floor"),
        ("(" * 300 + "x" + ")" * 300, "not a formula"),
        ("x" + "+x" * 2000, "characters"),
    ],
)
def test_what_is_no_formula(text: str, says: str) -> None:
    x, y = te.input("x", (3,)), te.input("y", (3,))
    with pytest.raises(UsageError, match="myop") as caught:
        te.compute((3,), lambda i: expression("myop", text, {"x": x[i], "y": y[i]}, "float32"))
    assert says in caught.value.message
    assert caught.value.hint


def test_formulas_of_operators_name_their_inputs() -> None:
    op = get_operator("elementwise")
    assert [s.name for s in op.workload(shape="4,5", fn="z - x").inputs] == ["x", "z"]
    for fn, says in (("y * 2", "does not name x"), ("x + w", "names w"), ("2", "does not name x")):
        with pytest.raises(UsageError, match="elementwise") as caught:
            op.workload(shape="4,5", fn=fn)
        assert says in caught.value.message
    with pytest.raises(UsageError, match="stretch"):
        op.workload(shape="4,5", fn="x + y", y_shape="4")
    with pytest.raises(UsageError, match="attention"):
        get_operator("attention").workload(b=1, h=1, lq=4, lk=4, d=4, score_mod="score + x")
    workload = get_operator("attention").workload(b=1, h=2, lq=4, lk=4, d=4, score_mod="score - 0.1*abs(q-k)*(h+1)")
    assert Program.loads(workload.program).output.shape == (1, 2, 4, 4)
