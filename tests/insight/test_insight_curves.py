"""Best-so-far curves, failures, comparisons, differences and speed-ups."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_trials import RUN, points_of, run_of, trial

from harness.examples import example_artifact, example_kernel, example_task
from tilewright.core import Failure, FailureKind, UsageError
from tilewright.database.records import KernelView, TrialPoint
from tilewright.insight.best import best_over_time, best_over_trials, improvements
from tilewright.insight.chart import XY, Axis, Series
from tilewright.insight.compare import compare_chart, compare_table
from tilewright.insight.diff import outcome_diff, schedule_diff, source_diff
from tilewright.insight.failures import ADVICE, failure_bars, failure_groups, failure_table
from tilewright.insight.points import thinned
from tilewright.insight.speedups import speedup_bars, speedup_table
from tilewright.units import Gain, with_unit

TRIALS = [
    trial(0, 4e-3, spread=0.5), trial(1, None), trial(2, 5e-3, dropped=True), trial(3, 2e-3, spread=0.1),
    trial(4, None, kind=FailureKind.TIMEOUT), trial(5, 3e-3), trial(6, None),
]  # fmt: skip
POINTS = points_of(RUN, TRIALS)


def test_the_best_so_far_is_a_step_with_a_band_and_every_trial_a_point() -> None:
    chart = best_over_trials(POINTS, "matmul")
    steps, measured, early, failed = chart.series
    assert steps.emphasis
    assert (steps.mode, list(steps.x), list(steps.y)) == ("step", [0, 3, 6], [4e-3, 2e-3, 2e-3])
    # Half of the spread on either side: the band is as wide as the samples' interquartile range.
    assert list(steps.low) == pytest.approx([3e-3, 1.9e-3, 1.9e-3])
    assert list(steps.high) == pytest.approx([5e-3, 2.1e-3, 2.1e-3])
    assert (list(measured.x), list(early.x), list(failed.x)) == ([0, 3, 5], [2], [1, 4, 6])
    assert min(failed.y) > max(early.y)
    assert list(failed.trials) == [(RUN, 1), (RUN, 4), (RUN, 6)]
    assert "7 trials, 3 failed: from 4 ms at trial 0 to 2 ms at trial 3" in chart.alt


def test_points_of_the_database_draw_the_same_curve() -> None:
    stored = [
        TrialPoint(p.run_id, p.number, p.template, p.status, p.seconds, p.spread, p.prediction, p.origin, p.created)
        for p in POINTS
    ]
    assert best_over_trials(stored).series[0] == best_over_trials(POINTS).series[0]
    assert best_over_trials(stored[::-1]).series[0] == best_over_trials(POINTS).series[0]


def test_over_time_starts_with_the_run() -> None:
    chart = best_over_time(POINTS, started=999.0)
    assert list(chart.series[0].x) == [1.0, 4.0, 7.0]
    assert chart.x.unit == "s"


@given(st.lists(st.one_of(st.none(), st.floats(1e-9, 10.0)), max_size=40))
def test_improvements_fall_and_end_with_the_best(times: list[float | None]) -> None:
    points = points_of(RUN, [trial(i, s) for i, s in enumerate(times)])
    found = [p.seconds for p in improvements(points)]
    known = [s for s in times if s is not None]
    assert all(b < a for a, b in pairwise(found) if a is not None and b is not None)
    assert found[-1:] == ([min(known)] if known else [])
    for chart in (best_over_trials(points), best_over_time(points, 1000.0)):
        assert sum(len(s.x) for s in chart.series if s.mode == "points") == (len(times) if known else 0)
        json.dumps(chart.to_json(), allow_nan=False)


def test_a_run_without_a_success_has_an_empty_chart() -> None:
    chart = best_over_trials(points_of(RUN, [trial(0, None), trial(1, float("inf"))]))
    assert chart.series == ()
    assert "no trial was measured" in chart.alt


def test_failures_by_kind_have_counts_examples_and_advice() -> None:
    first = {r.outcome.kind.value: (RUN, r) for r in reversed(TRIALS) if isinstance(r.outcome, Failure)}
    groups = failure_groups({"timeout": 1, "crash": 2}, len(TRIALS), first)
    assert [(g.kind, g.count, g.example, g.trial) for g in groups] == [
        ("crash", 2, "trial 1 failed", (RUN, 1)),
        ("timeout", 1, "trial 4 failed", (RUN, 4)),
    ]
    assert groups[0].share == pytest.approx(2 / 7)
    assert failure_bars(groups, 7).bars == (("crash", 2.0), ("timeout", 1.0))
    assert failure_table(groups).links["example"] == ["/runs/run-1/trials/1", "/runs/run-1/trials/4"]
    assert "3 of 7 trials failed" in failure_bars(groups, 7).alt


def test_every_kind_of_failure_has_advice() -> None:
    assert set(ADVICE) == set(FailureKind)


def test_runs_of_one_task_are_compared_and_others_refused() -> None:
    a, b = run_of(TRIALS), run_of(TRIALS[:3], "run-2", seed=1)
    chart = compare_chart([a, b], [POINTS, points_of("run-2", TRIALS[:3])])
    assert [s.name for s in chart.series] == ["run-1 (evolutionary, seed 0)", "run-2 (evolutionary, seed 1)"]
    assert "not taken in turn" in chart.note
    table = compare_table([a, b]).to_json()["rows"]
    assert [(r["run"], r["trials"], r["failed"], r["ratio"], r["seconds"]) for r in table] == [
        ("run-1", 7, 3, 1.0, 60.0),
        ("run-2", 3, 1, 2.0, 60.0),
    ]
    with pytest.raises(UsageError, match="another task"):
        compare_chart([a, run_of([], "run-3", example_task(m=9))], [POINTS, []])
    with pytest.raises(UsageError, match="with itself"):
        compare_table([a, a])
    with pytest.raises(UsageError, match="needs two runs"):
        compare_table([a])


def test_a_schedule_diff_lists_what_differs_first() -> None:
    a, b = trial(0, 1e-3, MR=4, unroll=True, only=1), trial(1, None, MR=4, unroll=1)
    rows = {row[0]: row[3:] for row in schedule_diff(a, b).rows}
    assert rows == {
        "n": ("0", "1", True),
        "unroll": ("true", "1", True),
        "only": ("1", "", True),
        "MR": ("4", "4", False),
    }
    assert [row[0] for row in schedule_diff(a, b).rows][-1] == "MR"
    assert schedule_diff(a, trial(1, 1e-3, template="u")).rows[0][0] == "template"
    assert [row[1] for row in outcome_diff(a, b).rows] == ["ok", "crash"]


def test_a_source_diff_numbers_its_lines() -> None:
    a = "".join(f"line {i}\n" for i in range(30))
    lines = source_diff(a, a.replace("line 15\n", "line fifteen\nand a half\n"), context=1)
    assert [(x.tag, x.a, x.b, x.text) for x in lines] == [
        ("hunk", None, None, "lines 15 to 17, 15 to 18"),
        ("same", 15, 15, "line 14"),
        ("removed", 16, None, "line 15"),
        ("added", None, 16, "line fifteen"),
        ("added", None, 17, "and a half"),
        ("same", 17, 18, "line 16"),
    ]
    assert source_diff(a, a) == []


def test_speedups_are_ordered_and_unknown_ones_last() -> None:
    kernel = example_kernel(example_task(), 0, example_artifact(b"x"), RUN)
    views = [KernelView(kernel, None, 1e-3), KernelView(kernel, 2e-3, 1e-3), KernelView(kernel, 1e-3, 1e-4)]
    found = speedup_table(views).to_json()["rows"]
    assert [row["speedup"] for row in found] == pytest.approx([10.0, 2.0, None])
    assert [row["gain"] for row in found] == [
        "10.00x by search times, no interval",
        "2.00x by search times, no interval",
        None,
    ]
    assert [v for _, v in speedup_bars(views).bars] == pytest.approx([10.0, 2.0])
    assert "10.00x" in speedup_bars(views).alt
    assert speedup_bars(views).text(0) == "10.00x"  # there is no interval to show
    unsure = speedup_bars([KernelView(kernel, None, None, Gain(1.11, 0.95, 1.3))])
    assert unsure.text(0) == "1.11x (0.95x to 1.30x)"
    assert speedup_bars([]).bars == ()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.76e-5, "s", "17.6 us"), (9.999e-4, "s", "1 ms"), (0.0, "s", "0 s"), (125.0, "s", "125 s"),
        (2.31e11, "flop/s", "231 GFLOP/s"), (9.99e5, "flop/s", "999 kFLOP/s"), (0.352, "share", "35.2%"),
        (64.0, "trial", "64"), (0.25, "flop/byte", "0.25"), (float("nan"), "s", "-"), (0, "date", "1970-01-01 00:00"),
        (1.5e9, "", "1.5e+09"), (-2e-3, "s", "-2 ms"),
    ],
)  # fmt: skip
def test_numbers_are_written_with_their_units(value: float, unit: str, text: str) -> None:
    assert with_unit(value, unit) == text


def test_thinning_keeps_both_ends() -> None:
    assert thinned(range(100), 4) == [0, 33, 66, 99]
    assert thinned(range(3), 4) == [0, 1, 2]
    assert thinned(range(9), 1) == [0]
    assert thinned(range(9), 0) == []


def test_charts_are_plain_json() -> None:
    series = Series("s", [float("nan"), 1.0], [float("inf"), 2.0])
    assert XY("t", Axis("x"), Axis("y"), (series,)).to_json()["series"][0]["x"] == [None, 1.0]
