"""The next steps after a run: at most five, each with its reason and, if one command is enough, the command."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.core import FailureKind, TrialRecord, Value
from tilewright.insight.effects import KnobEffect
from tilewright.insight.failures import ADVICE
from tilewright.insight.importance import ENOUGH
from tilewright.insight.knobs import value_text
from tilewright.insight.limits import NAMES, Limits
from tilewright.insight.points import time_of
from tilewright.insight.progress import Progress
from tilewright.insight.result import tune_words
from tilewright.search_space import knob as named
from tilewright.serialization import Json
from tilewright.units import FINAL_TIME, SEARCH_TIME, named_time, with_unit

if TYPE_CHECKING:
    from tilewright.database import StoredRun
    from tilewright.search_space import SearchSpace

MOST = 5
OFTEN = 0.25
"""Share of the trials with one kind of failure above which a step suggests to look at these failures."""
NOISY = 0.1
"""Spread of the winner's samples, over their median, above which the measurements count as noisy."""
DRIFT = 1.2
"""Ratio of a winner's final time and search time, in either direction, from which on the machine's speed has
changed."""
RARE = 10
"""Number of trials below which a template counts as barely tried."""


@dataclass(frozen=True)
class Step(Json):
    """A suggested step. ``do``: what to try; ``why``: the observation in the run that suggests it; ``command``: the
    command for it, if one command is enough."""

    do: str
    why: str
    command: str | None = None


def tune_command(run: StoredRun, db: str | None) -> str | None:
    """The command that tunes a run's task again; ``None`` on a farm, and if :func:`tune_words` returns ``None``."""
    from tilewright.backends import is_emulated

    emulated, words = is_emulated(run.device_model), tune_words(run)
    if words is None or not (emulated or re.fullmatch(r"[a-z]+:[\d,-]+", run.device_name)):
        return None
    target = run.task.target
    more = ["--target", target.name, *(["--threads", str(target.threads)] if target.threads > 1 else [])]
    more += [*(["--device", run.device_name] if emulated else []), *(["--db", db] if db else [])]
    return shlex.join(["tilewright", "tune", *words, *more])


def next_steps(
    run: StoredRun, records: Sequence[TrialRecord], winner: TrialRecord | None, progress: Progress,
    effects: Sequence[KnobEffect], limits: Limits | None, db: str | None = None,
) -> tuple[Step, ...]:  # fmt: skip
    """The steps that the run's data suggest, the most promising first."""
    if run.state == "running":
        return ()
    command = tune_command(run, db)
    steps = [*_failures(run, OFTEN if winner else 0.0, db)]
    if winner is None:
        return tuple(steps[:MOST])
    near = limits.near if limits else None
    steps += [*_noise(winner, limits)]
    if near is not None:
        steps.append(_at_the_limit(near.key))
    else:
        steps = [*_more_trials(run, progress, command), *steps]
        steps += [*_spaces(run, records, winner, effects, command), *_elsewhere(run, progress, command)]
    if near is None or near.key == "compute":
        steps += [*_threads(run, db)]
    return tuple(steps[:MOST])


def _failures(run: StoredRun, often: float, db: str | None) -> Iterator[Step]:
    command = shlex.join(["tilewright", "show", run.id, *(["--db", db] if db else [])])
    for kind, count in sorted(run.failed.items(), key=lambda item: -item[1]):
        if run.trials and count / run.trials >= often and kind in ADVICE:
            yield Step(f"Look at the failures of kind {kind}. {ADVICE[FailureKind(kind)]}",
                       f"{count} of {run.trials} trials failed so.", command)  # fmt: skip


def _noise(winner: TrialRecord, limits: Limits | None) -> Iterator[Step]:
    spread, seconds = getattr(winner.outcome, "spread", 0.0), time_of(winner) or 0.0
    later = limits.seconds if limits else seconds
    if spread > NOISY:
        spans = f"The middle half of the winner's samples spans {with_unit(spread, 'share')} of their median"
        why = f"{spans}, which hides smaller differences."
    elif not 1 / DRIFT < later / seconds < DRIFT:
        why = f"The winner's {named_time(SEARCH_TIME, seconds)} and {named_time(FINAL_TIME, later)} differ."
    else:
        return
    yield Step("Measure on a quieter machine: stop other work, then run tilewright doctor.", why, "tilewright doctor")


def _more_trials(run: StoredRun, progress: Progress, command: str | None) -> Iterator[Step]:
    """Suggests to resume the run, with a number of trials that the data justify; yields at most one step."""
    if progress.outlook == "exhausted":
        return
    left = run.trials_wanted - run.trials
    wanted, why = run.trials_wanted, ""
    if (run.state in ("interrupted", "failed") or progress.ended == "time") and left > 0:
        why = f"The run ended early: {left} of {run.trials_wanted} requested trials were not run."
    elif progress.outlook == "likely":
        wanted, why = 2 * run.trials, "The search was still finding faster schedules."
    elif progress.measured < ENOUGH:
        wanted = max(2 * ENOUGH, 2 * run.trials)
        why = f"{progress.measured} measured trials are few: {ENOUGH} show which knobs matter."
    if why:
        more = f"--resume {run.id} --trials {wanted}"
        yield Step(f"Resume this run, up to {wanted} trials.", why, _with(command, more))


