"""``tilewright model``: manages the cost model from which runs start."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.declare import argument, declared, wants_json
from tilewright.cli.options import DB, TARGET, THREADS, open_database
from tilewright.cli.output import report, say, table
from tilewright.core import Target, TilewrightError
from tilewright.errors import explained_writing
from tilewright.files import SHARED, replace_file


@click.group("model")
def command() -> None:
    """Train, evaluate, export or import the cost model that runs start from.

    The package contains a cost model. A database may hold another one, which its runs use instead.

    \b
    Examples:
      tilewright model train
      tilewright model evaluate
      tilewright model export avx512.model
      tilewright model import avx512.model --db other.db
    """


@declared("train", command)
def train(db: str | None = DB, target: str = TARGET, threads: int = THREADS) -> None:
    """Train the cost model on every run of the database, and store it there.

    Training starts from the model of the package.

    \b
    Examples:
      tilewright model train --db tuned.db
    """
    from tilewright.tuner import models

    with open_database(db, readonly=False) as database:
        wanted = _target(target, threads)
        model, trials = models.train(database, wanted, say)
        data = {"target": wanted.name, "trials": trials, "features": len(model.names)}
        report(data, f"trained on {trials} trials; runs of this database on {wanted.name} start from the new model")


@declared("evaluate", command)
def evaluate(db: str | None = DB, target: str = TARGET, threads: int = THREADS) -> None:
    """Show how well the cost model orders the trials of each run.

    "in order": share of the pairs with times more than 5% apart that the model orders right. "its top 8 over the best":
    the fastest of the eight trials that the model predicts to be fastest, over the fastest of all. The model has seen
    the runs that it was trained on: tune a new task to evaluate it.

    \b
    Examples:
      tilewright model evaluate --db tuned.db
    """
    from tilewright.insight.model_ranking import evaluate as evaluate_model
    from tilewright.tuner import models

    with open_database(db) as database:
        wanted = _target(target, threads)
        found = list(evaluate_model(database, models.stored(database, wanted), wanted.kind))
    if not found and not wants_json():
        raise TilewrightError(
            f"the database holds no run for {wanted.kind}", "Tune a task first: tilewright tune OP KEY=VALUE..."
        )
    rows = ((f.run, f.workload, f.trials, f"{f.clear:.0%}", f"{f.prior:.0%}", f"{f.top:.3f}") for f in found)
    columns = ("run", "workload", "trials", "in order", "analytic", "its top 8 over the best")
    report({"target": wanted.name, "runs": [f.to_json() for f in found]}, table(*columns, rows=rows))


@declared("export", command)
def export(
    file: Path = argument(type=click.Path(dir_okay=False, path_type=Path)),
    db: str | None = DB,
    target: str = TARGET,
    threads: int = THREADS,
) -> None:
    """Write the cost model that runs of this database start from to a file.

    \b
    Examples:
      tilewright model export avx512.model --db tuned.db
    """
    from tilewright.tuner import models

    with open_database(db) as database:
        data = models.stored(database, _target(target, threads)).save()
    with explained_writing(file, "Name another file"):
        replace_file(file, data, SHARED)
    report({"file": str(file), "bytes": len(data)}, f"{file}: {len(data)} bytes")


@declared("import", command)
def import_(
    file: Path = argument(type=click.Path(exists=True, dir_okay=False, path_type=Path)),
    db: str | None = DB,
    target: str = TARGET,
    threads: int = THREADS,
) -> None:
    """Read a cost model from a file, and store it: runs of this database then start from it.

    \b
    Examples:
      tilewright model import avx512.model --db other.db
    """
    from tilewright.cost_model.transfer import TransferModel
    from tilewright.cost_model.transferable import VERSION

    data = file.read_bytes()
    model = TransferModel.load(data, str(file))
    with open_database(db, create=True, readonly=False) as database:
        wanted = _target(target, threads)
        database.save_model(wanted, str(VERSION), data, 0)
    said = {"target": wanted.name, "features": len(model.names)}
    report(said, f"runs of this database on {wanted.name} start from the model in {file}")


def _target(name: str, threads: int) -> Target:
    from tilewright.backends import parse_target

    return parse_target(name, threads, allow_foreign=True)
