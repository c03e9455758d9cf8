"""Evaluates how well a transfer cost model ranks the trials of a database's runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.cost_model.features import FeatureExtractor
from tilewright.cost_model.gpu_prior import analytic_prior
from tilewright.cost_model.transfer import TransferModel, usable
from tilewright.database import Database
from tilewright.insight.calibration import Floats, pairwise_accuracy
from tilewright.serialization import Json
from tilewright.tuner.models import runs_of

CLEAR = 0.05
"""Relative difference of two times above which noise does not decide their order."""
TOP = 8


@dataclass(frozen=True)
class ModelRanking(Json):
    """Quality with which a model's scores rank the trials of one run.

    ``clear``: share of the pairs with times more than 5% apart that the model orders right, 0.5 for guessing.
    ``prior``: that share for the analytic prior. ``top``: least time of the eight best scores, over the least time of
    all trials.
    """

    run: str
    workload: str
    trials: int
    clear: float
    prior: float
    top: float


def evaluate(database: Database, model: TransferModel, kind: str) -> Iterator[ModelRanking]:
    """Evaluates a model on every run for a kind of target."""
    for run, task, records in runs_of(database, kind):
        features = FeatureExtractor(task)
        found = usable(features, records)
        if found is None:
            continue
        schedules, pairs = found
        timed = np.isfinite(pairs.speeds)
        speeds = pairs.speeds[timed]
        scores = model.scores(features.shared_names, features.shared(schedules))[timed]
        prior = analytic_prior(task, features).predict(schedules)[timed]
        best = speeds[np.argsort(-scores, kind="stable")[:TOP]].max()
        yield ModelRanking(
            run, task.workload.label, len(records), _in_order(scores, speeds), _in_order(prior, speeds),
            float(np.exp(speeds.max() - best)),
        )  # fmt: skip


def _in_order(scores: Floats, speeds: Floats) -> float:
    found = pairwise_accuracy(scores, speeds, CLEAR)
    return 0.5 if found is None else found
