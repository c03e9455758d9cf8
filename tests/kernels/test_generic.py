"""The generic template: random programs against the interpreter, its knobs, its merging of stages."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.backends import get_backend
from tilewright.core import Candidate, Target, evaluate
from tilewright.kernels import te
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.parts import split
from tilewright.kernels.templates import TEMPLATES
from tilewright.testing import programs
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_kernel, task_of

GENERIC = TEMPLATES["cpu_generic"]
HOST = get_backend("cpu").targets()[0]
PORTABLE = Target("cpu", "portable", "x86_64", (), 16, 16)


def run(program: Program, count: int, seed: int, threads: int = 1, target: Target = HOST) -> None:
    """Compile the default and ``count`` sampled schedules and compare each with the interpreter."""
    task = task_of(program, target)
    space = GENERIC.space(task)
    rng = random.Random(seed)
    schedules = dict.fromkeys([GENERIC.default(task), *(space.sample(rng) for _ in range(count))])
    candidates = [Candidate(task, s) for s in schedules]
    lowered = [GENERIC.lower(c) for c in candidates]
    library = compile_kernels(lowered, target)
    inputs = random_arrays(program, seed)
    for candidate, kernel in zip(candidates, lowered, strict=True):
        got = run_kernel(library, kernel, launch_values(candidate), inputs, task.workload.output, threads, seed)
        try:
            check(program, inputs, got)
        except AssertionError as error:
            raise AssertionError(f"{dict(candidate.schedule.values)}\n{kernel.source}\n{error}") from error


# ------------------------------------------------------------------ random programs

SIZES = st.integers(1, 21)


@st.composite
def indices(draw: st.DrawFn, axes: Sequence[tuple[te.Expr, int]], extent: int) -> te.Expr:
    """A quasi-affine index within ``[0, extent)``, by construction."""
    kind = draw(st.sampled_from(("clamp", "wrap", "block", "axis")))
    a, n = draw(st.sampled_from(list(axes)))
    if kind == "axis" and n <= extent:
        return a
    b, _ = draw(st.sampled_from(list(axes)))
    c, d, e = draw(st.integers(1, 3)), draw(st.integers(-2, 2)), draw(st.integers(-5, 5))
    value = a * c + b * d + e
    if kind == "block":
        value = value // draw(st.integers(2, 5)) - (a * 3) % 4
    if kind == "clamp":
        return te.minimum(te.maximum(value, 0), extent - 1)
    return value % extent


@st.composite
def values(
    draw: st.DrawFn, tensors: Sequence[te.TensorRef], axes: Sequence[tuple[te.Expr, int]], depth: int
) -> te.Expr:
    """A float32 expression that stays within modest sizes."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        t = draw(st.sampled_from(list(tensors)))
        read = t[tuple(draw(indices(axes, n)) for n in t.shape)]
        return read if t.dtype == "float32" else te.cast(read, "float32")
    a = draw(values(tensors, axes, depth - 1))
    form = draw(st.sampled_from(("unary", "binary", "select", "pad", "cast")))
    if form == "unary":
        fn = draw(st.sampled_from((te.abs, te.tanh, te.erf, te.sin, te.cos, lambda x: te.pow(te.abs(x) + 0.5, 0.3), lambda x: te.exp(-te.abs(x)), lambda x: -x,
                                   lambda x: te.sqrt(te.abs(x) + 0.5), lambda x: te.log1p(te.abs(x)))))  # fmt: skip
        return fn(a)
    if form == "cast":
        return te.cast(te.exp(-te.abs(te.cast(a, "float64"))) * 3.0, "float32")
    b = draw(values(tensors, axes, depth - 1))
    if form == "binary":
        fn2 = draw(st.sampled_from((lambda x, y: x + y, lambda x, y: x - y, lambda x, y: te.tanh(x) * y,
                                    te.maximum, te.minimum, lambda x, y: x / (te.abs(y) + 1.0))))  # fmt: skip
        return fn2(a, b)
    i, n = draw(st.sampled_from(list(axes)))
    at = draw(st.integers(-1, n))
    where = draw(st.sampled_from((i >= at, i < at, (i > at) | (i % 3 == 1), ~(i == at), (i >= 1) & (i * 2 < n + at))))
    if form == "select":
        return te.select(where, a, b)
    t = draw(st.sampled_from(list(tensors)))
    # A read outside of the tensor in the branch that the condition leaves out.
    shifts = [draw(st.integers(-3, 3)) for _ in t.shape]
    picks = [draw(st.sampled_from(list(axes)))[0] + s for s in shifts]
    inside = where
    for p, n in zip(picks, t.shape, strict=True):
        inside = inside & (p >= 0) & (p < n)
    read = te.cast(t[tuple(picks)], "float32")
    return te.select(inside, read, a)


