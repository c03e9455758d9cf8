"""Conversions round, once: in the interpreter as in NumPy, in kernels of every kind as in the interpreter."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.machines import OpenCl
from tilewright.backends import emulator, get_backend, parse_target
from tilewright.backends.opencl import devices
from tilewright.core import Candidate, Target
from tilewright.dtypes import numpy_dtype
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOAT8, FLOATS
from tilewright.kernels.expression.numerics import decode, encode, rounded
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import computing, get_template
from tilewright.testing.cuda_template import empty_output, emulated
from tilewright.testing.kernels import compile_kernels, launch_values, run_kernel, task_of
from tilewright.verifying import tolerance

Array = np.ndarray[Any, Any]

CHAINS = (
    ("float32", "float16", "float32"), ("float32", "bfloat16", "float32"), ("float32", "float8_e4m3fn", "float32"),
    ("float32", "float8_e5m2", "float32"), ("float64", "float32", "float64"), ("float64", "float16", "float64"),
    ("float64", "bfloat16", "float64"), ("float64", "float16", "float16"), ("float64", "bfloat16", "bfloat16"),
    ("float16", "float32", "float16"), ("bfloat16", "float16", "float32"), ("float16", "bfloat16", "float16"),
    ("int64", "float16", "float32"), ("int32", "bfloat16", "float32"), ("int64", "float32", "float64"),
    ("float32", "int8", "int8"), ("float32", "int32", "float32"), ("int64", "int8", "int64"),
    ("int32", "uint8", "int32"), ("uint8", "int8", "float32"),
)  # fmt: skip
"""Element types of an input, of what it is converted to, and of what that is converted to and stored as."""


def edges(dtype: str, whole: bool = False) -> Array:
    """Values around halves of the steps of narrower types, at their ends and beyond; ``whole``: small ones."""
    rng = np.random.default_rng(1)
    if dtype in ("int64", "int32"):
        ends = [0, 1, -1, 127, 128, 255, 256, -129, 2049, 2051, 65519, 65520, 100000, 2**24 + 1, 2**25 + 3, 2**31 - 1]
        return np.concatenate([ends, rng.integers(-(2**31), 2**31, 80)]).astype(dtype)
    if dtype == "uint8":
        return np.arange(256, dtype=np.uint8)
    if whole:
        return np.concatenate([[0.5, -0.5, 1.99, -1.99, 126.9, -127.5], rng.uniform(-120, 120, 90)]).astype(dtype)
    steps = [2.0**-11, 2.0**-8, 2.0**-4, 2.0**-3, 2.0**-24]
    halves = [(1 + k * s) * (1 + e) for s in steps for k in (1, 3) for e in (0, 2.0**-40, -(2.0**-40))]
    far = [
        123456.7,
        65519.9,
        65520,
        3.4e38,
        3.5e38,
        464,
        465,
        61439,
        61440,
        1e-12,
        6e-8,
        2.9e-8,
        1e-40,
        0,
        np.inf,
        np.nan,
    ]
    values = np.array([*halves, *far, *(rng.standard_normal(60) * 10.0 ** rng.uniform(-9, 6, 60))])
    with np.errstate(all="ignore"):
        return encode(np.concatenate([values, -values]).astype(dtype if dtype == "float64" else "float32"), dtype)


@cache
def program(source: str, between: str, to: str, n: int) -> Program:
    x = te.input("x", (n,), source)
    return te.program(te.compute((n,), lambda i: te.cast(te.cast(x[i], between), to), dtype=to))[0]


def arguments(chain: tuple[str, str, str]) -> tuple[Program, Array]:
    x = edges(chain[0], whole=chain[1] in ("int8", "int32"))
    return program(*chain, len(x)), x


def kernels(target: Target, generic: str = "") -> list[tuple[tuple[str, str, str], Candidate]]:
    """Every chain by every template that computes it, the generic one too."""
    made = []
    for chain in CHAINS:
        task = task_of(arguments(chain)[0], target, "_".join(chain))
        general = get_template(generic or f"{target.kind}_generic")
        for t in dict.fromkeys((*computing(task), *([general] if general.matches(task) else []))):
            made.append((chain, Candidate(task, t.default(task))))
    return made


def same(got: Array, chain: tuple[str, str, str], told: str) -> None:
    p, x = arguments(chain)
    np.testing.assert_array_equal(decode(got, chain[2]), evaluate(p, [x]), err_msg=f"{chain} {told}")


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d != "float64"])
def test_values_are_rounded_to_the_nearest_and_once(dtype: str) -> None:
    if dtype == "float32":
        x = edges("float64")
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(rounded(x, dtype), x.astype(np.float32).astype(np.float64))
        return
    stored = numpy_dtype(dtype)
    whole = np.dtype(f"uint{8 * stored.itemsize}")
    bits = np.arange(1 << (8 * stored.itemsize), dtype=whole).view(stored)
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = decode(bits, dtype).astype(np.float64)
    np.testing.assert_array_equal(rounded(values, dtype), values)
    finite = np.unique(values[np.isfinite(values)])
    low, high = finite[:-1], finite[1:]
    middle, gap = (low + high) / 2, (high - low) * 2.0**-30
    np.testing.assert_array_equal(rounded(middle + gap, dtype), high)  # float32 does not hold how they differ
    np.testing.assert_array_equal(rounded(middle - gap, dtype), low)
    at = rounded(middle, dtype)
    assert ((at == low) | (at == high)).all()
    assert not (encode(at, dtype).view(whole) & 1).any()  # to even
    beyond = rounded(np.array([1e30 if dtype != "bfloat16" else 3.4e38, np.nan]), dtype)
    assert np.isnan(beyond[0]) if dtype == "float8_e4m3fn" else np.isinf(beyond[0])


@pytest.mark.parametrize("chain", [c for c in CHAINS if c[1] in FLOATS], ids="-".join)
def test_the_interpreter_rounds_as_numpy_does(chain: tuple[str, str, str]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")

    def theirs(name: str) -> Any:
        return getattr(ml_dtypes, name, None) or np.dtype(name)

    p, x = arguments(chain)
    wide = x.view(theirs(chain[0]))
    if chain[0] == "float64" and chain[1] == "bfloat16":
        return  # ml_dtypes rounds twice
    with np.errstate(all="ignore"):
        expected = wide.astype(theirs(chain[1])).astype(theirs(chain[2])).astype(np.float64)
    np.testing.assert_array_equal(evaluate(p, [x]), expected)


@pytest.mark.parametrize("name", ["native", "portable"])
def test_cpu_kernels_round_as_the_interpreter_does(name: str) -> None:
    target = get_backend("cpu").targets()[0] if name == "native" else parse_target("cpu:portable")
    made = kernels(target)
    lowered = [get_template(c.schedule.template).lower(c) for _, c in made]
    library = compile_kernels(lowered, target)
    assert {chain for chain, _ in made} == set(CHAINS)
    for (chain, candidate), kernel in zip(made, lowered, strict=True):
        x = arguments(chain)[1]
        got = run_kernel(library, kernel, launch_values(candidate), [x], candidate.task.workload.output)
        same(got, chain, candidate.schedule.template)


def test_cuda_kernels_round_as_the_interpreter_does() -> None:
    target = parse_target("cuda:sm_80", allow_foreign=True)
    made = kernels(target)
    lowered = [get_template(c.schedule.template).lower(c) for _, c in made]
    assert {chain for chain, _ in made} == {c for c in CHAINS if not set(c) & set(FLOAT8)}
    unit = emulated(lowered, target)
    for (chain, candidate), kernel in zip(made, lowered, strict=True):
        p, x = arguments(chain)
        out = empty_output(p.output.shape, p.output.dtype)
        assert emulator.run(unit, kernel.program, launch_values(candidate), [x], out).ok
        same(out, chain, candidate.schedule.template)


@pytest.mark.skipif(not devices.usable(), reason="this machine has no OpenCL device")
def test_opencl_kernels_round_as_the_interpreter_does(tmp_path: Path) -> None:
    machine = OpenCl(tmp_path)
    made = kernels(machine.target, "cuda_generic")
    lowered = [get_template(c.schedule.template).lower(c) for _, c in made]
    assert {chain for chain, _ in made} == {c for c in CHAINS if not set(c) & set(FLOAT8)}
    unit = machine.build(lowered)
    for (chain, candidate), kernel in zip(made, lowered, strict=True):
        p, x = arguments(chain)
        for run in unit.runs(kernel, launch_values(candidate), [x], [(p.output.shape, p.output.dtype)]):
            same(run.results[0], chain, candidate.schedule.template)


def test_a_conversion_of_an_exact_value_has_no_tolerance() -> None:
    p = program("float32", "float16", "float32", 8)
    derived = tolerance.error_program(p)
    assert evaluate(derived.program, [np.ones(8)] * len(derived.program.inputs)).max() <= 2 * tolerance.TINY


def test_a_conversion_inside_of_a_sum_rounds() -> None:
    """In products too, whose factors the interpreter multiplies as matrices."""
    n = 40
    a, b = te.input("a", (n, n)), te.input("b", (n, n))

    def term(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        return te.cast(te.cast(a[i, r], "bfloat16"), "float32") * te.cast(te.cast(b[r, j], "float16"), "float32")

    p = te.program(te.compute((n, n), lambda i, j: te.sum(n, lambda r: term(i, j, r))))[0]
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    expected = rounded(x.astype(np.float64), "bfloat16") @ y.astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(evaluate(p, [x, y]), expected, rtol=1e-12, atol=1e-12)
    target = get_backend("cpu").targets()[0]
    task = task_of(p, target)
    candidates = [Candidate(task, t.default(task)) for t in computing(task)]
    lowered = [get_template(c.schedule.template).lower(c) for c in candidates]
    library = compile_kernels(lowered, target)
    for candidate, kernel in zip(candidates, lowered, strict=True):
        got = run_kernel(library, kernel, launch_values(candidate), [x, y], candidate.task.workload.output)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=candidate.schedule.template)
