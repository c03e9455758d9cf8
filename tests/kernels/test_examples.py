"""The example operators hold the contract and compute what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import Operator
from tilewright.kernels.operator_file import load_operator
from tilewright.kernels.reference import evaluate
from tilewright.testing.operator import OperatorContract, random_inputs

EXAMPLES = Path(__file__).parents[2] / "examples"
FILE = EXAMPLES / "custom_ops.py"


class TestExamples(OperatorContract):
    @pytest.fixture(params=["sqdist", "chebyshev", "layernorm", "bottleneck"])
    def op(self, request: pytest.FixtureRequest) -> Operator:
        return load_operator(f"{FILE}:{request.param}")


class TestUnusual(OperatorContract):
    @pytest.fixture(params=[
        "complex_product", "butterfly", "gray", "quaternion_product", "rotary", "histogram", "gated_recurrence",
        "exponential_average", "running_product", "selective_scan", "diffusion", "blur", "gated_convolution", "swiglu",
        "projections", "triangular_product", "experts", "gathered_product", "tropical_product", "density",
    ])  # fmt: skip
    def op(self, request: pytest.FixtureRequest) -> Operator:
        return load_operator(f"{EXAMPLES / 'unusual.py'}:{request.param}")


def test_chebyshev_and_layernorm():
    workload = load_operator(f"{FILE}:chebyshev").workload(m=5, n=4, k=3, dtype="float64")
    x, y = random_inputs(workload)
    got = evaluate(Program.loads(workload.program), [x, y])
    np.testing.assert_array_equal(got, abs(x[:, None] - y[None]).max(-1))

    workload = load_operator(f"{FILE}:layernorm").workload(m=5, n=70, dtype="float64")
    assert [s.shape for s in workload.inputs] == [(5, 70), (70,), (70,), ()]
    x, gamma, beta, _ = random_inputs(workload)
    got = evaluate(Program.loads(workload.program), [x, gamma, beta, np.array(1e-5)])
    mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    np.testing.assert_allclose(got, (x - mean) / np.sqrt(var + 1e-5) * gamma + beta, rtol=1e-10, atol=1e-12)
