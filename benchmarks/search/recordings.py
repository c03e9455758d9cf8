"""Completely measured spaces: what `record.py` writes and `replay.py` reads.

A recording is one gzipped JSON file: the task, the machine, and for each template its (thinned) knobs with one row a
schedule. Times are the anchor's (the default schedule's) times the ratio of a paired measurement, so all share one
reference and the machine's drift over minutes cancels out.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tilewright.core import Failure, FailureKind, Measurement, Outcome, Schedule, Task, Value
from tilewright.kernels.templates import default_schedule, task_space, templates_for
from tilewright.search_space import Choice, SearchSpace, UnionSpace

FOLDER = Path(__file__).parent / "recordings"
VERSION = 1


@dataclass(frozen=True)
class Recording:
    """``passes``: seconds of each schedule, one number a pass (the fastest sixth has three), none for a failure."""

    name: str
    task: Task
    space: UnionSpace
    default: Schedule
    passes: Mapping[Schedule, Sequence[float]]
    failures: Mapping[Schedule, FailureKind]
    machine: Mapping[str, str]

    @cached_property
    def seconds(self) -> dict[Schedule, float]:
        """The median of each schedule's passes: the best of many times that were taken once is mostly a lucky one."""
        return {s: sorted(times)[len(times) // 2] for s, times in self.passes.items()}

    @cached_property
    def outcomes(self) -> dict[Schedule, Outcome]:
        """What a search is told of each schedule."""
        found: dict[Schedule, Outcome] = {s: Measurement(t, 0.0, 1) for s, t in self.seconds.items()}
        return found | {s: Failure(kind, "") for s, kind in self.failures.items()}

    @cached_property
    def optimum(self) -> float:
        return min(self.seconds.values())

    @cached_property
    def noise(self) -> float:
        """Relative standard deviation of one pass, from pairs of passes of one schedule."""
        squares = [
            ((a - b) / (a + b)) ** 2 * 2 for a, b in (times[:2] for times in self.passes.values() if len(times) > 1)
        ]
        return float((sum(squares) / len(squares)) ** 0.5) if squares else 0.0


def thinned(space: SearchSpace, keep: Schedule, size: int) -> SearchSpace:
    """At most ``size`` schedules: the widest knob loses a value until it fits, ``keep``'s values stay."""
    kept = {k.name: len(k.values) for k in space.knobs}
    some = space
    while some.size > size:
        widest = max(space.knobs, key=lambda k: (kept[k.name], k.half == "launch"))
        kept[widest.name] -= 1
        knobs = [_spread(k, kept[k.name], keep.values[k.name]) for k in space.knobs]
        some = _with(space, knobs)
    return some


def _spread(knob: Choice, count: int, keep: Value) -> Choice:
    """The knob with ``count`` of its values, evenly spread, ``keep`` among them."""
    last = len(knob.values) - 1
    places = [round(i * last / (count - 1)) for i in range(count)] if count > 1 else [0]
    wanted = knob.values.index(keep)
    nearest = min(range(len(places)), key=lambda i: abs(places[i] - wanted))
    places[nearest] = wanted
    return Choice(knob.name, tuple(knob.values[i] for i in places), knob.half, knob.ordered)


def thinned_union(task: Task, size: int) -> UnionSpace:
    """The task's space with at most ``size`` schedules: as many of the first template as of all others."""
    templates = templates_for(task)
    share = [size] if len(templates) == 1 else [size // 2] + [size // 2 // (len(templates) - 1)] * (len(templates) - 1)
    return UnionSpace(tuple(thinned(t.space(task), t.default(task), n) for t, n in zip(templates, share, strict=True)))


def save(
    path: Path, task: Task, space: UnionSpace, passes: Mapping[Schedule, Sequence[float]],
    failures: Mapping[Schedule, FailureKind], machine: Mapping[str, str],
) -> None:  # fmt: skip
    """Write a recording; the same one gives the same bytes."""
    templates = []
    for one in space.spaces:
        mine = [s for s in (*passes, *failures) if s.template == one.template]
        columns = {k.name: [k.values.index(s.values[k.name]) for s in mine] for k in one.knobs}
        templates.append({
            "template": one.template, "version": one.version, "knobs": [k.to_json() for k in one.knobs],
            "columns": columns,
            "seconds": [[float(f"{t:.5g}") for t in passes[s]] if s in passes else failures[s].value for s in mine],
        })  # fmt: skip
    text = json.dumps(
        {"version": VERSION, "machine": dict(machine), "task": task.to_json(), "templates": templates},
        separators=(",", ":"),
    )
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def load(path: Path) -> Recording:
    """Read a recording. Raises ``SystemExit`` where the template's knobs or rules are no longer those of then."""
    stored = json.loads(gzip.decompress(path.read_bytes()))
    task = Task.from_json(stored["task"])
    name = path.name.partition(".")[0]
    now = {s.template: s for s in task_space(task).live}
    spaces, passes, failures = [], {}, {}
    for one in stored["templates"]:
        whole = now.get(one["template"])
        knobs = [Choice.from_json(k) for k in one["knobs"]]
        if whole is None or [k.name for k in knobs] != [k.name for k in whole.knobs]:
            raise SystemExit(f"{path.name} has other knobs than {one['template']} has now: record.py {name} --again")
        space = _with(whole, knobs)
        if space.size != len(one["seconds"]):
            raise SystemExit(f"{path.name} has other schedules than {one['template']} allows: record.py {name} --again")
        spaces.append(space)
        for place, times in enumerate(one["seconds"]):
            schedule = space.schedule({k.name: k.values[one["columns"][k.name][place]] for k in knobs})
            if isinstance(times, str):
                failures[schedule] = FailureKind(times)
            else:
                passes[schedule] = times
    return Recording(name, task, UnionSpace(tuple(spaces)), default_schedule(task), passes, failures, stored["machine"])


def load_all(names: Iterable[str] = (), folder: Path = FOLDER) -> list[Recording]:
    """The recordings of these names, or all there are."""
    wanted = set(names)
    return [load(p) for p in sorted(folder.glob("*.json.gz")) if not wanted or p.name.partition(".")[0] in wanted]


def machines(made: Iterable[Recording]) -> str:
    """Where and when they were measured."""
    return "; ".join(sorted({f"{r.machine['processor']}, {r.machine['date']}" for r in made}))


def _with(space: SearchSpace, knobs: Sequence[Choice]) -> SearchSpace:
    return SearchSpace(space.template, space.version, tuple(knobs), space.constraints)
