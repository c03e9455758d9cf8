"""Soft caps behind products: ``cap * tanh(x / cap)`` is an epilogue of the product's own kernel."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.core import Candidate
from tilewright.kernels import te
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import get_template, templates_for
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_kernel, task_of

TARGET = replace(get_backend("cpu").targets(1)[0], threads=3)
CAP = 5.0
SAMPLES = 3


def softcapped(dtype: str, out: str, m: int = 13, n: int = 53, k: int = 40) -> Program:
    """A product of values of one type, capped, and rounded to ``out``."""
    x, y = te.input("x", (m, k), dtype), te.input("y", (k, n), dtype)

    def term(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        return te.cast(x[i, r], "float32") * te.cast(y[r, j], "float32")

    s = te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r)))
    return te.program(te.compute((m, n), lambda i, j: te.cast(CAP * te.tanh(s[i, j] / CAP), out)))[0]


@pytest.mark.parametrize(
    ("dtype", "out", "name"),
    [
        ("float32", "float32", "cpu_contraction"), ("float32", "bfloat16", "cpu_contraction"),
        ("bfloat16", "bfloat16", "cpu_dot"), ("float16", "float16", "cpu_dot"), ("bfloat16", "float32", "cpu_dot"),
    ],
)  # fmt: skip
def test_a_softcap_is_an_epilogue_of_the_product_in_front_of_it(dtype: str, out: str, name: str) -> None:
    program = softcapped(dtype, out)
    task, template, rng = task_of(program, TARGET), get_template(name), random.Random(1)
    assert templates_for(task)[0].name == name
    space = template.space(task)
    candidates = [Candidate(task, s) for s in (template.default(task), *(space.sample(rng) for _ in range(SAMPLES)))]
    kernels = [template.lower(c) for c in candidates]
    assert all(len(k.program.launches) == 1 for k in kernels)
    library, inputs = compile_kernels(kernels, TARGET), random_arrays(program)
    for candidate, kernel in zip(candidates, kernels, strict=True):
        got = run_kernel(library, kernel, launch_values(candidate), inputs, task.workload.output, threads=3)
        check(program, inputs, got)
        values = np.abs(decode(got, out))
        assert 0.9 * CAP < values.max() <= CAP
