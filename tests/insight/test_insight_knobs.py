"""Knobs against times, and which of them matter."""

from __future__ import annotations

import random

import pytest
from made_trials import RUN, run_of, trial

from tilewright.core import TrialRecord, UsageError, Value
from tilewright.insight.importance import importance, importance_bars, importance_table
from tilewright.insight.knobs import contour_chart, knob_chart, knob_values, main_template, parallel_chart

RECORDS = [
    trial(i, None if i % 10 == 9 else 1e-3 * (1 + i % 4) + 1e-6 * i, MR=(16, 2, 4, 8)[i % 4], pack="ab"[i % 2],
          flag=bool(i % 3))
    for i in range(60)
]  # fmt: skip


def test_values_are_in_order_and_booleans_are_no_numbers() -> None:
    values = knob_values([*RECORDS, trial(99, 1e-3, MR=True)], "t")
    assert values["MR"] == (True, 2, 4, 8, 16)
    assert values["pack"] == ("a", "b")
    assert values["flag"] == (False, True)


def test_a_knob_against_time_marks_the_fastest_of_each_value() -> None:
    chart = knob_chart(RUN, RECORDS, "MR")
    measured, fastest = chart.series
    assert chart.x.categories == ("2", "4", "8", "16")
    assert len(measured.x) == 54
    assert list(fastest.x) == [0.0, 1.0, 2.0, 3.0]
    assert list(fastest.trials) == [(RUN, 1), (RUN, 2), (RUN, 3), (RUN, 0)]
    assert "fastest has MR=16 with 1 ms" in chart.alt
    assert chart.to_json()["x"]["categories"] == ["2", "4", "8", "16"]
    with pytest.raises(UsageError, match="no knob 'KC'"):
        knob_chart(RUN, RECORDS, "KC")


def test_parallel_coordinates_are_thinned_to_the_fastest_and_a_sample() -> None:
    chart = parallel_chart(RUN, RECORDS)
    assert {d.name for d in chart.dimensions} == {"n", "MR", "pack", "flag"}
    assert len(chart.rows) == len(chart.colour) == len(chart.trials) == 54
    assert chart.trials[-1] == (RUN, 0)  # the fastest is drawn last
    assert chart.colour[-1] == min(chart.colour)
    few = parallel_chart(RUN, [trial(i, 1e-3 + i * 1e-6, K=i % 7) for i in range(500)], limit=120)
    assert len(few.rows) == 120
    assert {n for _, n in few.trials} >= set(range(100))
    assert max(n for _, n in few.trials) == 499
    for position, dimension in zip(zip(*few.rows, strict=True), few.dimensions, strict=True):
        assert max(position) < len(dimension.values)


def test_the_template_is_the_fastest_trials() -> None:
    assert main_template([trial(0, 2e-3, template="a"), trial(1, 1e-3, template="b"), trial(2, 3e-3)]) == "b"
    assert main_template([trial(0, None, template="a")]) == "a"
    with pytest.raises(UsageError, match="no trial"):
        main_template([])
    assert run_of(RECORDS).search_seconds == 1e-3


