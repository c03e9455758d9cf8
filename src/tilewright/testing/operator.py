"""The contract of operators. Subclass :class:`OperatorContract` and give the fixture ``op``.

::

    class TestMine(OperatorContract):
        @pytest.fixture
        def op(self):
            return load_operator("my_ops.py:sqdist")
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tilewright.core import IMPLICIT, UsageError, Value, Workload
from tilewright.dtypes import DTYPES, numpy_dtype
from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.expression.value_range import draw
from tilewright.kernels.operator import Operator
from tilewright.kernels.parameters import Kind
from tilewright.kernels.reference import evaluate, evaluate_block, index_bounds

__all__ = ["OperatorContract", "random_inputs", "small_cases"]

Array = np.ndarray[Any, Any]
Params = dict[str, Value]
_SIZES: dict[Kind, tuple[Value, ...]] = {
    Kind.INT: (1, 2, 3, 5, 7, 9, 13),
    Kind.INTS: (1, 2, 3, "2,1", "1,2,2"),
    Kind.SHAPE: ("5", "1,7", "3,5", "2,9,4", "13,1,3", "2,3,5,3"),
}


def random_inputs(workload: Workload, seed: int = 0, positive: bool = False) -> list[Array]:
    """Random inputs of a workload, in call order.

    Values are from the inputs' ranges; without a range, floats are normal (or ``positive``), integers are small.
    Indices lie within their axes.
    """
    rng = np.random.default_rng(seed)
    program = Program.loads(workload.program)
    bounds = index_bounds(program)
    out: list[Array] = []
    for t in program.inputs:
        free = t.low is None and t.high is None
        ranged = replace(t, low=0.5, high=1.5) if positive and free and t.dtype in FLOATS else t
        values = draw(ranged, rng, near=(0, 7), bound=bounds.get(t.name))
        out.append(values | positive if t.dtype == "bool" else values)  # a random mask may exclude every element
    return out


def small_cases(op: Operator) -> list[Params]:
    """Parameters of small, mostly odd sizes; every value of every attribute occurs."""
    return [params for params, _ in _cases(op)]


@cache
def _cases(op: Operator, count: int = 12, seed: int = 0) -> tuple[tuple[Params, Workload], ...]:
    # Cached, because every test of the contract uses all cases.
    rng = random.Random(f"{op.name}{seed}")
    choices: dict[str, list[Value]] = {}
    for p in op.parameters:
        if p.default is None or p.name in IMPLICIT:
            continue
        if p.choices:
            choices[p.name] = list(p.choices)
        elif isinstance(p.default, bool):
            choices[p.name] = [False, True]
        elif isinstance(p.default, int):
            choices[p.name] = [p.default, p.default + 1]
        if p.kind is Kind.INTS:
            first = p.default if isinstance(p.default, int) else 1
            choices[p.name] = [p.default, first + 1, f"{first + 1},{first}", f"{first},{first + 1},{first}"]
    longest = max(map(len, choices.values()), default=1)
    sizes = _SIZES if len(op.sizes) < 6 else {**_SIZES, Kind.INT: (1, 2, 3, 4, 5)}
    out: list[tuple[Params, Workload]] = []
    for n in itertools.count():
        if len(out) >= max(count, longest) or n > 100 * count:
            break
        case: Params = {p.name: rng.choice(sizes[p.kind]) for p in op.parameters if p.default is None}
        for name, values in choices.items():
            case[name] = values[n % len(values)] if n < longest else rng.choice(values)
        # If the values are not valid together, one attribute keeps its default.
        tries = [case, *({k: v for k, v in case.items() if k != name} for name in choices if n < longest)]
        for legal in tries:
            try:
                workload = op.workload(**legal)
            except UsageError:  # a window that is larger than its image, for example
                continue
            out.append((legal, workload))
            break
    # Without a valid random case, as for sizes that must match a text, the example is the only case.
    return tuple(out or [(dict(op.example), op.workload(**op.example))])


def _results(workload: Workload, inputs: list[Array]) -> list[Array]:
    """The interpreter's result of each output."""
    return [evaluate(one, inputs) for one in Program.loads(workload.program).of_each()]


def _takes(op: Operator, shapes: list[tuple[int, ...]], told: Params) -> bool:
    """Whether parameters exist for which an operator's inputs have exactly ``shapes``."""
    assert op.infer is not None
    try:
        return [s.shape for s in op.workload(**op.infer(shapes, **told)).inputs] == shapes
    except UsageError:
        return False


def _larger(size: Value) -> Value:
    """A larger size: a number, or the first axis of a shape, grows by 32."""
    first, *rest = str(size).split(",")
    return ",".join([str(int(first) + 32), *rest]) if isinstance(size, str) else int(first) + 32


