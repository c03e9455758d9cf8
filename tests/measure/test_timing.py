"""The decisions of timing, on simulated clocks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from tilewright.measure.timing import (
    LEAST,
    ROUNDS,
    SESSIONS,
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


def placed(
    a: float, b: float, spread: float = 0.0, drift: float = 0.0, burst: float = 0.0, seed: int = 0
) -> Callable[[int], list[tuple[float, float, float]]]:
    """Sessions of kernels that take ``a`` and ``b`` seconds, give or take a ``spread`` by where each copy lies.

    A sample takes ``drift`` longer than the one before. In every other session ``burst`` hits the champion alone.
    """
    rng, number = random.Random(seed), [0, 0]

    def session(n: int) -> list[tuple[float, float, float]]:
        lie = [seconds * (1 + rng.uniform(-spread, spread)) for seconds in (b, a, b)]
        number[1] += 1
        found = []
        for _ in range(n):
            times = []
            for leg, seconds in enumerate(lie):
                number[0] += 1
                hit = 1 + burst if number[1] % 2 and leg != 1 else 1.0
                times.append(seconds * hit * (1 + drift * number[0]))
            found.append((times[1], times[0], times[2]))
        return found

    return session


def ratios(*values: float, itself: Sequence[float] = (1.0,)) -> PairedComparison:
    every = tuple(itself) * len(values)
    return PairedComparison(values, every[: len(values)], (1.0, 1.0))


def test_a_comparison_is_over_sessions_and_not_over_their_samples() -> None:
    found = paired_comparison(placed(0.9, 1.0), 0.0)
    assert len(found.ratios) == len(found.itself) == SESSIONS
    assert found.low == found.high == found.ratio == pytest.approx(0.9)
    assert found.seconds == pytest.approx((0.9, 1.0))
    assert found.challenger_wins
    assert (paired_comparison(placed(0.9, 1.0), 0.0, 4).low, found.floor) == (0.0, LEAST)


def test_sessions_of_slow_kernels_have_fewer_rounds() -> None:
    asked: list[int] = []

    def session(n: int) -> list[tuple[float, float, float]]:
        asked.append(n)
        return [(1.0, 1.0, 1.0)] * n

    for seconds in (1e-4, 0.02, 10.0):
        paired_comparison(session, seconds, 1)
    assert asked == [ROUNDS, 3, 1]


def test_an_even_drift_changes_no_ratio() -> None:
    found = paired_comparison(placed(0.9, 1.0, drift=1e-3), 0.0)
    assert found.ratio == pytest.approx(0.9, rel=1e-3)


def test_a_burst_in_every_other_session_decides_nothing() -> None:
    found = paired_comparison(placed(1.0, 1.0, burst=1.0), 0.0, 32)
    assert (found.low, found.high) == pytest.approx((0.5, 1.0))
    assert not found.decided


def test_a_gain_below_what_a_copy_of_the_champion_differs_by_is_none() -> None:
    close = ratios(*[0.96] * SESSIONS)
    assert close.challenger_wins
    assert not ratios(*[0.96] * SESSIONS, itself=(1.05, 0.95)).challenger_wins
    assert ratios(*[0.92] * SESSIONS, itself=(1.05, 0.95)).challenger_wins
    assert not ratios(*[1 - LEAST / 2] * SESSIONS).challenger_wins


def test_equals_are_hardly_ever_told_apart() -> None:
    found = [paired_comparison(placed(1.0, 1.0, 0.02, seed=s), 0.0, 16) for s in range(300)]
    assert not any(f.challenger_wins for f in found)
    assert sum(f.low > 1 or f.high < 1 for f in found) <= 9


def test_a_challenger_needs_the_whole_interval() -> None:
    assert ratios(*[0.97] * 7, 0.98).challenger_wins
    assert not ratios(*[0.95] * 7, 1.01).challenger_wins
    assert not ratios(*[0.95] * (SESSIONS - 1)).challenger_wins


@pytest.mark.parametrize(
    ("found", "decided"), [((0.95,) * 8, True), ((1.0,) * 8, True), ((0.95, 1.0) * 8, False), ((1.2,) * 7, False)]
)
def test_more_sessions_are_of_use_until_it_is_decided(found: tuple[float, ...], decided: bool) -> None:
    assert ratios(*found).decided is decided


def test_comparisons_of_the_same_kernels_add_up() -> None:
    one = PairedComparison((0.9, 0.8), (1.0, 1.1), (1.0, 2.0))
    both = one + PairedComparison((0.7,), (1.2,), (4.0, 5.0))
    assert both == PairedComparison((0.9, 0.8, 0.7), (1.0, 1.1, 1.2), (2.0, 3.0))
    assert PairedComparison.from_json(both.to_json()) == both
    assert both.swapped().ratio == pytest.approx(1 / 0.8)


@pytest.mark.parametrize("change", [{"ratios": []}, {"itself": [1.0]}, {"ratios": [0.0, 1.0]}, {"seconds": [1.0]}])
def test_nonsense_is_no_comparison(change: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError):
        PairedComparison.from_json({"ratios": [1.0, 1.0], "itself": [1.0, 1.0], "seconds": [1.0, 1.0]} | change)


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


def test_the_spread_of_samples_is_robust() -> None:
    assert spread([5.0]) == 0.0
    assert spread([1.0] * 9) == 0.0
    assert spread([1, 2, 3, 4, 5]) == pytest.approx(2 / 3)