def test_importance_finds_the_knob_that_decides() -> None:
    records = [
        trial(i, 1e-3 * (1 + i % 4) + 1e-7 * ((i * 7919) % 97), MR=(16, 2, 4, 8)[i % 4], pack="ab"[i // 4 % 2], one=1)
        for i in range(200)
    ]
    for r in records:
        assert r.schedule.values["one"] == 1
    records = [
        trial(r.number, r.seconds, n=0, **{k: v for k, v in r.schedule.values.items() if k != "n"}) for r in records
    ]
    found = importance(records)
    assert [k.knob for k in found.knobs] == ["MR", "pack"]
    assert found.knobs[0].share > 0.8
    assert sum(k.share for k in found.knobs) == pytest.approx(1.0)
    assert importance(records) == found
    bars = importance_bars(found)
    assert bars.alt.startswith("Most important knobs: MR")
    assert all(low <= v <= high for low, (_, v), high in zip(bars.low, bars.bars, bars.high, strict=True))
    assert importance_table(found).rows[0][0::5] == ("MR", "yes")


def noisy(count: int, effect: float, seed: int = 0) -> list[TrialRecord]:
    """Trials drawn at random of which ``K`` alone decides the time, beside noise; five other knobs do nothing."""
    rng = random.Random(seed)
    found = []
    for i in range(count):
        knobs: dict[str, Value] = {"K": rng.choice((1, 2, 4, 8)), **{f"idle{n}": rng.randrange(5) for n in range(5)}}
        found.append(trial(i, 1e-3 * (1 + effect * (knobs["K"] == 4)) * rng.lognormvariate(0, 0.1), n=0, **knobs))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_what_decides_is_sure_and_apart_from_what_does_nothing(seed: int) -> None:
    first, *others = importance(noisy(200, -0.5, seed)).knobs
    assert (first.knob, first.sure) == ("K", True)
    assert all(first.low > k.high for k in others)
    assert not any(k.sure for k in others)


def test_where_every_time_is_the_same_no_knob_matters() -> None:
    found = importance([trial(i, 1e-3, n=0, K=i % 4, J=i % 3) for i in range(40)])
    assert [k.sure for k in found.knobs] == [False, False]
    assert [k.share for k in found.knobs] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("count", [30, 200])
def test_chance_is_not_called_sure(count: int) -> None:
    for seed in range(3):
        found = importance(noisy(count, 0.0, seed))
        assert not any(k.sure for k in found.knobs)
        assert "No knob has a statistically clear effect" in found.remark


def test_few_trials_give_a_statement() -> None:
    found = importance(RECORDS[:12])
    assert found.knobs == ()
    assert "too few to show which knobs matter" in found.remark
    assert importance_bars(found).alt == found.remark
    alone = importance([trial(i, 1e-3, n=0, K=1) for i in range(30)])
    assert "No knob" in alone.remark
    assert "fewer than 50 trials" in importance(RECORDS[:30]).remark


def test_values_that_no_space_would_hold_together_have_an_importance() -> None:
    odd: tuple[Value, ...] = (1, 2.5, "q", False)
    found = importance([trial(i, 1e-3 * (1 + i % 4), n=0, odd=odd[i % 4], flag=bool(i // 4 % 2)) for i in range(80)])
    assert [k.knob for k in found.knobs] == ["odd", "flag"]
    assert found.knobs[0].share > 0.9


def test_two_knobs_show_the_fastest_of_each_pair() -> None:
    trials = [
        trial(0, 4e-3, a=1, b="x"), trial(1, 2e-3, a=1, b="y"), trial(2, 3e-3, a=2, b="y"), trial(3, 1e-3, a=1, b="y"),
        trial(4, None, a=2, b="x"), trial(5, 1e-4, template="u", a=2, b="x"),
    ]  # fmt: skip
    chart = contour_chart(RUN, trials, "a", "b", "t")
    assert (chart.x.categories, chart.y.categories) == (("1", "2"), ("x", "y"))
    assert chart.cells == ((4e-3, None), (1e-3, 3e-3))
    assert chart.trials == (((RUN, 0), None), ((RUN, 3), (RUN, 2)))
    assert chart.alt.endswith("the fastest is at a=1 and b=y with 1 ms.")
    data = chart.to_json()
    assert data["cells"] == [[4e-3, None], [1e-3, 3e-3]]
    assert data["trials"] == [[[RUN, 0], None], [[RUN, 3], [RUN, 2]]]
    with pytest.raises(UsageError, match="no knob 'c'"):
        contour_chart(RUN, trials, "a", "c", "t")
    failed = contour_chart(RUN, [trial(0, None, a=1, b="x")], "a", "b", "t")
    assert failed.cells == ((None,),)
    assert "none was measured" in failed.alt
