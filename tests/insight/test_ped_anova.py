"""PED-ANOVA: the numbers are those of Optuna's evaluator."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tilewright.insight.ped_anova import STEPS, divergences, fastest, shares

SIZES = ((2, True), (5, True), (12, True), (50, True), (2, False), (7, False))
"""Knobs: how many values, and whether they are in order."""


def made(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the knobs' values and times; equal times occur."""
    rng = np.random.default_rng(seed)
    places = np.stack([np.append(rng.integers(0, n, count - 1), n - 1) for n, _ in SIZES], axis=1)
    return places, np.round(np.exp(0.1 * places[:, 2] + 0.1 * rng.normal(size=count)), 2)


def knobs(places: np.ndarray) -> list[tuple[np.ndarray, int, bool]]:
    return [(places[:, i], n, ordered) for i, (n, ordered) in enumerate(SIZES)]


@pytest.mark.parametrize(("count", "seed"), [(20, 0), (33, 1), (60, 2), (300, 3)])
def test_the_shares_are_optunas(count: int, seed: int) -> None:
    optuna = pytest.importorskip("optuna")
    from tilewright.tuner.strategies.optuna_space import positions

    places, times = made(count, seed)
    names = [str(i) for i in range(len(SIZES))]
    space = {name: positions(*size) for name, size in zip(names, SIZES, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its interface is called experimental in some versions
        study = optuna.create_study(direction="minimize")
        study.add_trials(
            [
                optuna.trial.create_trial(
                    params=dict(zip(names, map(int, row), strict=True)), distributions=space, value=float(t)
                )
                for row, t in zip(places, times, strict=True)
            ]
        )
        theirs = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator(), params=names
        )
    once = np.ones((1, count))
    ours = shares(divergences(knobs(places), once, fastest(times, once)))[0]
    assert ours == pytest.approx([theirs[n] for n in names], abs=1e-5)


def test_a_weight_is_so_many_trials() -> None:
    places, times = made(40, 0)
    weights = np.arange(40)[None, :] % 3.0
    repeated = np.repeat(np.arange(40), weights[0].astype(int))
    once = np.ones((1, len(repeated)))
    weighted = divergences(knobs(places), weights, fastest(times, weights))
    written = divergences(knobs(places[repeated]), once, fastest(times[repeated], once))
    assert weighted == pytest.approx(written)


def test_values_beyond_the_grid_share_places_and_no_difference_is_shared_evenly() -> None:
    many = np.arange(4 * STEPS)
    once = np.ones((1, len(many)))
    found = divergences([(many, len(many), True)], once, fastest(many * 1.0, once))
    assert found[0, 0] > 1.0
    assert shares(divergences([(many % 2, 2, False)] * 2, once, once)) == pytest.approx(np.array([[0.5, 0.5]]))
