"""The decisions of timing, on simulated clocks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from tilewright.measure.timing import (
    PairedComparison,
    calibrate,
    compare,
    median_interval,
    paired_comparison,
    repeats_for,
    spread,
)


def noisy(a: float, b: float, noise: float = 0.01, seed: int = 0) -> Callable[[int], list[tuple[float, float]]]:
    """Rounds of two kernels whose machine drifts, with now and then a disturbed sample."""
    rng = random.Random(seed)
    pace = [1.0]

    def rounds(n: int) -> list[tuple[float, float]]:
        out = []
        for _ in range(n):
            pace[0] *= 1 + rng.gauss(0, 0.02)
            hit = [1 + (rng.random() < 0.1) * rng.random() for _ in range(2)]
            out.append(
                (a * pace[0] * hit[0] * (1 + rng.gauss(0, noise)), b * pace[0] * hit[1] * (1 + rng.gauss(0, noise)))
            )
        return out

    return rounds


def test_samples_last_long_enough() -> None:
    assert repeats_for(1.0) == 1
    assert repeats_for(1e-6) == 150
    assert repeats_for(0.0) > 1000


def test_calibration_sees_past_a_cold_first_call() -> None:
    calls: list[int] = []

    def time(n: int) -> float:
        cold = 80e-6 if not calls else 0.0
        calls.append(n)
        return 1e-6 + cold / n

    # The first call lasts long enough to be believed only when it is a sample by itself.
    seconds, repeats = calibrate(time, sample=600e-6)
    assert seconds == pytest.approx(1e-6, rel=0.2)
    assert repeats == pytest.approx(600, rel=0.2)


def test_calibration_ends_for_a_kernel_that_takes_no_time() -> None:
    seconds, repeats = calibrate(lambda n: 0.0)
    assert seconds == 0.0
    assert repeats >= 1


@pytest.mark.parametrize(
    ("times", "samples", "dropped"), [(1.0, 15, False), (1.5, 3, True), (1.2, 7, True), (4, 1, True)]
)
def test_slower_kernels_get_fewer_samples(times: float, samples: int, dropped: bool) -> None:
    found = compare(noisy(times * 1e-3, 1e-3, 0.002, 3), times * 150e-6, 150e-6)
    assert len(found.times) == len(found.ratios) == samples
    assert found.dropped is dropped
    assert found.ratio == pytest.approx(times, rel=0.05)


def test_slower_than_the_best_is_slower_than_the_reference_seems() -> None:
    same = noisy(1e-3, 1e-3, 0.002, 3)
    assert compare(same, 150e-6, 150e-6, best=0.8).dropped
    assert len(compare(same, 150e-6, 150e-6, best=0.95).ratios) == 15


def test_slow_kernels_get_few_pairs() -> None:
    assert len(compare(noisy(0.09, 0.1), 0.09, 0.1).ratios) == 3
    assert len(compare(noisy(1e-3, 1e-3), 1e-3, 1e-3).ratios) == 15
    assert len(compare(noisy(2e-3, 2e-3), 2e-3, 2e-3).ratios) == 7
    assert len(compare(noisy(1e-3, 1e-3), 1e-3, 1e-3, pairs=2).ratios) == 2


def test_two_percent_are_told_apart_under_drift() -> None:
    right = sum(compare(noisy(0.98e-3, 1e-3, 0.01, s), 1e-4, 1e-4).ratio < 1 for s in range(200))
    assert right >= 190


def test_a_duel_ends_early_when_it_is_clear() -> None:
    clear = paired_comparison(noisy(0.9, 1.0), 101)
    assert clear.challenger_wins
    assert clear.pairs < 40
    assert clear.low <= clear.ratio <= clear.high < 1
    assert clear.wins > clear.pairs * 0.8


def test_a_duel_of_equals_is_undecided() -> None:
    decided = [paired_comparison(noisy(1.0, 1.0, 0.01, s), 31) for s in range(100)]
    assert sum(d.high < 1 or d.low > 1 for d in decided) <= 12
    assert not any(d.pairs > 31 for d in decided)


def test_a_duel_without_noise_stops_at_the_wanted_width() -> None:
    d = paired_comparison(lambda n: [(1.001, 1.0)] * n, 1000)
    assert d.pairs < 30
    assert d.ratio == pytest.approx(1.001)
    assert not d.challenger_wins


def test_a_challenger_needs_the_whole_interval() -> None:
    assert PairedComparison(0.98, 0.97, 0.99, 15).challenger_wins
    assert not PairedComparison(0.98, 0.95, 1.01, 12).challenger_wins


@pytest.mark.parametrize("n", [6, 15, 31])
def test_intervals_hold_the_median_as_often_as_they_say(n: int) -> None:
    rng = random.Random(1)
    held = 0
    for _ in range(1000):
        low, high = median_interval([rng.expovariate(1.0) for _ in range(n)], 0.95)
        held += low <= math.log(2) <= high
    assert held >= 935


def test_too_few_values_bound_nothing() -> None:
    assert median_interval([1.0, 1.1, 0.9]) == (0.0, math.inf)


def test_spread() -> None:
    assert spread([5.0]) == 0.0
    assert spread([1.0] * 9) == 0.0
    assert spread([1, 2, 3, 4, 5]) == pytest.approx(2 / 3)
