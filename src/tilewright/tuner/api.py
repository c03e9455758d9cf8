"""``tilewright.tune``: everything a run needs, put together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core import Schedule, Task, UsageError, Value
from tilewright.paths import default_path
from tilewright.tuner.observer import Observer
from tilewright.tuner.result import BestKernel, TuneResult, curve, failures

if TYPE_CHECKING:
    from tilewright.backends import Peaks
    from tilewright.building.builder import GateCounts
    from tilewright.core import Device
    from tilewright.cost_model import CostModel, FeatureExtractor
    from tilewright.database import Database, StoredRun
    from tilewright.farm.client import Farm
    from tilewright.kernels.operator import Operator
    from tilewright.kernels.templates.user_kernel import UserKernel
    from tilewright.measure.measuring import Site
    from tilewright.tuner.final import FinalResult
    from tilewright.tuner.session import Session

TRIALS = 200
FINALISTS = 8
"""Trials that meet in the final: single trials are too noisy to tell the fastest few apart."""
BATCH = 4
STRATEGY, COST_MODEL = "evolutionary", "xgboost"


def tune(
    operator: str | Operator | UserKernel | Callable[..., Any],
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
    take_over: bool = False,
    prepared: str | os.PathLike[str] | None = None,
    observer: Observer | None = None,
    farm: str | Farm | None = None,
    certs: str | os.PathLike[str] | None = None,
    stop: threading.Event | None = None,
    params: Mapping[str, Value | str] | None = None,
    **sizes: Value,
) -> TuneResult:
    """Search for the fastest kernel of ``operator`` and store every trial and the winner.

    ``operator``: a name, ``FILE.py:function``, what ``@tilewright.operator`` made, or a kernel of yours
    (:func:`tilewright.own_kernel`). Its parameters are given as keywords, or in ``params``. ``trials``: in
    all, failures included (200); 0: the cost model's choice is built, checked, timed and stored. ``resume``: a run's
    identifier or ``last``, to go on with it up to ``trials``; it keeps its strategy and seed. ``take_over``: also one
    that is stored as running on another host,
    whose process cannot be seen from here. ``time_budget``: seconds after which nothing more is
    proposed. ``db``: a path or URL. ``prepared``: a folder that ``tilewright prepare`` wrote; its shortlist
    is tried first, without compiling.
    ``target``: ``cpu``, ``cuda`` or a variant of either. ``device``: cores (``cpu:0-1``), a GPU
    (``cuda:0``), or ``emulator``, which runs CUDA kernels on this processor for development: its times mean
    nothing, and what wins there is never served.
    ``farm``: measure on a device farm instead, ``tls://HOST:PORT`` or a :class:`~tilewright.farm.client.Farm`;
    ``certs`` is its folder of certificates and ``device`` a device class of it (:func:`tune_all` takes several).
    ``stop``: ends the search when it is set, as Ctrl-C does.

    Ctrl-C ends the search, keeps what was measured and still holds the final; a second one stops at
    once (``KeyboardInterrupt``). Raises ``UsageError``, ``TargetUnavailable``, ``OperatorError`` or
    ``DatabaseError`` before anything is measured.
    """
    from tilewright.database import Database
    from tilewright.kernels.templates.user_kernel import UserKernel
    from tilewright.measure.places import find_place
    from tilewright.tuner import user_kernel
    from tilewright.tuner.strategies import get_strategy

    if strategy is not None:
        get_strategy(strategy)
    watcher = observer or Observer()
    kernel = operator if isinstance(operator, UserKernel) else None
    computes = operator.operator if isinstance(operator, UserKernel) else _operator(operator)
    workload = computes.workload(**{**(params or {}), **sizes})
    wanted = kernel.target(target) if kernel else target
    with _connected(farm, certs, watcher) as connection:
        place: Site = (
            find_place(wanted, device, threads) if connection is None else _on_farm(connection, device, wanted, threads)
        )
        task = Task(workload, place.target)
        if kernel is not None:
            user_kernel.fit(kernel, task)
        first: tuple[Schedule, ...] = ()
        if prepared is not None:
            from tilewright.building.prepared import shortlist

            first = shortlist(Path(prepared), task)
        location = os.fspath(db) if db is not None else default_path()
        with Database.open(location) as database:
            location = database.location if "://" in location else location  # without a password
            run = _begin(database, task, place.device, resume, trials, strategy, cost_model, seed, kernel, take_over)
            for w in place.warnings():
                watcher.warning(w)
            try:
                with place.lock(on_wait=lambda holder: watcher.waiting(place.device.name, holder)):
                    return _tune(database, run, place, time_budget, watcher, location, first, stop)
            except BaseException as e:
                state = "interrupted" if isinstance(e, (KeyboardInterrupt, SystemExit)) else "failed"
                why = "stopped" if state == "interrupted" else state
                database.finish_run(run.id, state, {"error": f"{type(e).__name__}: {e}", "ended": {"why": why}})
                raise


def _connected(
    farm: str | os.PathLike[str] | Farm | None, certs: str | os.PathLike[str] | None, watcher: Observer
) -> AbstractContextManager[Farm | None]:
    """The farm to measure on, for the length of a run where it is given by its address."""
    if not isinstance(farm, str | os.PathLike):
        return nullcontext(farm)
    from tilewright.farm.client import Farm as Connection

    return Connection(os.fspath(farm), certs, say=watcher.warning)


def _operator(given: str | Operator | Callable[..., Any]) -> Operator:
    from tilewright.kernels.operator import Operator, operator
    from tilewright.kernels.operator_file import load_operator
    from tilewright.kernels.operators import get_operator

    if isinstance(given, Operator):
        return given
    if isinstance(given, str):
        return load_operator(given) if ":" in given or given.endswith(".py") else get_operator(given)
    return operator(given)


def _begin(
    database: Database,
    task: Task,
    device: Device,
    resume: str | None,
    trials: int | None,
    strategy: str | None,
    cost_model: str | None,
    seed: int | None,
    kernel: UserKernel | None = None,
    take_over: bool = False,
) -> StoredRun:
    from tilewright.tuner import user_kernel

    if resume is not None:
        old = database.run(resume)
        user_kernel.resumed(kernel, old)
        for name, given, stored in (("strategy", strategy, old.strategy), ("seed", seed, old.seed)):
            if given is not None and given != stored:
                raise UsageError(
                    f"run {old.id} has {name} {stored}, not {given}",
                    f"Leave --{name} out, or start a new run",
                )
        wanted = old.trials_wanted if trials is None else trials
        return database.resume_run(old.id, task, device, wanted, take_over=take_over)
    settings: dict[str, Any] = {"cost_model": cost_model or COST_MODEL}
    if kernel is not None:
        settings[user_kernel.SETTING] = kernel.to_json()
    wanted = TRIALS if trials is None else trials
    run_id = database.add_run(task, device, strategy or STRATEGY, seed or 0, wanted, settings)
    return database.run(run_id)


def _tune(
    database: Database,
    run: StoredRun,
    place: Site,
    time_budget: float | None,
    watcher: Observer,
    location: str,
    first: tuple[Schedule, ...],
    stop: threading.Event | None,
) -> TuneResult:
    from tilewright.cost_model import FeatureExtractor
    from tilewright.kernels.templates import task_space
    from tilewright.tuner import user_kernel
    from tilewright.tuner.clock import Clock
    from tilewright.tuner.final import Final
    from tilewright.tuner.recall import recall
    from tilewright.tuner.session import Limits, Session, choice
    from tilewright.tuner.strategies import get_strategy

    clock = Clock()
    # Limits of a target steer schedules and are no part of its identity: this device's count, not a stored run's.
    task = replace(run.task, target=place.target)
    model_name = place.device.model
    kernel = user_kernel.of_run(run)
    templates = user_kernel.templates_of(kernel, task)
    space = task_space(task, templates)
    history = database.trials(run.id)
    with clock.on("recalling"):
        name = str(run.settings.get("cost_model", COST_MODEL))
        model = _cost_model(database, run, FeatureExtractor(task, space=space), name, watcher)
        recalled = recall(database, run.id, task, model_name, space, model)
    initial = (templates[0].default(task), *first, *recalled)
    search = get_strategy(run.strategy)(space, seed=run.seed, cost_model=model, initial=initial)
    watcher.started(run.id, task, len(history), run.trials_wanted, space.size)
    with place.builder() as builder, place.runner() as runner:
        session = Session(
            task=task, run_id=run.id, database=database, strategy=search, builder=builder, runner=runner,
            limits=Limits(run.trials_wanted, time_budget, batch=_batch(run.trials_wanted, place.runners)),
            observer=watcher, history=history, overlap=place.apart, clock=clock, stop=stop or threading.Event(),
        )  # fmt: skip
        interrupted = False
        if kernel is not None and not history:
            with clock.on("probe"):
                user_kernel.probe(kernel, task, builder)
        try:
            session.restore()
            session.search()
        except KeyboardInterrupt:
            if session.best is None:
                raise
            interrupted = True
        interrupted |= session.stop.is_set()
        if interrupted:
            session.ended = "stopped"
        if interrupted:
            watcher.stage("stopping: final between the fastest (again to stop at once)")
        with clock.on("final"):
            peaks = place.peaks(task)
            untried = () if run.trials_wanted else (choice(model, space, initial, run.seed),)
            final = Final(task, run.id, model_name, database, builder, runner, watcher).play(
                session.history, 2 if interrupted else FINALISTS, peaks.flops, untried
            )
        counts = builder.gate_counts()
    result = _result(session, final, place, space.size, location, interrupted, counts, peaks)
    database.finish_run(run.id, "interrupted" if interrupted else "done", result.to_json())
    return result


def _batch(trials: int, runners: int) -> int:
    """Trials proposed at once: few, to learn between them, but enough to keep every runner at work."""
    return max(BATCH, min(BATCH * runners, trials // 8))


def _on_farm(farm: Any, device: str, target: str, threads: int) -> Site:
    from tilewright.tuner.farm_place import farm_places

    places = farm_places(farm, device, target, threads)
    if len(places) > 1:
        raise UsageError("a run is on one device class", "Name one, or use tilewright.tuner.tune_all")
    return places[0]


def _cost_model(
    database: Database, run: StoredRun, features: FeatureExtractor, name: str, watcher: Observer
) -> CostModel:
    """A model of the run's task, which starts from the one that the database holds."""
    from tilewright.cost_model import CostModelError, get_cost_model
    from tilewright.cost_model.transferable import VERSION

    model = get_cost_model(name)(features.task, seed=run.seed, features=features)
    stored = database.load_model(features.task.target.key, str(VERSION))
    if stored is not None:
        try:
            model.load(stored.data)
        except CostModelError as e:
            watcher.warning(f"{e.message}: this run starts from the shipped one")
    return model


def _result(
    session: Session, final: FinalResult, place: Site, space_size: int, location: str, interrupted: bool,
    counts: GateCounts, peaks: Peaks,
) -> TuneResult:  # fmt: skip
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
        device=place.device.name,
        device_model=place.device.model,
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
        ended=session.ended,
        gate=counts.to_json() if counts.seen else None,
        peaks=peaks,
    )
