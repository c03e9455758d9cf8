"""Runs the steps of GPU tuning that need no GPU: static gate, ranking, verification on the emulator, compilation.

The folder then holds all data that a machine with a GPU needs to load and measure: ``prepared.json``, the compiled
kernels, and compiler results that the artifact cache of that machine imports (:mod:`tilewright.building.prepared`).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.backends import backend_for
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda.bound import Bound
from tilewright.building.builder import Builder, Built
from tilewright.building.prepared import CACHE, FILE, FORMAT, KERNELS
from tilewright.checking.check import ORDERS, Checked, Checker, subject_of
from tilewright.checking.machine_code import bound_of
from tilewright.checking.schedules import random_schedules
from tilewright.core import (
    Artifact,
    Candidate,
    IllegalSchedule,
    Schedule,
    Task,
    TilewrightError,
    Value,
    Workload,
)
from tilewright.cost_model import get_cost_model
from tilewright.cost_model.features import LEAST, static_of
from tilewright.cost_model.transfer import shipped
from tilewright.errors import explained_writing
from tilewright.files import SHARED, replace_file
from tilewright.kernels.templates import default_schedule, get_template, templates_for
from tilewright.tuner.clock import Clock

TRAINED, ANALYTIC = "xgboost", "gpu"
"""Cost models that rank before any measurement: the trained one if the target's kind has one, else the analytic one."""

Say = Callable[[str, int, int], None]
"""Callback for progress: stage, number of finished steps, number of steps."""


@dataclass(frozen=True)
class PreparedKernel:
    """A compiled candidate: its rank by the prior (from 0), its score, artifact, and whether it was verified.

    ``bound``: lower bound of the kernel's time from its machine code, if that can be read. A ``score`` that promises
    more speed than the bound allows is lowered (:func:`_bounded`).
    """

    rank: int
    score: float
    candidate: Candidate
    artifact: Artifact
    verified: bool
    bound: Bound | None = None

    def to_json(self) -> dict[str, Any]:
        a = self.artifact
        return {
            "rank": self.rank,
            "score": self.score,
            "schedule": self.candidate.schedule.to_json(),
            "program": a.program.to_json(),
            "file": f"{KERNELS}/{a.sha256}.cubin",
            "sha256": a.sha256,
            "source_sha256": a.source_sha256,
            "resources": dict(a.resources),
            "verified": self.verified,
            "bound": None
            if self.bound is None
            else {"by": self.bound.by, "cycles": self.bound.cycles, "share": self.bound.share},
        }


@dataclass
class Prepared:
    """A shortlist of kernels for one task, with the steps that led to it."""

    task: Task
    seed: int
    prior: str = ""
    pool: int = 0
    gate: dict[str, Any] = field(default_factory=dict)
    kernels: list[PreparedKernel] = field(default_factory=list)
    checked_on: Workload | None = None
    checked: list[Checked] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compiler: str = ""
    flags: tuple[str, ...] = ()
    emulated: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def bugs(self) -> list[Checked]:
        """Kernels that the emulator found wrong. The shortlist has no kernel of their schedules."""
        return [c for c in self.checked if c.findings]

    def to_json(self) -> dict[str, Any]:
        from tilewright import __version__

        return {
            "format": FORMAT,
            "tilewright": __version__,
            "task": self.task.to_json(),
            "seed": self.seed,
            "pool": self.pool,
            "prior": self.prior,
            "gate": self.gate,
            "compiler": self.compiler,
            "flags": list(self.flags),
            "emulated": self.emulated,
            "verified_on": self.checked_on.label if self.checked_on else None,
            "verified": [c.to_json() for c in self.checked],
            "notes": self.notes,
            "seconds": {k: round(v, 3) for k, v in self.seconds.items()},
            "kernels": [k.to_json() for k in self.kernels],
        }


