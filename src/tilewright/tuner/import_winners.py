"""Builds and checks winners imported from another database. They then compete with the stored kernels.

No part of an imported winner was compiled or checked on this machine, and the export may contain anything. So a winner
is built from its template and schedule, and only for a program that a built-in operator makes from the stored
parameters. A program or kernel source of another author needs ``trust``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

from tilewright.building.builder import Builder
from tilewright.core import (
    Candidate,
    Failure,
    IllegalSchedule,
    Measurement,
    Proposal,
    Schedule,
    Target,
    Task,
    TilewrightError,
    TrialRecord,
    UsageError,
    Workload,
)
from tilewright.database import Database
from tilewright.database.transfer import Winner, settle, winners
from tilewright.kernels import templates
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.measure.local_target import LocalTarget
from tilewright.measure.runner import LocalRunner
from tilewright.tuner.final import Final
from tilewright.tuner.observer import Observer
from tilewright.tuner.user_kernel import own_template
from tilewright.tuner.verify import local_target_here

NEEDS_TRUST = "needs --trust"
"""Start of the reason why a winner waits."""


class Untrusted(Exception):
    """A program or source of another author, which runs only if that author is trusted."""


@dataclass(frozen=True)
class ImportedWinner:
    """Outcome of one imported winner.

    ``state``: ``served`` (the best of its task now), ``ranked`` (second or third), ``beaten``, ``failed``
    or ``waiting`` (not tried: ``problem`` says why). ``seconds``: time of one call here.
    """

    winner: Winner
    state: str
    seconds: float | None = None
    problem: str = ""


def import_winners(
    database: Database,
    *,
    op: str | None = None,
    device: str = "auto",
    again: bool = False,
    trust: bool = False,
    on_wait: Callable[[str], None] = lambda holder: None,
    on_start: Callable[[int], None] = lambda count: None,
) -> Iterator[ImportedWinner]:
    """Build, check and rank the winners that wait for this machine's device models.

    ``device`` as for ``verify``. ``again``: also winners that failed before. ``trust``: also programs and kernel
    sources that no built-in operator or template makes. ``on_start`` receives the number of winners, ``on_wait`` the
    holder of the device.
    """
    waiting = winners(database, op, ("pending", "failed") if again else ("pending",))
    places: dict[str, LocalTarget | None] = {}
    for winner in waiting:
        key = winner.task.target.key
        if key not in places:
            places[key] = _place(winner.task.target, device)
    mine = [w for w in waiting if (p := places[w.task.target.key]) is not None and p.device.model == w.device_model]
    on_start(len(mine))
    for key, group in groupby(mine, key=lambda w: w.task.target.key):
        place = places[key]
        assert place is not None
        with place.lock(on_wait=on_wait), place.builder() as builder, place.runner() as runner:
            for _, of_run in groupby(group, key=lambda w: w.run_id):
                yield from _run(database, list(of_run), place, builder, runner, trust)


def checked_workload(workload: Workload, trust: bool = False) -> Workload:
    """Return the workload as a built-in operator makes it from the stored parameters.

    With ``trust``, another program is accepted if its tensors are the stored ones. Raises ``Untrusted`` and
    ``UsageError``.
    """
    if workload.op in OPERATORS:
        with suppress(TilewrightError):
            made = get_operator(workload.op).workload(**dict(workload.params))
            if made.key == workload.key:
                return made
    if not trust:
        raise Untrusted(f"{NEEDS_TRUST}: its program is of no built-in operator")
    try:
        program = Program.loads(workload.program)
        inputs = [(tuple(t.shape), t.dtype, t.constant) for t in program.inputs]
        outputs = [(tuple(t.shape), t.dtype) for t in program.outputs]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise UsageError("its program is invalid", "Import it again from where it was tuned") from None
    stored = [(s.shape, s.dtype, s.constant) for s in workload.inputs]
    if inputs != stored or outputs != [(s.shape, s.dtype) for s in workload.outputs]:
        raise UsageError("its tensors are not its program's", "Import it again from where it was tuned")
    return workload


def _place(target: Target, device: str) -> LocalTarget | None:
    try:
        place = local_target_here(target, device)
    except UsageError:  # a kind of target that this version does not know
        return None
    return place if place is not None and place.target.key == target.key else None


def _run(
    database: Database, of_run: list[Winner], place: LocalTarget, builder: Builder, runner: LocalRunner, trust: bool
) -> Iterator[ImportedWinner]:
    """Check the winners of one run. The correct ones play a final with the stored kernel."""
    entering: list[tuple[Winner, Schedule]] = []
    task = of_run[0].task
    for w in of_run:
        try:
            workload = checked_workload(w.task.workload, trust)
            task = Task(workload, place.target)
            schedule = replace(w.schedule, version=_template_version(database, w, trust))
            _check(Candidate(task, schedule), builder, runner)
            entering.append((w, schedule))
        except Untrusted as e:
            yield ImportedWinner(w, "waiting", problem=str(e))
        except (IllegalSchedule, UsageError) as e:
            settle(database, w, "failed", e.message)
            yield ImportedWinner(w, "failed", problem=e.message)
    if not entering:
        return
    default = _default(task, entering[0][1])
    final = Final(task, default, of_run[0].run_id, of_run[0].device_model, database, builder, runner, Observer())
    shares = any(w.peak_fraction is not None for w, _ in entering)
    result = final.play(
        [_record(w, schedule) for w, schedule in entering], len(entering), place.peaks(task).flops if shares else None
    )
    ranks = {k.schedule.key: (rank, k.seconds) for rank, k in enumerate(result.ranked)}
    for w, schedule in entering:
        settle(database, w, "rebuilt")
        if schedule.key in ranks:
            rank, seconds = ranks[schedule.key]
            yield ImportedWinner(w, "ranked" if rank else "served", seconds)
        else:
            yield ImportedWinner(w, "beaten")


def _template_version(database: Database, winner: Winner, trust: bool) -> int:
    """Current version of a winner's template. Raises ``Untrusted`` and ``UsageError``.

    A user's own kernel is stored with the settings of its run, with its source.
    """
    name = winner.schedule.template
    if name in templates.TEMPLATES:
        return templates.get_template(name).version
    own = own_template(database, winner.run_id, name)
    if own is None:
        raise UsageError(f"its template {name} does not exist here", "Tune the task here")
    if not trust:
        raise Untrusted(f"{NEEDS_TRUST}: {own.kernel.label} is a kernel of someone's own")
    templates.register(own)
    return own.version


def _default(task: Task, schedule: Schedule) -> Schedule:
    """Default schedule of the task's first template; of a user's own template, its own default schedule."""
    own = schedule.template not in templates.TEMPLATES
    leading = templates.get_template(schedule.template) if own else templates.templates_for(task)[0]
    return leading.default(task)


def _check(candidate: Candidate, builder: Builder, runner: LocalRunner) -> None:
    """Build and verify a winner. Raises ``IllegalSchedule`` and ``UsageError``."""
    built = builder.build([candidate], alone=True)[0]
    problem = built if isinstance(built, Failure) else runner.verify(candidate.task, (candidate, built))
    if problem is not None:
        raise UsageError(f"{problem.kind.value}: {problem.message}", "Tune the task here")


def _record(winner: Winner, schedule: Schedule) -> TrialRecord:
    """The winner as a trial record for the final; times of one run are comparable."""
    number = -1 if winner.trial_number is None else winner.trial_number
    return TrialRecord(number, Proposal(schedule), Measurement(winner.seconds, 0.0, 1))
