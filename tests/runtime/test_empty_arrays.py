"""Arrays without elements: every built-in operator answers as NumPy does, with each of its sizes 0."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tilewright.core import IMPLICIT, TilewrightError, UsageError, Value, Workload
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.operator import Operator
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.kernels.parameters import Kind
from tilewright.runtime import Library
from tilewright.runtime.checked import each_out
from tilewright.testing.operator import small_cases

pytestmark = [  # which NumPy says of such means
    pytest.mark.filterwarnings("ignore:Mean of empty slice"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
    pytest.mark.filterwarnings("ignore:Degrees of freedom"),
]

Shape = tuple[int, ...]

SPATIAL = ("d", "h", "w")
"""Sizes over which windows move: results have no place for one where there are no elements."""
NO_VALUE = ("amax", "amin", "argmax", "argmin")
"""Operators that have no value without an element to choose."""
LOOKED_UP = ("embedding", "attention")
"""Operators with indices into a size of 0."""


def emptied(op: Operator, case: dict[str, Value]) -> Iterator[tuple[str, list[Shape], list[Shape], Workload]]:
    """Names of sizes, and the shapes of inputs and outputs where that size is 0, by going on from 3 and 6."""
    for p in op.parameters:
        if p.default is not None or not case.get(p.name):
            continue
        sizes = str(case[p.name]).split(",")
        for d in range(len(sizes) if p.kind is Kind.SHAPE else 1):
            moved: list[Workload] = []
            for n in (3, 6):
                value = ",".join(str(n) if e == d else s for e, s in enumerate(sizes)) if p.kind is Kind.SHAPE else n
                try:
                    moved.append(op.workload(**{**case, p.name: value}))
                except TilewrightError:
                    break
            if len(moved) < 2:
                continue
            inputs, outputs = (
                [tuple(2 * a - b for a, b in zip(s.shape, t.shape, strict=True)) for s, t in zip(*two, strict=True)]
                for two in ([w.inputs for w in moved], [w.outputs for w in moved])
            )
            if all(n >= 0 for s in (*inputs, *outputs) for n in s) and any(0 in s for s in inputs):
                yield p.name, inputs, outputs, moved[0]


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_answers_arrays_without_elements(name: str) -> None:
    library, op = Library("none.db", missing_ok=True), get_operator(name)
    for case in small_cases(op)[:2]:
        for what, inputs, outputs, workload in emptied(op, case):
            arrays = [np.ones(s, numpy_dtype(t.dtype)) for s, t in zip(inputs, workload.inputs, strict=True)]
            told = {k: v for k, v in workload.params if k in op.attributes and k not in IMPLICIT}
            told |= {k: 0 if k == what else v for k, v in workload.params if k in op.told}
            try:
                got = getattr(library, name)(*arrays, dtype=dict(workload.params)["dtype"], **told)
            except (UsageError, ValueError, IndexError) as e:
                problem: Exception | None = e
            else:
                problem = None
                if what not in SPATIAL:
                    assert [r.shape for r in each_out(got)] == outputs, (case, what)
            expected = (
                problem is None
                or (isinstance(problem, UsageError) and ("a window of" in problem.message or name == "scaled_mm"))
                or (isinstance(problem, ValueError) and name in NO_VALUE)
                or (isinstance(problem, IndexError) and name in LOOKED_UP)
            )
            assert expected, (case, what, problem)


@pytest.mark.parametrize("of", ["softmax", "log_softmax"])
def test_rows_without_elements_have_no_largest_value(of: str) -> None:
    library = Library("none.db", missing_ok=True)
    assert getattr(library, of)(np.zeros((3, 0), np.float32)).shape == (3, 0)
    assert getattr(library, of)(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_reductions_of_nothing_are_numpys() -> None:
    library, x = Library("none.db", missing_ok=True), np.zeros((2, 0), np.float32)
    assert library.sum(x) == 0
    np.testing.assert_array_equal(library.sum(x, dim=1), [0, 0])
    np.testing.assert_array_equal(library.prod(x, dim=1), [1, 1])
    np.testing.assert_array_equal(library.logsumexp(x, dim=1), [-np.inf, -np.inf])
    np.testing.assert_array_equal(library.norm(x, dim=1), [0, 0])
    with pytest.raises(ValueError, match="no identity"):
        library.amax(x, dim=1)
    np.testing.assert_array_equal(library.matmul(x, np.zeros((0, 3), np.float32)), np.zeros((2, 3)))


def test_a_kernel_cannot_be_asked_for_without_elements() -> None:
    op = get_operator("softmax")
    assert op.infer is not None
    params = op.infer([(0, 6)])
    assert params["shape"] == "0,6"
    with pytest.raises(UsageError, match="is not positive"):
        op.workload(**params)
