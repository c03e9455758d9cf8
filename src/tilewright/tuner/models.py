"""Cost models of all tasks of a target: trained on the trials of a database and stored in the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.core import Target, Task, TilewrightError, TrialRecord
from tilewright.cost_model.features import FeatureExtractor
from tilewright.cost_model.transfer import TransferModel, learned, shipped
from tilewright.cost_model.transferable import VERSION
from tilewright.database import Database

Say = Callable[[str], None]


def runs_of(database: Database, kind: str) -> Iterator[tuple[str, Task, list[TrialRecord]]]:
    """Yield the runs with trials of a database for a kind of target, the newest first."""
    for run in database.runs():
        if run.task.target.kind == kind and run.trials:
            yield run.id, run.task, database.trials(run.id)


def train(database: Database, target: Target, say: Say = lambda _: None) -> tuple[TransferModel, int]:
    """Train a model on every run for the target's kind, on top of the shipped model, and store it for the target.
    Returns the model and its number of training trials. Raises ``TilewrightError`` without usable trials."""
    found, trials = [], 0
    for n, (_, task, records) in enumerate(runs_of(database, target.kind)):
        say(f"run {n + 1}: {task.workload.label}")
        run = learned(FeatureExtractor(task), records)
        if run is not None:
            found.append(run)
            trials += len(run[1])
    if not found:
        raise TilewrightError(
            f"the database holds no run on {target.kind} with trials of today's templates",
            "Tune a task first: tilewright tune OP KEY=VALUE...",
        )
    model = TransferModel.trained(found, on=shipped(target.kind))
    database.save_model(target, str(VERSION), model.save(), trials)
    return model, trials


def stored(database: Database, target: Target) -> TransferModel:
    """Return the model with which a run on this target starts: the database's own model, else the shipped one. Raises
    ``TilewrightError`` if both are missing."""
    own = database.load_model(target.key, str(VERSION))
    model = TransferModel.load(own.data) if own else shipped(target.kind)
    if model is None:
        raise TilewrightError(f"there is no model for {target.kind}", "Train one: tilewright model train")
    return model
