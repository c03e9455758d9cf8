"""What a run's summary says of its result, and what came of a run in words."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from made_trials import RUN, run_of, trial

from harness.examples import TARGET
from tilewright.backends import parse_target
from tilewright.cli.commands import tune
from tilewright.cli.user_kernel import OwnKernel, user_kernel_of
from tilewright.core import Task
from tilewright.database.records import RunProgress
from tilewright.insight.advice import resume_command
from tilewright.insight.progress import phase_of, seconds_left
from tilewright.insight.result import NO_INTERVAL, ending, outcome, plan_line, ratios_of, result_of, summary_of
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates.user_kernel import own_kernel
from tilewright.tuner.user_kernel import SETTING
from tilewright.units import Gain

BEST: dict[str, Any] = {
    "seconds": 2e-3, "gflops": 1.0, "peak_fraction": 0.5, "template": "t", "schedule": {"MR": 8, "pack": True},
    "run": RUN, "trial": 3, "spread": 0.1,
}  # fmt: skip


def test_the_time_and_share_are_the_finals() -> None:
    run = run_of([trial(0, 1e-3)], best=BEST, paired={"default": {"ratio": 1.5, "low": 1.4, "high": 1.6}})
    found = result_of(run)
    assert found is not None
    assert (found.seconds, found.low, found.high) == pytest.approx((2e-3, 1.9e-3, 2.1e-3))
    assert found.rate == run.task.workload.flops / 2e-3
    assert (found.peak_fraction, found.run, found.trial, found.kept) == (0.5, RUN, 3, False)
    assert found.schedule_text() == "MR=8 pack=true"
    [ratio] = found.ratios
    assert ratio.text() == "1.50x faster than the default schedule (95% interval 1.40x to 1.60x)"
    assert (ratio.gain, ratio.time) == (Gain(1.5, 1.4, 1.6), "final time")


def test_where_the_default_schedule_is_best_its_ratio_to_itself_is_left_out() -> None:
    one = {"ratio": 1.0, "low": 1.0, "high": 1.0}
    paired = {"default": one, "challenger": {"ratio": 1.01}, "earlier": {"ratio": 1.2}}
    found = result_of(run_of([trial(0, 1e-3)], best={**BEST, "default": True}, paired=paired))
    assert found is not None
    assert found.default
    assert [r.against for r in found.ratios] == ["challenger", "earlier"]
    assert found.ratios[0].gain.text("x") == "1.01x faster than x (too few samples for an interval)"


@pytest.mark.parametrize("best", [None, 3, {}, {"seconds": "x"}, {"seconds": float("nan")}, {"seconds": -1.0}])
def test_a_summary_of_nonsense_has_no_result(best: Any) -> None:
    assert result_of(run_of([trial(0, 1e-3)], best=best)) is None


def test_parts_that_are_missing_are_not_known() -> None:
    found = result_of(run_of([trial(0, 1e-3)], best={"seconds": 1e-3, "trial": -1, "peak_fraction": None}))
    assert found is not None
    assert (found.low, found.high, found.peak_fraction, found.trial) == (None, None, None, None)
    assert found.run == RUN
    assert result_of(replace(run_of([], best=BEST), state="running")) is None


def test_ratios_in_order_and_without_nonsense() -> None:
    stored = {
        "numpy": {"ratio": 1.15, "low": 1.1, "high": float("inf"), "confidence": 0.95}, "earlier": {"ratio": 0.9},
        "default": {"ratio": 2.0, "low": 1.9, "high": 2.1}, "torch": {"ratio": "fast"}, "x": 3,
    }  # fmt: skip
    found = ratios_of({"paired": stored})
    assert [(r.against, r.gain.high) for r in found] == [("default", 2.1), ("numpy", None), ("earlier", None)]
    assert [r.time for r in found] == ["final time", "call time", "final time"]
    assert ratios_of({"paired": [1]}) == ratios_of({}) == ()


QUARTILES = {"ratio": 1.15, "low": 1.1, "high": 1.2}
"""A gain over a library as version 0.1 stored it: ``low`` and ``high`` are quartiles."""


def test_quartiles_of_version_0_1_are_no_interval_and_decide_nothing() -> None:
    interval = {"ratio": 1.02, "low": 0.9, "high": 1.2, "confidence": 0.95}
    final = {"ratio": 1.5, "low": 1.4, "high": 1.6}  # of finals every version stored an interval
    paired = {
        "default": final,
        "numpy": QUARTILES,
        "torch": QUARTILES | {"ratio": 1.0, "low": 0.9},
        "openblas": interval,
    }
    run = run_of([trial(0, 1e-3)], best=BEST, paired=paired)
    said = {r.against: r.text() for r in ratios_of(run.summary)}
    assert said["default"] == "1.50x faster than the default schedule (95% interval 1.40x to 1.60x)"
    assert said["openblas"] == "1.02x faster than openblas (95% interval 0.90x to 1.20x): no measurable difference"
    assert said["numpy"] == f"1.15x faster than numpy ({NO_INTERVAL})"
    assert said["torch"] == f"as fast as torch ({NO_INTERVAL})"
    gains = {r.against: r.gain for r in ratios_of(run.summary)}
    assert (gains["numpy"], gains["numpy"].measurable) == (Gain(1.15), None)
    shown = summary_of(run)["paired"]
    assert shown["numpy"] == {"ratio": 1.15, "low": None, "high": None}
    assert (shown["default"], shown["openblas"]) == (final, interval)


def test_a_summary_without_gains_is_shown_as_it_is() -> None:
    for paired in ([1], {"x": 3}):
        run = run_of([], paired=paired)
        assert summary_of(run) == run.summary


def test_the_line_that_calls_the_kernel() -> None:
    task = Task(get_operator("softmax").workload(shape="64,1000"), TARGET)
    run = run_of([], task=task)
    assert plan_line(run, "a.db") == "tilewright.Library('a.db').plan('softmax', shape='64,1000')"
    two = replace(run, task=Task(task.workload, replace(TARGET, threads=2)))
    assert plan_line(two, "a.db") == "tilewright.Library('a.db', threads=2).plan('softmax', shape='64,1000')"
    product = run_of([], task=Task(get_operator("matmul").workload(m=8, n=9, k=10, bias=True), TARGET))
    assert plan_line(product, "a.db") == "tilewright.Library('a.db').plan('matmul', m=8, n=9, k=10, bias=True)"
    assert plan_line(run, "postgresql+psycopg://host/db") is None
    assert plan_line(replace(run, settings={"own_kernel": {"a": 1}}), "a.db") is None
    own = replace(run, settings={"operator": "ops.py:soft"})
    assert plan_line(own, "a.db") == "tilewright.Library('a.db').plan('ops.py:soft', shape='64,1000')"
    gpu = Task(task.workload, parse_target("cuda:sm_90a", allow_foreign=True))
    assert plan_line(replace(own, task=gpu), "a.db") is None
    assert plan_line(replace(run, task=gpu), "a.db") == "tilewright.Library('a.db').softmax(input)"
    assert plan_line(replace(run, task=Task(replace(task.workload, op="mine"), TARGET)), "a.db") is None


@pytest.mark.parametrize(
    ("summary", "seconds", "says"),
    [({}, 1e-3, "done"), ({"ended": {"why": "space"}}, 1e-3, "done: whole search space"), ({}, None, "no kernel"),
     ({"ended": {"why": "time"}}, 1e-3, "done: time budget used"), ({"ended": {"why": "trials"}}, 1e-3, "done")],
)  # fmt: skip
def test_done_says_how(summary: dict[str, Any], seconds: float | None, says: str) -> None:
    run = run_of([trial(0, seconds)], **summary)
    assert outcome(run) == says
    assert outcome(replace(run, state="interrupted")) == "interrupted"


def test_why_it_ended() -> None:
    run = run_of([trial(0, 1e-3)], ended={"why": "space"})
    assert ending(run) == "Every legal schedule was tried."
    assert ending(replace(run, state="running")) == ending(replace(run, summary={})) == ""
    assert "process is gone" in ending(replace(run, state="interrupted", finished=None))


def test_the_phase_and_how_long_it_takes() -> None:
    now = RunProgress("running", 1, 0, 1e-3, None, 0.5)
    assert phase_of(now) == "search"
    assert seconds_left(now, 11) == 5.0
    assert seconds_left(replace(now, each=None), 11) is None
    soon = replace(now, deadline=time.time() + 2.0)
    assert 1.0 < (seconds_left(soon, 11) or 0.0) <= 2.0
    assert seconds_left(soon, 2) == 0.5  # the trials end before it does
    assert 1.0 < (seconds_left(replace(soon, trials=0), 11) or 0.0) <= 2.0
    assert seconds_left(replace(now, deadline=time.time() - 2.0), 11) == 0.0
    final = replace(now, phase="final")
    assert phase_of(final) == "final"
    assert seconds_left(final, 11) is None
    assert phase_of(replace(now, trials=0)) == "start"
    assert phase_of(replace(now, state="done")) is None


def test_the_command_that_goes_on() -> None:
    task = Task(get_operator("matmul").workload(m=8, n=8, k=8), TARGET)
    run = replace(run_of([trial(0, 1e-3)], task=task), state="interrupted", trials_wanted=20)
    command = resume_command(run, "a.db")
    assert command is not None
    assert command.startswith("tilewright tune matmul m=8 n=8 k=8 ")
    assert command.endswith(f"--db a.db --resume {RUN} --trials 20")
    assert resume_command(replace(run, trials=20), None) is None
    assert resume_command(replace(run, state="done"), None) is None
    own = resume_command(replace(run, settings={"operator": "ops.py:mine"}), None)
    assert own is not None
    assert own.startswith("tilewright tune ops.py:mine m=8 n=8 k=8 ")


def test_the_command_that_goes_on_with_a_kernel_from_a_file(tmp_path: Path) -> None:
    """The command describes the kernel that the run stored: read again, its options give the same template."""
    file = tmp_path / "mm.cu"
    file.write_text('extern "C" __global__ void mm(const float *a, const float *b, float *c) { c[0] = BM * BN; }')
    kernel = own_kernel(
        file, entry="mm", knobs={"BM": (16, 32), "BN": (0.5, 1.5)}, reference="matmul", constraints=["BM * BN <= 64"],
        grid=("ceildiv(n, BM)", 1), block="BM", shared="4 * BM", with_templates=True,
    )  # fmt: skip
    task = Task(get_operator("matmul").workload(m=8, n=8, k=8), TARGET)
    run = replace(run_of([trial(0, 1e-3)], task=task), state="interrupted", trials_wanted=20)
    stored = json.loads(json.dumps(kernel.to_json()))
    own = replace(run, settings={SETTING: stored})
    words = shlex.split(resume_command(own, "a.db") or "")
    assert words[:6] == ["tilewright", "tune", str(file), "m=8", "n=8", "k=8"]
    assert words[-4:] == ["--resume", RUN, "--trials", "20"]
    with tune.command.make_context("tune", words[2:]) as ctx:
        given = OwnKernel(**{f.name: ctx.params[f.name] for f in fields(OwnKernel)})
    again = user_kernel_of(words[2], given)
    assert again is not None
    assert (again.name, again.with_templates) == (kernel.name, True)
    assert plan_line(own, "a.db") == "tilewright.Library('a.db').plan('matmul', m=8, n=8, k=8)"
    named = replace(run, settings={SETTING: {**stored, "reference": "ref.py:f"}})
    assert "--reference ref.py:f" in str(resume_command(named, None))


def test_a_kernel_that_no_command_describes_has_no_command_that_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "mm.cpp"
    file.write_text("void mm(const float *a, const float *b, float *c) { c[0] = BM; }")
    task = Task(get_operator("matmul").workload(m=8, n=8, k=8), TARGET)
    run = replace(run_of([trial(0, 1e-3)], task=task), state="interrupted", trials_wanted=20)

    def command(**changed: Any) -> str | None:
        kernel = own_kernel(file, entry="mm", knobs={"BM": (1, 2)}, reference="matmul")
        return resume_command(replace(run, settings={SETTING: {**kernel.to_json(), **changed}}), None)

    assert command() is not None
    assert command(reference="a_function_of_a_program") is None
    assert command(knobs=[["BM", ["1,2", "3"]]]) is None  # texts with commas
    assert command(knobs=[["BM", [True, False]]]) is None
    assert command(knobs=3) is None
    assert resume_command(replace(run, settings={SETTING: {"a": 1}}), None) is None
