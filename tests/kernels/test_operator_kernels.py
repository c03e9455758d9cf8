"""Operators as kernels: default schedules of every template that takes them, within their tolerances."""

from __future__ import annotations

import pytest

from tilewright.backends import get_backend
from tilewright.core import Candidate, Task, Value
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import index_bounds
from tilewright.kernels.templates import get_template, templates_for
from tilewright.testing.kernels import compile_kernels, launch_values, run_kernel
from tilewright.verifying.exact import whole_reach
from tilewright.verifying.inputs import RECIPES, Recipe, make_inputs
from tilewright.verifying.references import References
from tilewright.verifying.verify import mismatch

Case = tuple[str, dict[str, Value]]

CASES: list[Case] = [
    ("attention", {"b": 1, "h": 4, "lq": 33, "lk": 40, "d": 16, "hk": 2, "is_causal": True}),
    ("cumsum", {"shape": "7,300"}),
    ("cumsum", {"shape": "40,7,19", "dim": 1, "dtype": "bfloat16"}),
    ("dequant_matmul", {"m": 20, "n": 30, "k": 64, "group_size": 16, "bias": True, "activation": "gelu"}),
    ("embedding", {"shape": "30", "num_embeddings": 20, "embedding_dim": 19, "dtype": "float16"}),
    ("grouped_matmul", {"m": 40, "n": 20, "k": 64, "groups": 3}),
    ("layer_norm", {"shape": "9,300", "residual": True, "dtype": "bfloat16"}),
    ("quantized_matmul", {"m": 40, "n": 50, "k": 64, "out_dtype": "int8", "bias": True}),
    ("tbs", {"b": 1, "seq": 20, "heads": 2, "hidden": 16}),
]
MORE: list[Case] = [
    (name, {**params, "dtype": dtype})
    for dtype in ("float32", "float64", "float16", "bfloat16")
    for name, params in [
        *((n, p) for n, p in CASES if n != "quantized_matmul"),
        ("argmax", {"shape": "9,300", "dim": 1}),
        ("attention", {"b": 1, "h": 2, "lq": 33, "lk": 40, "d": 16, "mask": "bool", "score_mod": "30*tanh(score/30)"}),
        ("cast", {"shape": "50,60", "out_dtype": "float8_e4m3fn"}),
        ("einsum", {"a": "2,3,40,16", "b": "2,3,50,16", "equation": "bhqd,bhkd->bhqk"}),
        ("elementwise", {"shape": "40,30", "fn": "exp(-x*x)*tanh(y) + where(x > y, floor(x*3.7), y)"}),
        ("log_softmax", {"shape": "9,300"}),
        ("norm", {"shape": "9,20,30", "dim": "1,2"}),
        ("permute", {"shape": "15,16,17", "dims": "2,0,1"}),
        ("prod", {"shape": "9,20", "dim": 0}),
        ("rms_norm", {"shape": "9,300"}),
        ("softmax_backward", {"shape": "9,300"}),
        ("log_softmax_backward", {"shape": "9,30,7", "dim": 1}),
        ("layer_norm_backward", {"shape": "9,300"}),
        ("rms_norm_backward", {"shape": "9,3,50", "normalized_shape": "3,50", "weight": False}),
        ("softmax", {"shape": "9,30,20", "dim": 1}),
        ("sum", {"shape": "9,20,30", "dim": "0,2"}),
    ]
]


def check(name: str, params: dict[str, Value]) -> None:
    workload = get_operator(name).workload(**params)
    program = Program.loads(workload.program)
    target = get_backend("cpu").targets()[0]
    task = Task(workload, target)
    found = {t.name: t for t in (*templates_for(task), get_template("cpu_generic"))}
    candidates = [Candidate(task, t.default(task)) for t in found.values()]
    kernels = [get_template(c.schedule.template).lower(c) for c in candidates]
    library = compile_kernels(kernels, target)
    reach, exact = whole_reach(program)
    for base in (RECIPES[0], RECIPES[2]):
        recipe = Recipe(base.kind, base.seed, base.place, reach)
        values = make_inputs(program, recipe, index_bounds(program))
        block = tuple(slice(0, n) for n in program.output.shape)
        stages = exact if recipe.kind == "whole" else frozenset[str]()
        (interval,) = References(program).intervals(recipe, values, [block], stages)
        for candidate, kernel in zip(candidates, kernels, strict=True):
            got = run_kernel(library, kernel, launch_values(candidate), list(values), workload.output)
            problem = mismatch(decode(got, program.output.dtype), interval, recipe)
            assert problem is None, f"{workload.label} by {candidate.schedule.template}: {problem}"


@pytest.mark.parametrize(("name", "params"), CASES)
def test_default_schedules_are_right(name: str, params: dict[str, Value]) -> None:
    check(name, params)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "params"), MORE)
def test_default_schedules_of_more_operators_are_right(name: str, params: dict[str, Value]) -> None:
    check(name, params)
