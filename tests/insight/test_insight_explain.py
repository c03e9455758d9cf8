"""What is said of a run: what bounds the winner, how the search went, what the knobs did, what to try next."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_trials import RUN, points_of, run_of, trial

import tilewright
from harness.examples import TARGET
from tilewright.backends import parse_target
from tilewright.core import FailureKind, Measurement, Proposal, Schedule, Target, Task, TrialRecord
from tilewright.insight.advice import MOST, tune_command
from tilewright.insight.chart import Bars
from tilewright.insight.effects import effects
from tilewright.insight.explain import Explanation, charts, explain
from tilewright.insight.importance import importance
from tilewright.insight.limits import bytes_of, limit_bars, limits_of
from tilewright.insight.progress import progress_of
from tilewright.kernels import te
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import get_template, task_space
from tilewright.kernels.templates.partition.space import CUT
from tilewright.kernels.templates.partition.template import CPU_PARTITION
from tilewright.testing.kernels import task_of
from tilewright.tuner import user_kernel
from tilewright.units import Gain

GPU = parse_target("cuda:sm_90a", allow_foreign=True)
PEAKS = {"flops": 1e11, "bandwidth": 2e10, "caches": {"l1": 4e11, "l2": 2e11, "l3": 1e11}}


def matmul(m: int, target: Target = TARGET) -> Task:
    return Task(get_operator("matmul").workload(m=m, n=m, k=m), target)


def drawn(task: Task, seconds: Sequence[float], spread: float = 0.02) -> list[TrialRecord]:
    """Trials of schedules drawn from the task's space, the first as the default one."""
    rng, space = random.Random(0), task_space(task)
    return [
        TrialRecord(i, Proposal(space.sample(rng), None, "random" if i else "default"), Measurement(s, spread, 9))
        for i, s in enumerate(seconds)
    ]


def falling(count: int, until: int, least: float = 1e-3) -> list[float]:
    """Times that fall until trial ``until``, where the best is; then they are slower."""
    return [least * (1 + 0.05 * (until - i)) if i <= until else 1.5 * least for i in range(count)]


def explained(task: Task, trials: list[TrialRecord], **run: Any) -> Explanation:
    stored = run_of(trials, task=task, **run)
    return explain(stored, trials, points_of(RUN, trials), "t.db")


# --------------------------------------------------------------------------- what bounds it


def test_the_nearest_limit_is_the_level_that_takes_longest() -> None:
    task = matmul(2048)
    [record] = drawn(task, [1.0])
    moved = bytes_of(task, record.schedule)
    assert set(moved) == {"memory", "l3", "l2", "l1"}
    slow = {**PEAKS, "bandwidth": moved["memory"] / 0.8}
    found = limits_of(run_of([], task=task, peaks=slow), record.schedule, 1.0)
    assert found.nearest is found.bound
    assert found.nearest is not None
    assert (found.nearest.key, found.nearest.share) == ("memory", pytest.approx(0.8))
    assert found.text().startswith("Bound by memory traffic: ")
    assert "(measured by the run) would take 800 ms alone, 80% of the time." in found.text()
    bars = limit_bars(found)
    assert bars.bars[0][0].startswith("memory traffic,")
    assert len(bars.bars) == 5
    fast = limits_of(run_of([], task=task, peaks=PEAKS), record.schedule, task.workload.flops / 1.2e11)
    assert fast.limits[0].share == pytest.approx(1.2)
    assert fast.wrong == fast.limits[:1]
    assert fast.near is None
    assert "The kernel exceeds the limit of arithmetic (120%), so that limit is wrong" in fast.text()
    assert not any(name.startswith("arithmetic") for name, _ in limit_bars(fast).bars)


