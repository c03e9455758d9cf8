"""Constants of every size and sign, negated, converted and compared: what is printed compiles and means the number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tilewright.backends import get_backend, parse_target
from tilewright.backends.emulator import run
from tilewright.core import Candidate
from tilewright.kernels import te
from tilewright.kernels.expression.expr import const
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.testing.cuda_template import empty_output, emulated
from tilewright.testing.kernels import compile_kernels, launch_values, run_kernel, task_of

Array = np.ndarray[Any, Any]

REALS = (
    -0.66, 0.66, -0.0, 0.0, 1e38, -3.4e38, 1e300, -1e300, 1e-38, -1e-45, 1e-300, 5e-324, math.inf, -math.inf, math.nan,
    1e6, -123456789.0, 2.0**-149, 1 / 3,
)  # fmt: skip
WHOLE = {
    "int64": (-(2**63), 2**63 - 1, -(2**31), 2**32, -1, 0), "int32": (-(2**31), 2**31 - 1, -1, 0, 7),
    "int8": (-128, 127, -1), "uint8": (255, 0),
}  # fmt: skip
N = 19
"""Elements: whole vectors and some beside."""


def negated(c: te.Expr) -> te.Expr:
    return -c


def _reals(dtype: str) -> Program:
    """Each constant where an index asks for it: as it is, negated, negated twice and converted."""
    x = te.input("x", (N,), dtype)

    def body(i: te.Expr, j: te.Expr) -> te.Expr:
        value: te.Expr = x[i]
        for n, v in enumerate(REALS):
            c = const(v, dtype)
            less = negated(c)
            for m, form in enumerate((c, less, negated(less), -te.cast(-te.cast(c, "float64"), dtype), te.abs(less))):
                value = te.select(j == 5 * n + m, form, value)
        return value

    return te.program(te.compute((N, 5 * len(REALS) + 1), body))[0]


def _whole(dtype: str) -> Program:
    x = te.input("x", (N,), dtype)
    numbers = WHOLE[dtype]

    def body(i: te.Expr, j: te.Expr) -> te.Expr:
        value: te.Expr = x[i]
        for n, v in enumerate(numbers):
            c = const(v, dtype)
            for m, form in enumerate(
                (c, te.cast(te.cast(c, "int64"), dtype), negated(negated(c)) if abs(v) < 2**63 else c)
            ):
                value = te.select(j == 3 * n + m, form, value)
        return value

    return te.program(te.compute((N, 3 * len(numbers) + 1), body))[0]


PROGRAMS = {**{d: _reals(d) for d in ("float32", "float64")}, **{d: _whole(d) for d in WHOLE}}


def _inputs(dtype: str) -> Array:
    return np.arange(N).astype(dtype)


def _compare(dtype: str, got: Array, told: str) -> None:
    with np.errstate(all="ignore"):
        want = evaluate(PROGRAMS[dtype], [_inputs(dtype)]).astype(dtype)
    np.testing.assert_array_equal(got, want, err_msg=f"{dtype} {told}")
    if dtype.startswith("float"):
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known], err_msg=f"{dtype} {told}")


@pytest.mark.parametrize("name", ["native", "portable"])
def test_constants_of_cpu_kernels(name: str) -> None:
    target = get_backend("cpu").targets()[0] if name == "native" else parse_target("cpu:portable")
    made = []
    for dtype, p in PROGRAMS.items():
        task = task_of(p, target, dtype)
        for template in map(get_template, ("cpu_map", "cpu_generic")):
            if template.matches(task):
                made.append((dtype, Candidate(task, template.default(task))))
    kernels = [get_template(c.schedule.template).lower(c) for _, c in made]
    library = compile_kernels(kernels, target)
    assert {d for d, _ in made} == set(PROGRAMS)
    for (dtype, candidate), kernel in zip(made, kernels, strict=True):
        output = candidate.task.workload.output
        got = run_kernel(library, kernel, launch_values(candidate), [_inputs(dtype)], output)
        _compare(dtype, got, candidate.schedule.template)


def test_constants_of_cuda_kernels() -> None:
    target = parse_target("cuda:sm_80", allow_foreign=True)
    template = get_template("cuda_generic")
    made = [Candidate(task, template.default(task)) for d, p in PROGRAMS.items() for task in [task_of(p, target, d)]]
    kernels = [template.lower(c) for c in made]
    unit = emulated(kernels, target)
    for dtype, candidate, kernel in zip(PROGRAMS, made, kernels, strict=True):
        out = empty_output(PROGRAMS[dtype].output.shape, dtype)
        assert run(unit, kernel.program, launch_values(candidate), [_inputs(dtype)], out).ok
        _compare(dtype, out, "cuda_generic")


@pytest.mark.parametrize(("dtype", "value"), [("int64", 2**63), ("int64", -(2**63) - 1), ("int32", 2**31)])
def test_a_constant_beyond_its_type_is_refused(dtype: str, value: int) -> None:
    with pytest.raises(TypeError, match=f"is no {dtype}"):
        const(value, dtype)