@st.composite
def random_programs(draw: st.DrawFn) -> Program:
    """One to three stages: maps and reductions over each other and one to three inputs."""
    dtypes = st.sampled_from(("float32", "float32", "float64", "int32", "int8", "uint8", "int64"))
    tensors = [
        te.input(f"x{k}", draw(st.lists(SIZES, max_size=3).map(tuple)), draw(dtypes))
        for k in range(draw(st.integers(1, 3)))
    ]
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.lists(SIZES, min_size=1, max_size=3))
        reduce = draw(st.lists(st.integers(1, 9), max_size=2))
        kind = draw(st.sampled_from((te.sum, te.max, te.min, "argmax"))) if reduce else None

        # Positions are compared exactly, so what they are found in must be exact: an input as it is.
        exact = [t for t in tensors if t.definition is None] if kind == "argmax" else tensors
        depth = 0 if kind == "argmax" else draw(st.integers(1, 3))

        def body(*axes: te.Expr, shape=shape, reduce=reduce, among=exact, depth=depth) -> te.Expr:  # type: ignore[no-untyped-def]
            sized = [*zip(axes, [*shape, *reduce], strict=False)]
            return draw(values(among, sized, depth))

        if kind is None:
            made = te.compute(shape, body)
        elif kind == "argmax":
            made = te.compute(shape, lambda *i, r=reduce, b=body: te.argmax(r[0], lambda k: b(*i, k)))
        else:
            made = te.compute(shape, lambda *i, f=kind, r=reduce, b=body: f(r, lambda *k: b(*i, *k)))
        tensors.append(made)
    return te.program(tensors[-1])[0]


PROPERTY = settings(
    max_examples=8, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)  # fmt: skip


@PROPERTY
@given(random_programs(), st.integers(0, 99), st.sampled_from((1, 3)))
def test_random_programs_agree_with_the_interpreter(program: Program, seed: int, threads: int) -> None:
    target = Target(**{**HOST.to_json(), "isa": HOST.isa, "threads": threads})
    run(program, 2, seed, threads, target)


@pytest.mark.nightly
@settings(PROPERTY, max_examples=400)
@given(random_programs(), st.integers(0, 99))
def test_random_programs_thoroughly(program: Program, seed: int) -> None:
    for target in get_backend("cpu").targets():
        run(program, 4, seed, 1, target)


# ------------------------------------------------------------------ merging stages


def test_softmax_can_be_three_parts_or_four() -> None:
    program = programs.softmax()
    assert [p.stage for p in split(program, frozenset(), frozenset()) or ()] == ["s0", "s1", "s2", "s3"]
    merged = split(program, frozenset({"s1"}), frozenset())
    assert [p.stage for p in merged or ()] == ["s0", "s2", "s3"]
    assert all("s1" not in p.reads() for p in merged or ())


def test_an_epilogue_needs_one_reader_over_the_same_axes() -> None:
    program = programs.matmul_epilogue()
    fused = split(program, frozenset({"s1"}), frozenset({"s0"}))
    assert fused is not None
    (part,) = fused
    assert (part.stage, part.target, part.reduce) == ("s0", "s2", (7,))
    assert part.reads() == {"x0", "x1", "x2"}
    # The maximum of a softmax is read along rows only: it cannot take its reader.
    assert split(programs.softmax(), frozenset(), frozenset({"s0"})) is None


def test_merged_stages_need_no_workspace() -> None:
    task = task_of(programs.matmul_epilogue(), PORTABLE)
    space, default = GENERIC.space(task), GENERIC.default(task)
    assert evaluate(GENERIC.lower(Candidate(task, default)).program.workspace, {}) == 0
    rng = random.Random(0)
    apart = next(
        s for s in (space.sample(rng) for _ in range(1000))
        if not s.values["s0_epilogue"] and not s.values["s1_inline"]
    )  # fmt: skip
    launch = {k: int(v) for k, v in apart.launch}
    assert evaluate(GENERIC.lower(Candidate(task, apart)).program.workspace, launch) >= 2 * 18 * 33 * 4


