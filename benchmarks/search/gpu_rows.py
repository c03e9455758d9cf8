"""Times of schedules on GPUs, from the committed rows of acceptance runs: what the GPUs' cost model learns from.

A row has a shape, a schedule and microseconds. Only rows of one file, part of the run (alone, or in tuning) and shape
compare: they were measured in the same way.
Schedules of older versions of a template count where all of their knobs are today's and their values still legal; a
knob that came later has its first value, which is what was before it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.backends.cuda.archs import target
from tilewright.core import (
    IllegalSchedule,
    Measurement,
    Proposal,
    Schedule,
    Task,
    TilewrightError,
    TrialRecord,
)
from tilewright.cost_model.transfer import LEAST
from tilewright.kernels.templates import get_template

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from cuda_cases import parse_shape  # noqa: E402

FOLDERS = sorted((ROOT / "benchmarks" / "results").glob("gpu_*/"))
VARIANTS = {"H100": "sm_90a", "H200": "sm_90a"}
"""The architecture of a device, by what its name contains."""


@dataclass(frozen=True)
class Timed:
    """One shape in a part of one run: seconds of each schedule, the least where several rows have it."""

    part: str
    task: Task
    seconds: Mapping[Schedule, float]

    @property
    def name(self) -> str:
        return f"{self.part}: {self.task.workload.label}"

    @property
    def records(self) -> list[TrialRecord]:
        """The rows as trials."""
        return [TrialRecord(n, Proposal(s), Measurement(t, 0.0, 1)) for n, (s, t) in enumerate(self.seconds.items())]


def load(folders: Iterable[Path] = FOLDERS) -> tuple[list[Timed], Counter[str]]:
    """Every shape with so many schedules that something can be learned, and how many rows were left out, by reason."""
    left: Counter[str] = Counter()
    found: dict[tuple[str, str], dict[Schedule, float]] = defaultdict(dict)
    tasks: dict[str, Task] = {}
    for path in sorted(p for folder in folders for p in folder.glob("*.jsonl")):
        for row in _timed(path):
            try:
                task = _task(row)
                schedule = current(task, row)
            except TilewrightError as error:
                left[type(error).__name__] += 1
                continue
            label = task.workload.label
            tasks.setdefault(label, task)
            part = row.get("id", "light").partition("/")[0]
            seconds = found[f"{path.parent.name}/{path.stem}/{part}", label]
            seconds[schedule] = min(seconds.get(schedule, 1.0), 1e-6 * float(row["us"]))
    left["few schedules of a shape"] += sum(len(x) for x in found.values() if len(x) < LEAST)
    return [Timed(part, tasks[shape], x) for (part, shape), x in found.items() if len(x) >= LEAST], +left


def machines(folders: Iterable[Path] = FOLDERS) -> str:
    """The GPUs that the rows are of, and their first and last dates."""
    rows = [r for folder in folders for path in sorted(folder.glob("*.jsonl")) for r in _timed(path)]
    dates = [r["date"] for r in rows]
    return f"{', '.join(sorted({r['device'] for r in rows}))}, {min(dates)} to {max(dates)}"


def _timed(path: Path) -> Iterator[dict[str, Any]]:
    """Rows with the time of a schedule that was measured alone, as it is printed today (``order``: another way); a
    tuning run's trials one by one."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "us" in row and "schedule" in row and "order" not in row:
            yield row
        for template, found in row.get("templates", {}).items():
            for *values, us in found["timed"]:
                knobs = list(zip(found["knobs"], values, strict=True))
                schedule = {"template": template, "version": found["version"], "structure": knobs, "launch": []}
                yield {**row, "us": us, "schedule": schedule}


def _task(row: Mapping[str, Any]) -> Task:
    """What a row is of. Its shape stands in ``shape`` or in its id. Raises ``TilewrightError`` for an unknown one."""
    label = row.get("shape") or row["id"].split("/")[1]
    variant = next((v for name, v in VARIANTS.items() if name in row["device"]), None)
    if variant is None:
        raise TilewrightError(f"the architecture of {row['device']} is not known", "Add it to VARIANTS")
    return Task(parse_shape(label.replace("=True", "=true").replace("=False", "=false")).workload, target(variant))


def current(task: Task, row: Mapping[str, Any]) -> Schedule:
    """The row's schedule as today's. Raises ``IllegalSchedule`` where a knob or a value is no longer there.

    Rows of attention alone name neither template nor version.
    """
    data = row["schedule"]
    old = Schedule.from_json(data) if "structure" in data else None
    name, values = (old.template, dict(old.values)) if old else ("cuda_attention", data)
    template = get_template(name)
    if not template.matches(task):
        raise IllegalSchedule(f"{name} does not take {task.workload.label}", "Measure it again")
    space = template.space(task)
    if not values.keys() <= space.options.keys():
        raise IllegalSchedule(f"{name} lacks a knob of it now", "Measure it again")
    return space.schedule({knob: options[0] for knob, options in space.options.items()} | values)