class OperatorContract:
    """Tests of an operator: identity, parameters, and agreement of its expression with its NumPy implementation."""

    @pytest.fixture
    def op(self) -> Operator:
        raise NotImplementedError("give the fixture `op`")

    def cases(self, op: Operator) -> Iterator[tuple[Params, Workload]]:
        """Yields parameters to test with, and their workloads."""
        yield from _cases(op)

    def few(self, op: Operator) -> Iterator[tuple[Params, Workload]]:
        """Yields the first three cases, and later cases that have a new value of an attribute."""
        shown: set[tuple[str, Value]] = set()
        for n, (params, workload) in enumerate(self.cases(op)):
            values = {(k, v) for k, v in params.items() if k not in op.sizes}
            if n < 3 or not values <= shown:
                yield params, workload
            shown |= values

    # identity

    def test_the_key_does_not_depend_on_how_parameters_are_written(self, op: Operator) -> None:
        for params, workload in self.few(op):
            texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in reversed(params.items())}
            again = op.workload(**texts)
            assert again == workload
            assert again.key == workload.key

    def test_the_key_does_not_depend_on_names(self, op: Operator) -> None:
        renamed = replace(op, name="another_name")
        for params, workload in self.few(op):
            assert renamed.workload(**params).key == workload.key

    def test_other_sizes_and_dtypes_are_other_workloads(self, op: Operator) -> None:
        params, workload = next(self.cases(op))
        keys = {workload.key}
        for other in op.dtypes[1:]:
            keys.add(op.workload(**{**params, "dtype": other}).key)
        assert len(keys) == len(op.dtypes)
        first = op.sizes[0]
        assert op.workload(**{**params, first: _larger(params[first])}).key not in keys

    def test_workloads_survive_json(self, op: Operator) -> None:
        for _, workload in self.few(op):
            again = Workload.from_json(json.loads(json.dumps(workload.to_json())))
            assert again == workload
            assert again.key == workload.key
            assert Program.loads(workload.program).dumps() == workload.program

    # meaning

    def test_numpy_agrees_with_the_interpreter(self, op: Operator) -> None:
        if op.numpy is None:
            pytest.skip("this operator has no NumPy implementation")
        for dtype in op.dtypes:
            tried = 0
            for seed, (params, _) in enumerate(self.cases(op) if dtype == op.dtypes[0] else self.few(op)):
                try:
                    workload = op.workload(**{**params, "dtype": dtype})
                except UsageError:  # attributes that this dtype does not allow
                    continue
                tried += 1
                inputs = random_inputs(workload, seed)
                expected = _results(workload, inputs)
                if any(np.isnan(e).any() for e in expected):  # normal values may be outside the domain of sqrt or log
                    inputs = random_inputs(workload, seed, positive=True)
                    expected = _results(workload, inputs)
                    assert not any(np.isnan(e).any() for e in expected), workload.label
                found = op.numpy(*inputs, **dict(workload.params))
                for got, right, spec in zip(
                    found if workload.more else [found], expected, workload.outputs, strict=True
                ):
                    assert got.shape == spec.shape
                    assert got.dtype == numpy_dtype(spec.dtype)
                    near = DTYPES[spec.dtype].agreement.operator
                    np.testing.assert_allclose(
                        decode(got, spec.dtype), right, rtol=near, atol=near, err_msg=workload.label
                    )
            assert tried, dtype

    def test_blocks_are_parts_of_the_whole(self, op: Operator) -> None:
        for seed, (_, workload) in enumerate(self.few(op)):
            inputs = random_inputs(workload, seed)
            rng = random.Random(seed)
            for program in Program.loads(workload.program).of_each():
                whole = evaluate(program, inputs)
                block = []
                for n in whole.shape:
                    low = rng.randrange(n)
                    block.append(slice(low, rng.randint(low + 1, n)))
                part = evaluate_block(program, inputs, tuple(block), memory=1 << 14)
                np.testing.assert_allclose(part, whole[tuple(block)], rtol=1e-12, atol=1e-12)

    def test_infer_gives_the_parameters_back(self, op: Operator) -> None:
        if op.infer is None:
            pytest.skip("this operator does not infer sizes from shapes")
        for params, workload in self.cases(op):
            attributes = {k: v for k, v in params.items() if k not in op.sizes or k in op.told}
            assert op.infer([s.shape for s in workload.inputs], **attributes) == dict(workload.params)

    def test_infer_refuses_other_shapes(self, op: Operator) -> None:
        if op.infer is None:
            pytest.skip("this operator does not infer sizes from shapes")
        workload = op.workload(**op.example)
        shapes = [s.shape for s in workload.inputs]
        told = {k: v for k, v in workload.params if k not in op.sizes or k in op.told}
        for wrong in ([*shapes[:-1], (*shapes[-1], 3)], shapes[:-1], [*shapes, (2, 2)]):
            if _takes(op, wrong, told):  # the operator takes shapes of any rank
                continue
            with pytest.raises(ValueError) as caught:
                op.infer(wrong, **told)
            assert isinstance(caught.value, UsageError)
            assert caught.value.hint

    # description and parameters

    def test_the_example_and_the_documentation(self, op: Operator) -> None:
        workload = op.workload(**op.example)
        assert set(op.sizes) <= set(op.example)
        assert workload.flops >= 0  # a copy does no arithmetic
        assert op.doc.strip()
        assert "dtype" in op.attributes
        assert dict(workload.params) == {**op.attributes, **op.example}

    def test_bad_parameters_say_how_to_mend_them(self, op: Operator) -> None:
        good = dict(op.example)
        size = op.sizes[0]
        wrong: list[dict[str, object]] = [
            {k: v for k, v in good.items() if k != size},
            {**good, size: 0},
            {**good, size: -3},
            {**good, size: 1.5},
            {**good, size: "many"},
            {**good, size: True},
            {**good, "dtype": "float99"},
            {**good, "nonsense": 1},
        ]
        for p in op.parameters:
            if p.default is not None:
                wrong.append({**good, p.name: 7 if p.kind is Kind.STR else "maybe so"})
        for params in wrong:
            with pytest.raises(UsageError) as caught:
                op.workload(**params)
            assert caught.value.hint, params
            assert caught.value.exit_code == 2
            assert "\n" not in str(caught.value)

    def test_a_misspelt_attribute_is_recognised(self, op: Operator) -> None:
        for attribute in op.attributes:
            with pytest.raises(UsageError) as caught:
                op.workload(**{**op.example, attribute + "x": 1})
            assert attribute in caught.value.hint
