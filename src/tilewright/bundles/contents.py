"""The contents of a bundle, for listing, checking and exporting."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core import DatabaseError, Task
from tilewright.runtime.bundle.layout import damaged, key_of
from tilewright.runtime.bundle.reader import Bundle
from tilewright.runtime.bundle.trusted import Trust
from tilewright.runtime.entry import Entry


@dataclass(frozen=True)
class Kernel:
    """A kernel of a bundle under one of its names: the runtime's entry, and the whole row."""

    entry: Entry
    row: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The kernel's record in ``tilewright bundle inspect --json``."""
        e = self.entry
        return {
            "operator": e.op, "params": e.params, "workload": e.workload_key, "precision": e.precision,
            "target": e.target.name, "threads": e.target.threads, "device_model": e.device_model,
            "template": e.schedule.template, "schedule": dict(e.schedule.values), "seconds": e.seconds,
            "peak_fraction": self.row["peak_fraction"], "run": e.run, "strategy": self.row["strategy"],
            "versions": json.loads(self.row["versions"] or "{}"), "compiler": self.row["compiler"],
            "flags": json.loads(self.row["flags"]), "code": e.sha256, "source": self.row["source_sha256"],
        }  # fmt: skip


def open_bundle(path: str | os.PathLike[str], trust: Trust = False) -> Bundle:
    """Opens a bundle. Raises ``DatabaseError`` and ``UsageError``."""
    file = Path(os.path.realpath(os.path.expanduser(path)))
    if not file.exists():
        raise DatabaseError(f"there is no bundle at {file}", "Name another file, or build it: tilewright bundle build")
    return Bundle(file, trust)


def kernels(bundle: Bundle) -> list[Kernel]:
    """Every kernel under its workload's own name, by operator. Raises ``DatabaseError``."""
    found = []
    for number in bundle.index.find(key_of("own")):
        entry, row = bundle.entry(number)
        found.append(Kernel(entry, dict(row)))
    found.sort(key=lambda k: (k.entry.op, list(map(_sortable, k.entry.params.values())), k.entry.target.name))
    return found


def _sortable(value: object) -> tuple[bool, float, str]:
    number = isinstance(value, (int, float))
    return (number, float(value) if isinstance(value, (int, float)) else 0.0, "" if number else str(value))


def task_of(bundle: Bundle, kernel: Kernel) -> Task:
    """The task of a kernel, with its program."""
    return Task(bundle.workload(kernel.row), kernel.entry.target)


def source_of(bundle: Bundle, kernel: Kernel) -> str:
    """The source text of a kernel."""
    return b"".join(_blob(bundle, part) for part in kernel.row["source_parts"]).decode()


def code_of(bundle: Bundle, kernel: Kernel) -> bytes:
    return _blob(bundle, kernel.entry.sha256)


def _blob(bundle: Bundle, sha256: str) -> bytes:
    data = bundle.blob(sha256)
    if data is None:
        raise damaged(str(bundle.path), f"it lacks the bytes of {sha256[:12]}")
    return data
