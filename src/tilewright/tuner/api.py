"""``tilewright.tune``: everything a run needs, put together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core import Schedule, Task, UsageError, Value
from tilewright.paths import default_path
from tilewright.plugins import name_of
from tilewright.tuner.observer import Observer
from tilewright.tuner.progress import watching
from tilewright.tuner.result import TuneResult, drift_note

if TYPE_CHECKING:
    from tilewright.core import Device, Workload
    from tilewright.cost_model import CostModelFactory
    from tilewright.database import Database, StoredRun
    from tilewright.farm.client import Farm
    from tilewright.kernels.operator import Operator
    from tilewright.kernels.templates.user_kernel import UserKernel
    from tilewright.measure.measuring import Site
    from tilewright.tuner.strategies import StrategyFactory

TRIALS = 200
STRATEGY = "evolutionary"


def tune(
    operator: str | Operator | UserKernel | Callable[..., Any],
    *,
    trials: int | None = None,
    target: str = "auto",
    threads: int = 1,
    device: str = "auto",
    time_budget: float | None = None,
    until_converged: bool = False,
    strategy: str | StrategyFactory | None = None,
    cost_model: str | CostModelFactory | None = None,
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
    all, failures included (without ``time_budget`` either: 200 at the most, and ``until_converged``); 0: the cost
    model's choice is built, checked, timed and stored. ``resume``: a run's
    identifier or ``last``, to go on with it up to ``trials``; it keeps its strategy and seed. ``take_over``: also one
    that is stored as running on another host,
    whose process cannot be seen from here. ``time_budget``: seconds for search and final together.
    ``until_converged``: the search ends once further trials are expected to gain less than noise. ``db``: a path or
    URL. ``prepared``: a folder that ``tilewright prepare`` wrote; its shortlist is tried first, without compiling.
    ``target``: ``cpu``, ``cuda`` or a variant of either. ``device``: cores (``cpu:0-1``), a GPU
    (``cuda:0``), or ``emulator``, which runs CUDA kernels on this processor for development: its times mean
    nothing, and what wins there is never served.
    ``farm``: measure on a device farm instead, ``tls://HOST:PORT`` or a :class:`~tilewright.farm.client.Farm`;
    ``certs`` is its folder of certificates and ``device`` a device class of it (:func:`tune_all` takes several).
    ``strategy`` and ``cost_model``: a name, ``module:class``, or a class of yours that can be imported by its name.
    ``stop``: ends the search when it is set, as Ctrl-C does. ``observer``: what is told how the run goes; without one
    a bar shows it on a terminal and in a notebook, and the logger ``tilewright.tuner`` is told everywhere.

    Ctrl-C ends the search, keeps what was measured and still holds the final; a second one stops at
    once (``KeyboardInterrupt``). Raises ``UsageError``, ``TargetUnavailable``, ``OperatorError`` or
    ``DatabaseError`` before anything is measured.
    """
    from tilewright.database import Database
    from tilewright.kernels.templates.user_kernel import UserKernel
    from tilewright.tuner import user_kernel
    from tilewright.tuner.budget import Budget
    from tilewright.tuner.tuning import Tools, Tuning, fail

    check_limits(trials, time_budget, threads)
    until_converged |= trials is None and time_budget is None and resume is None
    strategy, cost_model = method(strategy, cost_model)
    kernel = operator if isinstance(operator, UserKernel) else None
    computes = operator.operator if isinstance(operator, UserKernel) else operator_of(operator)
    computes.check_names(sizes, tuple(tune.__kwdefaults__ or ()))
    workload = computes.workload(**{**(params or {}), **sizes})
    wanted = kernel.target(target) if kernel else target
    no_range(workload, "tilewright.tune_range")
    with watching(observer) as watcher, connected(farm, certs, watcher.warning) as connection:
        place = place_for(connection, wanted, device, threads)
        task = Task(workload, place.target)
        if kernel is not None:
            user_kernel.fit(kernel, task)
        first: tuple[Schedule, ...] = ()
        if prepared is not None:
            from tilewright.building.prepared import shortlist

            first = shortlist(Path(prepared), task)
        with Database.open(os.fspath(db) if db is not None else default_path()) as database:
            run = begin(database, task, place.device, resume, trials, strategy, cost_model, seed, kernel, take_over)
            for w in place.warnings():
                watcher.warning(w)
            try:
                with place.lock(on_wait=lambda holder: watcher.waiting(place.device.name, holder)):
                    budget = None if time_budget is None else Budget(time_budget)
                    with place.builder() as builder, place.runner() as runner:
                        tuning = Tuning(
                            database, run, Tools(place, builder, runner), watcher, budget=budget,
                            until_converged=until_converged, first=first, stop=stop,
                        )  # fmt: skip
                        tuning.search()
                        result = tuning.finish()
                note = drift_note([result])
                if note is not None:
                    watcher.warning(note)
                return result
            except BaseException as e:
                fail(database, run, e)
                raise


