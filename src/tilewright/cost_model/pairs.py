"""Boosted trees that learn from pairs of trials of one run (XGBoost).

With scores ``s`` and log-speeds ``y``, the objective pulls ``sigmoid(s_i - s_j)`` towards
``sigmoid((y_i - y_j) / temperature)``. So only differences within a run matter, and tasks of very different size train
one model. Pairs with a fast member weigh more, a failure loses against every success, and two failures are not
compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core import TrialRecord
from tilewright.cost_model.features import Matrix
from tilewright.cost_model.trees import xgboost_folder

PARAMS: Mapping[str, Any] = {
    "tree_method": "hist",
    "max_depth": 4,
    "eta": 0.2,
    "lambda": 1.0,
    "min_child_weight": 0.0,
    "max_bin": 32,
    "colsample_bytree": 0.8,
    "base_score": 0.0,
    "nthread": 1,
    "verbosity": 0,
    "disable_default_eval_metric": 1,
}
TEMPERATURE = 0.1
"""Log-speed difference per unit of score."""
TOP_WEIGHT = 0.5
"""Exponent of a pair's weight; the base is the time of the run's best over the time of the pair's faster member."""

Floats = NDArray[np.float64]


def xgboost() -> Any:
    """The Python package, which training needs. Raises ``CostModelError`` if it is not installed."""
    xgboost_folder()
    import xgboost

    return xgboost


def log_speeds(records: Sequence[TrialRecord]) -> Floats:
    """``-log(seconds)`` of each trial; ``-inf`` for a failure."""
    return np.array([-math.log(r.seconds) if r.seconds else -math.inf for r in records], np.float64)


class Pairs:
    """All pairs of the trials of one run: target probabilities and weights.

    ``speeds``: from :func:`log_speeds`, at least one finite.
    """

    def __init__(self, speeds: Floats) -> None:
        self.speeds = speeds
        timed = np.isfinite(speeds)
        filled = np.where(timed, speeds, -np.inf)
        gap = np.zeros((len(speeds), len(speeds)))
        both = timed[:, None] & timed[None, :]
        with np.errstate(invalid="ignore"):
            np.subtract(filled[:, None], filled[None, :], out=gap, where=both)
        wanted = 1.0 / (1.0 + np.exp(-np.clip(gap / TEMPERATURE, -30.0, 30.0)))
        wanted[timed[:, None] & ~timed[None, :]] = 1.0
        wanted[~timed[:, None] & timed[None, :]] = 0.0
        share = np.where(timed, np.exp(filled - speeds[timed].max()), 0.0) ** TOP_WEIGHT
        weight = np.maximum(share[:, None], share[None, :])
        weight[~timed[:, None] & ~timed[None, :]] = 0.0
        weight /= weight.sum(axis=1).mean()
        self.wanted = wanted.astype(np.float32)
        self.weight = weight.astype(np.float32)
        self._wins = (self.weight * self.wanted).sum(axis=1)

    def loss(self, scores: Floats) -> float:
        """Mean weighted cross entropy of all pairs."""
        gap = np.clip(scores[:, None] - scores[None, :], -30.0, 30.0)
        return float((self.weight * (np.log1p(np.exp(gap)) - self.wanted * gap)).sum() / len(scores))

    def gradient(self, scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """First and second derivative of the pair loss by each score."""
        # The sigmoid of a difference from one exponential per score, instead of one per pair.
        power = np.exp(np.maximum(scores - scores.max(), -60.0))
        chance = power[:, None] / (power[:, None] + power[None, :])
        pull = self.weight * chance
        total = pull.sum(axis=1)
        return total - self._wins, total - np.einsum("ij,ij->i", pull, chance) + 1e-6


def train(
    runs: Sequence[tuple[Matrix, Pairs]], rounds: int, seed: int, margins: Sequence[Floats] | None = None,
    params: Mapping[str, Any] = PARAMS, start: Any = None,
) -> Any:  # fmt: skip
    """Train a booster on runs with equal columns, on top of ``margins`` (an array per run) or of another booster."""
    xgb = xgboost()
    data = xgb.DMatrix(np.concatenate([m for m, _ in runs]), nthread=1)
    data.set_label(np.concatenate([np.where(np.isfinite(p.speeds), p.speeds, 0.0) for _, p in runs]))
    if margins is not None:
        data.set_base_margin(np.concatenate(margins))
    edges = np.cumsum([len(m) for m, _ in runs])[:-1]

    def objective(scores: NDArray[np.float32], _: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        parts = [p.gradient(s) for (_, p), s in zip(runs, np.split(scores, edges), strict=True)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    if start is not None:
        return xgb.train({**params, "seed": seed}, data, rounds, obj=objective, xgb_model=start)
    booster = xgb.Booster({**params, "seed": seed}, [data])
    for n in range(rounds):  # as in xgb.train, without its callbacks
        booster.update(data, n, objective)
    return booster


def calibrate(scores: Floats, speeds: Floats) -> tuple[float, float]:
    """Factor and offset from scores to log-speeds; the factor is positive, so ranks stay."""
    timed = np.isfinite(speeds)
    x, y = scores[timed], speeds[timed]
    spread = float(((x - x.mean()) ** 2).sum())
    factor = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    if factor <= 0:
        factor = TEMPERATURE
    return factor, float(y.mean() - factor * x.mean())
