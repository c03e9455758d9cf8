"""Tests kernels with a symbolic size, at several sizes of its range."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fuzz.check import Failure, Note
from fuzz.formats import UNIT, Array, pack, unpack
from fuzz.machines import Machine
from fuzz.reference import Estimate, difference
from fuzz.tree import REALS
from tilewright.core import Candidate, Task, TilewrightError, Value
from tilewright.kernels.operators import get_operator
from tilewright.kernels.ranges import at
from tilewright.kernels.templates import computing

SPANS = ((1, 40), (1, 130), (6, 64), (16, 256), (17, 70), (20, 40), (100, 300), (1, 3), (31, 33))
SIZES = 9
"""Number of sizes of a range that a kernel is tested at, both ends included."""

Formula = Callable[..., Estimate]


@dataclass(frozen=True)
class Ranged:
    """An operator with a range as one parameter, and a formula for its results."""

    op: str
    params: dict[str, Value]
    low: int
    high: int
    formula: Formula

    @property
    def told(self) -> str:
        return " ".join([self.op, *(f"{k}={v}" for k, v in self.params.items())])


def ranged(seed: int, number: int) -> Ranged:
    """Operator ``number`` of a seed; deterministic."""
    r = random.Random(f"range {seed} {number}")
    low, high = r.choice(SPANS)
    span, n, k = f"{low}..{high}", r.choice((1, 5, 8, 17, 33, 40)), r.choice((1, 3, 16, 19, 32))
    kind = r.choice(("matmul", "matmul", "matmul", "elementwise", "softmax", "sum"))
    if kind == "matmul":
        dtype = r.choice(("float32", "float32", "float64", "bfloat16", "float16", "int8"))
        params: dict[str, Value] = {"m": span, "n": n, "k": k, "dtype": dtype}
        return Ranged(kind, params, low, high, lambda a, b: _product(a, b, k, dtype))
    if kind == "elementwise":
        return Ranged(kind, {"shape": r.choice((span, f"{span},{n}")), "fn": "x*2+1"}, low, high, _affine)
    shape = {"shape": f"{span},{n * k}"}
    if kind == "softmax":
        return Ranged(kind, {**shape}, low, high, _softmax)
    return Ranged(kind, {**shape, "dim": 1}, low, high, _sum)


def _product(a: Array, b: Array, k: int, dtype: str) -> Estimate:
    value = a @ b
    if dtype not in REALS:
        return Estimate(value, np.zeros(value.shape))
    u = UNIT["float64" if dtype == "float64" else "float32"]
    return Estimate(value, (k + 4) * u * (np.abs(a) @ np.abs(b)) + UNIT[dtype] * np.abs(value) * 1.01 + 2.0**-24)


def _affine(x: Array) -> Estimate:
    value = x * 2 + 1
    return Estimate(value, 2 * UNIT["float32"] * (np.abs(value) + 1))


def _softmax(x: Array) -> Estimate:
    e = np.exp(x - x.max(1, keepdims=True))
    value = e / e.sum(1, keepdims=True)
    return Estimate(value, (x.shape[1] + 40) * UNIT["float32"] * value)


def _sum(x: Array) -> Estimate:
    return Estimate(x.sum(1), (x.shape[1] + 2) * UNIT["float32"] * np.abs(x).sum(1))


def examine(case: Ranged, machine: Machine, schedules: int, seed: int, note: Note) -> Iterator[Failure | None]:
    """Yields a failure for each kernel that is wrong at some size, and ``None`` for each correct kernel."""
    workload = get_operator(case.op).workload(**case.params)
    task, rng = Task(workload, machine.target), random.Random(f"{seed} {case.told}")
    made, template = [], ""
    try:
        for t in computing(task):
            template, space = t.name, t.space(task)
            for s in dict.fromkeys(space.sample(rng) for _ in range(schedules)):
                made.append((s, t.lower(Candidate(task, s))))
        unit = machine.build([k for _, k in made]) if made else None
    except TilewrightError as error:
        yield Failure("build", str(error), machine.name, template)
        return
    if unit is None:
        return
    (extent,) = workload.ranges.values()
    sizes = sorted({case.low, case.high, *(rng.randint(case.low, case.high) for _ in range(SIZES - 2))})
    for schedule, kernel in made:
        problem: Failure | None = None
        for size in sizes:
            told = f"{case.told} at {size}"
            note(f"{told} {schedule.template} {dict(schedule.values)}")
            one, data = at(workload, {extent.name: size}), np.random.default_rng(size)
            numbers = [
                data.standard_normal(t.shape) if t.dtype in REALS else data.integers(-9, 9, t.shape) for t in one.inputs
            ]
            stored = [pack(x, t.dtype) for x, t in zip(numbers, one.inputs, strict=True)]
            want = case.formula(*(unpack(x, t.dtype) for x, t in zip(stored, one.inputs, strict=True)))
            launch = {k: int(v) for k, v in schedule.at({extent.name: size}).launch}
            for run in unit.runs(kernel, launch, stored, [(one.output.shape, one.output.dtype)]):
                wrong = run.problem or difference(unpack(run.results[0], one.output.dtype), want, one.output.dtype)
                if wrong:
                    kind = "memory" if run.problem else "wrong"
                    problem = Failure(
                        kind, f"{told}: {wrong}", machine.name, schedule.template, str(dict(schedule.values))
                    )
            if problem is not None:
                break
        yield problem
