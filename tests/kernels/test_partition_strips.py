"""Rows of a partition in strips: which programs have them, how many, and that every strip is right."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from partition_programs import chain, layer_norm_of, mlp, product, product_and_norm, softmax_of, transposed_scores

from tilewright.backends import get_backend
from tilewright.core import Candidate, Schedule, Target, Task
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates.base import Template
from tilewright.kernels.templates.partition.space import CUT
from tilewright.kernels.templates.partition.strips import row_tensors, strip_count, with_rows
from tilewright.kernels.templates.partition.template import CPU_PARTITION
from tilewright.kernels.templates.planned import KernelTemplate
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_outputs, task_of
from tilewright.testing.schedules import covering
from tilewright.testing.template import KernelContract


def gated(m: int = 256, n: int = 20, k: int = 9) -> Program:
    """Two products of one input, a gate and its value (Shazeer, 2020)."""
    x, w, v = te.input("x", (m, k)), te.input("w", (k, n)), te.input("v", (k, n), constant=True)
    gate, value = product(x, w), product(x, v)
    return te.program(te.compute((m, n), lambda i, j: value[i, j] / (1.0 + te.exp(-gate[i, j]))))[0]


def density(m: int = 256, n: int = 18, k: int = 5) -> Program:
    x, y = te.input("x", (m, k), low=-0.5, high=0.5), te.input("y", (n, k), low=-0.5, high=0.5)
    near = te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))
    return te.program(te.compute((m,), lambda i: te.sum(n, lambda j: te.exp(-near[i, j]))))[0]


def one_image(m: int = 256, n: int = 13, k: int = 7) -> Program:
    """Rows behind an axis of one element, with a softmax behind a product."""
    x, w, b = te.input("x", (1, m, k)), te.input("w", (k, n)), te.input("b", (1, m), constant=True)
    h = te.compute((1, m, n), lambda a, i, j: te.sum(k, lambda r: x[a, i, r] * w[r, j]))
    return te.program(softmax_of(te.compute((1, m, n), lambda a, i, j: h[a, i, j] + b[a, i])))[0]


def projections(m: int = 256, n: int = 5, k: int = 17) -> Program:
    """Several products of one input: nothing is handed on, but all read the same rows."""
    x = te.input("x", (m, k))
    return te.program(tuple(product(x, te.input(name, (k, n))) for name in "qkv"))[0]


def normalised(m: int = 256, n: int = 16, k: int = 8) -> Program:
    return te.program(layer_norm_of(product(te.input("x", (m, k)), te.input("w", (k, n)))))[0]


INDEPENDENT: dict[str, Callable[[], Program]] = {
    "gated": gated, "density": density, "one_image": one_image, "normalised": normalised, "mlp": lambda: mlp(256), "projections": projections,
    "several_results": lambda: product_and_norm(256),
}  # fmt: skip


def small(threads: int = 1) -> Target:
    """This machine with a second cache so small that what is handed on does not fit."""
    (target, *_) = get_backend("cpu").targets(threads)
    return replace(target, l2_bytes=12 << 10, l3_bytes=1 << 20)


class TestKernelsOfStripsAreValues(KernelContract):
    templates = ("cpu_partition",)
    programs = INDEPENDENT

    def portable(self, pair: tuple[str, str], threads: int = 1) -> tuple[Template, Program, Task]:
        program = self.programs[pair[1]]()
        return CPU_PARTITION, program, task_of(program, small(threads), pair[1])

    def _kernels(self, pair: tuple[str, str]) -> Iterator[tuple[KernelTemplate, Task, Schedule, Kernel]]:
        yield from super()._kernels(pair)
        _, _, task = self.portable(pair, threads=3)
        labels, default = in_strips(task), CPU_PARTITION.default(task).values
        assert labels
        for label in labels:
            schedule = CPU_PARTITION.space(task).schedule({**default, CUT: label})
            yield CPU_PARTITION, task, schedule, CPU_PARTITION.kernel(task, schedule)


def in_strips(task: Task) -> list[str]:
    (cut,) = (k for k in CPU_PARTITION.space(task).knobs if k.name == CUT)
    return [str(v) for v in cut.values if "/" in str(v)]


@pytest.mark.sampled
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", INDEPENDENT)
def test_every_strip_is_right(name: str, threads: int) -> None:
    program = INDEPENDENT[name]()
    task = task_of(program, small(threads), name)
    space, default, rng = CPU_PARTITION.space(task), CPU_PARTITION.default(task).values, random.Random(name)
    labels = in_strips(task)
    assert labels
    chosen = [space.schedule({**default, CUT: label}) for label in labels]
    if threads == 1:  # threads share out the strips, whatever is in them
        chosen += covering((s for s in (space.sample(rng) for _ in range(30)) if s.values[CUT] in labels), 2)
    kernels = [CPU_PARTITION.lower(Candidate(task, s)) for s in chosen]
    library = compile_kernels(kernels, task.target)
    inputs = random_arrays(program, 5)
    expected = [evaluate(one, inputs) for one in program.of_each()]
    for s, kernel in zip(chosen, kernels, strict=True):
        values = launch_values(Candidate(task, s))
        got = run_outputs(library, kernel, values, inputs, task.workload.outputs, threads, 7)
        for one, array, want in zip(program.of_each(), got, expected, strict=True):
            check(one, inputs, array, want)


def test_rows_that_depend_on_each_other_have_no_strips() -> None:
    x = te.input("x", (16, 16))
    y = te.compute((16, 16), lambda i, j: te.sum(16, lambda r: x[i, r] * x[j, r]))
    numbered = te.program(te.compute((16, 16), lambda i, j: te.exp(x[i, j]) * te.cast(i, "float32")))[0]
    for program in (
        transposed_scores(),  # a transposed result is read
        te.program(softmax_of(y))[0],  # an input is read at the row, and at all of them
        te.program(te.compute((16,), lambda j: te.sum(16, lambda i: te.exp(y[i, j]))))[0],  # along the rows
        numbered,  # the row itself counts
    ):
        assert row_tensors(program) == frozenset()
    assert row_tensors(normalised()) == {"s0", "s1", "s2", "s3", "x0"}, "not the weights"


def test_a_strip_is_the_program_of_fewer_rows() -> None:
    strip = with_rows(one_image(), 8)
    assert [t.shape for t in strip.inputs] == [(1, 8, 7), (7, 13), (1, 8)]
    assert {s.extents[:2] for s in strip.stages} == {(1, 8)}
    assert not any(t.constant for t in strip.inputs), "what is rearranged once cannot be a strip's"


def test_strips_hold_what_is_shared_in_a_cache() -> None:
    program, target = chain(1024, 3), replace(small(), l2_bytes=1 << 20, l3_bytes=16 << 20)
    assert strip_count(program, 1 << 20, target) == 1, "it stays there anyway"
    assert strip_count(program, 4 << 20, target) == 8
    assert strip_count(program, 4 << 20, replace(target, threads=16)) == 16, "one for each thread"
    assert strip_count(program, 1 << 30, target) == 128, "eight rows do not fit the second cache, but the last"
    assert strip_count(chain(1021, 3), 4 << 20, target) == 1, "no equal strips"


def test_strips_come_first_where_what_is_shared_goes_through_memory() -> None:
    program = density(4096, 64)
    target = replace(small(), l2_bytes=1 << 16, l3_bytes=1 << 24)
    assert "/" not in str(CPU_PARTITION.default(task_of(program, target)).values[CUT])
    assert "/" in str(CPU_PARTITION.default(task_of(program, replace(target, l3_bytes=1 << 19))).values[CUT])


def test_nests_walk_all_strips() -> None:
    task = task_of(normalised(), small())
    space, default = CPU_PARTITION.space(task), CPU_PARTITION.default(task).values
    (label, *_) = in_strips(task)
    for cut in (label, next(str(v) for v in space.knobs[0].values if "/" not in str(v))):
        nests = CPU_PARTITION.nests(task, space.schedule({**default, CUT: cut}))
        product_nest = nests[0]
        points = 1
        for n in product_nest.axes.values():
            points *= n
        assert points == 256 * 16 * 8
