"""How the search's benchmarks end: their table, the files, and the promises that are not kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def report(text: str, lines: Iterable[Any], out: Path | None) -> None:
    """Print a table; with ``out`` write it to OUT.md, and the ``lines`` to OUT.jsonl."""
    print(text)
    if out:
        out.with_suffix(".jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        out.with_suffix(".md").write_text(text)


def settle(broken: Sequence[str], check: bool) -> None:
    """Say what is not kept, and with ``check`` exit with 1 if there is any."""
    for line in broken:
        print(line, file=sys.stderr)
    if check:
        sys.exit(1 if broken else 0)