def test_a_kernel_that_needs_fewer_operations_is_held_to_its_own() -> None:
    """By tiles: a quarter of the products, and the transforms; what its sums may round is said."""
    sizes = {"n": 1, "ci": 64, "h": 16, "w": 16, "co": 64, "kh": 3, "kw": 3, "padding": 1, "layout": "NHWC"}
    task = Task(get_operator("conv2d").workload(**sizes), TARGET)
    direct, tiled = (get_template(n).default(task) for n in ("cpu_contraction", "cpu_winograd"))
    assert dict(tiled.values)["outputs"] == 4
    peaks = {"flops": float(task.workload.flops)}
    shares = [limits_of(run_of([], task=task, peaks=peaks), s, 1.0).limits[0].share for s in (direct, tiled)]
    assert shares[0] == 1
    assert 0.25 < shares[1] < 0.5
    texts = [
        explained(task, [TrialRecord(0, Proposal(s, None, "random"), Measurement(1.0, 0.02, 9))]).parts()[0][1][0]
        for s in (direct, tiled)
    ]
    assert "round" not in texts[0]
    assert "may round 1.8 times as far as the program's own" in texts[1]


def test_what_was_not_stored_is_unknown_and_never_guessed() -> None:
    task = matmul(2048)
    [record] = drawn(task, [1.0])
    older = limits_of(run_of([], task=task, peaks={"flops": 1e11, "bandwidth": 1e15}), record.schedule, 1.0)
    assert older.unknown == ("l3", "l2", "l1")
    assert "No known limit explains the time" in older.text()
    assert "Unknown rates: L3 traffic, L2 traffic, L1 traffic." in older.text()
    none = limits_of(run_of([], task=task), record.schedule, 1.0)
    assert none.limits == ()
    assert "What bounds the kernel is not known" in none.text()
    assert limit_bars(none).bars == ()
    gone = limits_of(run_of([], task=task, peaks=PEAKS), trial(0, 1.0, template="gone").schedule, 1.0)
    assert [x.key for x in gone.limits] == ["compute"]
    assert "The kernel's traffic is unknown" in gone.text()


def test_a_gpus_limits_are_the_stated_ones_of_its_run_and_an_emulators_none() -> None:
    task = matmul(64, GPU)
    [record] = drawn(task, [1e-6])
    found = limits_of(run_of([], task=task, peaks=PEAKS), record.schedule, 1e-6)
    assert {x.key: x.rate for x in found.limits} == {
        "compute": GPU.limit["fp32_flops"], "memory": GPU.limit["bandwidth"],
    }  # fmt: skip
    amounts = {x.key: x.amount for x in found.limits}
    assert amounts["memory"] >= 3 * 4 * 64 * 64  # measured with cold caches: all of it comes from memory
    assert "as the vendor states it" in found.text()
    assert any(name.startswith("memory traffic, ") and name.endswith(" TB/s") for name, _ in limit_bars(found).bars)
    emulated = replace(run_of([], task=task, peaks=PEAKS), device_model="emulator")
    assert limits_of(emulated, record.schedule, 1e-3).limits == ()
    assert "times say nothing about a GPU" in limits_of(emulated, record.schedule, 1e-3).text()


def test_a_partition_names_its_parts_the_other_cuts_and_only_its_own_knobs() -> None:
    """The search space has the knobs of the parts of every cut; those of other cuts explain nothing."""
    x, w, v = te.input("x", (20, 17)), te.input("w", (17, 33)), te.input("v", (33, 9))
    p = te.compute((20, 33), lambda i, j: te.sum(17, lambda r: x[i, r] * w[r, j]))
    h = te.compute((20, 33), lambda i, j: te.maximum(p[i, j], 0.0))  # with the first product, or with the second
    program = te.program(te.compute((20, 9), lambda i, j: te.sum(33, lambda r: h[i, r] * v[r, j])))[0]
    task = task_of(program, TARGET)
    space = CPU_PARTITION.space(task)
    cuts = next(k.values for k in space.knobs if k.name == CUT)
    assert len(cuts) > 1
    rng, schedules = random.Random(0), dict[str, list[Schedule]]()
    while len(schedules) < len(cuts) or len(schedules[str(cuts[0])]) < 30:
        drawn_one = space.sample(rng)
        schedules.setdefault(str(drawn_one.values[CUT]), []).append(drawn_one)
    best = str(cuts[0])
    timed = [(s, 1e-3 if cut == best else 2e-3) for cut, found in schedules.items() for s in found]
    records = [
        TrialRecord(i, Proposal(s, None, "random"), Measurement(seconds * (1 + i / 1e4), 0.02, 9))
        for i, (s, seconds) in enumerate(timed)
    ]
    found = explained(task, records)
    assert found.winner is not None
    assert f"a partition into {len(best.split(' '))} kernels" in found.winner.partition
    assert "beside 2" in found.winner.partition
    parts = {name.split(".")[0] for name in found.winner.schedule if name != CUT}
    assert len(parts) == len(best.split(" ")) < len({k.name.split(".")[0] for k in space.knobs if k.name != CUT})
    assert found.importance is not None
    assert {k.knob.split(".")[0] for k in found.importance.knobs} <= parts


