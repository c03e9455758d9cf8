"""The least time of a program on one core: its arithmetic, its functions, or its memory.

Additions, products, comparisons and the like are an instruction each, a product that is added to something none of
its own. A core does as many a second as multiply-adds. A function such as ``exp`` counts with the time that a kernel of
it alone takes an element in the first cache. Memory is every input read and every output written once.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from suite import bytes_touched
from tilewright import Library, operator, te, tune
from tilewright.core import Workload
from tilewright.kernels.expression.expr import INDEX, LEAVES, TRANSCENDENTAL, Expr, ValueNumbers
from tilewright.kernels.expression.program import Program, landing

ELEMENTS = 2048
"""Of the arrays that a function is timed on: input and output stay in the first cache."""


def work(program: Program) -> tuple[int, Counter[str]]:
    """Instructions on one element at a time, and how often each function is computed."""
    instructions, functions = 0, Counter[str]()
    for stage in program.stages:
        points = stage.points // math.prod(stage.ranges[a] for a in landing(stage))
        found = _operations(stage.body)
        combined = _operations(stage.monoid.combine) if stage.monoid else Counter[str]()
        if combined == Counter(add=1) and stage.body[0].op == "mul":
            found["mul"] -= 1
        for op, n in (found + combined).items():
            if op in TRANSCENDENTAL:
                functions[op] += n * points
            else:
                instructions += n * points
    return instructions, functions


def _operations(exprs: tuple[Expr, ...]) -> Counter[str]:
    """Operations on data of one evaluation, each value once; a product that is added or subtracted is left out."""
    numbers, seen = ValueNumbers(), dict[int, Expr]()
    for e in exprs:
        for node in e.walk():
            free = node.op in (*LEAVES, "cast", "select") or node.dtype in (INDEX, "bool")
            if not free:
                seen[numbers.of(node)] = node
    found = Counter(n.op for n in seen.values())
    found["mul"] -= sum(1 for n in seen.values() if n.op in ("add", "sub") and any(a.op == "mul" for a in n.args))
    return +found


def seconds_each(name: str, database: str) -> float:
    """Seconds that a function takes for an element, in a kernel of nothing else."""

    @operator(name=f"only_{name}")
    def only(n: int) -> te.TensorRef:
        x = te.input("x", (n,))
        return te.compute((n,), lambda i: getattr(te, name)(x[i]))

    tune(only, n=ELEMENTS, trials=16, threads=1, db=database)
    plan: Any = Library(database, threads=1).plan(only.name, n=ELEMENTS)
    x, out, calls, times = (
        np.random.default_rng(0).random(ELEMENTS, np.float32) + 0.5,
        np.empty(ELEMENTS, "f4"),
        100,
        [],
    )
    for _ in range(21):
        start = time.perf_counter()
        for _ in range(calls):
            plan(x, out=out)
        times.append((time.perf_counter() - start) / calls / ELEMENTS)
    return statistics.median(times)


def roof(workload: Workload, machine: Mapping[str, float], each: Mapping[str, float]) -> tuple[float, str]:
    """The least seconds, and what takes them. ``each``: seconds of an element of each function."""
    instructions, functions = work(Program.loads(workload.program))
    arithmetic = instructions / (machine["peak_gflops"] * 1e9 / 2)
    times = {
        "arithmetic": arithmetic + sum(n * each[f] for f, n in functions.items()),
        "memory": bytes_touched(workload) / (2e9 * machine["copy_gbytes"]),  # a copied byte is read and written
    }
    bound = max(times, key=lambda n: times[n])
    if bound == "arithmetic" and times[bound] > 2 * arithmetic:
        bound = functions.most_common(1)[0][0]
    return max(times.values()), bound
