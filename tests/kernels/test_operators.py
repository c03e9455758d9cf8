"""The built-in operators: the contract, and independent references from SciPy and PyTorch's rules."""

from __future__ import annotations

import numpy as np
import pytest
import scipy  # its parts are imported when they are used

from tilewright.core import UsageError
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import Operator
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.kernels.reference import evaluate
from tilewright.testing.operator import OperatorContract, random_inputs, small_cases


class TestBuiltIn(OperatorContract):
    @pytest.fixture(params=OPERATORS)
    def op(self, request: pytest.FixtureRequest) -> Operator:
        return get_operator(request.param)


def test_small_cases_cover_every_choice():
    cases = small_cases(get_operator("matmul"))
    assert {c["activation"] for c in cases} == {"none", "relu", "gelu", "gelu_tanh", "silu"}
    for name in ("trans_a", "trans_b", "bias", "residual"):
        assert {c[name] for c in cases} == {False, True}


def _value(op: str, **params: object) -> tuple[np.ndarray, list[np.ndarray]]:
    workload = get_operator(op).workload(dtype="float64", **params)
    inputs = random_inputs(workload, 1)
    return evaluate(Program.loads(workload.program), inputs), inputs


def test_matmul_with_everything():
    value, (a, b, bias, residual) = _value(
        "matmul", m=5, n=7, k=3, trans_a=True, trans_b=True, bias=True, activation="gelu", residual=True
    )
    x = a.T @ b.T + bias
    np.testing.assert_allclose(value, x * scipy.special.ndtr(x) + residual, rtol=1e-12)


@pytest.mark.parametrize(
    ("activation", "meaning"),
    [
        ("relu", lambda x: np.where(x > 0, x, 0)),
        ("gelu", lambda x: x * scipy.special.ndtr(x)),
        (
            "gelu_tanh",
            lambda x: x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
        ),
        ("silu", lambda x: x * scipy.special.expit(x)),
    ],
)
def test_operators_take_activations(activation, meaning):
    value, (a, b) = _value("matmul", m=9, n=8, k=4, activation=activation)
    np.testing.assert_allclose(value, meaning(a @ b), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 3, 2)])
def test_conv2d_against_scipy(stride, padding, dilation):
    value, (x, weight) = _value(
        "conv2d", n=2, ci=3, h=9, w=10, co=4, kh=3, kw=2, stride=stride, padding=padding, dilation=dilation
    )
    spread = np.zeros((4, 3, 2 * dilation + 1, dilation + 1))
    spread[:, :, ::dilation, ::dilation] = weight
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    for n in range(2):
        for o in range(4):
            full = sum(scipy.signal.correlate2d(padded[n, c], spread[o, c], "valid") for c in range(3))
            np.testing.assert_allclose(value[n, o], full[::stride, ::stride], rtol=1e-11, atol=1e-12)


def test_softmax_against_scipy_and_without_overflow():
    value, (x,) = _value("softmax", shape=(6, 11))
    np.testing.assert_allclose(value, scipy.special.softmax(x, axis=1), rtol=1e-13)
    op = get_operator("softmax")
    large = np.full((2, 3), 1e4, np.float32)
    program = Program.loads(op.workload(shape="2,3").program)
    np.testing.assert_allclose(evaluate(program, [large]), 1 / 3)
    np.testing.assert_allclose(op.numpy(large), np.float32(1 / 3))


def test_not_a_number_passes_through_activations():
    op = get_operator("matmul")
    for activation in ("none", "relu", "gelu", "gelu_tanh", "silu"):
        workload = op.workload(m=2, n=2, k=2, activation=activation)
        a, b = random_inputs(workload)
        a[0, 0] = np.nan
        assert np.isnan(evaluate(Program.loads(workload.program), [a, b])[0]).all()
        assert np.isnan(op.numpy(a, b, activation=activation)[0]).all()


@pytest.mark.parametrize(
    "bad",
    [{"stride": 0}, {"dilation": 0}, {"padding": -1}, {"kh": 9}, {"dilation": 5}],
)
def test_conv2d_that_does_not_fit(bad):
    good = {"n": 1, "ci": 1, "h": 6, "w": 6, "co": 1, "kh": 3, "kw": 3}
    assert get_operator("conv2d").workload(**good).output.shape == (1, 1, 4, 4)
    with pytest.raises(UsageError) as caught:
        get_operator("conv2d").workload(**{**good, **bad})
    assert caught.value.hint


def test_stride_one_and_no_padding_leave_no_trace():
    plain = get_operator("conv2d").workload(n=1, ci=2, h=5, w=5, co=2, kh=1, kw=1)
    (stage,) = Program.loads(plain.program).stages
    assert "select" not in {e.op for e in stage.body[0].walk()}
    assert [repr(i) for i in stage.loads()[0].args] == ["i0", "r0", "(i2 + r1)", "(i3 + r2)"]


def test_a_dense_layer_keeps_the_product_in_a_stage_of_its_own():
    program = Program.loads(get_operator("matmul").workload(m=4, n=4, k=4, bias=True).program)
    product, epilogue = program.stages
    assert product.monoid is not None
    assert product.monoid.name == "sum"
    assert epilogue.monoid is None
    assert repr(epilogue.body[0]) == "(s0[i0, i1] + x2[i1])"
