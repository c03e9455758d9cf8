"""Settings of all tuning functions, for one task or several."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.core import UsageError
from tilewright.paths import default_path
from tilewright.plugins import name_of

if TYPE_CHECKING:
    from tilewright.cost_model import CostModelFactory
    from tilewright.database import Database
    from tilewright.farm.client import Farm
    from tilewright.measure.measuring import MeasurementTarget
    from tilewright.tuner.strategies import StrategyFactory


@dataclass(frozen=True)
class TuneSettings:
    """Settings of a search: its limits, where it measures, how it searches and where it stores. The functions that tune
    take each field as a keyword.

    ``trials``: largest number of trials, failed ones included. 0 builds, checks, times and stores the one schedule that
    the cost model chooses.
    ``time_budget``: seconds for searches and finals together. ``until_converged``: the search ends once the
    expected improvement of further trials is below the noise. Several tasks share both limits.
    ``target``: ``cpu``, ``cuda`` or a variant of either. ``device``: cores (``cpu:0-1``), a GPU
    (``cuda:0``), or ``emulator``, which runs CUDA kernels on this processor for development: its times mean
    nothing, and its kernels are never served.
    ``strategy`` and ``cost_model``: a name, ``module:class``, or a class of yours that can be imported by its name.
    ``seed``: equal seeds and equal results give equal proposals. ``db``: a path or URL.
    ``farm``: measure on a device farm instead, ``tls://HOST:PORT`` or a :class:`~tilewright.farm.client.Farm`;
    ``certs`` is its folder of certificates and ``device`` a device class of it.
    ``stop``: ends the search when it is set, as Ctrl-C does.

    Raises ``UsageError`` for limits below zero, a time budget that is not a number above 0, and an unknown strategy
    or cost model.
    """

    trials: int | None = None
    time_budget: float | None = None
    until_converged: bool = False
    target: str = "auto"
    device: str = "auto"
    strategy: str | StrategyFactory | None = None
    cost_model: str | CostModelFactory | None = None
    seed: int | None = None
    db: str | os.PathLike[str] | None = None
    farm: str | os.PathLike[str] | Farm | None = None
    certs: str | os.PathLike[str] | None = None
    stop: threading.Event | None = None

    def __post_init__(self) -> None:
        if self.trials is not None:
            require_whole("trials", self.trials, 0)
        if self.time_budget is not None and not self.time_budget > 0:
            raise UsageError(f"time_budget={self.time_budget!r} is not possible", "Write a number of seconds above 0")
        self.method()

    @property
    def unlimited(self) -> bool:
        """Whether neither trials nor seconds are given."""
        return self.trials is None and self.time_budget is None

    def method(self) -> tuple[str | None, str | None]:
        """Names of the strategy and the cost model, as stored with a run. Raises ``UsageError``."""
        strategy = cost_model = None
        if self.strategy is not None:
            from tilewright.tuner.strategies import STRATEGIES, get_strategy

            strategy = name_of(self.strategy, STRATEGIES)
            get_strategy(strategy)
        if self.cost_model is not None:
            from tilewright.cost_model import COST_MODELS, get_cost_model

            cost_model = name_of(self.cost_model, COST_MODELS)
            get_cost_model(cost_model)
        return strategy, cost_model

    @property
    def location(self) -> str:
        """The path or URL of the database."""
        return os.fspath(self.db) if self.db is not None else default_path()

    def database(self) -> Database:
        """Open the database for results. Raises ``DatabaseError``."""
        from tilewright.database import Database

        return Database.open(self.location)

    def connected(self, say: Callable[[str], None]) -> AbstractContextManager[Farm | None]:
        """The farm to measure on, or ``None``. An address is connected for the duration of the run."""
        if not isinstance(self.farm, str | os.PathLike):
            return nullcontext(self.farm)
        from tilewright.farm.client import Farm

        return Farm(os.fspath(self.farm), self.certs, say=say)

    def place(self, connection: Farm | None, threads: int) -> MeasurementTarget:
        """Return the measurement target with ``threads`` threads: this machine, or the farm's device class ``device``.

        Raises ``UsageError`` or ``TargetUnavailable`` without a matching device, and for several device classes.
        """
        require_whole("threads", threads, 1)
        if connection is None:
            from tilewright.measure.local_target import find_local_target

            return find_local_target(self.target, self.device, threads)
        from tilewright.tuner.farm_target import farm_targets

        places = farm_targets(connection, self.device, self.target, threads)
        if len(places) > 1:
            raise UsageError("a run measures on one device class", "Name one, or use tilewright.tuner.tune_all")
        return places[0]


DEFAULTS = TuneSettings()


def require_whole(name: str, value: object, least: int) -> None:
    """Raise ``UsageError`` if ``value`` is not a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}={value!r} is not possible", f"Write a whole number of at least {least}")
