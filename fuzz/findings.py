"""The log of a session: a line of JSON for each record, and a file that shows and reproduces each failure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz import tree
from fuzz.check import Failure
from fuzz.text import source
from fuzz.tree import Case

_CASE = "# case: "


class Log:
    """A log file of JSON lines, with which a later session can resume."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not resume:
            path.write_text("", encoding="utf-8")

    def _lines(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:  # the incomplete last line of a killed session
                    continue

    def done(self, seed: int, target: str) -> int:
        """The first number that is not done."""
        found = [x["done"] for x in self._lines() if "done" in x and (x["seed"], x["target"]) == (seed, target)]
        return max(found, default=-1) + 1

    def findings(self) -> list[dict[str, Any]]:
        return [x for x in self._lines() if "kind" in x]

    def write(self, **line: Any) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def finding(self, seed: int, number: int, failure: Failure, case: Case | None, told: str = "") -> Path | None:
        """Log a failure. Writes the minimised program, if any, to a file, and returns the file's path."""
        shown = None
        if case is not None:
            shown = self.path.with_suffix(f".{seed}-{number}-{failure.target}-{failure.template or failure.kind}.py")
            shown.write_text(reproduction(seed, number, failure, case), encoding="utf-8")
        self.write(
            seed=seed, number=number, **failure.to_json(), told=told, file=str(shown) if shown else "",
            program=source(case) if case else "",
        )  # fmt: skip
        return shown


def reproduction(seed: int, number: int, failure: Failure, case: Case) -> str:
    """Source of a module that defines the program and describes the failure."""
    head = [
        f"# program {number} of seed {seed} on {failure.target}: {failure.kind}",
        *(f"# {line}" for line in failure.message.splitlines()[:20]),
        *([f"# {failure.template} {failure.schedule}"] if failure.template else []),
        "# python -m fuzz --replay THIS_FILE",
        f"{_CASE}{(failure.target, failure.template, case)!r}",
    ]
    return "\n".join(head) + "\n" + source(case)


def replayed(path: Path) -> tuple[str, str, Case]:
    """Target, template and program from a file that :func:`reproduction` generated."""
    line = next(x for x in path.read_text(encoding="utf-8").splitlines() if x.startswith(_CASE))
    known = {name: getattr(tree, name) for name in ("Case", "Input", "Node", "Stage")}
    target, template, case = eval(
        line.removeprefix(_CASE), {"__builtins__": {}, "inf": math.inf, "nan": math.nan, **known}
    )
    return str(target), str(template), case