def method(
    strategy: str | StrategyFactory | None, cost_model: str | CostModelFactory | None
) -> tuple[str | None, str | None]:
    """The names of a strategy and a cost model, which a run is stored with. Raises ``UsageError`` for unknown ones."""
    from tilewright.cost_model import COST_MODELS, get_cost_model
    from tilewright.tuner.strategies import STRATEGIES, get_strategy

    names = (
        None if strategy is None else name_of(strategy, STRATEGIES),
        None if cost_model is None else name_of(cost_model, COST_MODELS),
    )
    if names[0] is not None:
        get_strategy(names[0])
    if names[1] is not None:
        get_cost_model(names[1])
    return names


def no_range(workload: Workload, instead: str) -> None:
    """Raise ``UsageError`` for a workload of which a size is a range."""
    for extent in workload.ranges.values():
        raise UsageError(f"{extent!r} is a range, and a run is of fixed sizes", f"Use {instead}")


def check_limits(trials: int | None, time_budget: float | None, threads: int) -> None:
    """Raise ``UsageError`` for a limit that is none."""
    whole = {"trials": (trials, 0), "threads": (threads, 1)}
    for name, (value, least) in whole.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise UsageError(f"{name}={value!r} is not possible", f"Give a whole number of at least {least}")
    if time_budget is not None and not time_budget > 0:
        raise UsageError(f"time_budget={time_budget!r} is not possible", "Give seconds, more than 0")


def connected(
    farm: str | os.PathLike[str] | Farm | None, certs: str | os.PathLike[str] | None, say: Callable[[str], None]
) -> AbstractContextManager[Farm | None]:
    """The farm to measure on, for the length of a run where it is given by its address."""
    if not isinstance(farm, str | os.PathLike):
        return nullcontext(farm)
    from tilewright.farm.client import Farm as Connection

    return Connection(os.fspath(farm), certs, say=say)


def operator_of(given: str | Operator | Callable[..., Any]) -> Operator:
    from tilewright.kernels.operator import Operator, operator
    from tilewright.kernels.operator_file import load_operator
    from tilewright.kernels.operators import get_operator

    if isinstance(given, Operator):
        return given
    if isinstance(given, str):
        return load_operator(given) if ":" in given or given.endswith(".py") else get_operator(given)
    return operator(given)


def begin(
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
    """A new run, or one that goes on. Raises ``UsageError`` where it cannot."""
    from tilewright.tuner import user_kernel
    from tilewright.tuner.tuning import COST_MODEL

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


def place_for(connection: Farm | None, target: str, device: str, threads: int) -> Site:
    """Where to measure: on this machine, or on the one device class of a farm that ``device`` names."""
    if connection is None:
        from tilewright.measure.places import find_place

        return find_place(target, device, threads)
    from tilewright.tuner.farm_place import farm_places

    places = farm_places(connection, device, target, threads)
    if len(places) > 1:
        raise UsageError("a run is on one device class", "Name one, or use tilewright.tuner.tune_all")
    return places[0]
