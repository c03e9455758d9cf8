"""The pairwise objective: its gradient is that of its loss, and what it makes of failures."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.cost_model.pairs import Pairs


def loss(pairs: Pairs, scores: np.ndarray) -> float:
    """The pair loss by its definition, pair by pair."""
    total = 0.0
    for i in range(len(scores)):
        for j in range(len(scores)):
            chance = 1.0 / (1.0 + np.exp(scores[j] - scores[i]))
            wanted, weight = float(pairs.wanted[i, j]), float(pairs.weight[i, j])
            # Each pair occurs twice, as (i, j) and (j, i).
            total -= 0.5 * weight * (wanted * np.log(chance) + (1 - wanted) * np.log(1 - chance))
    return total


def test_the_gradient_is_that_of_the_pair_loss() -> None:
    rng = np.random.default_rng(0)
    speeds = np.array([1.0, 0.3, -np.inf, 2.0, -np.inf, -0.5])
    pairs = Pairs(speeds)
    scores = rng.normal(size=6)
    assert len(scores) * pairs.loss(scores) == pytest.approx(2 * loss(pairs, scores))
    first, second = pairs.gradient(scores.astype(np.float32))
    for i in range(6):
        step = np.zeros(6)
        step[i] = 1e-4
        slope = (loss(pairs, scores + step) - loss(pairs, scores - step)) / 2e-4
        assert first[i] == pytest.approx(slope, rel=1e-3, abs=1e-4)
    assert (second > 0).all()


def test_a_failure_loses_against_every_success_and_ties_are_open() -> None:
    pairs = Pairs(np.array([0.0, -np.inf, -9.0, -np.inf]))
    assert pairs.wanted[2, 1] == 1.0
    assert pairs.wanted[1, 2] == 0.0
    assert pairs.weight[2, 1] > 0
    assert pairs.weight[1, 3] == pairs.weight[3, 1] == 0
    assert pairs.weight[0, 2] > pairs.weight[2, 1]
    assert np.isfinite(pairs.weight).all()
