"""The CPU map template: its contract, what it refuses, and how it rewrites programs."""

from __future__ import annotations

import numpy as np
import pytest
from map_programs import PROGRAMS, chain, embedding, padded, permuted, refold, rolled, split_heads

from tilewright.backends import get_backend
from tilewright.core import Candidate, Target
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cpu_map.program import Map, match
from tilewright.kernels.templates.cpu_map.transpose import transpose
from tilewright.testing import programs
from tilewright.testing.kernels import compile_kernels, launch_values, run_kernel, task_of
from tilewright.testing.template import TemplateContract

PORTABLE = Target("cpu", "portable", "x86_64", (), 16, 16)
MAP = get_template("cpu_map")


def matched(program: Program) -> Map:
    found = match(program)
    assert found is not None
    return found


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
    found = matched(refold())
    assert list(found.extents.values()) == [210]
    assert repr(found.value) == f"x0[{found.inner}]"
    heads = matched(split_heads())
    assert list(heads.extents.values()) == [2, 3, 9, 20]
    rows = matched(permuted((3, 4, 5, 6), (1, 0, 2, 3)))
    assert list(rows.extents.values()) == [4, 3, 30]
    assert rows.moves
    assert rows.across is None
    # Axes that only choose rows of a table are one, too.
    assert list(matched(embedding()).extents.values()) == [24, 75]


def test_segments_have_no_conditions_on_the_innermost_axis() -> None:
    for build, cuts in ((padded, [0, 2, 31, 34]), (rolled, [0, 7, 41])):
        found = matched(build())
        assert [s.low for s in found.segments] + [found.segments[-1].high] == cuts
        for s in found.segments:
            assert not any(
                n.op in ("mod", "select") and found.inner in n.args[0].axes() for v in s.values for n in v.walk()
            )


def test_a_gather_may_not_change_what_it_gathers_from() -> None:
    """A tensor read both as data and as positions keeps its type."""
    x = te.input("x", (30,), "int32")
    found = matched(te.program(te.compute((30,), lambda i: x[x[i]]))[0])
    assert not found.moves


@pytest.mark.parametrize(("item", "size"), [(4, 16), (4, 8), (4, 4), (8, 8), (8, 4), (8, 2), (2, 16), (2, 8), (1, 16)])
def test_the_shuffle_network_transposes(item: int, size: int) -> None:
    lines, columns = transpose([f"r{n}" for n in range(size)], item, "V", "c")
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
        assert matched(program).moves
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
