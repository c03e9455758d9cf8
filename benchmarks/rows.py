"""A benchmark's rows as JSON lines, so that a run that was cut short goes on where it ended."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Rows:
    """The rows of a file, by key, behind a line about the machine and the run.

    ``path``: NAME.jsonl, or ``None`` to keep the rows in memory alone. ``settings``: what the run was asked for; the
    benchmark ends where the file's rows were made with others. ``facts``: what else the first line of a new file says.
    """

    def __init__(
        self, path: Path | None, settings: Mapping[str, Any], facts: Mapping[str, Any], key: Sequence[str]
    ) -> None:
        self.path, self.key = path, tuple(key)
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []
        self.head: Row = lines[0] if lines else {"date": time.strftime("%Y-%m-%d"), **facts, **settings}
        others = {k: self.head.get(k) for k, v in settings.items() if self.head.get(k) != v}
        if others:
            raise SystemExit(f"the rows of {path} were made with {others}. Name another file with --out")
        self.rows = {self.key_of(r): r for r in lines[1:]}
        if path is not None and not lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.head) + "\n")

    def key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of a row's key."""
        return tuple(row[k] for k in self.key)

    def add(self, row: Row) -> Row:
        """Keep a new row, in the file too; the row."""
        self.rows[self.key_of(row)] = row
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return row
