"""The interface of cost models, which learn from trials to predict which schedules are fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.core import Schedule, Task, TilewrightError, TrialRecord

Scores = NDArray[np.float64]


class CostModelError(TilewrightError):
    """A cost model cannot be made, loaded or trained."""

    kind = "cost_model"


class CostModel(Protocol):
    """Ranks the schedules of one task.

    The answers of :meth:`predict` depend on the seed, the constructor's arguments and the given records alone, not on
    the number or size of updates: strategies rely on this to be reproducible.
    """

    def update(self, records: Sequence[TrialRecord]) -> None:
        """Learn from every trial of this run so far, failures included.

        A later call replaces an earlier one. Records of schedules outside the task's space (an older
        template) are skipped. The call is cheap; fitting may wait for :meth:`predict`.
        """
        ...

    def recall(self, records: Sequence[TrialRecord], task: Task) -> None:
        """Learn also from the trials of an earlier run, of this model's task or another. Times are comparable only
        within a run."""
        ...

    def load(self, data: bytes) -> None:
        """Start from a trained model of all tasks (:class:`~tilewright.cost_model.transfer.TransferModel`) instead of
        the shipped one. Raises ``CostModelError`` for an unusable model."""
        ...

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        """Return a finite score per schedule, higher is better; estimates of ``-log(seconds)`` once :attr:`calibrated`.
        Works before any update."""
        ...

    @property
    def calibrated(self) -> bool:
        """Whether scores are on the scale of this run's times, so that they may be stored with the trials."""
        ...

    def screen(self, schedules: Sequence[Schedule]) -> Scores:
        """Like :meth:`predict`, but rougher, at a few microseconds per schedule; all zero without an opinion.

        The search screens thousands of schedules with it and calls :meth:`predict` for the best.
        """
        ...


class Stateless:
    """Base of models that do not learn."""

    calibrated = False

    def update(self, records: Sequence[TrialRecord]) -> None:
        """Do nothing: the model does not learn."""

    def recall(self, records: Sequence[TrialRecord], task: Task) -> None:
        """Do nothing: the model does not learn."""

    def load(self, data: bytes) -> None:
        """Do nothing: the model does not learn."""

    def screen(self, schedules: Sequence[Schedule]) -> Scores:
        return np.zeros(len(schedules))
