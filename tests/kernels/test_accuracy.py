"""Long sums, norms and products of every CPU template are as accurate as blocked ones, not as running totals."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate
from tilewright.kernels.expression.monoids import simple
from tilewright.kernels.expression.program import Monoid, Program
from tilewright.kernels.loopnest import Loop
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.chains import CHAIN, cut, longest
from tilewright.testing.kernels import compile_kernels, launch_values, run_outputs, task_of

F = np.float32
Case = tuple[str, str, dict[str, Any], float]

CASES: list[Case] = [  # template, operator, sizes, and the root mean square error in units in the last place
    ("cpu_rows", "sum", {"shape": "3,150001", "dim": 1}, 3.5),
    ("cpu_rows", "norm", {"shape": "2,400,501", "dim": "1,2"}, 1.0),
    ("cpu_rows", "softmax", {"shape": "2,70000"}, 1.5),
    ("cpu_rows", "layer_norm", {"shape": "2,70000"}, 2.0),
    ("cpu_generic", "sum", {"shape": "20000,5", "dim": 0}, 3.5),
    ("cpu_generic", "var_mean", {"shape": "4,20000", "dim": 1}, 3.5),
    ("cpu_generic", "logsumexp", {"shape": "20000,3", "dim": 0}, 1.0),
    ("cpu_contraction", "matmul", {"m": 8, "n": 16, "k": 40000}, 14.0),
    ("cpu_scan", "cumsum", {"shape": "3,70001", "dim": 1}, 0.9),
    ("cpu_scan", "cumsum", {"shape": "20001,19", "dim": 0}, 0.9),
    ("cpu_attention", "attention", {"b": 1, "h": 1, "lq": 16, "lk": 4096, "d": 32}, 8.0),
]
"""Running totals of float32 are off by 2 (where lanes share a row) to 30 times as much."""


@cache
def target() -> Any:
    return parse_target("auto", 1)


def inputs(p: Program, kind: str) -> list[np.ndarray[Any, Any]]:
    """Values of either sign, whose sums nearly cancel, or around 1."""
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal(t.shape) if kind == "normal" else rng.random(t.shape) + 0.5).astype(F) for t in p.inputs
    ]


def error(got: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> float:
    """Root mean square, in units in the last place of the value or, if that is larger, of their root mean square."""
    unit = np.spacing(np.maximum(np.abs(right), np.sqrt(np.mean(right**2))).astype(F)).astype(float)
    return float(np.sqrt(np.mean(((got - right) / unit) ** 2)))


@pytest.mark.parametrize(("template", "op", "params", "bound"), CASES)
def test_the_error_of_long_reductions_stays_small(
    template: str, op: str, params: Mapping[str, Any], bound: float
) -> None:
    program = Program.loads(get_operator(op).workload(**params).program)
    made, task = get_template(template), task_of(program, target())
    schedules = [made.default(task), made.space(task).sample(random.Random(2))]
    candidates = [Candidate(task, s) for s in dict.fromkeys(schedules)]
    kernels = [made.lower(c) for c in candidates]
    library = compile_kernels(kernels, target())
    for kind in ("normal", "positive"):
        values = inputs(program, kind)
        right = [evaluate(p, values) for p in program.of_each()]
        for candidate, kernel in zip(candidates, kernels, strict=True):
            got = run_outputs(library, kernel, launch_values(candidate), values, task.workload.outputs)
            assert max(error(g, r) for g, r in zip(got, right, strict=True)) < bound, (kind, candidate.schedule.values)


def test_only_long_chains_that_round_are_cut() -> None:
    assert cut([Loop("r0", 2 * CHAIN, 1)], CHAIN) == ((Loop("r0", 2 * CHAIN, 1),), None)
    loops, around = cut([Loop("r0", 1000, 1), Loop("r1", 100, 4)], CHAIN)
    assert around == 1
    assert loops == (Loop("r0", 1000, 1), Loop("r1", 100, 4))
    loops, around = cut([Loop("r0", 1000, 4, level="register")], CHAIN)
    assert around == 1
    assert loops == (Loop("r0", 1000, 4 * CHAIN, level="l1"), Loop("r0", 4 * CHAIN, 4, level="register"))
    whole: Monoid = simple("sum", "int32")
    assert longest(whole, ()) is None
    assert longest(simple("max", "float32"), ()) is None
