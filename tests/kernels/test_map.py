"""The CPU map template: its contract, what it refuses, and how it rewrites programs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from map_programs import PROGRAMS, chain, padded, permuted, refold, rolled, split_heads

from tilewright.backends import get_backend
from tilewright.core import Candidate, Target
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INDEX, axis, binary
from tilewright.kernels.families.linearizer import Linearizer
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.map.match import match
from tilewright.kernels.templates.map.turn import turn
from tilewright.testing import programs
from tilewright.testing.kernels import compile_kernels, launch_values, run_kernel, task_of
from tilewright.testing.template import TemplateContract

PORTABLE = Target("cpu", "portable", "x86_64", (), 16, 16)
MAP = get_template("cpu_map")


class TestMap(TemplateContract):
    templates = ("cpu_map",)
    programs = PROGRAMS
    schedules = 1


@pytest.mark.nightly
class TestMapThoroughly(TemplateContract):
    templates = ("cpu_map",)
    programs = PROGRAMS
    schedules = 30
    targets = ("cpu:avx512", "cpu:avx2", "cpu:portable", "cpu:neon")


@pytest.mark.parametrize("build", [programs.matmul, programs.softmax, programs.argmax, programs.layernorm])
def test_reductions_are_refused(build: object) -> None:
    assert callable(build)
    assert not MAP.matches(task_of(build(), PORTABLE))


def test_other_targets_and_costly_recomputation_are_refused() -> None:
    assert not MAP.matches(task_of(chain(), Target("cuda", "sm_80", "cuda", (), 16, 255)))
    x = te.input("x", (40,))
    y = te.compute((40,), lambda i: te.exp(x[i]))
    again = te.program(te.compute((40, 40), lambda i, j: y[i] * y[j]))[0]
    assert not MAP.matches(task_of(again, PORTABLE))


def test_axes_are_fused_and_reshapes_vanish() -> None:
    found = match(refold())
    assert found is not None
    assert list(found.extents.values()) == [210]
    assert repr(found.whole) == f"x0[{found.inner}]"
    heads = match(split_heads())
    assert heads is not None
    assert list(heads.extents.values()) == [2, 3, 9, 20]
    rows = match(permuted((3, 4, 5, 6), (1, 0, 2, 3)))
    assert rows is not None
    assert list(rows.extents.values()) == [4, 3, 30]
    assert rows.moves
    assert rows.across is None


def test_segments_have_no_conditions_on_the_innermost_axis() -> None:
    for build, cuts in ((padded, [0, 2, 31, 34]), (rolled, [0, 7, 41])):
        found = match(build())
        assert found is not None
        assert [s.low for s in found.segments] + [found.segments[-1].high] == cuts
        for s in found.segments:
            assert not any(n.op in ("mod", "select") and found.inner in n.args[0].axes() for n in s.value.walk())


def test_a_gather_may_not_change_what_it_gathers_from() -> None:
    """A tensor read both as data and as positions keeps its type."""
    x = te.input("x", (30,), "int32")
    found = match(te.program(te.compute((30,), lambda i: x[x[i]]))[0])
    assert found is not None
    assert not found.moves


@pytest.mark.parametrize("seed", range(20))
def test_sums_equal_the_expressions_they_come_from(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {"i0": rng.randint(1, 9), "i1": rng.randint(1, 12), "i2": rng.randint(1, 7)}

    def grow(depth: int) -> object:
        if depth == 0:
            return axis(rng.choice(list(sizes))) if rng.random() < 0.8 else rng.randint(-9, 9)
        op = rng.choice(["add", "sub", "mul", "floordiv", "mod", "min", "max"])
        right = rng.randint(1, 12) if op in ("mul", "floordiv", "mod") else grow(depth - 1)
        return binary(op, te.cast(grow(depth - 1), INDEX), right)  # type: ignore[arg-type]

    def value(e: te.Expr, at: dict[str, int]) -> int:
        if e.op in ("const", "axis"):
            return int(e.value) if e.op == "const" else at[str(e.value)]  # type: ignore[arg-type]
        a = [value(x, at) for x in e.args]
        ops = {"add": sum, "mul": np.prod, "min": min, "max": max}
        if e.op in ops:
            return int(ops[e.op](a))  # type: ignore[operator]
        return {"sub": lambda: a[0] - a[1], "floordiv": lambda: a[0] // a[1], "mod": lambda: a[0] % a[1]}[e.op]()

    lin = Linearizer({a: (0, n - 1) for a, n in sizes.items()})
    for _ in range(40):
        e = te.cast(grow(4), INDEX)  # type: ignore[arg-type]
        found = lin.of(e).expr()
        for _ in range(6):
            at = {a: rng.randrange(n) for a, n in sizes.items()}
            assert value(e, at) == value(found, at), f"{e!r} became {found!r}"


@pytest.mark.parametrize(("item", "size"), [(4, 16), (4, 8), (4, 4), (8, 8), (8, 4), (8, 2), (2, 16), (2, 8), (1, 16)])
def test_the_shuffle_network_transposes(item: int, size: int) -> None:
    lines, columns = turn([f"r{n}" for n in range(size)], item, "V", "c")
    at: dict[str, list[int]] = {f"r{n}": [n * size + k for k in range(size)] for n in range(size)}
    for line in lines:
        name, call = line.removeprefix("const V ").split(" = __builtin_shufflevector(")
        a, b, *picks = call.removesuffix(");").split(", ")
        at[name] = [(at[a] + at[b])[int(p)] for p in picks]
    assert [at[c] for c in columns] == [[r * size + c for r in range(size)] for c in range(size)]


def test_constants_keep_their_bits() -> None:
    """Moves copy patterns: a constant beside a 16-bit or 8-byte element is converted once, when the kernel is printed."""
    for dtype, value in (("float64", -0.1), ("float32", float("inf")), ("int64", -(2**40)), ("bool", True)):
        x = te.input("x", (3, 21), dtype)
        constant = te.Expr("const", dtype, (), value)
        program = te.program(te.compute((3, 30), lambda i, j, x=x, c=constant: te.select(j < 21, x[i, j], c)))[0]
        found = match(program)
        assert found is not None
        assert found.moves
        target = get_backend("cpu").targets(1)[0]
        task = task_of(program, target)
        candidate = Candidate(task, MAP.default(task))
        kernel = MAP.lower(candidate)
        given = np.zeros((3, 21), dtype)
        got = run_kernel(
            compile_kernels([kernel], target), kernel, launch_values(candidate), [given], task.workload.output
        )
        assert (got[:, :21] == 0).all()
        assert (got[:, 21:] == np.asarray(value, dtype)).all()
