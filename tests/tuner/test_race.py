"""Successive rejection: the fastest is found, and most samples go to those that are close."""

from __future__ import annotations

import random

import pytest

from tilewright.measure.timing import PairedComparison
from tilewright.tuner.paired import ROUNDS, decide, race


@pytest.mark.parametrize("n", [0, 1])
def test_nobody_to_race_with(n: int) -> None:
    assert list(race(list(range(n)), lambda *_: pytest.fail("compared"))) == []


@pytest.mark.parametrize("n", [2, 3, 5, 8, 13])
def test_without_noise_the_fastest_wins_from_any_place(n: int) -> None:
    for place in range(n):
        times = [2.0 + i for i in range(n)]
        times[place] = 1.0
        *_, last = race(times, lambda one, other, pairs: one / other)
        assert last[0] == 1.0
        assert sorted(last) == sorted(times)


def test_the_close_ones_get_most_samples() -> None:
    taken: dict[float, int] = {}

    def ratio(one: float, other: float, pairs: int) -> float:
        for t in (one, other):
            taken[t] = taken.get(t, 0) + pairs
        return one / other

    times = [1.01, 1.0, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]
    standings = list(race(times, ratio))
    assert [s[0] for s in standings] == [1.0] * len(ROUNDS)
    assert all(sorted(s) == sorted(times) for s in standings)
    assert taken[1.0] > 3 * taken[1.7]
    assert taken[1.7] == ROUNDS[0]


def test_noise_costs_little() -> None:
    rng = random.Random(0)
    lost = []
    for _ in range(200):
        times = [1 + 0.004 * i for i in range(8)]
        rng.shuffle(times)
        # The median of n ratios with 1% of noise each.
        *_, last = race(times, lambda a, b, n: a / b * rng.gauss(1.0, 0.0125 / n**0.5))
        lost.append(last[0] - 1)
    assert sum(lost) / len(lost) < 0.004


def test_the_interval_of_a_decision_holds_the_true_ratio_in_95_of_100_runs() -> None:
    """Although the interval is looked at up to eight times, and the looking stops at a decision."""
    rng = random.Random(5)
    runs, held = 1500, 0

    def equally_fast(sessions: int) -> PairedComparison:
        ratios = tuple(rng.lognormvariate(0.0, 0.05) for _ in range(sessions))
        return PairedComparison(ratios, (1.0,) * sessions, (1.0, 1.0))

    for _ in range(runs):
        found = decide(equally_fast)
        held += found.low <= 1.0 <= found.high
    assert held >= 0.95 * runs


def test_a_kernel_that_is_twice_as_fast_wins_although_the_time_is_over() -> None:
    def twice_as_fast(sessions: int) -> PairedComparison:
        return PairedComparison((0.5,) * sessions, (1.0,) * sessions, (1.0, 2.0))

    assert decide(twice_as_fast, until=0.0).challenger_wins
