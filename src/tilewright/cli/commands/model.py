"""``tilewright model``: the cost model that every run starts from."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.declare import argument, declared, wants_json
from tilewright.cli.options import DB, TARGET, THREADS, open_database
from tilewright.cli.output import report, say, table
from tilewright.core import Target, TilewrightError
from tilewright.files import SHARED, replace_file


@click.group("model")
def command() -> None:
    """Train the cost model on what a database holds, or bring one.

    A model comes with the package. One that a database holds is used instead, by the runs of that database.

    \b
    Examples:
      tilewright model train
      tilewright model evaluate
      tilewright model export avx512.model
      tilewright model import avx512.model --db other.db
    """


@declared("train", command)
def train(db: str | None = DB, target: str = TARGET, threads: int = THREADS) -> None:
    """Learn from every run of the database, on top of the model that comes with the package, and keep the result."""
    from tilewright.tuner import models

    with open_database(db, readonly=False) as database:
        wanted = _target(target, threads)
        model, trials = models.train(database, wanted, say)
        data = {"target": wanted.name, "trials": trials, "features": len(model.names)}
        report(data, f"learned from {trials} trials; runs on {wanted.name} in this database start from it")


@declared("evaluate", command)
def evaluate(db: str | None = DB, target: str = TARGET, threads: int = THREADS) -> None:
    """How well the model orders the trials of each run: pairs over 5% apart, and the best of its eight favourites.

    A model knows the runs that it was trained on; to judge it, tune something new.
    """
    from tilewright.insight.foreseen import evaluate as evaluate_model
    from tilewright.tuner import models

    with open_database(db) as database:
        wanted = _target(target, threads)
        found = list(evaluate_model(database, models.stored(database, wanted), wanted.kind))
    if not found and not wants_json():
        raise TilewrightError(f"the database holds no run on {wanted.kind}", "Tune something first")
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
    """Write the model that runs of this database start from."""
    from tilewright.tuner import models

    with open_database(db) as database:
        data = models.stored(database, _target(target, threads)).save()
    try:
        replace_file(file, data, SHARED)
    except OSError as e:
        raise TilewrightError(f"{file} cannot be written: {e.strerror or e}") from e
    report({"file": str(file), "bytes": len(data)}, f"{file}: {len(data)} bytes")


@declared("import", command)
def import_(
    file: Path = argument(type=click.Path(exists=True, dir_okay=False, path_type=Path)),
    db: str | None = DB,
    target: str = TARGET,
    threads: int = THREADS,
) -> None:
    """Have runs of this database start from a model in a file."""
    from tilewright.cost_model.transfer import TransferModel
    from tilewright.cost_model.transferable import VERSION

    data = file.read_bytes()
    model = TransferModel.load(data, str(file))
    with open_database(db, create=True, readonly=False) as database:
        wanted = _target(target, threads)
        database.save_model(wanted, str(VERSION), data, 0)
    said = {"target": wanted.name, "features": len(model.names)}
    report(said, f"runs on {wanted.name} in this database start from {file}")


def _target(name: str, threads: int) -> Target:
    from tilewright.backends import parse_target

    return parse_target(name, threads, allow_foreign=True)
