"""The default search finds faster schedules than random search at equal trials.

The times are made up, but from the real footprints of real spaces, with rates, interactions and noise
that no model is told, so the model starts untrained: the shipped one knows processors. What the search does on measured
times: benchmarks/search/replay.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy  # its parts are imported when they are used

from tilewright.core import Measurement, Schedule, Target, Task, TrialRecord
from tilewright.cost_model import FeatureExtractor
from tilewright.cost_model.xgb import XGBoostCostModel
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import task_space
from tilewright.testing.strategy import record
from tilewright.tuner.strategies import Strategy, get_strategy

TARGET = Target("cpu", "avx512", "x86_64", ("avx2", "avx512f", "fma"), 64, 32)
TASKS = {
    "matmul": {"m": 512, "n": 512, "k": 512},
    "conv2d": {"n": 1, "ci": 64, "h": 28, "w": 28, "co": 64, "kh": 3, "kw": 3},
}


class Machine:
    """Seconds of a schedule: what its footprint costs, a quirk per structure, and noise."""

    def __init__(self, op: str) -> None:
        self.task = Task(get_operator(op).workload(**TASKS[op]), TARGET)
        self.features = FeatureExtractor(self.task)
        self.at = {n: i for i, n in enumerate(self.features.names)}

    def seconds(self, schedule: Schedule) -> float:
        row = self.features.matrix([schedule])[0]

        def f(name: str) -> float:
            return float(row[self.at[f"footprint.{name}"]])

        cycles = f("flops") / (4 * max(f("vector.length") * f("vector.useful"), 1.0)) / f("block.useful")
        cycles *= 1 + 3 * max(0.0, f("block.pressure") - 1) + 1.5 / math.sqrt(f("block.registers"))
        cycles += f("bytes.l1") / 96 + f("bytes.l2") / 24 + f("bytes.l3") / 10 + f("bytes.staged") / 6
        cycles += 2 * f("iterations") + 25 * f("overhead")
        quirk = int(schedule.structure_key[:4], 16) / 16**4
        noise = int(schedule.key[:4], 16) / 16**4
        return cycles / 4e9 * (1 + 0.08 * quirk) * (1 + 0.02 * noise)

    def run(self, strategy: Strategy, trials: int, batch: int = 8) -> float:
        """The best time found; batches overlap as in a real run."""
        history: list[TrialRecord] = []
        pending: list[Schedule] = []
        while len(history) < trials:
            wanted = min(batch, trials - len(history) - len(pending))
            ahead = strategy.suggest(wanted, history, pending)
            history += [
                record(len(history) + i, s, Measurement(self.seconds(s), 0.01, 5)) for i, s in enumerate(pending)
            ]
            pending = [p.schedule for p in ahead]
        return min(r.seconds or math.inf for r in history)

    def compare(self, seeds: int, trials: int) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of the best times of the default search and of random search, by seed."""
        space = task_space(self.task)
        ours, random = [], []
        for seed in range(seeds):
            model = XGBoostCostModel(self.task, seed=seed, features=self.features, untrained=True)
            ours.append(self.run(get_strategy("evolutionary")(space, seed=seed, cost_model=model), trials))
            random.append(self.run(get_strategy("random")(space, seed=seed), trials))
        return np.log(ours), np.log(random)


@pytest.mark.parametrize("op", TASKS)
def test_search_beats_random_search(op: str) -> None:
    ours, random = Machine(op).compare(seeds=3, trials=64)
    assert (ours < random).sum() >= 2
    assert np.median(random - ours) > 0.03


@pytest.mark.nightly
@pytest.mark.parametrize("op", TASKS)
def test_search_beats_random_search_significantly(op: str) -> None:
    for trials in (48, 128):
        ours, random = Machine(op).compare(seeds=20, trials=trials)
        assert scipy.stats.wilcoxon(ours, random, alternative="less").pvalue < 1e-3
        assert (ours < random).mean() >= 0.8
