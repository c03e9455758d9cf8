"""What lies beyond a sequence's length never shows in attention: NaN, infinity, page numbers that mean nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from cuda_attention_programs import ONE_GROUP

from tilewright.backends.cpu.targets import parse_target
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.backends.emulator import build, run
from tilewright.core import Candidate, Target, Value
from tilewright.kernels import te
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.numerics import encode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.attention import match
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.testing.cuda_template import ORDERS, empty_output
from tilewright.testing.kernels import (
    Array,
    check,
    compile_kernels,
    launch_values,
    random_arrays,
    run_kernel,
    task_of,
)

SIZES = {"b": 2, "h": 2, "hk": 1, "lq": 40, "lk": 96, "d": 16, "lengths": True}
LENGTHS = [40, 77]
"""Keys that each of two sequences has: blocks of keys end before, at and behind them."""
HALF = {"dtype": "float16"}
PAGES = {"page": 24, "pages": 9}

CASES: dict[str, tuple[str, str, dict[str, Value], dict[str, Value]]] = {
    "cpu": ("cpu_attention", "cpu:portable", {"mask": "float"}, {"KB": 32}),
    "cpu causal pages": ("cpu_attention", "cpu:portable", {**HALF, **PAGES, "is_causal": True}, {"KB": 48}),
    "cpu few queries": ("cpu_partition", "cpu:portable", {"lq": 1, "dv": 40}, {}),
    "cpu one query a head": ("cpu_generic", "cpu:portable", {"dtype": "bfloat16", "lq": 1, "hk": 2}, {}),
    "cpu 16-bit few queries": ("cpu_partition", "cpu:portable", {**HALF, **PAGES, "lq": 1, "dv": 40}, {}),
    "cpu float64": ("cpu_partition", "cpu:portable", {"dtype": "float64", "lq": 3, **PAGES}, {}),
    "ordinary": ("cuda_attention", "sm_80", {"mask": "float", "lq": 12}, {"BK": 32}),
    "warps": ("cuda_attention", "sm_80", {**HALF, "is_causal": True}, {"BK": 32, "stages": 2}),
    "warps pages": ("cuda_attention", "sm_80", {**HALF, **PAGES, "lq": 3}, {"BK": 64, "pack": True}),
    "groups": ("cuda_attention", "sm_90a", {**HALF, "d": 80, "is_causal": True}, ONE_GROUP),
    "groups pages": ("cuda_attention", "sm_90a", {**HALF, **PAGES, "lq": 70}, {**ONE_GROUP, "groups": 2, "BK": 64}),
    "groups packed": ("cuda_attention", "sm_90a", {"dtype": "bfloat16", **PAGES, "lq": 30}, {**ONE_GROUP, "pack": True}),
}  # fmt: skip
"""Templates, targets, sizes and knobs."""


def stored(program: Program, name: str, beyond: float) -> tuple[list[Array], dict[str, Any]]:
    """Inputs whose keys, values, masks and table hold something else beyond lengths; the operator's parameters."""
    _, _, more, _ = CASES[name]
    params: dict[str, Any] = {**SIZES, **more}
    inputs, lk, page, dtype = random_arrays(program, 1), int(params["lk"]), params.get("page"), params.get("dtype")
    bad = encode(np.array(beyond), str(dtype or "float32"))
    _, k, v, *masks = inputs[: -2 if page else -1]
    lengths = inputs[-2 if page else -1]
    lengths[:] = LENGTHS
    if page:
        table = inputs[-1]
        table[:] = np.random.default_rng(2).permutation(k.shape[0])[: table.size].reshape(table.shape)
        seen = np.zeros(k.shape[:2], bool)
        for numbers, length in zip(table, LENGTHS, strict=True):
            for j in range(length):
                seen[numbers[j // page], j % page] = True
            numbers[-(-length // page) :] = [-7, 2**31 - 1, 3, 5][: len(numbers) - -(-length // page)]
        k[~seen], v[~seen] = bad, bad
    else:
        for s, length in enumerate(LENGTHS):
            k[s, :, length:], v[s, :, length:] = bad, bad
    for mask in masks:
        mask[:, lk - 19 :] = bad
    return inputs, params


@cache
def program_of(name: str) -> Program:
    _, _, more, _ = CASES[name]
    return Program.loads(get_operator("attention").workload(**{**SIZES, **more}).program)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_nothing_beyond_a_length_shows(name: str) -> None:
    """To the bit: NaN and infinity give what zeros give, in every order of threads."""
    template, variant, _, knobs = CASES[name]
    program, cpu = program_of(name), variant.startswith("cpu")
    target = replace(parse_target(variant, allow_foreign=True), threads=2) if cpu else cuda_target(variant)
    results = computed(program, template, target, knobs, [stored(program, name, x)[0] for x in (0.0, np.nan, np.inf)])
    inputs, _ = stored(program, name, np.nan)
    right = evaluate(program, inputs)
    assert np.isfinite(right).all()
    check(program, inputs, results[0], right)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def computed(
    program: Program, name: str, target: Target, knobs: dict[str, Value], given: list[list[Array]]
) -> list[Array]:
    """Results of one schedule for several inputs, and on the emulator for each in several orders."""
    template, task = get_template(name), task_of(program, target)
    candidate = Candidate(task, template.space(task).schedule({**template.default(task).values, **knobs}))
    lowered, launch = template.lower(candidate), launch_values(candidate)
    if target.kind == "cpu":
        library = compile_kernels([lowered], target)
        return [run_kernel(library, lowered, launch, x, task.workload.output, threads=2) for x in given]
    kernel = build(prelude(target, emulated=True) + lowered.source, [x.symbol for x in lowered.program.launches])
    results = []
    for inputs in given:
        for order, copies in ORDERS:
            got = empty_output(program.output.shape, program.output.dtype)
            report = run(kernel, lowered.program, launch, inputs, got, order=order, copies=copies)
            assert report.ok, (order, copies, report.bugs)
            results.append(got)
    return results


@pytest.mark.parametrize("name", ["cpu", "cpu causal pages"])
def test_numpy_ignores_it_too(name: str) -> None:
    """An answer without a tuned kernel."""
    program = program_of(name)
    inputs, params = stored(program, name, np.nan)
    inputs[-1][:] = np.maximum(np.minimum(inputs[-1], 8), 0) if "page" in params else inputs[-1]
    answer = get_operator("attention").numpy
    assert answer is not None
    check(program, inputs, np.asarray(answer(*inputs, **params)))


# ------------------------------------------------------------------ what is recognised


def limited(values: Any) -> Program:
    """Attention of one head over 24 keys whose values are ``values(v, n, i, j, e)``, ``n`` being a length."""
    q, k, v = (te.input(x, (24, 8), "float32") for x in "qkv")
    n = te.input("n", (1,), "int32", low=1, high=24)
    s = te.compute((24, 24), lambda i, j: te.sum(8, lambda r: q[i, r] * k[j, r]))
    t = te.compute((24,), lambda i: te.max(24, lambda j: s[i, j]))
    total = te.compute((24,), lambda i: te.sum(24, lambda j: te.exp(s[i, j] - t[i])))
    o = te.compute((24, 8), lambda i, e: te.sum(24, lambda j: te.exp(s[i, j] - t[i]) * values(v, n, i, j, e)))
    return te.program(te.compute((24, 8), lambda i, e: o[i, e] / total[i]))[0]


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        (lambda v, n, i, j, e: te.select(j < n[0], v[j, e], 0.0), "cast<index>(x3[0])"),
        (lambda v, n, i, j, e: te.select(n[0] - 2 >= j, v[j, e], 0.0), "(cast<index>((x3[0] - 2)) + 1)"),
        (lambda v, n, i, j, e: te.select(j <= 7, v[j, e], 0.0), "8"),
        (lambda v, n, i, j, e: te.select(2 * j < n[0], v[j, e], 0.0), None),
        (lambda v, n, i, j, e: te.select(j > n[0], v[j, e], 0.0), None),
        (lambda v, n, i, j, e: te.select(j < n[0], v[j, e], 1.0), None),
        (lambda v, n, i, j, e: te.select(j <= i, v[j, e], 0.0), None),
        (lambda v, n, i, j, e: te.select(j <= e, v[j, e], 0.0), None),
    ],
)
def test_values_that_are_zero_from_a_key_on(values: Any, limit: str | None) -> None:
    found = match(limited(values))
    assert (None if found is None else repr(found.v.limit)) == limit


def test_rows_that_have_weights_but_no_values() -> None:
    """Keys beyond the limit count in the sum: only their values are zeros. Blocks of them are not left out."""
    program = limited(lambda v, n, i, j, e: te.select(j < n[0], v[j, e], 0.0))
    inputs = random_arrays(program, 1)
    inputs[3][:] = 5
    inputs[2][5:] = np.nan
    right = evaluate(program, inputs)
    cpu = replace(parse_target("cpu:portable", allow_foreign=True), threads=2)
    for template, target, knobs in (
        ("cpu_attention", cpu, {"KB": 16}),
        ("cuda_attention", cuda_target("sm_80"), {"BK": 16, "lanes": 16}),
    ):
        for got in computed(program, template, target, knobs, [inputs]):
            check(program, inputs, got, right)
