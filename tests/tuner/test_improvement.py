"""What further trials are expected to gain, and when a search has converged."""

from __future__ import annotations

import math
import random

import pytest

from tilewright.core import Failure, FailureKind, Measurement, Proposal, Schedule, TrialRecord
from tilewright.tuner.improvement import EARLIEST, LEAST, MORE, TOP, converged, expected_improvement, noise


def trials(times: list[float], spread: float = 0.0) -> list[TrialRecord]:
    return [
        TrialRecord(n, Proposal(Schedule("t", 1, (("x", n),), ())), Measurement(t, spread, 15))
        for n, t in enumerate(times)
    ]


def test_too_few_trials_tell_nothing() -> None:
    assert expected_improvement([], MORE) is None
    assert expected_improvement(trials([1.0 + n for n in range(TOP)]), MORE) is None
    failed = [
        TrialRecord(n, Proposal(Schedule("t", 1, (("x", n),), ())), Failure(FailureKind.CRASH, "")) for n in range(99)
    ]
    assert expected_improvement(failed, MORE) is None
    assert not converged(failed)


@pytest.mark.parametrize("scale", [0.02, 0.2])
def test_the_expected_improvement_is_right_for_independent_exponential_draws(scale: float) -> None:
    rng = random.Random(1)
    said, true = [], []
    for _ in range(300):
        logs = [-scale * math.log(max(rng.random(), 1e-12)) for _ in range(128)]
        times = [math.exp(-x) for x in logs]
        gain = expected_improvement(trials(times[:64]), 64)
        assert gain is not None
        said.append(gain)
        true.append(1 - min(times) / min(times[:64]))
    assert sum(said) / len(said) == pytest.approx(sum(true) / len(true), rel=0.15)


def test_more_trials_gain_more_and_later_ones_less() -> None:
    times = [1 + 0.01 * n for n in range(64)]
    gains = [expected_improvement(trials(times), m) or 0.0 for m in (1, 8, 64)]
    assert gains == sorted(gains)
    assert gains[0] > 0
    assert (expected_improvement(trials(times * 4), 8) or 0.0) < gains[1]


def test_a_search_has_converged_when_its_best_are_alike() -> None:
    close = [1 + 0.0005 * n for n in range(EARLIEST)]
    assert converged(trials(close))
    assert not converged(trials(close[:-1]))  # too early to tell
    far = [1 + 0.02 * n for n in range(EARLIEST)]
    assert (expected_improvement(trials(far), MORE) or 0.0) > LEAST
    assert not converged(trials(far))
    assert noise(trials(far, 1.0)) > 0.1
    assert converged(trials(far, 1.0))  # but what is left is under the noise


def test_noise_of_nothing() -> None:
    assert noise([]) == 0.0
