"""Workloads of which a size is a range: what they are, who computes them, and that one kernel is right at every size."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tilewright import operator, te
from tilewright.backends import get_backend, parse_target
from tilewright.backends.cpu.loader import LoadedKernel, load_bytes
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Failure, IllegalSchedule, Schedule, Task, UsageError, Value, Workload
from tilewright.kernels import templates
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.ranges import at, narrowed
from tilewright.verifying.verify import Verifier

CASES: dict[str, tuple[str, dict[str, Value]]] = {
    "matmul": ("matmul", {"m": "1..70", "n": 33, "k": 40}),
    "product with an epilogue": ("matmul", {"m": "2..40", "n": 37, "k": 24, "bias": True, "activation": "gelu"}),
    "bfloat16": ("matmul", {"m": "1..40", "n": 37, "k": 24, "dtype": "bfloat16", "bias": True}),
    "complex product": ("complex_matmul", {"m": "1..20", "n": 9, "k": 12, "conj_b": True}),
    "bytes": ("quantized_matmul", {"m": "1..40", "n": 50, "k": 36}),
    "float16 weights": ("matmul", {"m": "1..40", "n": 48, "k": 32, "dtype": "float16", "constant": "b"}),
    "weights": ("matmul", {"m": "1..40", "n": 48, "k": 32, "constant": "b"}),
    "batched product": ("batch_matmul", {"b": "1..9", "m": 12, "n": 20, "k": 16}),
    "convolution": ("conv2d", {"n": "1..5", "ci": 6, "h": 9, "w": 9, "co": 16, "kh": 3, "kw": 3, "padding": 1}),
    "softmax": ("softmax", {"shape": "1..40,37"}),
    "several row axes": ("rms_norm", {"shape": "1..12,3,50"}),
    "elementwise": ("elementwise", {"shape": "1..20,33", "fn": "tanh(x)"}),
    "one axis": ("elementwise", {"shape": "1..500", "fn": "x*2+1"}),
    "layout": ("permute", {"shape": "1..9,6,8", "dims": "0,2,1"}),
    "gather": ("embedding", {"shape": "1..30", "num_embeddings": 20, "embedding_dim": 19}),
    "pooling": ("max_pool2d", {"n": "1..5", "c": 16, "h": 9, "w": 9, "kernel_size": 3, "stride": 2, "padding": 1}),
    "attention": ("attention", {"b": "1..4", "h": 2, "lq": 33, "lk": 40, "d": 16, "is_causal": True}),
}


def kernel_of(built: Artifact | Failure, schedule: Schedule, threads: int) -> LoadedKernel:
    assert isinstance(built, Artifact), built
    with open(built.path, "rb") as code:
        library = load_bytes(code.read(), built.sha256)
    return library.kernel(built.program, {k: int(v) for k, v in schedule.launch}, threads)


@pytest.mark.sampled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_one_kernel_is_right_at_every_size(case: str, threads: int) -> None:
    """Schedules found at several sizes, each built once for the whole range: what one thread leaves out two have."""
    name, params = CASES[case]
    workload = get_operator(name).workload(**params)
    (extent,) = workload.ranges.values()
    target = replace(parse_target("cpu"), threads=threads)
    rng, task = random.Random(7), Task(workload, target)  # it draws kernels of moderate length
    sizes = sorted({extent.low, extent.low + 1, (extent.low + extent.high) // 2, extent.high - 1, extent.high})
    default_at, sampled_at = (extent.low, sizes[2]) if threads == 1 else (extent.high, extent.high)
    schedules = []
    for t in templates.templates_for(task):
        schedules.append(t.default(Task(at(workload, {extent.name: default_at}), target)).at({extent.name: default_at}))
        schedules.append(
            t.space(Task(at(workload, {extent.name: sampled_at}), target)).sample(rng).at({extent.name: sampled_at})
        )
    with Builder(target) as builder:
        built = builder.build([Candidate(task, s) for s in schedules])
    for size in sizes:
        one_size = at(workload, {extent.name: size})
        verifier = Verifier(Program.loads(one_size.program))
        for schedule, artifact in zip(schedules, built, strict=True):
            kernel = kernel_of(artifact, schedule.at({extent.name: size}), threads)
            problem = verifier.check(kernel.run, align=kernel.program.align)
            assert problem is None, (size, schedule.values, problem)


ROWS: dict[str, dict[str, Value]] = {
    "float32": {"n": 24, "k": 8},
    "bfloat16": {"n": 24, "k": 8, "dtype": "bfloat16"},
    "int8": {"n": 24, "k": 8, "dtype": "int8"},
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", ROWS)
def test_kernels_of_a_range_far_from_one_write_every_row_at_every_size(case: str, threads: int) -> None:
    """Whole blocks divide both ends, so that only sizes between have blocks one row less high."""
    workload = get_operator("matmul").workload(m="64..72", **ROWS[case])
    (extent,) = workload.ranges.values()
    target = replace(parse_target("cpu"), threads=threads)
    task = Task(workload, target)
    (template,) = templates.templates_for(task)
    space, rng = template.space(Task(at(workload, {extent.name: 72}), target)), random.Random(0)
    sampled = (space.sample(rng) for _ in range(500))
    schedule = next(s for s in sampled if s.values["MR"] in (4, 8)).at({extent.name: 72})
    with Builder(target) as builder:
        (built,) = builder.build([Candidate(task, schedule)])
    for size in range(64, 73):
        kernel = kernel_of(built, schedule.at({extent.name: size}), threads)
        verifier = Verifier(Program.loads(at(workload, {extent.name: size}).program))
        assert verifier.check(kernel.run, [size % 3], align=kernel.program.align) is None, size


@pytest.mark.parametrize("case", CASES)
def test_for_one_size_it_is_that_size_s_workload(case: str) -> None:
    name, params = CASES[case]
    op = get_operator(name)
    workload = op.workload(**params)
    (extent,) = workload.ranges.values()
    assert Workload.from_json(workload.to_json()).ranges == workload.ranges
    text = next(k for k, v in params.items() if ".." in str(v))
    fixed = {**params, text: str(params[text]).replace(f"{extent.low}..{extent.high}", str(extent.high))}
    assert at(workload, {extent.name: extent.high}) == op.workload(**fixed)
    assert workload.key != op.workload(**fixed).key
    part = narrowed(workload, {extent.name: (extent.low + 1, extent.high)})
    assert part == op.workload(**{**params, text: str(params[text]).replace(f"{extent.low}..", f"{extent.low + 1}..")})
    narrow, whole = (Program.loads(w.program) for w in (part, workload))
    assert narrow.at({extent.name: extent.high}) == whole.at({extent.name: extent.high})
    assert narrowed(workload, {extent.name: (extent.high, extent.high)}) == at(workload, {extent.name: extent.high})


def test_a_size_outside_is_refused() -> None:
    workload = get_operator("matmul").workload(m="4..9", n=3, k=3)
    with pytest.raises(UsageError, match=r"matmul has m=4..9, not 3"):
        at(workload, {"m": 3})


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("matmul", {"m": "5..2", "n": 3, "k": 3}, r"m=5..2 is not a range\. Write the least size first"),
        ("matmul", {"m": "0..2", "n": 3, "k": 3}, r"m=0..2 is not a range"),
        ("matmul", {"m": "1..2,3", "n": 3, "k": 3}, r"m=1..2,3 is not a range"),
        ("matmul", {"m": "1..9", "n": 3, "k": 3, "constant": "a"}, r"m cannot be a range: a, which has it, is constant"),
        ("conv2d", {"n": 1, "ci": 8, "h": 5, "w": "1..9", "co": 8, "kh": 3, "kw": 3}, r"w cannot be a range: for w=1, "),
        ("group_norm", {"shape": "2,8,5", "num_groups": "2..4"}, r"num_groups cannot be a range: no tensor has an axis"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_range(name: str, params: dict[str, Value], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        templates.templates_for(Task(get_operator(name).workload(**params), get_backend("cpu").targets()[0]))


def test_a_size_in_arithmetic_is_that_of_the_call() -> None:
    @operator
    def mean_rows(m: int, n: int) -> te.TensorRef:
        x = te.input("x", (m, n))
        return te.compute((m, n), lambda i, j: x[m - 1 - i, j] / m)

    workload = mean_rows.workload(m="1..8", n=3)
    assert at(workload, {"m": 5}) == mean_rows.workload(m=5, n=3)


def test_a_program_that_python_chooses_by_its_size_is_no_range() -> None:
    @operator
    def chosen(m: int, n: int) -> te.TensorRef:
        x = te.input("x", (m, n))
        return te.compute((m, n), lambda i, j: x[i, j] * (2.0 if m > 4 else 3.0))

    with pytest.raises(UsageError, match="m cannot be a range: the program is another one for some of the sizes"):
        chosen.workload(m="1..8", n=3)


def test_a_whole_multiple_of_a_size_is_a_length() -> None:
    @operator
    def halves(m: int, n: int) -> te.TensorRef:
        x = te.input("x", (2 * m, n))
        return te.compute((2 * m, n), lambda i, j: x[i, j] + 1)

    workload = halves.workload(m="1..8", n=3)
    assert repr(workload.output.shape) == "(m=1..8*2, 3)"
    assert at(workload, {"m": 3}) == halves.workload(m=3, n=3)


def test_a_condition_on_a_falling_index_is_asked_at_every_size() -> None:
    """``5 - i`` is least where a call chooses the greatest size."""

    @operator
    def first_six(n: int) -> te.TensorRef:
        x = te.input("x", (n, 4))
        return te.compute((n, 4), lambda i, j: te.select(i * -1 + 5 >= 0, x[i, j], 0.0))

    target = replace(parse_target("cpu"), threads=1)
    task = Task(first_six.workload(n="1..40"), target)
    (template,) = templates.templates_for(task)
    schedule = template.default(Task(at(task.workload, {"n": 40}), target)).at({"n": 40})
    with Builder(target) as builder:
        (built,) = builder.build([Candidate(task, schedule)])
    for size in (1, 6, 7, 40):
        kernel = kernel_of(built, schedule.at({"n": size}), 1)
        assert Verifier(Program.loads(at(task.workload, {"n": size}).program)).check(kernel.run, [0]) is None, size


def test_one_size_of_a_range_is_a_plain_size() -> None:
    op = get_operator("matmul")
    assert op.workload(m="5..5", n=3, k=3) == op.workload(m=5, n=3, k=3)


def test_templates_that_cannot_take_a_range_say_so() -> None:
    task = Task(get_operator("quantized_matmul").workload(m=4, n="1..9", k=8), get_backend("cpu").targets()[0])
    candidate = Candidate(task, Schedule("cpu_dot", templates.get_template("cpu_dot").version, ()))
    with pytest.raises(IllegalSchedule, match=r"leaves n=1..9 symbolic"):
        templates.lower(candidate)
