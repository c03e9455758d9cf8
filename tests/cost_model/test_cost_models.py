"""The shipped cost models against the contract."""

from __future__ import annotations

from tilewright.core import Task
from tilewright.cost_model import CostModel, FeatureExtractor
from tilewright.cost_model.random import RandomCostModel
from tilewright.cost_model.roofline import RooflineCostModel
from tilewright.cost_model.xgb import XGBoostCostModel
from tilewright.testing.cost_model import CostModelContract, example_features


class TestXGBoost(CostModelContract):
    def model(self, task: Task, seed: int, features: FeatureExtractor) -> CostModel:
        return XGBoostCostModel(task, seed=seed, features=features, extractor=example_features)


class TestRoofline(CostModelContract):
    learns = False

    def model(self, task: Task, seed: int, features: FeatureExtractor) -> CostModel:
        return RooflineCostModel(task, seed=seed, features=features)


class TestRandom(CostModelContract):
    learns = False

    def model(self, task: Task, seed: int, features: FeatureExtractor) -> CostModel:
        return RandomCostModel(task, seed=seed, features=features)
