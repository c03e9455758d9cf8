"""``tilewright model``: the cost model that every run starts from."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.options import db_option, json_option, open_database, target_option, threads_option
from tilewright.cli.output import console, emit_json, report, say
from tilewright.core import Target, TilewrightError
from tilewright.database.text import safe_text
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


@command.command("train")
@db_option
@target_option
@threads_option
@json_option
def train(db: str | None, target: str, threads: int, as_json: bool) -> None:
    """Learn from every run of the database, on top of the model that comes with the package, and keep the result."""
    from tilewright.tuner import models

    with open_database(db, readonly=False) as database:
        wanted = _target(target, threads)
        model, trials = models.train(database, wanted, say)
        data = {"target": wanted.name, "trials": trials, "features": len(model.names)}
        report(as_json, data, f"learned from {trials} trials; runs on {wanted.name} in this database start from it")


@command.command("evaluate")
@db_option
@target_option
@threads_option
@json_option
def evaluate(db: str | None, target: str, threads: int, as_json: bool) -> None:
    """How well the model orders the trials of each run: pairs over 5% apart, and the best of its eight favourites.

    A model knows the runs that it was trained on; to judge it, tune something new.
    """
    from rich.table import Table

    from tilewright.insight.foreseen import evaluate as evaluate_model
    from tilewright.tuner import models

    with open_database(db) as database:
        wanted = _target(target, threads)
        found = list(evaluate_model(database, models.stored(database, wanted), wanted.kind))
    if as_json:
        emit_json({"target": wanted.name, "runs": [f.to_json() for f in found]})
        return
    if not found:
        raise TilewrightError(f"the database holds no run on {wanted.kind}", "Tune something first")
    table = Table("run", "workload", "trials", "in order", "analytic", "its top 8 over the best", box=None)
    for f in found:
        shares = (f"{f.clear:.0%}", f"{f.prior:.0%}", f"{f.top:.3f}")
        table.add_row(f.run, safe_text(f.workload), str(f.trials), *shares)
    console().print(table)


@command.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@db_option
@target_option
@threads_option
@json_option
def export(file: Path, db: str | None, target: str, threads: int, as_json: bool) -> None:
    """Write the model that runs of this database start from."""
    from tilewright.tuner import models

    with open_database(db) as database:
        data = models.stored(database, _target(target, threads)).save()
    try:
        replace_file(file, data, SHARED)
    except OSError as e:
        raise TilewrightError(f"{file} cannot be written: {e.strerror or e}") from e
    report(as_json, {"file": str(file), "bytes": len(data)}, f"{file}: {len(data)} bytes")


@command.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@db_option
@target_option
@threads_option
@json_option
def import_(file: Path, db: str | None, target: str, threads: int, as_json: bool) -> None:
    """Have runs of this database start from a model in a file."""
    from tilewright.cost_model.transfer import TransferModel
    from tilewright.cost_model.transferable import VERSION

    data = file.read_bytes()
    model = TransferModel.load(data, str(file))
    with open_database(db, create=True, readonly=False) as database:
        wanted = _target(target, threads)
        database.save_model(wanted, str(VERSION), data, 0)
    said = {"target": wanted.name, "features": len(model.names)}
    report(as_json, said, f"runs on {wanted.name} in this database start from {file}")


def _target(name: str, threads: int) -> Target:
    from tilewright.backends import parse_target

    return parse_target(name, threads, allow_foreign=True)