def resume_command(run: StoredRun, db: str | None) -> str | None:
    """The command that resumes a run that ended before all requested trials; ``None`` as for ``tune_command``."""
    if run.state not in ("interrupted", "failed") or run.trials >= run.trials_wanted:
        return None
    return _with(tune_command(run, db), f"--resume {shlex.quote(run.id)} --trials {run.trials_wanted}")


def _with(command: str | None, more: str) -> str | None:
    return command and f"{command} {more}"


def _at_the_limit(key: str) -> Step:
    do = "Keep this kernel: only fewer operations or a narrower element type would be faster."
    if key != "compute":
        do = ("Move fewer bytes: fuse the operator with its neighbours, or use a narrower element type. Another "
              "schedule gains little.")  # fmt: skip
    return Step(do, f"The winner is at the limit of {NAMES[key]}.")


def _spaces(
    run: StoredRun, records: Sequence[TrialRecord], winner: TrialRecord, effects: Sequence[KnobEffect],
    command: str | None,
) -> Iterator[Step]:  # fmt: skip
    """Suggests barely tried parts of the search space: knob values beyond the winner's, and whole templates."""
    from tilewright.kernels.templates import task_space
    from tilewright.tuner import user_kernel

    try:
        kernel = user_kernel.of_run(run)
        spaces = task_space(run.task, user_kernel.templates_of(kernel, run.task)).live
    except Exception:  # the stored task may be invalid for today's templates in any way; then there is no suggestion
        return
    own = next((s for s in spaces if s.template == winner.schedule.template), None)
    if own is not None:
        users = kernel is not None and kernel.name == own.template
        yield from _edges(run, records, winner, effects, own, command, users)
    counts = Counter(r.schedule.template for r in records)
    rare = [s.template for s in spaces if s is not own and counts[s.template] < min(RARE, len(records) // len(spaces))]
    if rare:
        told = ", ".join(f"{name} in {counts[name]}" for name in rare)
        yield Step("Start a run that draws from all templates alike.",
                   f"Of {len(records)} trials, few tried these templates: {told}.",
                   _with(command, "--strategy random"))  # fmt: skip


def _edges(
    run: StoredRun, records: Sequence[TrialRecord], winner: TrialRecord, effects: Sequence[KnobEffect],
    space: SearchSpace, command: str | None, users: bool,
) -> Iterator[Step]:  # fmt: skip
    knobs = {k.name: k for k in space.knobs}
    for effect in effects:
        knob = knobs.get(effect.knob)
        if knob is None or not effect.sure or not knob.ordered or isinstance(knob.values[0], bool | str):
            continue
        values: list[Value] = sorted(knob.values)
        tried = {r.schedule.values.get(knob.name) for r in records if r.schedule.template == space.template}
        value = winner.schedule.values[knob.name]
        if value not in values or len(values) < 3:
            continue
        at, title = values.index(value), named(space.template, knob.name)
        for word, beyond in (("largest", values[at + 1 :]), ("smallest", values[:at])):
            if beyond and not tried & set(beyond):
                names = ", ".join(map(value_text, beyond))
                yield Step(f"Try {title} beyond {value_text(value)}: {names} were never tried.",
                           f"{title} has a clear effect, and the winner has the {word} value tried.",
                           _with(command, f"--resume {run.id} --trials {2 * run.trials}"))  # fmt: skip
            elif users and not beyond:
                yield Step(f"Give --knob {knob.name} values beyond {value_text(value)} in a new run.",
                           f"{title} has a clear effect, and the winner has its {word} value.")  # fmt: skip


def _elsewhere(run: StoredRun, progress: Progress, command: str | None) -> Iterator[Step]:
    if progress.outlook == "unlikely":
        yield Step("Try another seed: the search will explore differently.",
                   "This search has stopped improving, and no known limit of the device is near.",
                   _with(command, f"--seed {run.seed + 1}"))  # fmt: skip


def _threads(run: StoredRun, db: str | None) -> Iterator[Step]:
    """Suggests several threads for a long kernel on one core. The processor's number of cores is not stored."""
    from tilewright.backends import backend_for

    threaded = backend_for(run.task.target).in_process
    seconds = run.best_seconds or 0.0
    if threaded and run.task.target.threads == 1 and seconds >= 1e-4:
        command = tune_command(run, db)
        yield Step("If the processor has more cores, tune for several threads (--threads).",
                   f"One core was used, and the {named_time(FINAL_TIME if run.won else SEARCH_TIME, seconds)} is long.",
                   _with(command, "--threads 2"))  # fmt: skip
