"""The cost model's predictions against what was measured."""

from __future__ import annotations

import numpy as np
import pytest
import scipy  # its parts are imported when they are used
from hypothesis import given
from hypothesis import strategies as st
from made_trials import RUN, points_of, trial

from tilewright.database.records import TrialPoint
from tilewright.insight.calibration import (
    agreement,
    agreement_by_part,
    calibration_chart,
    calibration_over_run,
    calibration_table,
    describe,
    pairwise_accuracy,
    rank_correlation,
    ranks,
)

FLOATS = st.lists(st.integers(-5, 5).map(float), min_size=3, max_size=40)


@given(FLOATS)
def test_ranks_are_scipys(values: list[float]) -> None:
    assert ranks(np.array(values)) == pytest.approx(scipy.stats.rankdata(values))


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=40))
def test_rank_correlation_is_scipys(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(x, float) for x in zip(*pairs, strict=True))
    found = rank_correlation(a, b)
    if len(set(a)) < 2 or len(set(b)) < 2:
        assert found is None
    else:
        assert found == pytest.approx(scipy.stats.spearmanr(a, b).statistic)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=15))
def test_pairwise_accuracy_counts_pairs(pairs: list[tuple[int, int]]) -> None:
    right, total = 0.0, 0
    for i, (p, m) in enumerate(pairs):
        for q, n in pairs[:i]:
            if m != n:
                total += 1
                right += 0.5 if p == q else float((p > q) == (m > n))
    a, b = (np.array(x, float) for x in zip(*pairs, strict=True))
    assert pairwise_accuracy(a, b) == (pytest.approx(right / total) if total else None)


def run_with(scores: list[float | None], seconds: list[float | None]) -> list[TrialPoint]:
    return points_of(RUN, [trial(i, s, p) for i, (p, s) in enumerate(zip(scores, seconds, strict=True))])


def test_a_model_that_foresaw_the_order() -> None:
    points = run_with([float(i) for i in range(40)], [1e-3 / (1 + i) for i in range(40)])
    found = agreement(points)
    assert (found.count, found.rank_correlation, found.pairwise) == (40, pytest.approx(1.0), 1.0)
    parts = agreement_by_part(points)
    assert [(a.first, a.last) for a in parts] == [(0, 7), (8, 15), (16, 23), (24, 31), (32, 39)]
    chart = calibration_chart(points)
    # The highest score has rank 1 and the least time.
    best = min(range(40), key=lambda i: points[i].seconds or 0.0)
    assert chart.series[1].trials[best - 20] == (RUN, best)
    assert chart.series[1].x[best - 20] == 1.0
    assert list(calibration_over_run(points).series[0].y) == pytest.approx([1.0] * 5)
    assert len(calibration_table(points).rows) == 6


def test_failures_and_trials_without_prediction_do_not_count() -> None:
    points = run_with([1.0, None, 3.0, float("nan")] * 3, [1e-3, 1e-3, None, 1e-3] * 3)
    assert agreement(points).count == 3
    assert agreement(points).rank_correlation is None
    assert "too few" in describe(agreement(points))
    assert calibration_over_run(points).series == ()


def test_constant_predictions_have_no_order() -> None:
    points = run_with([1.0] * 20, [1e-3 * (i + 1) for i in range(20)])
    assert agreement(points).rank_correlation is None
    assert agreement(points).pairwise == 0.5
    assert "no order" in describe(agreement(points))
    assert calibration_over_run(points).series == ()


def test_many_trials_are_thinned_for_the_pairs() -> None:
    points = run_with([float(-i) for i in range(5000)], [1e-3 + 1e-9 * i for i in range(5000)])
    assert agreement(points) == agreement(points)
    assert agreement(points).count == 5000
    assert agreement(points).rank_correlation == pytest.approx(1.0)


def test_pairs_that_are_hardly_apart_are_left_out() -> None:
    predicted, measured = np.array([1.0, 2.0, 0.0]), np.array([0.0, 0.04, 1.0])
    assert pairwise_accuracy(predicted, measured) == pytest.approx(1 / 3)
    assert pairwise_accuracy(predicted, measured, 0.05) == 0.0
    assert pairwise_accuracy(predicted, measured, 2.0) is None
