"""What a cost model is: it learns from trials which schedules are likely to be fast."""

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

    What :meth:`predict` answers depends on the seed, on what it was made with and on the records that it was given,
    never on how often or in which steps they arrived: strategies rely on it to be reproducible.
    """

    def update(self, records: Sequence[TrialRecord]) -> None:
        """Learn from every trial of this run so far, failures included.

        A later call replaces an earlier one. Records of schedules that are not in the task's space (an older
        template) are skipped. Cheap; fitting may wait for :meth:`predict`.
        """
        ...

    def recall(self, records: Sequence[TrialRecord], task: Task) -> None:
        """Learn also from the trials of an earlier run, of this model's task or of another: only within a run do
        times compare."""
        ...

    def load(self, data: bytes) -> None:
        """Start from a trained model of all tasks (:class:`~tilewright.cost_model.transfer.TransferModel`) instead of
        the shipped one. Raises ``CostModelError`` for one that does not fit."""
        ...

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        """Finite scores, one a schedule, higher is better; estimates of ``-log(seconds)`` once :attr:`calibrated`.
        Works before any update."""
        ...

    @property
    def calibrated(self) -> bool:
        """Whether scores are on the scale of this run's times, so that they may be stored beside them."""
        ...

    def screen(self, schedules: Sequence[Schedule]) -> Scores:
        """The same at a few microseconds a schedule, so rougher; all zero if there is no opinion.

        The search breeds thousands of schedules with this and asks :meth:`predict` about the best.
        """
        ...


class Stateless:
    """Base of models that learn nothing."""

    calibrated = False

    def update(self, records: Sequence[TrialRecord]) -> None:
        """Nothing to learn."""

    def recall(self, records: Sequence[TrialRecord], task: Task) -> None:
        """Nothing to learn."""

    def load(self, data: bytes) -> None:
        """Nothing to start from."""

    def screen(self, schedules: Sequence[Schedule]) -> Scores:
        return np.zeros(len(schedules))