# --------------------------------------------------------------------------- the search


@pytest.mark.parametrize(
    ("seconds", "summary", "outlook"),
    [
        (falling(40, 38), {"ended": {"why": "trials"}}, "likely"),
        ([1e-3 * (1 + 1e-4 * i) for i in range(40)], {"ended": {"why": "trials"}}, "unlikely"),
        (falling(40, 38), {"ended": {"why": "space"}}, "exhausted"),
        (falling(12, 11), {"ended": {"why": "time"}}, "few"),
    ],
)
def test_whether_more_trials_would_pay(seconds: list[float], summary: dict[str, Any], outlook: str) -> None:
    trials = [trial(i, s) for i, s in enumerate(seconds)]
    found = progress_of(run_of(trials, **summary), trials)
    assert found.outlook == outlook
    assert found.best_at == seconds.index(min(seconds))
    assert "The run ended after" in found.text()
    assert progress_of(run_of(trials, **summary), trials, True).outlook in ("limit", "exhausted")


def test_an_improvement_within_the_noise_promises_nothing() -> None:
    trials = [trial(i, s, spread=0.9) for i, s in enumerate(falling(400, 38))]
    assert progress_of(run_of(trials), trials).outlook == "unlikely"


# --------------------------------------------------------------------------- the knobs


def test_the_values_of_a_knob_with_their_times_and_how_many_of_the_fastest_have_them() -> None:
    rng = random.Random(0)
    records = []
    for i in range(100):
        k = rng.choice((1, 2, 4))
        records.append(
            trial(i, 1e-3 * {1: 3.0, 2: 2.0, 4: 1.0}[k] * (1 + 0.001 * i), n=0, K=k, idle=rng.random() < 0.5)
        )
    first, *_ = effects(records, importance(records))
    assert (first.knob, first.sure, first.fast, first.trials) == ("K", True, 10, 100)
    assert first.values[0].value == 4
    assert first.values[0].fast == 10
    assert {v.value: round(v.median) for v in first.values} == {4: 1, 2: 2, 1: 3}
    assert sum(v.trials for v in first.values) == 100
    assert "10 of the fastest 10 trials have 4" in first.text()
    assert effects(records[:5], importance(records[:5])) == ()


# --------------------------------------------------------------------------- what to try next


def test_a_run_that_was_cut_short_is_gone_on_with_by_a_command() -> None:
    task = matmul(64)
    trials = drawn(task, falling(30, 8))
    stored = replace(run_of(trials, task=task, ended={"why": "time"}), trials_wanted=100)
    found = explain(stored, trials, points_of(RUN, trials), "my db.db")
    step = found.steps[0]
    assert "70 of 100 requested trials" in step.why
    assert step.command == (
        f"tilewright tune matmul m=64 n=64 k=64 --target cpu:avx2 --db 'my db.db' --resume {RUN} --trials 100"
    )


def test_what_still_gets_better_is_gone_on_with_and_what_stands_still_is_begun_anew() -> None:
    task = matmul(64)
    better = explained(task, drawn(task, falling(60, 58)))
    assert "still finding faster schedules" in better.steps[0].why
    assert "--trials 120" in (better.steps[0].command or "")
    still = explained(task, drawn(task, [1e-3 * (1 + 1e-4 * i) for i in range(60)]))
    assert [s.command for s in still.steps if s.command and "--seed 1" in s.command]
    assert "--resume" not in str([s.command for s in still.steps])


