"""The decorator, parameters, user files, and the errors they give."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import operator, te
from tilewright.core import OperatorError, UsageError
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import Operator
from tilewright.kernels.operator_file import load_operator
from tilewright.kernels.operators import OPERATORS, find_numpy, get_operator
from tilewright.kernels.reference import evaluate
from tilewright.testing.operator import OperatorContract, random_inputs

GOOD = '''
from typing import Literal
from tilewright import operator, te

def _numpy(x, y, scale=1.0, mode="sum"):
    return scale * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1).astype(x.dtype)

def _infer(shapes, **attributes):
    (m, k), (n, _) = shapes
    return {"m": m, "n": n, "k": k}

@operator(numpy=_numpy, infer=_infer, example={"m": 8, "n": 8, "k": 8})
def sqdist(m: int, n: int, k: int, scale: float = 1.0, mode: Literal["sum", "max"] = "sum"):
    """Squared distance: ``scale * sum_k (x[i, k] - y[j, k])**2``."""
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    d = te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))
    return te.compute((m, n), lambda i, j: scale * d[i, j])

def chebyshev(m, n, k):
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return te.compute((m, n), lambda i, j: te.max(k, lambda r: abs(x[i, r] - y[j, r])))

not_a_function = 3
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ops.py").write_text(GOOD)
    return tmp_path


class TestUserOperator(OperatorContract):
    @pytest.fixture
    def op(self, folder) -> Operator:
        return load_operator(f"{folder}/ops.py:sqdist")


def test_plain_function_of_a_file(folder):
    op = get_operator(f"{folder}/ops.py:chebyshev")
    assert op.name == "chebyshev"
    assert op.sizes == ("m", "n", "k")
    x, y = np.random.default_rng(0).standard_normal((2, 5, 4))
    workload = op.workload(m="5", n="5", k="4", dtype="float64")
    got = evaluate(Program.loads(workload.program), [x, y])
    np.testing.assert_array_equal(got, abs(x[:, None] - y[None]).max(-1))
    assert [s.dtype for s in workload.inputs] == ["float64", "float64"]


def test_the_only_decorated_operator_needs_no_name(folder):
    assert load_operator(f"{folder}/ops.py").name == "sqdist"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("absent.py:f", "no file"),
        ("ops.py:sqdits", "Did you mean sqdist?"),
        ("ops.py:not_a_function", "not a function"),
        ("ops:sqdits", "Did you mean sqdist?"),
    ],
)
def test_references_that_lead_nowhere(folder, reference, says):
    with pytest.raises(UsageError) as caught:
        load_operator(f"{folder}/{reference}")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = 1\ny = 1 / 0\n", 2, "ZeroDivisionError: division by zero"),
        ("def f(:\n", 1, "SyntaxError"),
        ("import sys\n\nsys.exit(3)\n", 3, "SystemExit"),
        ("import nothing_of_this_name\n", 1, "ModuleNotFoundError"),
        ("raise ValueError('first\\nsecond')\n", 1, "ValueError: first"),
        ("def helper():\n    return {}['key']\n\nhelper()\n", 2, "KeyError"),
    ],
)
def test_files_that_raise(tmp_path, text, line, says):
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(OperatorError) as caught:
        load_operator(f"{path}:f")
    assert f"{path}:{line}" in caught.value.message
    assert says in caught.value.message
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        ("    x = te.input('x', (m,))\n    return x\n", None, "unchanged"),
        ("    x = te.input('x', (m,))\n    return te.compute((m,), lambda i: x[i, i])\n", 4, "2 indices"),
        ("    x = te.input('x', (m,))\n    return te.compute((m,), lambda i: x[i + 1])\n", None, "guard the read"),
        ("    x = te.input('x', (m,))\n    return te.compute((m,), lambda i: undefined)\n", 4, "NameError"),
        ("    x, y = te.input('x', (m,)), te.input('y', (m,))\n"
         "    return te.compute((m,), lambda i: x[i])\n", None, "y is never read"),
        ("    return 3\n", None, "not a tensor"),
        ("    x = te.input('x', (m,))\n    return te.compute((m,), lambda i: x * 2)\n", 4, "TypeError"),
        ("    x = te.input('x', (m,))\n    return te.compute((m,), lambda i: x[i] if i > 0 else 0)\n", 4, "te.select"),
    ],
)  # fmt: skip
def test_functions_that_raise(tmp_path, body, line, says):
    path = tmp_path / "ops.py"
    path.write_text("from tilewright import te\ndef f(m):\n" + body)
    op = load_operator(f"{path}:f")
    with pytest.raises(OperatorError) as caught:
        op.workload(m=4)
    assert says.lower() in str(caught.value).lower()
    assert str(path) in caught.value.message
    assert line is None or f"{path}:{line}" in caught.value.message
    assert "\n" not in str(caught.value)


def test_sibling_modules_can_be_imported(tmp_path):
    (tmp_path / "shared_sizes_of_test.py").write_text("SCALE = 3.0\n")
    (tmp_path / "ops.py").write_text(
        "from shared_sizes_of_test import SCALE\nfrom tilewright import te\n"
        "def f(m):\n    x = te.input('x', (m,))\n    return te.compute((m,), lambda i: x[i] * SCALE)\n"
    )
    assert "3.0" in load_operator(f"{tmp_path}/ops.py:f").workload(m=2).program


def test_an_edited_file_is_another_workload(folder):
    path = folder / "ops.py"
    before = load_operator(f"{path}:sqdist").workload(m=2, n=2, k=2)
    path.write_text(GOOD.replace("** 2))", "** 4))"))
    after = load_operator(f"{path}:sqdist").workload(m=2, n=2, k=2)
    assert after.label == before.label
    assert after.key != before.key


def test_parameters_without_annotations_follow_their_defaults():
    @operator
    def f(m, *, count=2, ratio=0.5, flag=False, word="a"):
        x = te.input("x", (m,))
        return te.compute((m,), lambda i: x[i] * ratio)

    params = f.params(m="3", count="4", ratio="2", flag="yes", word="b")
    assert params == {"m": 3, "count": 4, "ratio": 2.0, "flag": True, "word": "b", "dtype": "float32", "constant": ""}
    assert {k: type(v) for k, v in params.items()}["ratio"] is float
    assert f.params(m=np.int64(3), flag=np.bool_(True), ratio=np.float32(0.25))["ratio"] == 0.25
    assert f.sizes == ("m",)
    for bad in (
        {"count": "1.5"},
        {"flag": "maybe"},
        {"ratio": "half"},
        {"ratio": "nan"},
        {"word": 3},
        {"count": True},
        {"count": float("inf")},
    ):
        with pytest.raises(UsageError):
            f.params(m=3, **bad)


def test_a_declared_dtype_is_passed_on():
    @operator(dtypes=("float64", "int32"))
    def f(m: int, dtype: str = "float64"):
        x = te.input("x", (m,), dtype)
        return te.compute((m,), lambda i: x[i] + x[i])

    assert f.workload(m=2).inputs[0].dtype == "float64"
    assert f.workload(m=2, dtype="int32").output.dtype == "int32"
    with pytest.raises(UsageError, match="float64, int32"):
        f.workload(m=2, dtype="float32")


@pytest.mark.parametrize(
    "define",
    [
        lambda *sizes: None,
        lambda **sizes: None,
        lambda m, shape=(1, 2): None,
    ],
)
def test_signatures_that_cannot_be_operators(define):
    with pytest.raises(OperatorError):
        operator(define)


def test_sizes_are_whole_numbers():
    def f(m: float):
        return te.input("x", (m,))

    with pytest.raises(OperatorError, match="no default"):
        operator(f)


def test_missing_sizes_are_all_named():
    with pytest.raises(UsageError) as caught:
        get_operator("matmul").workload(m=4)
    assert "n and k" in caught.value.message
    assert "m=... n=... k=..." in caught.value.hint


def test_unknown_operators_name_the_nearest():
    with pytest.raises(UsageError) as caught:
        get_operator("matmull")
    assert "Did you mean matmul?" in caught.value.hint
    assert all(name in caught.value.hint for name in OPERATORS)


def test_impossible_sizes_are_refused_before_anything_is_allocated():
    with pytest.raises(UsageError, match=r"matmul: out has 1e\+18 elements") as caught:
        get_operator("matmul").workload(m=10**9, n=10**9, k=1)
    assert "more than a machine can hold" in caught.value.hint


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"m": 1 << 20, "n": 2, "k": 1 << 11}, "matmul: tensor a has 1048576x2048"),
        ({"m": 1 << 16, "n": 1 << 15, "k": 2}, "matmul: the result out has 65536x32768"),
    ],
)
def test_an_argument_has_fewer_than_two_to_the_31_elements(sizes, says):
    with pytest.raises(UsageError, match=says) as caught:
        get_operator("matmul").workload(**sizes)
    assert "at most 2147483647" in caught.value.hint
    assert get_operator("matmul").workload(**{**sizes, "m": sizes["m"] - 1})


def test_the_range_of_a_reduction_has_fewer_than_two_to_the_31_elements():
    @operator
    def f(m: int):
        x = te.input("x", (m,))
        return te.compute((1,), lambda i: te.sum((m, m), lambda r, s: x[r] * x[s]))

    with pytest.raises(UsageError, match="f: a reduction has 65536x65536"):
        f.workload(m=1 << 16)
    assert f.workload(m=1 << 15)


def test_operators_are_found_once():
    assert get_operator("conv2d") is get_operator("conv2d")


def test_an_operator_can_be_part_of_another():
    matmul = get_operator("matmul")

    @operator
    def scores(m: int, n: int, k: int):
        product = matmul(m, n, k, trans_b=True)
        scale = te.input("scale", (m,))
        return te.compute((m, n), lambda i, j: product[i, j] * scale[i])

    workload = scores.workload(m=3, n=4, k=5, dtype="float64")
    assert [s.name for s in workload.inputs] == ["a", "b", "scale"]
    a, b, scale = random_inputs(workload)
    got = evaluate(Program.loads(workload.program), [a, b, scale])
    np.testing.assert_allclose(got, (a @ b.T) * scale[:, None], rtol=1e-12)


def test_the_numpy_implementation_of_an_operator_is_found():
    workload = get_operator("matmul").workload(m=3, n=4, k=5, trans_b=True)
    run = find_numpy(workload)
    a, b = np.ones((3, 5), np.float32), np.ones((4, 5), np.float32)
    np.testing.assert_array_equal(run(a, b), np.full((3, 4), 5))

    @operator(name="matmul")
    def mine(m: int, n: int, k: int):
        x = te.input("x", (m, n, k))
        return te.compute((m, n), lambda i, j: te.max(k, lambda r: x[i, j, r]))

    assert find_numpy(mine.workload(m=3, n=4, k=5)) is None


def test_numpy_drops_sizes_and_dtype():
    op = get_operator("matmul")
    a = np.eye(3, dtype=np.float32)
    workload = op.workload(m=3, n=3, k=3)
    np.testing.assert_array_equal(op.numpy(a, a, **dict(workload.params)), a)
