"""What an interval of a range keeps: the default schedule, or what serves it, unless its own choice is measured faster."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tilewright.core import Artifact, LaunchProgram, Target, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.ranges import narrowed
from tilewright.measure.timing import PairedComparison
from tilewright.tuner.observer import Observer
from tilewright.tuner.portfolio import Interval, SampleSizes
from tilewright.tuner.range_kernels import Comparing, Found

TARGET = Target("cpu", "portable", "x86_64", (), 16, 16)
TASK = Task(get_operator("matmul").workload(m="1..64", n=32, k=32), TARGET)
SIZES = (1, 8, 63, 64)
BUILT = Artifact("", "", LaunchProgram(()), TARGET, "", (), "")


class Device:
    """A runner and a database: kernels take so long at each size, by their place; ``serving`` is what is stored."""

    def __init__(self, seconds: list[dict[int, float]], serving: list[Any]) -> None:
        self.seconds, self.serving = seconds, serving
        self.asked: list[int] = []

    def kernels(self, op: str) -> list[Any]:
        return self.serving

    def compare(self, task: Task, one: Any, other: Any, sessions: int) -> PairedComparison:
        size = int(dict(task.workload.params)["m"])
        self.asked.append(size)
        a, b = (self.seconds[int(c.schedule.values["place"])][size] for c, _ in (one, other))
        return PairedComparison((a / b,) * sessions, (1.0,) * sessions, (a, b))


def settled(times: list[list[float]], choice: int, serving: int | None = None) -> tuple[Interval, Device]:
    """The only interval of the range; kernel 0 is the default schedule."""
    seconds = [dict(zip(SIZES, t, strict=True)) for t in times]
    device = Device(seconds, [])
    every = cast(Any, device)
    tools = SimpleNamespace(place=SimpleNamespace(device=SimpleNamespace(model="m")), builder=every, runner=every)
    comparing = Comparing(TASK, SampleSizes(TASK.workload.ranges), cast(Any, tools), every, Observer())
    default = comparing.default
    schedules = [replace(default, launch=(*default.launch, ("place", n))) for n in range(len(times))]
    comparing.__dict__["default"] = schedules[0]
    if serving is not None:
        stored = Task(narrowed(TASK.workload, {"m": (1, 64)}), TARGET)
        device.serving = [SimpleNamespace(device_model="m", task=stored, schedule=schedules[serving])]
    found = [Found(s, "run", BUILT, t) for s, t in zip(schedules, seconds, strict=True)]
    (interval,) = comparing.decided([Interval(1, 64, choice, 0.0, 0.0)], found, None)
    return interval, device


@pytest.mark.parametrize(("gain", "kernel"), [(1.2, 1), (1.005, 0), (0.9, 0)])
def test_the_default_schedule_stays_unless_the_choice_is_faster(gain: float, kernel: int) -> None:
    interval, device = settled([[1.0] * 4, [1 / gain] * 4], 1)
    assert interval.kernel == kernel
    assert interval.worst == pytest.approx(max(0.0, (1.0 if kernel == 0 else 1 / gain) / min(1.0, 1 / gain) - 1))
    assert set(device.asked) <= set(SIZES)
    assert len(set(device.asked)) > 1  # over its sizes


def test_a_choice_that_gains_at_some_sizes_and_loses_at_others_is_undecided() -> None:
    assert settled([[1.0] * 4, [0.9, 1.1, 0.9, 1.1]], 1)[0].kernel == 0


def test_what_serves_the_range_stays_likewise() -> None:
    assert settled([[1.0] * 4, [0.8] * 4, [0.801] * 4], 1, serving=2)[0].kernel == 2
    assert settled([[1.0] * 4, [0.8] * 4, [0.9] * 4], 1, serving=2)[0].kernel == 1
    assert settled([[0.7] * 4, [0.8] * 4, [0.801] * 4], 1, serving=2)[0].kernel == 0
    assert settled([[1.0] * 4, [0.8] * 4], 0)[0].kernel == 0