def test_at_a_limit_nothing_more_is_searched() -> None:
    task = matmul(64)
    seconds = task.workload.flops / 1e11 / 0.95
    trials = drawn(task, falling(60, 58, seconds))
    l2 = bytes_of(task, trials[58].schedule)["l2"] / seconds / 0.95
    for peaks, word in (({"flops": 1e11}, "arithmetic"), ({"flops": 1e15, "caches": {"l2": l2}}, "limit of L2")):
        found = explained(task, trials, peaks=peaks)
        assert word in found.steps[0].why
        assert found.progress.outlook == "limit"
        assert not any("--resume" in (s.command or "") for s in found.steps)


def test_noise_failures_and_barely_tried_templates_are_told() -> None:
    task = matmul(64)
    trials = drawn(task, falling(60, 8), spread=0.3)
    bad = [trial(60 + i, None, kind=FailureKind.TIMEOUT) for i in range(30)]
    found = explained(task, [*trials, *bad])
    told = " ".join(s.do + s.why for s in found.steps)
    assert "Look at the failures of kind timeout." in told
    assert "30 of 90 trials" in told
    assert "30% of their median" in told
    assert len(found.steps) <= MOST
    several = Task(get_operator("matmul").workload(m=64, n=64, k=64, dtype="bfloat16"), GPU)
    first = task_space(several).live[0].template
    alone = [r for r in drawn(several, falling(90, 8)) if r.schedule.template == first]
    assert any(
        "cuda_simt in 0" in s.why and "--strategy random" in str(s.command) for s in explained(several, alone).steps
    )


def test_a_winner_at_the_edge_of_what_was_tried(tmp_path: Path) -> None:
    file = tmp_path / "mm.cpp"
    file.write_text("void mm(const float *a, const float *b, float *c) { c[0] = BM * BN; }")
    sizes = (1, 2, 4, 8, 16)
    kernel = tilewright.own_kernel(file, entry="mm", knobs={"BM": sizes, "BN": (1, 2, 4)}, reference="matmul")
    task = matmul(64)
    [template] = user_kernel.templates_of(kernel, task)
    rng = random.Random(0)

    def made(largest: int) -> Explanation:
        records = []
        for i in range(120):
            chosen = {"BM": rng.choice([b for b in sizes if b <= largest]), "BN": rng.choice((1, 2, 4))}
            schedule = template.space(task).schedule(chosen)
            outcome = Measurement(1e-3 / chosen["BM"] * rng.lognormvariate(0, 0.05), 0.01, 9)
            records.append(TrialRecord(i, Proposal(schedule, None, "random"), outcome))
        run = replace(run_of(records, task=task), settings={user_kernel.SETTING: kernel.to_json()})
        return explain(run, records, points_of(RUN, records))

    steps = made(8).steps
    assert any("16 were never tried" in s.do for s in steps)
    assert any("Give --knob BM values beyond 16" in s.do for s in made(16).steps)
    command = (
        f"tilewright tune {file} m=64 n=64 k=64 --entry mm --reference matmul --knob BM=1,2,4,8,16 --knob BN=1,2,4 "
    )
    assert {s.command[: len(command)] for s in steps if s.command} == {command}
    assert any(s.command for s in steps)


def test_commands_are_for_what_a_name_says() -> None:
    run = run_of([], task=matmul(8))
    assert tune_command(run, None) == "tilewright tune matmul m=8 n=8 k=8 --target cpu:avx2"
    two = replace(run, task=Task(run.task.workload, replace(TARGET, threads=2)))
    assert tune_command(two, "postgresql://x/y") is not None
    assert "--threads 2" in str(tune_command(two, None))
    assert tune_command(replace(run, device_name="some-class"), None) is None
    assert tune_command(replace(run, task=Task(replace(run.task.workload, op="mine"), TARGET)), None) is None
    assert tune_command(replace(run, task=Task(replace(run.task.workload, program="[]"), TARGET)), None) is None
    emulated = replace(run, task=matmul(8, GPU), device_name="emulator", device_model="emulator")
    assert "--device emulator" in str(tune_command(emulated, None))


