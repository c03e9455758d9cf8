"""The default cost model: a model of all tasks, corrected by this task's trials (XGBoost).

A score has up to three parts. The *base* uses features that are comparable between tasks: a shipped or retrained
transfer model, or the analytic prior without one. Its weight depends on how well it predicted this task's trials so
far. The *own* trees know the task's knobs and learn the base's error. The *quick* trees know only the knobs, which cost
nothing to compute, to screen thousands of schedules. Earlier runs of this task train both kinds of trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.core import Schedule, Task, TrialRecord
from tilewright.cost_model.base import CostModel, Scores
from tilewright.cost_model.features import FeatureExtractor, Matrix
from tilewright.cost_model.gpu_prior import analytic_prior
from tilewright.cost_model.pairs import TEMPERATURE, Floats, Pairs, calibrate, train
from tilewright.cost_model.transfer import Run, TransferModel, learned, shipped, usable
from tilewright.cost_model.trees import Trees, xgboost_folder

ROUNDS = 40
MOST_OTHER = 96
"""Largest number of trials used from another task's run: their features must be computed first."""
REFIT, SHARE = 4, 8
"""Number of new trials before the model is fitted again: ``REFIT``, or one per ``SHARE`` known trials if that is more.
Each new trial then matters less, and fitting takes longer."""
TRUST = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""Candidate factors for the base's scores."""
LEANING = 6.0
"""Strength of the prior that the factor is 1, in trials."""


class XGBoostCostModel:
    """Ranks schedules by boosted trees; see the module's docstring.

    ``transfer``: a model of all tasks; by default the one shipped for the task's kind of target, none with
    ``untrained``. ``prior`` replaces a missing ``transfer``. ``extractor`` makes the features of other tasks.
    """

    def __init__(
        self,
        task: Task,
        *,
        seed: int = 0,
        features: FeatureExtractor | None = None,
        transfer: TransferModel | None = None,
        untrained: bool = False,
        prior: CostModel | None = None,
        extractor: Callable[[Task], FeatureExtractor] = FeatureExtractor,
    ) -> None:
        xgboost_folder()
        self.task = task
        self.seed = seed
        self.features = features or FeatureExtractor(task)
        self.prior = prior or analytic_prior(task, self.features)
        self._given = transfer or (None if untrained else shipped(task.target.kind))
        self._transfer = self._given
        self._extractor = extractor
        self._records: list[TrialRecord] = []
        self._earlier: list[_Learned] = []
        self._others: list[Run] = []
        self._stale = False
        self._fitted: tuple[int, str] | None = None
        self._trust, self._scale, self._timed = 1.0, (TEMPERATURE, 0.0), False
        self._own: Trees | None = None
        self._quick: Trees | None = None

    # ------------------------------------------------------------------ learning

    def update(self, records: Sequence[TrialRecord]) -> None:
        self._records = list(records)

    def recall(self, records: Sequence[TrialRecord], task: Task) -> None:
        if task.key == self.task.key:
            found = usable(self.features, records)
            if found is not None:
                self._earlier.append(_Learned(*found, self.features))
        else:
            run = learned(self._extractor(task), records, MOST_OTHER)
            if run is not None:
                self._others.append(run)
                self._stale = True
        self._fitted = None

    def load(self, data: bytes) -> None:
        self._given = self._transfer = TransferModel.load(data)
        self._stale, self._fitted = bool(self._others), None
        self._rebase()

    def _rebase(self) -> None:
        for r in self._earlier:
            r.base = None

    def _refresh(self) -> None:
        if self._stale:
            self._transfer = TransferModel.trained(self._others, self.seed, self._given)
            self._stale = False
            self._rebase()
        count = fitted(len(self._records))
        mark = (count, self._records[count - 1].schedule.key if count else "")
        if mark == self._fitted:
            return
        self._fitted = mark
        self._own, self._quick, self._timed = None, None, False
        self._trust, self._scale = 1.0, (TEMPERATURE, 0.0)
        timed = usable(self.features, self._records[:count])
        runs = [*self._earlier, *([_Learned(*timed, self.features)] if timed else [])]
        if not runs:
            return
        for r in runs:
            if r.base is None:
                r.base = self._base(r.schedules)
        bases = [r.base for r in runs if r.base is not None]
        self._trust = _trust([(r.pairs, b) for r, b in zip(runs, bases, strict=True)])
        if ROUNDS:
            own = train([(r.matrix, r.pairs) for r in runs], ROUNDS, self.seed, [self._trust * b for b in bases])
            quick = train([(r.knobs, r.pairs) for r in runs], ROUNDS, self.seed)
            self._own, self._quick = Trees.of(own), Trees.of(quick)
        if timed:
            self._scale, self._timed = calibrate(self._raw(timed[0]), timed[1].speeds), True

    # ------------------------------------------------------------------ answering

    @property
    def calibrated(self) -> bool:
        self._refresh()
        return self._timed

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        self._refresh()
        if not schedules:
            return np.zeros(0)
        factor, offset = self._scale
        return factor * self._raw(schedules) + offset

    def screen(self, schedules: Sequence[Schedule]) -> Scores:
        self._refresh()
        if self._quick is None or not schedules:
            return np.zeros(len(schedules))
        return self._quick.scores(self.features.knobs(schedules))

    def _base(self, schedules: Sequence[Schedule]) -> Floats:
        if self._transfer is None:
            return self.prior.predict(schedules) / TEMPERATURE
        return self._transfer.scores(self.features.shared_names, self.features.shared(schedules))

    def _raw(self, schedules: Sequence[Schedule]) -> Floats:
        base = self._trust * self._base(schedules)
        return base if self._own is None else base + self._own.scores(self.features.matrix(schedules))


def fitted(trials: int) -> int:
    """Number of the first ``trials`` trials that the cost model's last refit included."""
    count = 0
    while (more := count + max(REFIT, count // SHARE)) <= trials:
        count = more
    return count


class _Learned:
    """A run of this task: its schedules, their features, and the pairs of its trials."""

    def __init__(self, schedules: list[Schedule], pairs: Pairs, features: FeatureExtractor) -> None:
        self.schedules, self.pairs = schedules, pairs
        self.base: Floats | None = None
        self.matrix: Matrix = features.matrix(schedules)
        self.knobs: Matrix = self.matrix[:, : len(features.space.feature_names)]


def _trust(judged: Sequence[tuple[Pairs, Floats]]) -> float:
    """Factor of the base's scores that explains the pairs best, with a prior towards 1 while pairs are few."""

    def cost(by: float) -> float:
        return sum(len(b) * p.loss(by * b) for p, b in judged) + LEANING * (by - 1.0) ** 2

    return min(TRUST, key=cost)