def prepare(
    task: Task,
    folder: Path,
    *,
    keep: int = 32,
    pool: int = 512,
    verify: int = 4,
    small: Workload | None = None,
    near: float = 0.5,
    seed: int = 0,
    workers: int = 1,
    emulated: bool = False,
    say: Say = lambda _stage, _done, _of: None,
) -> Prepared:
    """Sample ``pool`` schedules, rank the runnable ones, verify the first ``verify``, compile the best ``keep``.

    A share ``near`` of the pool are neighbours of the default schedule (:func:`neighbours`), the rest is random. At
    most half of the kept schedules share a value that the default lacks. If a disassembler is installed, the bound of
    the machine code ranks the kernels again. The default schedule is compiled whatever its rank. A cache within
    ``folder`` keeps compiled kernels, so that a repetition is quick. ``small``: a smaller workload for the emulator,
    if the task's own takes too long. ``emulated``: compile for the emulator. Raises ``TilewrightError`` if nothing can
    be compiled or written, ``CannotCheck`` without a C++ compiler.
    """
    result = Prepared(task, seed, emulated=emulated)
    with explained_writing(f"to {folder}", "Name another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        cache = ArtifactCache(folder / CACHE)
    clock = Clock(result.seconds)
    with clock.on("rank"):
        ranked = _ranked(task, pool, near, seed, result)
    with clock.on("verify"):
        wrong = _verify(task, [s for s, _ in ranked], verify, small, workers, result, say)
    with clock.on("compile"):
        right = [(s, v) for s, v in ranked if s.key not in wrong]
        order = diverse(task, [s for s, _ in right], keep)
        _compile(task, right, order, keep, workers, cache, result, say)
    with clock.on("bound"):
        result.kernels = _bounded(task, result)
    if not result.kernels:
        refused = result.gate.get("after") or {}
        raise TilewrightError(
            f"none of {len(ranked)} schedules of {task.workload.label} could be compiled",
            f"The static gate refused: {', '.join(f'{n} {k}' for k, n in refused.items())}" if refused else "",
        )
    return result


def neighbours(task: Task, count: int, seed: int = 0) -> list[Schedule]:
    """Up to ``count`` legal schedules that differ from the default in one knob, or in two knobs if more are needed.
    An ordered knob takes only a value next to the default's."""
    default = default_schedule(task)
    space = get_template(default.template).space(task)
    other = []
    for knob, at in zip(space.knobs, space.indices(default), strict=True):
        near = [v for n, v in enumerate(knob.values) if n != at and (not knob.ordered or abs(n - at) == 1)]
        other += [(knob.name, v) for v in near]
    one = [{name: v} for name, v in other]
    two = [{a: x, b: y} for (a, x), (b, y) in itertools.combinations(other, 2) if a != b]
    rng = random.Random(seed)
    found: dict[str, Schedule] = {}
    for changes in (one, two):
        rng.shuffle(changes)
        for change in changes:
            if len(found) == count:
                return list(found.values())
            with contextlib.suppress(IllegalSchedule):
                schedule = space.schedule({**default.values, **change})
                found.setdefault(schedule.key, schedule)
    return list(found.values())


def diverse(task: Task, ranked: Sequence[Schedule], keep: int) -> list[int]:
    """Indices of ``ranked`` without the default, reordered for diversity. Among the first ``keep``, at most half
    (rounded up) share a value that the default lacks. The skipped schedules follow."""
    default = default_schedule(task)
    plain = set(default.values.items())
    own = [set(s.values.items()) - plain for s in ranked]
    left, chosen = [n for n, s in enumerate(ranked) if s != default], list[int]()
    shared: Counter[tuple[str, Value]] = Counter()
    while left and len(chosen) < keep:
        most = len(chosen) // 2 + 1
        at = next((n for n in left if all(shared[v] < most for v in own[n])), left[0])
        shared.update(own[at])
        left.remove(at)
        chosen.append(at)
    return chosen + left


def _ranked(task: Task, pool: int, near: float, seed: int, result: Prepared) -> list[tuple[Schedule, float]]:
    """The sampled schedules that pass the static gate, best first, one schedule per binary."""
    sampled = [t.default(task) for t in templates_for(task)]
    sampled += neighbours(task, round(near * pool), seed)
    sampled += random_schedules(task, pool - len(sampled), seed)
    refusal = backend_for(task.target).refusal
    distinct: dict[str, Schedule] = {}
    refused: dict[str, int] = {}
    for schedule in sampled[: max(pool, 1)]:
        candidate = Candidate(task, schedule)
        problem = refusal(get_template(schedule.template).lower(candidate).program, task.target)
        if problem is not None:
            reason = str(getattr(problem, "reason", "other"))
            refused[reason] = refused.get(reason, 0) + 1
        else:
            distinct.setdefault(candidate.key, schedule)
    schedules = list(distinct.values())
    result.pool = len(sampled[: max(pool, 1)])
    result.gate = {"before": refused}
    result.prior = ANALYTIC if shipped(task.target.kind) is None else TRAINED
    if not schedules:
        return []
    scores = get_cost_model(result.prior)(task, seed=seed).predict(schedules)
    order = sorted(range(len(schedules)), key=lambda n: (-float(scores[n]), schedules[n].key))
    return [(schedules[n], float(scores[n])) for n in order]


def _verify(
    task: Task, ranked: Sequence[Schedule], count: int, small: Workload | None, workers: int, result: Prepared, say: Say
) -> set[str]:
    """Keys of the schedules whose kernels are wrong."""
    where = Task(small or task.workload, task.target)
    result.checked_on = where.workload
    chosen: dict[str, Schedule] = {}  # by the key of the schedule for the full-size task
    for schedule in _spread(ranked):
        if len(chosen) == count:
            break
        fitting = schedule if small is None else same_on(where, schedule)
        if fitting is not None:
            chosen[schedule.key] = fitting
    if not chosen:
        if count:
            result.notes.append("nothing was verified: no schedule of the shortlist is legal at the smaller sizes")
        return set()
    if small is not None:
        result.notes.append(f"verified at smaller sizes: {small.label}")
    checker = Checker(where.workload, orders=ORDERS)
    subjects = [subject_of(Candidate(where, s)) for s in chosen.values()]
    wrong: set[str] = set()
    say("verifying", 0, len(subjects))
    for done, (number, checked) in enumerate(checker.check_all(subjects, workers), 1):
        say("verifying", done, len(subjects))
        result.checked.append(checked)
        if checked.findings:
            wrong.add(list(chosen)[number])
    return wrong


def _spread(ranked: Sequence[Schedule]) -> list[Schedule]:
    """The schedules with their templates interleaved, in rank order within each template."""
    by: dict[str, list[Schedule]] = {}
    for s in ranked:
        by.setdefault(s.template, []).append(s)
    return [s for turn in itertools.zip_longest(*by.values()) for s in turn if s is not None]


def same_on(task: Task, schedule: Schedule) -> Schedule | None:
    """The schedule with the same decisions for another task; ``None`` where it is not legal there."""
    template = get_template(schedule.template)
    if not template.matches(task):
        return None
    try:
        return template.space(task).schedule(schedule.values)
    except IllegalSchedule:
        return None


def _compile(
    task: Task, ranked: Sequence[tuple[Schedule, float]], order: Sequence[int], keep: int, workers: int,
    cache: ArtifactCache, result: Prepared, say: Say,
) -> None:  # fmt: skip
    """Compile in ``order`` until ``keep`` kernels have passed the gate; then compile the default schedule."""
    verified = {_decisions(c.subject.schedule) for c in result.checked if c.state == "right" and c.subject.schedule}
    with Builder(task.target, workers=workers, cache=cache, emulated=result.emulated) as builder:
        result.compiler, result.flags = builder.toolchain.version, tuple(builder.toolchain.flags)
        say("compiling", 0, min(keep, len(order)))
        at = 0
        while at < len(order) and len(result.kernels) < keep:
            group = order[at : at + max(2 * workers, 4)]
            candidates = [Candidate(task, ranked[n][0]) for n in group]
            built: list[Built] = builder.build(candidates)
            for n, c, b in zip(group, candidates, built, strict=True):
                if isinstance(b, Artifact) and len(result.kernels) < keep:
                    result.kernels.append(PreparedKernel(n, ranked[n][1], c, b, _decisions(c.schedule) in verified))
            at += len(group)
            say("compiling", len(result.kernels), min(keep, len(order)))
        _default(task, ranked, builder, result, verified)
        counts = builder.gate_counts().to_json()
    before = result.gate["before"]
    result.gate = {**counts, "before": before}


def _default(
    task: Task, ranked: Sequence[tuple[Schedule, float]], builder: Builder, result: Prepared, verified: set[Any]
) -> None:
    """Compile the default schedule, or add a note why it is missing."""
    default = default_schedule(task)
    at = next((n for n, (s, _) in enumerate(ranked) if s == default), None)
    if at is None:
        result.notes.append("the default schedule is not among the kernels: it was refused, or found wrong")
        return
    candidate = Candidate(task, default)
    [built] = builder.build([candidate])
    if isinstance(built, Artifact):
        result.kernels.append(PreparedKernel(at, ranked[at][1], candidate, built, _decisions(default) in verified))
    else:
        result.notes.append(f"the default schedule is not among the kernels: {built.message}")


def _bounded(task: Task, result: Prepared) -> list[PreparedKernel]:
    """Return the kernels with bounds, best first. The score (a logarithm of speed) is estimated from loops. If the
    machine code needs more clocks than the loops' bound, the score is lowered by the logarithm of that ratio. Kernels
    without readable machine code keep their score."""
    static = static_of(task)
    kernels = []
    for k in result.kernels:
        bound = None if result.emulated else bound_of(k.candidate, Path(k.artifact.path).read_bytes())
        if bound is None:
            kernels.append(k)
            continue
        more = math.log(bound.cycles / static(k.candidate.schedule)[LEAST])
        kernels.append(replace(k, bound=bound, score=k.score - (more if more > 0 else 0.0)))
    return sorted(kernels, key=lambda k: (-k.score, k.rank))


def _decisions(s: Schedule) -> tuple[Any, ...]:
    return (s.template, s.version, tuple(sorted(s.values.items())))


# --------------------------------------------------------------------------- the folder


def write(prepared: Prepared, folder: Path) -> Path:
    """Copy the kernels into ``folder`` and write ``prepared.json`` last. Raises ``TilewrightError``."""
    path = folder / FILE
    with explained_writing(f"to {folder}", "Name another folder"):
        (folder / KERNELS).mkdir(parents=True, exist_ok=True)
        for k in prepared.kernels:
            to = folder / KERNELS / f"{k.artifact.sha256}.cubin"
            if not to.exists() or to.stat().st_size != os.path.getsize(k.artifact.path):
                replace_file(to, Path(k.artifact.path).read_bytes(), SHARED)
        replace_file(path, (json.dumps(prepared.to_json(), indent=1) + "\n").encode(), SHARED)
    return path
