"""Rooflines of real schedules: the traffic is what the footprint analysis says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from made_trials import RUN, run_of, trial

from harness.examples import TARGET
from tilewright.core import Measurement, Proposal, Schedule, Target, Task, TrialRecord
from tilewright.insight.roofline import (
    Ceilings,
    TaskTrials,
    ceilings_of,
    roofline,
    traffic_of,
)
from tilewright.kernels.operators import get_operator
from tilewright.kernels.speed import compulsory_bytes
from tilewright.kernels.templates import task_space


def task_of(m: int) -> Task:
    return Task(get_operator("matmul").workload(m=m, n=m, k=m), TARGET)


def trials_of(task: Task, count: int, first: int = 0) -> list[tuple[str, TrialRecord]]:
    rng, space = random.Random(0), task_space(task)
    found = []
    for i in range(first, first + count):
        outcome = Measurement(1e-3 * (2 + i % 5), 0.01, 9)
        found.append((RUN, TrialRecord(i, Proposal(space.sample(rng)), outcome)))
    return found


LARGE, SMALL = task_of(2048), task_of(64)


def test_a_large_product_is_placed_by_its_memory_traffic_below_both_ceilings() -> None:
    trials = trials_of(LARGE, 12)
    chart = roofline([TaskTrials(LARGE, trials)], Ceilings(1e11, 2e10))
    assert "traffic from memory" in chart.x.label
    peak, slope, measured, best = chart.series
    assert list(peak.y) == [1e11, 1e11]
    assert peak.x[0] == pytest.approx(5.0)
    assert [y / x for x, y in zip(slope.x, slope.y, strict=True)] == pytest.approx([2e10, 2e10])
    assert slope.x[1] == peak.x[0]
    traffic = traffic_of(LARGE)
    for x, y, (_, record) in zip(measured.x, measured.y, trials, strict=True):
        moved = traffic.of(record.schedule)
        assert x == pytest.approx(LARGE.workload.flops / moved["memory"])
        assert y == pytest.approx(LARGE.workload.flops / (record.seconds or 0))
    assert best.emphasis
    assert best.trials[0] == (RUN, 0)


def test_a_small_product_never_leaves_the_caches() -> None:
    chart = roofline([TaskTrials(SMALL, trials_of(SMALL, 8))], Ceilings(1e11, 2e10))
    assert "memory" not in chart.x.label
    assert "fits the caches" in chart.note
    assert len([s for s in chart.series if s.mode == "line"]) == 1  # memory's bandwidth is no limit here
    assert "bandwidth is unknown" in chart.note
    whole = roofline([TaskTrials(SMALL, trials_of(SMALL, 8))], Ceilings(1e11, 2e10, caches={"l1": 4e11, "l2": 2e11}))
    assert [s.name for s in whole.series if s.mode == "line"][1] == "L2 bandwidth (measured), 200 GB/s"


def test_unknown_ceilings_are_said() -> None:
    chart = roofline([TaskTrials(LARGE, trials_of(LARGE, 3))], Ceilings())
    assert all(s.mode == "points" for s in chart.series)
    assert "peak is unknown" in chart.note
    assert "bandwidth is unknown" in chart.note


def test_schedules_of_other_versions_count_compulsory_traffic() -> None:
    old = [(RUN, trial(i, 1e-3 * (i + 1), template="gone")) for i in range(4)]
    chart = roofline([TaskTrials(LARGE, old)], Ceilings(1e12))
    assert "moved once" in chart.x.label
    assert set(chart.series[1].x) == {LARGE.workload.flops / compulsory_bytes(LARGE.workload)}
    assert compulsory_bytes(LARGE.workload) == 3 * 4 * 2048 * 2048
    name = task_space(LARGE)
    assert traffic_of(LARGE) is traffic_of(task_of(2048))
    mixed = roofline([TaskTrials(LARGE, [*trials_of(LARGE, 8), *old])], Ceilings())
    assert "4 trials are left out" in mixed.note
    assert name.some


def test_a_program_that_no_template_knows_has_no_footprint() -> None:
    broken = Task(replace(LARGE.workload, program="[]"), TARGET)
    strange = Task(LARGE.workload, Target("tpu", "v1", "tpu", (), 64, 32))
    for task in (broken, strange):
        chart = roofline([TaskTrials(task, [(RUN, trial(0, 1e-3))])], Ceilings())
        assert "moved once" in chart.x.label
        assert len(chart.series) == 2


def test_without_operations_or_trials_there_is_nothing_to_place() -> None:
    idle = Task(replace(LARGE.workload, flops=0), TARGET)
    chart = roofline([TaskTrials(idle, trials_of(LARGE, 2))], Ceilings(1e11))
    assert chart.series == ()
    assert "2 trials are left out" in chart.note
    assert roofline([], Ceilings()).series == ()
    assert roofline([TaskTrials(LARGE, [(RUN, trial(0, None))])], Ceilings()).series == ()


def test_tasks_are_told_apart_and_thinned_with_their_fastest() -> None:
    other = task_of(1024)
    groups = [TaskTrials(LARGE, trials_of(LARGE, 30)), TaskTrials(other, trials_of(other, 10)),
              TaskTrials(LARGE, trials_of(LARGE, 5, first=30))]  # fmt: skip
    chart = roofline(groups, Ceilings(), limit=20, level="compulsory")
    names = [s.name for s in chart.series]
    assert names == [LARGE.workload.label, other.workload.label, "fastest of each task"]
    assert sum(len(s.x) for s in chart.series[:-1]) <= 22
    assert [n for _, n in chart.series[-1].trials] == [0, 0]


def test_ceilings_come_from_the_runs_final() -> None:
    run = run_of([], task=LARGE, peaks={"flops": 2e11, "bandwidth": 3e10}, best={"gflops": 50.0, "peak_fraction": 0.5})
    assert ceilings_of(run) == Ceilings(2e11, 3e10)
    caches = run_of([], task=LARGE, peaks={"flops": 2e11, "bandwidth": 3e10, "caches": {"l1": 4e11, "l3": "?", "x": 1}})
    assert ceilings_of(caches) == Ceilings(2e11, 3e10, caches={"l1": 4e11})
    emulated = replace(run_of([], task=LARGE, peaks={"flops": 2e11}), device_model="emulator")
    assert ceilings_of(emulated) == Ceilings()
    older = run_of([], task=LARGE, best={"gflops": 50.0, "peak_fraction": 0.5})
    assert ceilings_of(older) == Ceilings(1e11, None)
    assert ceilings_of(run_of([], task=LARGE)) == Ceilings()
    assert ceilings_of(run_of([], task=LARGE, best=None, peaks=None)) == Ceilings()
    gpu = Task(
        LARGE.workload,
        Target("cuda", "sm_90", "cuda", (), 16, 255, limits=(("bandwidth", 4.8e12), ("fp32_flops", 6.7e13))),
    )
    assert ceilings_of(run_of([], task=gpu)) == Ceilings(6.7e13, 4.8e12, measured=False)


def test_a_schedule_with_strange_values_has_no_traffic() -> None:
    traffic = traffic_of(LARGE)
    good = trials_of(LARGE, 1)[0][1].schedule
    assert traffic.of(good)
    assert traffic.of(Schedule(good.template, good.version, (("MR", -(10**30)),))) == {}
