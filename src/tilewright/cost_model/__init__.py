"""Cost models. To add one: a file here, and a line in ``COST_MODELS`` (docs/howto/cost_model.md)."""

from __future__ import annotations

from typing import Protocol

from tilewright.core import Task
from tilewright.cost_model.base import CostModel, CostModelError
from tilewright.cost_model.features import FeatureExtractor
from tilewright.cost_model.gpu_prior import GpuPrior
from tilewright.cost_model.random import RandomCostModel
from tilewright.cost_model.roofline import RooflineCostModel
from tilewright.cost_model.xgb import XGBoostCostModel
from tilewright.plugins import find


class CostModelFactory(Protocol):
    """Makes a cost model of one task; ``features`` defaults to those of the task's templates."""

    def __call__(self, task: Task, *, seed: int = 0, features: FeatureExtractor | None = None) -> CostModel: ...


COST_MODELS: dict[str, CostModelFactory] = {
    "xgboost": XGBoostCostModel,
    "roofline": RooflineCostModel,
    "random": RandomCostModel,
    "gpu": GpuPrior,
}


def get_cost_model(name: str) -> CostModelFactory:
    """Return the cost model with this name, or at ``module:class``. Raises ``UsageError`` for an unknown name."""
    factory: CostModelFactory = COST_MODELS.get(name) or find("cost_models", name, COST_MODELS)
    return factory


__all__ = [
    "COST_MODELS",
    "CostModel",
    "CostModelError",
    "CostModelFactory",
    "FeatureExtractor",
    "get_cost_model",
]
