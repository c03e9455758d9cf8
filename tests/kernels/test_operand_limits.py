"""Products whose right side ends at a step that is read: no step further is taken, and the result is as if it were."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate, Task, Value
from tilewright.kernels import te
from tilewright.kernels.expression.numerics import encode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cpu_contraction.match import match as contraction
from tilewright.kernels.templates.cpu_dot.match import match as dot
from tilewright.kernels.templates.partition.segments import cuts
from tilewright.testing.kernels import Array, check, compile_kernels, launch_values, run_kernel, task_of
from tilewright.testing.schedules import covering

BATCH, K = 3, 48
LIMITS = [0, 17, 64]
"""Of each of the batch: no step, steps that end within a block, all."""
SAMPLES, DRAWN = 2, 20
TARGET = replace(get_backend("cpu").targets(1)[0], threads=3)


def limited(m: int, n: int, a: str = "rows", b: str = "rows", held: str = "float32", out: str = "") -> Program:
    """``out[p, i, j] = sum_r a[p, i, r] * (b[p, r, j] where r < count[p], else 0)``.

    ``a``: stored as ``rows`` (of bfloat16: ``half``) or ``columns``, ``computed`` from rows, or ``rounded``; ``b``: as ``rows``
    or ``columns``, or ``gathered`` through a table.
    ``held``: element type of b; ``out``: what the result is rounded to.
    """
    x = te.input("x", (BATCH, K, m) if a == "columns" else (BATCH, m, K), "bfloat16" if a == "half" else "float32")
    kept = {"columns": (BATCH, n, K), "gathered": (40, n)}.get(b, (BATCH, K, n))
    y, count = te.input("y", kept, held), te.input("count", (BATCH,), "int32")
    table = te.input("table", (BATCH, K), "int32", low=0, high=39) if b == "gathered" else None

    def left(p: te.Expr, i: te.Expr, r: te.Expr) -> te.Expr:
        if a == "columns":
            return x[p, r, i]
        if a == "rounded":
            return te.cast(te.cast(x[p, i, r], held), "float32")
        return te.exp(x[p, i, r]) if a == "computed" else te.cast(x[p, i, r], "float32")

    def right(p: te.Expr, r: te.Expr, j: te.Expr) -> te.Expr:
        if table is not None:
            return y[table[p, r], j]
        return y[p, j, r] if b == "columns" else y[p, r, j]

    def value(p: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        def step(r: te.Expr) -> te.Expr:
            return left(p, i, r) * te.select(r < count[p], te.cast(right(p, r, j), "float32"), 0.0)

        return te.sum(K, step)

    s = te.compute((BATCH, m, n), value)
    return te.program(te.compute((BATCH, m, n), lambda p, i, j: te.cast(s[p, i, j], out)) if out else s)[0]


PROGRAMS: dict[str, tuple[str, Callable[[], Program]]] = {
    "rows": ("cpu_contraction", lambda: limited(5, 37)),
    "two rows": ("cpu_contraction", lambda: limited(2, 16)),
    "columns of a": ("cpu_contraction", lambda: limited(19, 16, a="columns")),
    "columns of b": ("cpu_contraction", lambda: limited(6, 21, b="columns")),
    "computed": ("cpu_contraction", lambda: limited(4, 16, a="computed", out="float64")),
    "gathered": ("cpu_contraction", lambda: limited(5, 37, b="gathered")),
    "rounded at the end": ("cpu_contraction", lambda: limited(7, 33, out="float16")),
    "half": ("cpu_dot", lambda: limited(5, 37, a="rounded", held="bfloat16", out="bfloat16")),
    "half, two rows": ("cpu_dot", lambda: limited(2, 48, a="rounded", held="float16")),
    "half, columns of b": ("cpu_dot", lambda: limited(18, 21, b="columns", held="float16")),
    "half, gathered": ("cpu_dot", lambda: limited(5, 37, b="gathered", held="bfloat16")),
    "both half": ("cpu_dot", lambda: limited(4, 32, a="half", held="bfloat16")),
}


def stored(program: Program, beyond: float, weight: float) -> list[Array]:
    """Inputs that hold ``beyond`` behind the limits; the last row of the left side holds ``weight`` there, once."""
    rng = np.random.default_rng(1)
    kinds = {t.name: t.dtype for t in program.inputs}
    made: dict[str, Any] = {
        t.name: rng.standard_normal(t.shape) if t.dtype not in ("int32",) else np.zeros(t.shape, int)
        for t in program.inputs
    }
    x, y, count, table = (made[t.name] if t is not None else None for t in (*program.inputs, None)[:4])
    assert count is not None
    count[:] = LIMITS
    left = x.swapaxes(1, 2) if x.shape[1] == K else x
    left[0, -1, K - 1] = left[1, -1, LIMITS[1]] = weight
    if table is not None:
        table[:] = np.arange(BATCH * K).reshape(BATCH, K) % 39
        table[0], table[1, LIMITS[1] :] = 39, 39
        y[39] = beyond
    elif y.shape[1] == K:
        y[0], y[1, LIMITS[1] :] = beyond, beyond
    else:
        y[0], y[1, :, LIMITS[1] :] = beyond, beyond
    return [encode(made[n], k) if k != "int32" else made[n].astype(np.int32) for n, k in kinds.items()]


@pytest.mark.sampled
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_lies_beyond_is_not_read_and_what_it_meets_counts(name: str) -> None:
    """NaN behind limits never shows; an infinite factor of the zeros there makes its own row NaN, and no other."""
    template, make = get_template(PROGRAMS[name][0]), PROGRAMS[name][1]
    program = make()
    task, rng = task_of(program, TARGET), random.Random(2)
    space = template.space(task)
    schedules = [template.default(task), *covering((space.sample(rng) for _ in range(DRAWN)), SAMPLES)]
    candidates = [Candidate(task, s) for s in schedules]
    kernels = [template.lower(c) for c in candidates]
    library = compile_kernels(kernels, TARGET)
    for weight in (0.5, np.inf):
        inputs = stored(program, np.nan, weight)
        right = reference(program, inputs)
        assert np.isnan(right).any() == (weight == np.inf)
        assert not np.isnan(right[2]).any()
        assert not np.isnan(right[:, :-1]).any()
        for candidate, kernel in zip(candidates, kernels, strict=True):
            got = run_kernel(library, kernel, launch_values(candidate), inputs, task.workload.output, threads=3)
            check(program, inputs, got, right)


def test_what_is_recognised() -> None:
    for name, (_, make) in PROGRAMS.items():
        found = (dot if PROGRAMS[name][0] == "cpu_dot" else contraction)(make())
        assert found is not None, name
        # Two elements of K are a step where both sides are bfloat16.
        assert (found.b.valid_length is None) == (name == "both half"), name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_decoding_reads_values_where_they_lie(dtype: str) -> None:
    """One query of each head, with lengths, where heads share keys."""
    sizes: dict[str, Value] = {"b": 2, "h": 8, "hk": 2, "lq": 1, "lk": 512, "d": 64, "lengths": True}
    workload = get_operator("attention").workload(**sizes, dtype=dtype)
    task = Task(workload, parse_target("cpu:avx512", threads=1, allow_foreign=True))
    assert get_template("cpu_partition").matches(task)
    last = cuts(task)[0][-1]
    assert last.template == ("cpu_contraction" if dtype == "float32" else "cpu_dot")
    values = get_template(last.template).default(last.task(task)).values
    assert values["b" if dtype == "float32" else "pack_b"] in ("direct", "none")
