"""Sizes of an operator from the shapes it is called with."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.inference import params_of
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators import OPERATORS, get_operator


@operator
def sqdist(m: int, n: int, k: int) -> te.TensorRef:
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))


@operator
def shifted(shape: te.Shape, by: int, scale: float = 2.0) -> te.TensorRef:
    x = te.input("x", shape)
    return te.compute(shape, lambda *at: x[at] * scale + float(by))


@operator
def pairs(n: int) -> te.TensorRef:
    x, y = te.input("x", (2 * n,)), te.input("y", (n,))
    return te.compute((n,), lambda i: x[2 * i] * y[i])


def sizes(op: Operator, shapes: Any, **given: Any) -> dict[str, Any]:
    return {k: v for k, v in params_of(op, shapes, given).items() if k in op.sizes}


def test_each_size_is_found_where_it_is_an_axis() -> None:
    assert sizes(sqdist, [(3, 4), (5, 4)]) == {"m": 3, "n": 5, "k": 4}
    assert sizes(sqdist, [(1, 1), (1, 1)]) == {"m": 1, "n": 1, "k": 1}
    assert sizes(pairs, [(14,), (7,)]) == {"n": 7}
    assert params_of(sqdist, [(3, 4), (5, 4)], {"dtype": "float64"})["dtype"] == "float64"


@pytest.mark.parametrize("shape", [(6,), (2, 3), (4, 1, 5)])
def test_a_shape_has_the_rank_that_the_array_has(shape: tuple[int, ...]) -> None:
    found = params_of(shifted, [shape], {"by": 3, "scale": 1.5})
    assert (found["shape"], found["by"], found["scale"]) == (",".join(map(str, shape)), 3, 1.5)


@pytest.mark.parametrize(
    ("op", "shapes", "given", "message"),
    [
        (sqdist, [(3, 4), (5, 6)], {}, "3x4 and 5x6: k is 4 and 6. Axis 1 of y is k too"),
        (sqdist, [(3, 4)], {}, "It takes x of 2 axes, y of 2 axes"),
        (sqdist, [(3,), (5, 4)], {}, "It takes x of 2 axes, y of 2 axes"),
        (sqdist, [], {}, "sqdist takes arrays, and got none"),
        (sqdist, [(3, 4), (5, 4)], {"p": 2}, "sqdist has no parameter 'p'"),
        (shifted, [(3, 4)], {}, "no input of shifted has by as its length. Give by=..."),
        (pairs, [(15,), (7,)], {}, r"With these sizes it takes x \(14,\), y \(7,\)"),
    ],
)
def test_what_does_not_fit_is_named(op: Operator, shapes: Any, given: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        params_of(op, shapes, given)
    import re

    assert re.search(message, f"{error.value.message}. {error.value.hint}")


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_built_in_operators_say_it_themselves(name: str) -> None:
    op = get_operator(name)
    workload = op.workload(**op.example)
    given = {k: v for k, v in op.example.items() if k in op.told or k not in op.sizes}
    assert params_of(op, [s.shape for s in workload.inputs], given) == dict(workload.params)
