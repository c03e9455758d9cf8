"""``tilewright.tune``: everything a run needs, put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.core import Task, UsageError, Value
from tilewright.paths import cache_root, default_path
from tilewright.tuner.observer import Observer
from tilewright.tuner.result import BestKernel, TuneResult, curve, failures

if TYPE_CHECKING:
    from tilewright.backends.cpu.device import CpuDevice
    from tilewright.database import Database, StoredRun
    from tilewright.kernels.operator import Operator
    from tilewright.tuner.final import FinalResult
    from tilewright.tuner.session import Session

TRIALS = 200
FINALISTS = 8
"""Trials that meet in the final: single trials are too noisy to tell the fastest few apart."""
STRATEGY, COST_MODEL = "evolutionary", "xgboost"
TRANSFER_TRIALS = 4000
"""Stored trials of other workloads that warm the cost model up, at most."""


def tune(
    operator: str | Operator | Callable[..., Any],
    *,
    trials: int | None = None,
    target: str = "auto",
    threads: int = 1,
    device: str = "auto",
    time_budget: float | None = None,
    strategy: str | None = None,
    cost_model: str | None = None,
    seed: int | None = None,
    db: str | os.PathLike[str] | None = None,
    resume: str | None = None,
    observer: Observer | None = None,
    params: Mapping[str, Value | str] | None = None,
    **sizes: Value,
) -> TuneResult:
    """Search for the fastest kernel of ``operator`` and store every trial and the winner.

    ``operator``: a name, ``FILE.py:function``, or what ``@tilewright.operator`` made. Its parameters
    are given as keywords, or in ``params``. ``trials``: in all, failures included (200). ``resume``: a
    run's identifier or ``last``, to go on with it up to ``trials``; it keeps its strategy and seed.
    ``time_budget``: seconds after which nothing more is proposed. ``db``: a path or URL.

    Ctrl-C ends the search, keeps what was measured and still holds the final; a second one stops at
    once (``KeyboardInterrupt``). Raises ``UsageError``, ``TargetUnavailable``, ``OperatorError`` or
    ``DatabaseError`` before anything is measured.
    """
    from tilewright.backends.cpu.device import DeviceLock, noise_warnings, parse_device
    from tilewright.backends.cpu.targets import parse_target
    from tilewright.database import Database
    from tilewright.tuner.strategies import get_strategy

    if strategy is not None:
        get_strategy(strategy)
    watcher = observer or Observer()
    workload = _operator(operator).workload(**{**(params or {}), **sizes})
    task = Task(workload, parse_target(target, threads))
    where = parse_device(device, threads)
    location = os.fspath(db) if db is not None else default_path()
    with Database.open(location) as database:
        run = _begin(database, task, where, resume, trials, strategy, cost_model, seed)
        for w in noise_warnings():
            watcher.warning(f"{w}; figures of this run are noisy")
        try:
            with DeviceLock(where, on_wait=lambda holder: watcher.waiting(where.name, str(holder))):
                return _tune(database, run, where, time_budget, watcher, location)
        except BaseException as e:
            state = "interrupted" if isinstance(e, (KeyboardInterrupt, SystemExit)) else "failed"
            database.finish_run(run.id, state, {"error": f"{type(e).__name__}: {e}"})
            raise


def _operator(given: str | Operator | Callable[..., Any]) -> Operator:
    from tilewright.kernels.operator import Operator, get_operator, load_operator, operator

    if isinstance(given, Operator):
        return given
    if isinstance(given, str):
        return load_operator(given) if ":" in given or given.endswith(".py") else get_operator(given)
    return operator(given)


def _begin(
    database: Database,
    task: Task,
    device: CpuDevice,
    resume: str | None,
    trials: int | None,
    strategy: str | None,
    cost_model: str | None,
    seed: int | None,
) -> StoredRun:
    if resume is not None:
        old = database.run(resume)
        for name, given, stored in (("strategy", strategy, old.strategy), ("seed", seed, old.seed)):
            if given is not None and given != stored:
                raise UsageError(
                    f"run {old.id} has {name} {stored}, not {given}",
                    f"Leave --{name} out, or start a new run",
                )
        return database.resume_run(old.id, task, device, trials or old.trials_wanted)
    settings = {"cost_model": cost_model or COST_MODEL}
    run_id = database.add_run(task, device, strategy or STRATEGY, seed or 0, trials or TRIALS, settings)
    return database.run(run_id)


def _tune(
    database: Database,
    run: StoredRun,
    device: CpuDevice,
    time_budget: float | None,
    watcher: Observer,
    location: str,
) -> TuneResult:
    from tilewright.backends.cpu.cores import affinity
    from tilewright.backends.cpu.peak import PeakProbe
    from tilewright.kernels.expr import ITEMSIZE
    from tilewright.kernels.templates import default_schedule, task_space
    from tilewright.measure.builder import Builder
    from tilewright.measure.gate import Gate
    from tilewright.measure.runner import LocalRunner
    from tilewright.tuner.final import Final
    from tilewright.tuner.session import Clock, Limits, Session
    from tilewright.tuner.strategies import get_strategy

    clock = Clock()
    task = run.task
    threads = task.target.threads
    free = tuple(c for c in affinity() if c not in device.cores)
    space = task_space(task)
    history = database.trials(run.id)
    with clock.on("transfer"):
        model = _cost_model(database, run, str(run.settings.get("cost_model", COST_MODEL)), device)
    search = get_strategy(run.strategy)(space, seed=run.seed, cost_model=model, initial=(default_schedule(task),))
    # A measurement that uses every core must not share them with a compiler.
    gate = Gate()
    references = cache_root() / "references"
    watcher.started(run.id, task, len(history), run.trials_wanted, space.size)
    with (
        Builder(task.target, cores=free or device.cores, gate=None if free else gate.building) as builder,
        LocalRunner(device, task.target, references=references, exclusive=None if free else gate.measuring) as runner,
    ):
        session = Session(
            task=task, run_id=run.id, database=database, strategy=search, builder=builder, runner=runner,
            limits=Limits(run.trials_wanted, time_budget, batch=max(4, min(16, run.trials_wanted // 8))),
            observer=watcher, history=history, overlap=bool(free), clock=clock,
        )  # fmt: skip
        interrupted = False
        try:
            session.restore()
            session.search()
        except KeyboardInterrupt:
            if session.best is None:
                raise
            interrupted = True
            watcher.stage("stopping: final between the fastest (again to stop at once)")
        with clock.on("final"):
            with PeakProbe(task.target, device.cores[:threads]) as probe:
                peak = probe.sample() * 4 / ITEMSIZE[task.workload.output.dtype]
            final = Final(task, run.id, device.model, database, builder, runner, watcher).play(
                session.history, 2 if interrupted else FINALISTS, peak
            )
    result = _result(session, final, device, space.size, location, interrupted)
    database.finish_run(run.id, "interrupted" if interrupted else "done", result.to_json())
    return result


def _cost_model(database: Database, run: StoredRun, name: str, device: CpuDevice) -> Any:
    """A model of the run's task, warm from stored trials of other workloads on the same target."""
    from tilewright.cost_model import get_cost_model
    from tilewright.kernels.templates import TEMPLATES, get_template

    model = get_cost_model(name)(run.task, seed=run.seed)
    versions = {t: get_template(t).version for t in TEMPLATES}
    left = TRANSFER_TRIALS
    for workload, records in database.target_history(
        run.task.target.key, device.model, limit=TRANSFER_TRIALS, versions=versions
    ):
        if left <= 0:
            break
        if workload.key != run.task.workload.key:
            model.update(records[:left], Task(workload, run.task.target))
            left -= len(records)
    return model


def _result(
    session: Session, final: FinalResult, device: CpuDevice, space_size: int, location: str, interrupted: bool
) -> TuneResult:
    best = None
    if final.ranked:
        k = final.ranked[0]
        best = BestKernel(
            k.seconds, session.task.workload.flops / k.seconds / 1e9, k.peak_fraction, k.schedule.template,
            k.schedule, k.run_id or session.run_id, k.trial_number if k.trial_number is not None else -1,
        )  # fmt: skip
    return TuneResult(
        task=session.task,
        run=session.run_id,
        device=device.name,
        trials=len(session.history),
        failed=failures(session.history),
        seconds=session.clock.elapsed,
        best=best,
        kept=final.kept,
        curve=curve(session.history),
        time={k: round(v, 4) for k, v in session.times().items()},
        structures=len({r.schedule.structure_key for r in session.history}),
        space_size=space_size,
        database=location,
        interrupted=interrupted,
    )
