"""The code in the operators' documentation runs, and computes what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import Operator
from tilewright.kernels.operator_file import load_operator
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.kernels.reference import evaluate
from tilewright.testing.operator import OperatorContract, random_inputs

DOCS = Path(__file__).parents[2] / "docs"


def code_of(page: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))


def _steps(decay, x):
    h = np.zeros(x.shape[1])
    for a, b in zip(decay, x, strict=True):
        h = a * h + b
        yield h


@pytest.fixture
def reference_page(tmp_path: Path) -> Path:
    path = tmp_path / "page.py"
    path.write_text(code_of("operators.md") + code_of("operators/language.md"))
    return path


@pytest.mark.parametrize(
    ("name", "sizes", "meaning"),
    [
        ("sqdist", {"m": 4, "n": 3, "k": 5}, lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1)),
        ("smooth", {"n": 9}, lambda x: np.convolve(x, np.ones(3) / 3, "same")),
        ("variance", {"m": 3, "n": 50}, lambda x: x.var(axis=1)),
        ("recurrence", {"n": 6, "channels": 2}, lambda decay, x: np.array(list(_steps(decay, x)))),
    ],
)
def test_the_language_reference(reference_page, name, sizes, meaning):
    workload = load_operator(f"{reference_page}:{name}").workload(dtype="float64", **sizes)
    inputs = random_inputs(workload)
    got = evaluate(Program.loads(workload.program), inputs)
    np.testing.assert_allclose(got, meaning(*inputs), rtol=1e-12)


@pytest.mark.parametrize("name", OPERATORS)
def test_one_page_describes_the_operator_with_its_attributes(name: str) -> None:
    op = get_operator(name)
    pages = [p.read_text() for p in (DOCS / "operators").glob("*.md")]
    (page,) = [text for text in pages if f"`{name} {' '.join(op.sizes)}`" in text]
    common = (DOCS / "operators.md").read_text()
    missing = [a for a in op.attributes if f"`{a}" not in page and f"`{a}" not in common]
    assert not missing


class TestHowTo(OperatorContract):
    @pytest.fixture
    def op(self, tmp_path: Path) -> Operator:
        path = tmp_path / "rmsnorm.py"
        path.write_text(code_of("howto/operator.md"))
        return load_operator(f"{path}:rmsnorm")

    # eps is drawn like any input, and a negative one has no root: only its sign is special here
    def test_numpy_agrees_with_the_interpreter(self, op: Operator) -> None:
        workload = op.workload(m=5, n=33, dtype="float64")
        x, gamma, _ = random_inputs(workload)
        eps = np.array(1e-3)
        got = evaluate(Program.loads(workload.program), [x, gamma, eps])
        np.testing.assert_allclose(op.numpy(x, gamma, eps), got, rtol=1e-12)
