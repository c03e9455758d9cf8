"""``tilewright.tune``: connects the settings, the measurement target, the tools and the search of one run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core import Schedule, Task, UsageError, Value
from tilewright.tuner.observer import Observer
from tilewright.tuner.progress import watching
from tilewright.tuner.result import TuneResult, drift_note
from tilewright.tuner.settings import TuneSettings

if TYPE_CHECKING:
    from tilewright.core import Device, Workload
    from tilewright.cost_model import CostModelFactory
    from tilewright.database import Database, StoredRun
    from tilewright.farm.client import Farm
    from tilewright.kernels.operator import Operator
    from tilewright.kernels.templates.user_kernel import UserKernel
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

    ``operator``: a name, ``FILE.py:function``, an operator made by ``@tilewright.operator``, or a kernel of yours
    (:func:`tilewright.own_kernel`). Its parameters are keywords, or stand in ``params``. ``threads``: number of threads
    of a CPU kernel. ``resume``: the identifier of a run to continue up to ``trials``, or ``last``; the run keeps its
    strategy and seed. ``take_over``: continue a run also if it is stored as running on another host, whose process
    cannot be seen from here. ``prepared``: a folder that ``tilewright prepare`` wrote; its shortlist is tried first,
    without compiling. ``observer``: an object that receives the run's progress; by default a bar shows the progress on
    a terminal and in a notebook. The logger ``tilewright.tuner`` receives the progress in any case. The other keywords
    are the fields of :class:`~tilewright.tuner.TuneSettings`. Without ``trials`` and ``time_budget`` the run makes at
    most 200 trials, and fewer if the expected improvement of more trials is below the noise.
    :func:`~tilewright.tuner.tune_all` tunes on several device classes of a farm.

    Ctrl-C ends the search, keeps all trials, and still runs the final. A second Ctrl-C stops at
    once (``KeyboardInterrupt``). Raises ``UsageError``, ``TargetUnavailable``, ``OperatorError`` or
    ``DatabaseError`` before anything is measured.
    """
    from tilewright.kernels.templates.user_kernel import UserKernel
    from tilewright.tuner import user_kernel
    from tilewright.tuner.budget import Budget
    from tilewright.tuner.tuning import Tools, Tuning, fail

    settings = TuneSettings(
        trials, time_budget, until_converged, target, device, strategy, cost_model, seed, db, farm, certs, stop
    )
    kernel = operator if isinstance(operator, UserKernel) else None
    computes = operator.operator if isinstance(operator, UserKernel) else operator_of(operator)
    computes.check_names(sizes, tuple(tune.__kwdefaults__ or ()))
    workload = computes.workload(**{**(params or {}), **sizes})
    if kernel is not None:
        settings = replace(settings, target=kernel.target(target))
    no_range(workload, "tilewright.tune_range")
    with watching(observer) as watcher, settings.connected(watcher.warning) as connection:
        place = settings.place(connection, threads)
        task = Task(workload, place.target)
        if kernel is not None:
            user_kernel.fit(kernel, task)
        first: tuple[Schedule, ...] = ()
        if prepared is not None:
            from tilewright.building.prepared import shortlist

            first = shortlist(Path(prepared), task)
        with settings.database() as database:
            run = begin(database, task, place.device, settings, resume, kernel, take_over, computes.file)
            for w in place.warnings():
                watcher.warning(w)
            try:
                with place.lock(on_wait=lambda holder: watcher.waiting(place.device.name, holder)):
                    budget = None if time_budget is None else Budget(time_budget)
                    with place.builder() as builder, place.runner() as runner:
                        tuning = Tuning(
                            database, run, Tools(place, builder, runner), watcher, budget=budget,
                            until_converged=until_converged or (settings.unlimited and resume is None), first=first,
                            stop=stop,
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


def no_range(workload: Workload, instead: str) -> None:
    """Raise ``UsageError`` for a workload with a symbolic size (a range)."""
    for extent in workload.ranges.values():
        raise UsageError(f"{extent!r} is a range, but a run needs fixed sizes", f"Use {instead}")


def operator_of(given: str | Operator | Callable[..., Any]) -> Operator:
    from tilewright.kernels.operator import Operator, operator
    from tilewright.kernels.operators import get_operator

    if isinstance(given, Operator):
        return given
    return get_operator(given) if isinstance(given, str) else operator(given)


def begin(
    database: Database,
    task: Task,
    device: Device,
    settings: TuneSettings,
    resume: str | None = None,
    kernel: UserKernel | None = None,
    take_over: bool = False,
    file: str | None = None,
) -> StoredRun:
    """Store a new run, or resume the stored run ``resume``. Raises ``UsageError`` if the run cannot be resumed.

    ``file``: the ``FILE.py:function`` by which the operator was named, for commands that repeat the run.
    """
    from tilewright.tuner import user_kernel
    from tilewright.tuner.strategies import get_strategy
    from tilewright.tuner.tuning import COST_MODEL

    strategy, cost_model = settings.method()
    if resume is not None:
        old = database.run(resume)
        user_kernel.resumed(kernel, old)
        get_strategy(old.strategy)  # a strategy that cannot run leaves the stored run as it is
        for name, given, known in (("strategy", strategy, old.strategy), ("seed", settings.seed, old.seed)):
            if given is not None and given != known:
                raise UsageError(
                    f"run {old.id} has {name} {known}, not {given}",
                    f"Remove --{name}, or start a new run",
                )
        wanted = old.trials_wanted if settings.trials is None else settings.trials
        return database.resume_run(old.id, task, device, wanted, take_over=take_over)
    stored: dict[str, Any] = {"cost_model": cost_model or COST_MODEL}
    if kernel is not None:
        stored[user_kernel.SETTING] = kernel.to_json()
    if file is not None:
        stored["operator"] = file
    wanted = TRIALS if settings.trials is None else settings.trials
    run_id = database.add_run(task, device, strategy or STRATEGY, settings.seed or 0, wanted, stored)
    return database.run(run_id)
