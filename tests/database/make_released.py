"""Writes schemas/<revision>.db: a database of the present schema with some of everything.

Run once when a schema is released, and commit the file: ``python tests/database/make_released.py``.
A file that exists already is never overwritten: it is what that release wrote.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from harness.examples import (
    DEVICE,
    TARGET,
    example_artifact,
    example_kernel,
    example_record,
    example_task,
)
from tilewright.core import Task
from tilewright.database import Database
from tilewright.database.process import Process
from tilewright.database.schema import SCHEMA

SCHEMAS = Path(__file__).parent / "schemas"


def make(path: Path) -> None:
    task = example_task()
    other = Task(replace(task.workload, op="mine"), task.target)
    somewhere = Process("example", 1234, "||")
    with patch.object(Process, "current", lambda: somewhere), Database.open(path) as db:
        run_id = db.add_run(task, DEVICE, "evolutionary", 7, 64, {"batch": 16}, {"gcc": "12.2.0"})
        db.add_trials(run_id, [example_record(i) for i in range(12)])
        codes = [example_artifact(b"first"), example_artifact(b"second")]
        ranked = [example_kernel(task, i, codes[i % 2]) for i in (3, 2, 1)]
        db.set_kernels(task, DEVICE.model, run_id, ranked, codes)
        db.finish_run(run_id, "done", {"seconds": 1.5})
        db.add_run(other, DEVICE, "random", 0, 8, {})
        db.save_model(TARGET, "v1", b"model", 12)
        db.add_miss("softmax", {"m": 64, "n": 64}, TARGET.key, count=2)
        db.vacuum()


if __name__ == "__main__":
    path = SCHEMAS / f"{SCHEMA}.db"
    if path.exists():
        sys.exit(f"{path} was released already")
    make(path)
