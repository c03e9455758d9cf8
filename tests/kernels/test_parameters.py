"""Parameters that are several numbers: how they are written, stored and handed on."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tilewright import operator, te
from tilewright.core import OperatorError, UsageError, Workload
from tilewright.kernels.operator import Operator
from tilewright.kernels.parameters import Kind, agree, canonical_value, convert
from tilewright.testing.operator import OperatorContract


def _numpy(x: Any, *, shift: te.Ints = 0, times: te.Ints) -> Any:
    for axis, n in enumerate((shift,) * x.ndim if isinstance(shift, int) else shift):
        x = np.roll(x, -n, axis)
    return (x * (times if isinstance(times, int) else sum(times))).astype(x.dtype)


def _infer(shapes: Any, *, shift: te.Ints = 0, times: te.Ints) -> dict[str, Any]:
    (shape,) = shapes
    return {"shape": shape}


@operator(numpy=_numpy, infer=_infer, example={"shape": (4, 8), "times": (1, 2)})
def rolled(shape: te.Shape, times: te.Ints, *, shift: te.Ints = 0) -> te.TensorRef:
    """``times * x``, moved along every axis."""
    assert isinstance(shape, tuple)
    moves = (shift,) * len(shape) if isinstance(shift, int) else shift
    if len(moves) != len(shape):
        raise UsageError(f"rolled: shift={shift} for {len(shape)} axes", "Give one number an axis")
    x = te.input("x", shape)
    factor = float(times if isinstance(times, int) else sum(times))
    return te.compute(shape, lambda *i: x[tuple((a + m) % n for a, m, n in zip(i, moves, shape, strict=True))] * factor)


class TestRolled(OperatorContract):
    @pytest.fixture
    def op(self) -> Operator:
        return rolled


@pytest.mark.parametrize(
    ("given", "stored"),
    [("2", 2), (2, 2), ("2,1", "2,1"), ((2, 1), "2,1"), ([2, 1], "2,1"), (np.array([2, 1]), "2,1"), ("(2, 1)", "2,1"),
     ((2, 2), 2), ("3,3,3", 3), ((), ""), ("", ""), ("-1,0", "-1,0"), (np.int64(4), 4), ((5,), 5), ("2,", 2),
     (2.0, 2), (None, None), (True, None), ("a,b", None), ((1.5, 2), None), ("1.5", None), ((True, 1), None)],
)  # fmt: skip
def test_a_parameter_takes_one_number_or_several(given: object, stored: object) -> None:
    assert convert(given, Kind.INTS) == stored
    assert type(convert(given, Kind.INTS)) is type(stored)


@pytest.mark.parametrize(
    ("given", "stored"),
    [("32,8192", "32,8192"), ((8, 8), "8,8"), (7, "7"), ("[3, 4]", "3,4"), ((), ""), ("x", None), (1.5, None)],
)
def test_shapes_are_converted(given: object, stored: object) -> None:
    assert convert(given, Kind.SHAPE) == stored


def test_what_is_stored_and_what_is_received() -> None:
    params = rolled.params(shape=(3, 4), times="1,2", shift=[1, 0])
    assert params == {"shape": "3,4", "times": "1,2", "shift": "1,0", "dtype": "float32", "constant": ""}
    assert rolled.arguments(params) == {"shape": (3, 4), "times": (1, 2), "shift": (1, 0)}
    assert rolled.arguments(rolled.params(shape="5", times=(2, 2))) == {"shape": (5,), "times": 2, "shift": 0}
    assert rolled.sizes == ("shape", "times")
    assert rolled.told == ("times",)
    assert rolled.example == {"shape": "4,8", "times": "1,2"}
    workload = rolled.workload(shape=(3, 4), times=2)
    assert workload.label == "rolled shape=3,4 times=2"
    assert Workload.from_json(json.loads(json.dumps(workload.to_json()))) == workload
    assert rolled.workload(shape="3,4", times=(2, 2)).key == workload.key


def test_sizes_that_no_shape_shows_are_asked_for() -> None:
    assert rolled.infer is not None
    assert rolled.infer([(3, 4)], times=(1, 2))["times"] == "1,2"
    with pytest.raises(UsageError, match="rolled needs times") as caught:
        rolled.infer([(3, 4)])
    assert "times=" in caught.value.hint
    with pytest.raises(UsageError, match="no parameter 'shfit'") as caught:
        rolled.infer([(3, 4)], times=1, shfit=1)
    assert "Did you mean shift?" in caught.value.hint


@pytest.mark.parametrize("shape", ["3,0", (0,), (-1, 2), "3,-4"])
def test_shapes_have_no_empty_axes(shape: object) -> None:
    with pytest.raises(UsageError, match="not positive"):
        rolled.workload(shape=shape, times=1)


def test_defaults_are_stored() -> None:
    @operator
    def f(m: int, *, window: te.Ints = (), size: te.Shape = (2, 3), pair: te.Ints = (4, 5)) -> te.TensorRef:
        assert (window, size, pair) == ((), (2, 3), (4, 5))
        x = te.input("x", (m,))
        return te.compute((m,), lambda i: x[i] * 2.0)

    assert f.attributes == {"window": "", "size": "2,3", "pair": "4,5", "dtype": "float32", "constant": ""}
    assert f.workload(m=2).label == "f m=2"


def test_defaults_of_another_kind_are_refused() -> None:
    def f(m: int, *, window: te.Ints = "wide") -> te.TensorRef:  # type: ignore[assignment]
        return te.input("x", (m,))

    with pytest.raises(OperatorError, match="window='wide' is not a whole number or several"):
        operator(f)


def test_look_ups_compare_what_was_written() -> None:
    assert [canonical_value(v) for v in ((2, 1), [2, 2], "x", np.int64(3), (0.5,))] == ["2,1", "2,2", "x", 3, (0.5,)]
    for stored, given in ((2, "2,2"), ("2,1", "2,1"), ("8,8", "8,8"), (512, "512"), ("relu", "relu"), (1.5, 1.5)):
        assert agree(stored, given)
    for stored, given in ((2, "3"), ("2,1", "1,2"), (True, "1"), ("relu", "gelu"), (1.5, "1.5"), ("2,2", 2)):
        assert not agree(stored, given)
