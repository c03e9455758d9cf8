"""Boosted trees that learn from pairs of trials of one run (XGBoost).

With scores ``s`` and log-speeds ``y``, the objective pulls ``sigmoid(s_i - s_j)`` towards
``sigmoid((y_i - y_j) / temperature)``, so only differences within a run matter and tasks of very different size train
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
"""Log-speed difference that one unit of score stands for."""
TOP_WEIGHT = 0.5
"""A pair weighs (time of the run's best / time of its faster member) to this power."""

Floats = NDArray[np.float64]


def xgboost() -> Any:
    """The Python package, which training needs. Raises ``CostModelError`` where it is not installed."""
    xgboost_folder()
    import xgboost

    return xgboost


def log_speeds(records: Sequence[TrialRecord]) -> Floats:
    """``-log(seconds)`` of each trial; ``-inf`` for a failure."""
    return np.array([-math.log(r.seconds) if r.seconds else -math.inf for r in records], np.float64)


class Pairs:
    """The trials of one run, every one against every other: wanted order and weights.

    ``speeds``: as :func:`log_speeds` gives them, at least one finite.
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
        """The mean of the weighted cross entropy of all pairs."""
        gap = np.clip(scores[:, None] - scores[None, :], -30.0, 30.0)
        return float((self.weight * (np.log1p(np.exp(gap)) - self.wanted * gap)).sum() / len(scores))

    def gradient(self, scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """First and second derivative of the pair loss by each score."""
        # The sigmoid of a difference, without a power for each pair.
        power = np.exp(np.maximum(scores - scores.max(), -60.0))
        chance = power[:, None] / (power[:, None] + power[None, :])
        pull = self.weight * chance
        total = pull.sum(axis=1)
        return total - self._wins, total - np.einsum("ij,ij->i", pull, chance) + 1e-6


def train(
    runs: Sequence[tuple[Matrix, Pairs]], rounds: int, seed: int, margins: Sequence[Floats] | None = None,
    params: Mapping[str, Any] = PARAMS, start: Any = None,
) -> Any:  # fmt: skip
    """A booster fitted to runs with the same columns, on top of ``margins`` (one array a run) or of another booster."""
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
    for n in range(rounds):  # as xgb.train does, without its callbacks
        booster.update(data, n, objective)
    return booster


def calibrate(scores: Floats, speeds: Floats) -> tuple[float, float]:
    """Factor and offset that turn scores into log-speeds; the factor is positive, so ranks stay."""
    timed = np.isfinite(speeds)
    x, y = scores[timed], speeds[timed]
    spread = float(((x - x.mean()) ** 2).sum())
    factor = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    if factor <= 0:
        factor = TEMPERATURE
    return factor, float(y.mean() - factor * x.mean())
