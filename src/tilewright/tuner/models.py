"""Models of all tasks of a target: trained on what a database holds, and held against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.core import Target, Task, TilewrightError, TrialRecord
from tilewright.cost_model.features import FeatureExtractor
from tilewright.cost_model.gpu_prior import analytic_prior
from tilewright.cost_model.pairs import Floats
from tilewright.cost_model.transfer import TransferModel, learned, shipped, usable
from tilewright.cost_model.transferable import VERSION
from tilewright.database import Database
from tilewright.serialization import Json

CLEAR = 0.05
"""Trials this far apart, as a share of the time, are in an order that noise does not make."""
TOP = 8

Say = Callable[[str], None]


@dataclass(frozen=True)
class Foreseen(Json):
    """How well scores order the trials of one run.

    ``clear``: share of the pairs more than 5% apart in the right order, 0.5 for guessing; ``prior``: the same of the
    analytic prior. ``top``: the fastest of the eight best scores, over the fastest of all.
    """

    run: str
    workload: str
    trials: int
    clear: float
    prior: float
    top: float


def runs_of(database: Database, kind: str) -> Iterator[tuple[str, Task, list[TrialRecord]]]:
    """The runs of a database for a kind of target, the newest first, that hold trials."""
    for run in database.runs():
        if run.task.target.kind == kind and run.trials:
            yield run.id, run.task, database.trials(run.id)


def train(database: Database, target: Target, say: Say = lambda _: None) -> tuple[TransferModel, int]:
    """A model from every run for the target's kind, on top of the shipped one, stored for the target; and how many
    trials it learned from. Raises ``TilewrightError`` where there is nothing to learn from."""
    found, trials = [], 0
    for n, (_, task, records) in enumerate(runs_of(database, target.kind)):
        say(f"run {n + 1}: {task.workload.label}")
        run = learned(FeatureExtractor(task), records)
        if run is not None:
            found.append(run)
            trials += len(run[1])
    if not found:
        raise TilewrightError(
            f"the database holds no run on {target.kind} with trials of today's templates", "Tune something first"
        )
    model = TransferModel.trained(found, on=shipped(target.kind))
    database.save_model(target, str(VERSION), model.save(), trials)
    return model, trials


def stored(database: Database, target: Target) -> TransferModel | None:
    """The model with which a run on this target starts: the database's own, else the shipped one."""
    own = database.load_model(target.key, str(VERSION))
    return TransferModel.load(own.data) if own else shipped(target.kind)


def evaluate(database: Database, model: TransferModel, kind: str) -> Iterator[Foreseen]:
    """Hold a model against every run for a kind of target."""
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
        yield Foreseen(
            run, task.workload.label, len(records), in_order(scores, speeds), in_order(prior, speeds),
            float(np.exp(speeds.max() - best)),
        )  # fmt: skip


def in_order(scores: Floats, speeds: Floats, gap: float = CLEAR) -> float:
    """Share of the pairs whose speeds are more than ``gap`` apart that the scores order right; ties count half."""
    apart = speeds[:, None] - speeds[None, :] > gap
    above = np.sign(scores[:, None] - scores[None, :])
    return float((above[apart] + 1.0).mean() / 2.0) if apart.any() else 0.5