# --------------------------------------------------------------------------- all of it


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (None, "It is 1.50x the default schedule's speed by search times, which have no interval."),
        (Gain(1.3, 1.2, 1.4), "It is 1.30x faster than the default schedule (95% interval 1.20x to 1.40x)."),
        (Gain(1.11, 0.95, 1.3), "(95% interval 0.95x to 1.30x): no measurable difference."),
        (Gain(0.8, 0.75, 0.9), "1.25x slower than the default schedule (95% interval 1.11x to 1.33x)."),
        (Gain(1.001, 0.99, 1.02), "It is as fast as the default schedule (95% interval 0.99x to 1.02x): no"),
        (Gain(1.2), "1.20x faster than the default schedule (too few samples for an interval)."),
    ],
)
def test_how_fast_the_winner_is_in_words(gain: Gain | None, said: str) -> None:
    winner = explained(matmul(64), drawn(matmul(64), falling(60, 10)), peaks=PEAKS).winner
    assert winner is not None
    told = dataclasses.replace(winner, search_seconds=1e-3, default_search_seconds=1.5e-3, gain=gain)
    assert said in told.text(0)


def test_the_winner_is_the_finals_and_compared_with_the_default() -> None:
    task = matmul(64)
    trials = drawn(task, falling(60, 10))
    best = {"run": RUN, "trial": 9, "seconds": 9e-4}
    found = explained(task, trials, best=best, peaks=PEAKS)
    assert found.winner is not None
    assert (found.winner.trial, found.winner.final_seconds) == (9, 9e-4)
    assert found.winner.default_search_seconds == pytest.approx(1.5e-3)
    told = found.parts()[0][1][0]
    assert "The winner is trial 9: final time 900 us" in told
    assert "the default schedule's speed by search times" in told
    assert "Trial 10 has the least search time, 1 ms (trial 9: 1.05 ms)" in told
    first = {"run": RUN, "trial": 0, "seconds": 1e-3, "default": True}
    same = explained(task, trials, best=first, paired={"default": {"ratio": 1.0}}, peaks=PEAKS)
    assert "It is the default schedule: no other schedule was measured to be faster." in same.parts()[0][1][0]
    other = explained(task, trials, best={**best, "run": "another"}, kept=True)
    assert other.winner is not None
    assert (other.winner.trial, other.winner.final_seconds) == (10, None)
    assert "The kernel of an earlier run won the final" in other.parts()[0][1][0]
    assert [type(c).__name__ for c in charts(found, points_of(RUN, trials))] == ["XY", "Bars", "Bars"]
    assert isinstance(charts(found, points_of(RUN, trials))[1], Bars)
    assert Explanation.from_json(found.to_json()).winner == found.winner


def test_runs_without_a_measured_trial_or_any_and_those_that_go_on() -> None:
    task = matmul(64)
    failed = [trial(i, None, kind=FailureKind.COMPILE) for i in range(4)]
    found = explained(task, failed, ended={"why": "trials"})
    assert (found.winner, found.limits, found.importance) == (None, None, None)
    assert found.parts()[0] == ("Result", ["No trial was measured."])
    assert found.steps[0].command == f"tilewright show {RUN} --db t.db"
    assert "The compiler refused" in found.steps[0].do
    nothing = explained(task, [])
    assert nothing.steps == ()
    assert "that the cost model chose" in nothing.parts()[0][1][0]
    goes_on = replace(run_of(drawn(task, falling(30, 20)), task=task), state="running")
    trials = drawn(task, falling(30, 20))
    live = explain(goes_on, trials, points_of(RUN, trials))
    assert live.steps == ()
    assert "The run is not over" in live.progress.text()
