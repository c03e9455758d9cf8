"""Compares kernels of programs with NumPy, for schedules of every template that matches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from fuzz import reference
from fuzz.formats import Array, pack, unpack
from fuzz.machines import Machine, Unit
from fuzz.text import definition, source
from fuzz.tree import REALS, Case
from tilewright.core import Candidate, Task, TilewrightError, Workload
from tilewright.kernels.operator import operator
from tilewright.kernels.templates import computing, get_template
from tilewright.kernels.templates.base import LoweredKernel

Note = Callable[[str], None]
"""Receives a description of the next action, which identifies the cause of a crash."""
Doctor = Callable[[str], str]
"""Changes a kernel's source. Tests use it to plant errors."""


@dataclass(frozen=True)
class Failure:
    """A failed check. ``kind``: ``definition``, ``space``, ``build``, ``run``, ``wrong``, ``memory``, ``crash`` or
    ``hang``."""

    kind: str
    message: str
    target: str = ""
    template: str = ""
    schedule: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    def like(self, other: Failure) -> bool:
        """Whether two failures probably have one cause: equal kinds, and equal templates unless ``other`` is a
        partition's."""
        return self.kind == other.kind and (self.template == other.template or other.template.endswith("partition"))


@dataclass
class Prepared:
    """A program, its workload, its inputs and NumPy's results for them."""

    case: Case
    workload: Workload
    sets: list[tuple[list[Array], list[reference.Estimate]]] = field(default_factory=list)


def values(case: Case, kind: str, seed: int) -> dict[str, Array]:
    """Draws inputs that their types represent exactly: ``normal``, ``whole`` (integers) or ``special`` (NaN,
    infinities)."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for t in case.inputs:
        x: Array
        if t.below is not None:
            x = rng.integers(0, t.below, t.shape)
        elif t.dtype in REALS:
            x = rng.standard_normal(t.shape) if kind != "whole" else rng.integers(-3, 4, t.shape).astype(np.float64)
            if kind == "special":
                odd = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e-40], t.shape)
                x = np.where(rng.random(t.shape) < 0.05, odd, x)
        else:
            low, high = {"int8": (-128, 128), "uint8": (0, 256)}.get(t.dtype, (-1000, 1000))
            x = rng.integers(low, high, t.shape)
        found[t.name] = unpack(pack(np.asarray(x), t.dtype), t.dtype)
    return found


def prepare(case: Case) -> Prepared | Failure | None:
    """Prepares a program; ``None`` if NumPy's result is undetermined or the language rejects the program."""
    seed = 1000 * case.seed + case.number
    sets = []
    maps = all(s.kind == "map" for s in case.stages)
    for kind in ("normal", "whole", *(("special",) if maps else ())):
        given = values(case, kind, seed)
        try:
            known = reference.evaluate(case, given)
        except reference.Unclear:
            continue
        sets.append(([pack(given[t.name], t.dtype) for t in case.inputs], [known[n] for n in case.outputs]))
    if not sets or not case.inputs:
        return None
    try:
        workload = operator(name=f"fuzz_{case.seed}_{case.number}")(definition(source(case))).workload()
    except TilewrightError:
        return None
    except Exception as error:
        return Failure("definition", f"{type(error).__name__}: {error}")
    return Prepared(case, workload, sets)


@dataclass(frozen=True, eq=False)
class Trial:
    prepared: Prepared
    candidate: Candidate
    kernel: LoweredKernel

    @property
    def template(self) -> str:
        return self.candidate.schedule.template

    @property
    def schedule(self) -> str:
        return str(dict(self.candidate.schedule.values))


def trials(p: Prepared, machine: Machine, schedules: int, only: str = "") -> Iterator[Trial | Failure]:
    """The default and sampled schedules of each template that matches a program, or only of the template ``only``."""
    task = Task(p.workload, machine.target)
    template = only
    try:
        found = {t.name: t for t in computing(task)}
        general = get_template(f"{'cpu' if machine.target.kind == 'cpu' else 'cuda'}_generic")
        if p.case.number % 3 == 0 and general.matches(task):
            found[general.name] = general
        for name in [only] if only in found else found:
            template, rng, space = name, random.Random(f"{p.case.seed} {p.case.number} {name}"), found[name].space(task)
            drawn = dict.fromkeys([found[name].default(task), *(space.sample(rng) for _ in range(schedules))])
            for s in drawn:
                candidate = Candidate(task, s)
                yield Trial(p, candidate, found[name].lower(candidate))
    except TilewrightError as error:
        if not only:
            yield Failure("space", f"{type(error).__name__}: {error}", machine.name, template)
    except Exception as error:
        yield Failure("space", f"{type(error).__name__}: {error}", machine.name, template)


def examine(
    prepared: Sequence[Prepared], machine: Machine, schedules: int, note: Note, only: str = "", doctor: Doctor = str
) -> Iterator[tuple[Case, Failure | None]]:
    """Yields each failure of some programs, and ``None`` for each correct kernel."""
    made: list[Trial] = []
    for p in prepared:
        note(f"{p.case.number} {machine.name} schedules")
        for t in trials(p, machine, schedules, only):
            if isinstance(t, Failure):
                yield p.case, t
            else:
                made.append(Trial(t.prepared, t.candidate, _doctored(t.kernel, doctor)))
    units, broken = _built(made, machine, note)
    for t, failure in broken:
        yield t.prepared.case, failure
    for unit, together in units:
        for t in together:
            note(f"{t.prepared.case.number} {machine.name} {t.template} {t.schedule}")
            yield t.prepared.case, _ran(t, unit, machine)


def _doctored(kernel: LoweredKernel, doctor: Doctor) -> LoweredKernel:
    return replace(kernel, source=doctor(kernel.source))


def _built(
    made: Sequence[Trial], machine: Machine, note: Note
) -> tuple[list[tuple[Unit, Sequence[Trial]]], list[tuple[Trial, Failure]]]:
    """Compiles kernels together. After a failure compiles each half, down to the single kernels that do not compile."""
    if not made:
        return [], []
    note(f"{made[0].prepared.case.number} {machine.name} {made[0].template} {made[0].schedule} build")
    try:
        return [(machine.build([t.kernel for t in made]), made)], []
    except TilewrightError as error:
        if len(made) == 1:
            (t,) = made
            return [], [(t, Failure("build", str(error), machine.name, t.template, t.schedule))]
    half = len(made) // 2
    (first, bad), (second, worse) = _built(made[:half], machine, note), _built(made[half:], machine, note)
    return [*first, *second], [*bad, *worse]


def _ran(t: Trial, unit: Unit, machine: Machine) -> Failure | None:
    """Returns the failure of a kernel's runs, if any."""
    case, launch = t.prepared.case, {k: int(v) for k, v in t.candidate.schedule.launch}
    specs = [(s.shape, s.dtype) for s in case.results]
    for inputs, wanted in t.prepared.sets:
        try:
            for run in unit.runs(t.kernel, launch, inputs, specs):
                if run.problem:
                    return Failure("memory", f"{run.told}: {run.problem}", machine.name, t.template, t.schedule)
                for s, got, want in zip(case.results, run.results, wanted, strict=True):
                    wrong = reference.difference(unpack(got, s.dtype), want, s.dtype)
                    if wrong is not None:
                        return Failure("wrong", f"{s.name}, {run.told}: {wrong}", machine.name, t.template, t.schedule)
        except TilewrightError as error:
            return Failure("run", str(error), machine.name, t.template, t.schedule)
    return None
