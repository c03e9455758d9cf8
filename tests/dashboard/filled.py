"""A database in which every kind of page has something to show."""

from __future__ import annotations

from pathlib import Path

from harness.million import fill
from tilewright.core import Device
from tilewright.database import Database


def make_filled(path: Path) -> Path:
    """Twelve runs and, of the task of one of them, another by random search with seed 1: two to compare."""
    fill(path, runs=12, trials=60)
    with Database.open(path) as db:
        old = next(r for r in db.runs() if r.state == "done" and r.failed)
        again = db.add_run(old.task, Device("cpu:0", old.device_model), "random", 1, 60, {})
        db.add_trials(again, db.trials(old.id))
        db.finish_run(again, "done")
    return path