def test_every_schedule_is_another_kernel() -> None:
    """No two schedules mean the same: knobs that have no effect are held at one value."""
    task = task_of(programs.matmul(8, 32, 4), PORTABLE)
    seen: dict[tuple[str, tuple[object, ...]], object] = {}
    schedules = list(GENERIC.space(task))
    assert len(schedules) == GENERIC.space(task).size > 20
    for schedule in schedules:
        candidate = Candidate(task, schedule)
        kernel = GENERIC.lower(candidate)
        used = tuple(schedule.values[a] for x in kernel.program.launches for a in x.arguments)
        key = kernel.source.replace(candidate.symbol, ""), used
        assert key not in seen, f"{seen[key]} and {dict(schedule.values)}"
        seen[key] = dict(schedule.values)


# ------------------------------------------------------------------ corners


def test_special_values_pass_through() -> None:
    x = te.input("x", (40,))
    program = te.program(te.compute((40,), lambda i: te.maximum(te.exp(x[i]), x[i] * 2.0)))[0]
    top = te.program(te.compute((2,), lambda i: te.max(20, lambda r: x[i * 20 + r])))[0]
    data = np.zeros(40, np.float32)
    data[3:9] = [np.nan, np.inf, -np.inf, 1e-42, -1e30, 100]
    for p in (program, top):
        task = task_of(p, HOST)
        candidate = Candidate(task, GENERIC.default(task))
        kernel = GENERIC.lower(candidate)
        got = run_kernel(compile_kernels([kernel], HOST), kernel, {}, [data], task.workload.output)
        with np.errstate(all="ignore"):
            expected = np.fmax(np.exp(data), data * 2) if p is program else data.reshape(2, 20).max(1)
        expected = np.where(np.isnan(data), np.nan, expected) if p is program else expected
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_gathers_read_only_what_a_condition_admits() -> None:
    """The table ends where the process's memory might: indices behind the condition are wild."""
    table, index = te.input("table", (5,)), te.input("index", (37,), "int64")
    inside = lambda i: (index[i] >= 0) & (index[i] < 5)  # noqa: E731
    program = te.program(te.compute((37,), lambda i: te.select(inside(i), table[index[i]], -1.0)))[0]
    task = task_of(program, HOST)
    wild = np.where(np.arange(37) % 3 == 0, np.arange(37) % 5, 2**60)
    data = np.arange(5, dtype=np.float32)
    rng = random.Random(0)
    for schedule in [GENERIC.default(task), *(GENERIC.space(task).sample(rng) for _ in range(3))]:
        candidate = Candidate(task, schedule)
        kernel = GENERIC.lower(candidate)
        got = run_kernel(
            compile_kernels([kernel], HOST), kernel, launch_values(candidate), [table_order(program, data, wild)[0],
            table_order(program, data, wild)[1]], task.workload.output,
        )  # fmt: skip
        np.testing.assert_array_equal(got, np.where(wild < 5, data[np.minimum(wild, 4)], -1))


def table_order(program: Program, data: np.ndarray, wild: np.ndarray) -> list[np.ndarray]:
    return [wild if t.dtype == "int64" else data for t in program.inputs]


@pytest.mark.parametrize("build", [programs.softmax, programs.conv2d, programs.matmul_epilogue])
def test_real_threads_give_the_same_results(build: Callable[[], Program]) -> None:
    program = build()
    backend = get_backend("cpu")
    target = Target(**{**HOST.to_json(), "isa": HOST.isa, "threads": 3})
    task = task_of(program, target)
    rng = random.Random(2)
    candidates = [Candidate(task, s) for s in (GENERIC.default(task), GENERIC.space(task).sample(rng))]
    lowered = [GENERIC.lower(c) for c in candidates]
    built = backend.build([prelude(target), *(k.source for k in lowered)], target)
    library = backend.load(Path(built.path).read_bytes())
    inputs = random_arrays(program, 3)
    for candidate, kernel in zip(candidates, lowered, strict=True):
        loaded = library.kernel(kernel.program, launch_values(candidate), 3)
        for _ in range(20):
            out = np.full(program.output.shape, np.nan, np.float32)
            loaded.run([*(x.ctypes.data for x in inputs), out.ctypes.data])
            check(program, inputs, out)
