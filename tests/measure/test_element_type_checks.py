"""Matrix products of every element type: honest results pass, and one product less does not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.backends.cache import ArtifactCache
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Device, Target, Task, Workload
from tilewright.dtypes import numpy_dtype
from tilewright.kernels import te
from tilewright.kernels.expression.numerics import from_bfloat16, to_bfloat16
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import find_numpy, get_operator
from tilewright.kernels.templates import get_template
from tilewright.measure.runner import Item, LocalRunner
from tilewright.verifying.exact import full_range, whole_reach
from tilewright.verifying.inputs import RECIPES, Array, Recipe, make_inputs
from tilewright.verifying.projection import project
from tilewright.verifying.verify import Verifier

TYPES: list[dict[str, Any]] = [
    {"dtype": "float64"},
    {"dtype": "float16"},
    {"dtype": "float16", "out_dtype": "float32"},
    {"dtype": "bfloat16"},
    {"dtype": "bfloat16", "out_dtype": "float32"},
    {"dtype": "int8"},
    {"dtype": "int8", "out_dtype": "bfloat16"},
    {"dtype": "float32", "out_dtype": "float16"},
    {"dtype": "float32", "precision": "tf32"},
    {"dtype": "float32", "precision": "tf32_truncated"},
    {"dtype": "float32", "precision": "tf32x3"},
]
LAYERS: list[dict[str, Any]] = [
    {"dtype": "float16", "bias": True, "activation": "gelu", "residual": True},
    {"dtype": "bfloat16", "bias": True, "activation": "relu", "residual": True, "trans_b": True},
    {"dtype": "int8", "bias": True, "activation": "relu"},
    {"dtype": "int8", "bias": True, "activation": "silu", "out_dtype": "float16"},
    {"precision": "tf32", "bias": True, "activation": "gelu_tanh"},
]


def name(params: dict[str, Any]) -> str:
    return "-".join(str(v) if isinstance(v, str) else k for k, v in params.items())


def workload_of(**params: Any) -> Workload:
    return get_operator("matmul").workload(**params)


def as_kernel(w: Workload, compute: Callable[..., Array]) -> Callable[[Sequence[int]], None]:
    """A kernel that works on addresses, from a function of arrays."""
    p = Program.loads(w.program)

    def run(pointers: Sequence[int]) -> None:
        views = []
        for t, address in zip((*p.inputs, p.output), pointers, strict=True):
            dtype = numpy_dtype(t.dtype)
            data = (ctypes.c_char * (t.size * dtype.itemsize)).from_address(address)
            views.append(np.frombuffer(data, dtype).reshape(t.shape))
        views[-1][...] = compute(*views[:-1])

    return run


def honest(w: Workload) -> Callable[..., Array]:
    run = find_numpy(w)
    assert run is not None
    return run


@pytest.mark.parametrize("params", [*TYPES, *LAYERS], ids=name)
def test_honest_results_pass(params: dict[str, Any]) -> None:
    w = workload_of(m=9, n=17, k=2000, **params)
    assert Verifier(Program.loads(w.program)).check(as_kernel(w, honest(w))) is None


@pytest.mark.parametrize("given", ["ieee", "tf32", "tf32_truncated"])
@pytest.mark.parametrize("asked", ["ieee", "tf32", "tf32_truncated", "tf32x3"])
def test_each_rounding_of_operands_is_right_where_it_was_asked_for_alone(asked: str, given: str) -> None:
    w = workload_of(m=9, n=17, k=200, precision=asked)
    kernel = as_kernel(w, honest(workload_of(m=9, n=17, k=200, precision=given)))
    near = {asked} | ({"ieee"} if asked == "tf32x3" else set())  # which is within float32's sums of the exact product
    assert (Verifier(Program.loads(w.program)).check(kernel) is None) == (given in near)


@pytest.mark.parametrize("params", TYPES, ids=name)
def test_one_product_less_of_16384_is_found(params: dict[str, Any]) -> None:
    w = workload_of(m=5, n=12, k=16384, **params)
    v = Verifier(Program.loads(w.program))
    right = as_kernel(w, honest(w))
    exact = v.input_set(2)
    assert v.check_set(right, exact) is None

    def short(a: Array, b: Array) -> Array:
        b = b.copy()
        b[777] = 0
        return honest(w)(a, b)

    problem = v.check_set(as_kernel(w, short), exact)
    assert problem
    assert "whole" in problem


@pytest.mark.parametrize("params", [{"dtype": "bfloat16"}, {"dtype": "float16"}], ids=name)
def test_one_product_less_in_one_element_is_found(params: dict[str, Any]) -> None:
    w = workload_of(m=8, n=40, k=16384, **params)
    v = Verifier(Program.loads(w.program))
    exact = v.input_set(2)
    whole = honest(w)(*(g.array for g in exact.inputs))
    found = 0
    for j in range(0, 40, 4):

        def short(a: Array, b: Array, j: int = j) -> Array:
            out = whole.copy()
            rest = b.copy()
            rest[j, j] = 0
            out[3, j] = honest(w)(a[3:4], rest)[0, j]
            return out

        found += v.check_set(as_kernel(w, short), exact) is not None
    # Of products of -1, 0 and 1, more than half are zero: nothing is dropped then.
    assert found >= (2 if params["dtype"] == "bfloat16" else 5)


@pytest.mark.parametrize("params", TYPES, ids=name)
def test_a_wrong_element_is_found_by_projection(params: dict[str, Any]) -> None:
    w = workload_of(m=64, n=48, k=512, **params)
    p = Program.loads(w.program)
    reach, exact = whole_reach(p)
    assert exact == {s.name for s in p.stages}
    values = make_inputs(p, Recipe("whole", 2, "odd", reach), {})
    projection = project(p, values, 0)
    assert projection is not None
    out = honest(w)(*values)
    wide = from_bfloat16(out) if w.output.dtype == "bfloat16" else out.astype(np.float64)
    assert projection.wrong(wide) == 0
    spoilt = wide.copy()
    spoilt[40, 17] += 1
    assert projection.wrong(spoilt) == 1


def test_rounded_results_are_allowed_their_rounding_by_a_projection() -> None:
    w = workload_of(m=32, n=64, k=4096, dtype="int8", out_dtype="bfloat16")
    p = Program.loads(w.program)
    values = make_inputs(p, Recipe("whole", 2, "odd", 8), {})
    projection = project(p, values, 0)
    out = from_bfloat16(honest(w)(*values))
    assert (np.abs(out) > 256).mean() > 0.5  # most results are rounded
    assert projection is not None
    assert projection.wrong(out) == 0
    out = out.copy()
    out[5] = 0
    assert projection.wrong(out) == 1


# --------------------------------------------------------------------------- inputs


def test_int8_inputs_cover_their_range_and_are_small_in_the_exact_set() -> None:
    p = Program.loads(workload_of(m=40, n=40, k=40, dtype="int8").program)
    a, _ = make_inputs(p, RECIPES[0], {})
    assert a.dtype == np.int8
    assert a.min() == -128
    assert a.max() == 127
    small, _ = make_inputs(p, RECIPES[2], {})
    assert np.abs(small).max() == RECIPES[2].reach


def test_int8_inputs_stay_small_where_their_arithmetic_would_overflow() -> None:
    x = te.input("x", (1000,), "int8")
    narrow, _ = te.program(te.compute((1000,), lambda i: x[i] * x[i] + x[i]))
    assert full_range(narrow) == frozenset()
    assert np.abs(make_inputs(narrow, RECIPES[0], {})[0]).max() <= 1
    scaled, _ = te.program(te.compute((1000,), lambda i: te.exp(te.cast(x[i], "float32") * 0.01)))
    assert full_range(scaled) == {"x0"}
    total, _ = te.program(te.compute((1,), lambda i: te.sum(1000, lambda r: te.cast(x[r], "int32"))))
    assert full_range(total) == {"x0"}
    wraps, _ = te.program(te.compute((1,), lambda i: te.sum(1000, lambda r: x[r])))
    assert full_range(wraps) == frozenset()


def test_bfloat16_keeps_nan_and_rounds_to_even() -> None:
    values = np.array([np.nan, np.inf, 1.00390625, 1.01171875, -0.0, 3.4e38], np.float32)
    back = from_bfloat16(to_bfloat16(values))
    assert np.isnan(back[0])
    np.testing.assert_array_equal(back[1:], [np.inf, 1.0, 1.015625, -0.0, np.inf])


# --------------------------------------------------------------------------- templates


@pytest.fixture(scope="module")
def built(target: Target, cache: ArtifactCache) -> list[Item]:
    """The defaults of all types and layers, several to a library."""
    tasks = [Task(workload_of(m=17, n=37, k=65, **params), target) for params in (*TYPES, *LAYERS)]
    templates = [get_template(name) for name in ("cpu_contraction", "cpu_generic")]
    candidates = [Candidate(task, t.default(task)) for task in tasks for t in templates if t.matches(task)]
    with Builder(target, cache=cache) as b:
        artifacts = b.build(candidates)
    assert all(isinstance(a, Artifact) for a in artifacts), artifacts
    return [(c, a) for c, a in zip(candidates, artifacts, strict=True) if isinstance(a, Artifact)]


@pytest.fixture(scope="module")
def runner(device: Device, target: Target) -> Iterator[LocalRunner]:
    with LocalRunner(device, target, references="") as r:
        yield r


@pytest.mark.parametrize("params", [*TYPES, *LAYERS], ids=name)
def test_templates_compute_them(params: dict[str, Any], target: Target, built: list[Item], runner: LocalRunner) -> None:
    task = Task(workload_of(m=17, n=37, k=65, **params), target)
    items = [item for item in built if item[0].task == task]
    assert items
    for item in items:
        problem = runner.verify(task, item)
        assert problem is None, f"{problem} of {item[0].schedule.to_json()}"
