"""Axes of one element, anywhere: every built-in operator with each of its sizes 1, and with all of them 1."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest

from tilewright.backends import parse_target
from tilewright.core import Candidate, Target, Task, UsageError, Value, Workload
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import Operator
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.kernels.parameters import Kind
from tilewright.kernels.reference import index_bounds
from tilewright.kernels.templates import computing, get_template
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.testing.kernels import compile_kernels, launch_values, run_outputs
from tilewright.testing.operator import small_cases
from tilewright.verifying.inputs import RECIPES, make_inputs
from tilewright.verifying.references import References
from tilewright.verifying.verify import mismatch

TARGETS = {
    "cpu": parse_target("cpu:portable", 2),
    "cuda": parse_target("cuda:sm_90a", allow_foreign=True),
}
TOGETHER = 40
"""Kernels that are compiled together."""


def _with_ones(op: Operator, case: dict[str, Value]) -> Iterator[dict[str, Value]]:
    """The parameters with each size 1, axis by axis of a shape; the last ones have all of them 1."""
    every = dict(case)
    for p in op.parameters:
        if p.default is None and p.kind is Kind.INT:
            yield {**case, p.name: 1}
            every[p.name] = 1
        elif p.kind is Kind.SHAPE and case.get(p.name):
            sizes = str(case[p.name]).split(",")
            for d in range(len(sizes)):
                yield {**case, p.name: ",".join("1" if d == e else n for e, n in enumerate(sizes))}
            every[p.name] = ",".join("1" for _ in sizes)
    yield every


@cache
def _workloads(name: str) -> tuple[Workload, ...]:
    """Distinct ones; the last one has the most sizes of 1."""
    op, found = get_operator(name), dict[str, Workload]()
    for params in _with_ones(op, small_cases(op)[0]):
        try:
            w = op.workload(**params)
        except UsageError:  # sizes that depend on each other
            continue
        found.setdefault(w.program, w)
    return tuple(found.values())


def _candidates(workload: Workload, target: Target, samples: int) -> list[Candidate]:
    task, rng = Task(workload, target), random.Random(workload.label)
    found = []
    for t in computing(task):  # on GPUs there is none for some element types
        space = t.space(task)
        found += [Candidate(task, s) for s in (t.default(task), *(space.sample(rng) for _ in range(samples)))]
    return found


def _lower(candidate: Candidate) -> LoweredKernel:
    return get_template(candidate.schedule.template).lower(candidate)


@pytest.mark.sampled
@pytest.mark.parametrize("name", OPERATORS)
def test_templates_print_every_operator_with_sizes_of_one(name: str) -> None:
    for workload in _workloads(name):
        assert _candidates(workload, TARGETS["cpu"], 0), workload.label
        for target in TARGETS.values():
            for candidate in _candidates(workload, target, 1):
                assert "None" not in _lower(candidate).source, (workload.label, candidate.schedule)


def test_operators_with_sizes_of_one_are_computed_right() -> None:
    target = TARGETS["cpu"]
    made = [c for name in OPERATORS for w in _workloads(name) for c in _candidates(w, target, 0)]
    for first in range(0, len(made), TOGETHER):
        candidates = made[first : first + TOGETHER]
        kernels = [_lower(c) for c in candidates]
        library = compile_kernels(kernels, target)
        for candidate, kernel in zip(candidates, kernels, strict=True):
            workload = candidate.task.workload
            program = Program.loads(workload.program)
            values = make_inputs(program, RECIPES[0], index_bounds(program))
            got = run_outputs(library, kernel, launch_values(candidate), list(values), workload.outputs, threads=2)
            for part, one in zip(program.of_each(), got, strict=True):
                block = tuple(slice(0, n) for n in part.output.shape)
                (interval,) = References(part).intervals(RECIPES[0], values, [block], frozenset())
                problem = mismatch(decode(one, part.output.dtype), interval, RECIPES[0])
                assert problem is None, f"{workload.label} by {candidate.schedule.template}: {problem}"
