"""Search strategies. To add one: a file here, and a line in ``STRATEGIES`` (docs/howto/strategy.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tilewright.core import Schedule
from tilewright.cost_model.base import CostModel
from tilewright.plugins import find
from tilewright.search_space import Space
from tilewright.tuner.strategies.base import Strategy
from tilewright.tuner.strategies.evolutionary import EvolutionaryStrategy
from tilewright.tuner.strategies.grid import GridStrategy
from tilewright.tuner.strategies.optuna_samplers import (
    CMAESStrategy,
    GPStrategy,
    OptunaStrategy,
    QMCStrategy,
    RandomSamplerStrategy,
    TPEStrategy,
)
from tilewright.tuner.strategies.random import RandomStrategy


class StrategyFactory(Protocol):
    """Makes a strategy; ``initial`` schedules are proposed before any other schedule."""

    def __call__(
        self,
        space: Space,
        *,
        seed: int = 0,
        cost_model: CostModel | None = None,
        initial: Sequence[Schedule] = (),
    ) -> Strategy: ...


STRATEGIES: dict[str, StrategyFactory] = {
    "evolutionary": EvolutionaryStrategy,
    "random": RandomStrategy,
    "grid": GridStrategy,
    "optuna-tpe": TPEStrategy,
    "optuna-cmaes": CMAESStrategy,
    "optuna-gp": GPStrategy,
    "optuna-qmc": QMCStrategy,
    "optuna-random": RandomSamplerStrategy,
}


def get_strategy(name: str) -> StrategyFactory:
    """Return the strategy with this name, or at ``module:class``.

    Raises ``UsageError`` for an unknown strategy, and for an Optuna strategy whose packages are not installed.
    """
    factory: StrategyFactory = STRATEGIES.get(name) or find("strategies", name, STRATEGIES)
    if isinstance(factory, type) and issubclass(factory, OptunaStrategy):
        factory.require()
    return factory


__all__ = ["STRATEGIES", "Strategy", "StrategyFactory", "get_strategy"]
