"""Kernels of a range are checked at the sizes that tell: which those are, and that a fault at few of them is found."""

from __future__ import annotations

import pytest

from tilewright.backends.cache import ArtifactCache
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Device, FailureKind, Launch, LaunchProgram, Schedule, Target, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.ranges import at
from tilewright.kernels.templates import templates_for
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.measure.measuring import ENDS, LARGEST_BLOCK, blocks_of, checked_points, checked_sizes
from tilewright.measure.runner import LocalRunner


@pytest.mark.parametrize(("low", "high"), [(1, 4096), (1, 50), (16, 256), (100, 20000), (2000, 4097), (7, 7), (5, 6)])
@pytest.mark.parametrize("blocks", [(), (2, 4, 6, 13), (8, 20, 48, 64, 4096)])
def test_sizes_cover_ends_powers_of_two_and_every_remainder(low: int, high: int, blocks: tuple[int, ...]) -> None:
    sizes = checked_sizes(low, high, blocks)
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (low, high)
    every, within = set(sizes), range(low, high + 1)
    for power in (2**k for k in range(16)):
        assert {power - 1, power, power + 1} & set(within) <= every
    for block in blocks:
        if block > LARGEST_BLOCK:
            assert {block - 1, block, block + 1} & set(within) <= every
            continue
        for least in (low, block * block):
            behind = {n % block for n in within if n >= least}
            assert {n % block for n in sizes if n >= least} == behind, f"blocks of {block} from {least} on"
    assert len(sizes) <= 4 * high.bit_length() + 4 + sum(2 * b if b <= LARGEST_BLOCK else 3 for b in blocks)


def test_blocks_are_those_of_the_loops_over_what_calls_choose(target: Target) -> None:
    for op, params, knob in (
        ("matmul", {"m": "1..500", "n": 40, "k": 64}, "MR"),
        ("softmax", {"shape": "1..400,31"}, "rows"),
    ):
        task = Task(get_operator(op).workload(**params), target)
        ((name, extent),) = task.workload.ranges.items()
        (template,) = templates_for(task)
        schedule = template.default(Task(at(task.workload, {name: extent.high}), target)).at({name: extent.high})
        blocks = blocks_of(Candidate(task, schedule))[name]
        assert schedule.values[knob] in blocks


def test_several_ranges_go_through_their_sizes_together(target: Target) -> None:
    task = Task(get_operator("matmul").workload(m="1..500", n="3..9", k=64), target)
    (template,) = templates_for(task)
    candidate = Candidate(task, template.default(Task(at(task.workload, {"m": 500, "n": 9}), target)))
    corners, others = checked_points(candidate)
    assert {(c["m"], c["n"]) for c in corners} == {(1, 3), (1, 9), (500, 3), (500, 9)}
    blocks = blocks_of(candidate)
    sizes = {name: set(checked_sizes(e.low, e.high, blocks[name])) for name, e in task.workload.ranges.items()}
    assert all({c[name] for c in others} >= sizes[name] for name in sizes)
    assert len(others) <= max(map(len, sizes.values())) + ENDS


def _lowered(candidate: Candidate) -> LoweredKernel:
    """A sum of two arrays of a length that calls choose, in blocks of ``block``: one remainder loses its last element,
    where there are many blocks."""
    values, symbol = candidate.schedule.values, candidate.symbol
    (extent,) = candidate.task.workload.ranges.values()
    source = f"""
TW_ENTRY({symbol}) {{
    const float *a = (const float *)tensors[0], *b = (const float *)tensors[1];
    float *c = (float *)tensors[2];
    const long n = args[0], wrong = n > 40 && n % {values["block"]} == {values["fault"]};
    (void)workspace; (void)env;
    for (long i = 0; i < n - wrong; i++) c[i] = a[i] + b[i];
    return 0;
}}
"""
    return LoweredKernel(symbol, source, LaunchProgram((Launch(symbol, (extent.argument,)),)))


@pytest.mark.parametrize("fault", [3, -1])
def test_a_range_kernel_wrong_for_one_remainder_is_found(
    fault: int, device: Device, target: Target, cache: ArtifactCache
) -> None:
    task = Task(get_operator("add").workload(shape="1..90,"), target)
    (extent,) = task.workload.ranges.values()
    schedule = Schedule("handmade", 1, (("block", 6), ("fault", fault))).at({extent.name: 90})
    candidate = Candidate(task, schedule)
    assert blocks_of(candidate)[extent.name] >= {6}
    with Builder(target, cache=cache, lower=_lowered) as builder:
        (artifact,) = builder.build([candidate])
    assert isinstance(artifact, Artifact)
    with LocalRunner(device, target, deadline=60.0, references="") as runner:
        problem = runner.verify(task, (candidate, artifact))
    if fault < 0:
        assert problem is None
    else:
        assert problem is not None
        assert problem.kind is FailureKind.WRONG_RESULT
        size = int(problem.message.removeprefix(f"{extent.name}=").partition(":")[0])
        assert size % 6 == fault
        assert f"element ({size - 1},) is nan" in problem.message
