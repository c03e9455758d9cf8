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

    What :meth:`predict` answers depends on the seed, on what was loaded and on the records of the
    latest updates, never on how often or in which steps they arrived: strategies rely on it to be
    reproducible.
    """

    def update(self, records: Sequence[TrialRecord], task: Task | None = None) -> None:
        """Learn from every trial so far, failures included, of this model's task or of ``task``.

        A later call for the same task replaces the earlier one. Records of schedules that are not in
        the task's space (an older template) are skipped. Cheap; fitting may wait for ``predict``.
        """
        ...

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        """Finite scores, one a schedule, higher is better; an estimate of ``-log(seconds)`` where the
        model can tell. Works before any update."""
        ...

    def screen(self, schedules: Sequence[Schedule]) -> Scores:
        """The same at a few microseconds a schedule, so rougher; all zero if there is no opinion.

        The search breeds thousands of schedules with this and asks :meth:`predict` about the best.
        """
        ...

    def save(self) -> bytes:
        """What was learned that helps other tasks of the target (``b""``: nothing)."""
        ...

    def load(self, data: bytes) -> None:
        """Start from what :meth:`save` gave. Raises ``CostModelError`` if it does not fit."""
        ...


class Stateless:
    """Base of models that learn nothing."""

    def update(self, records: Sequence[TrialRecord], task: Task | None = None) -> None:
        """Nothing to learn."""

    def screen(self, schedules: Sequence[Schedule]) -> Scores:
        return np.zeros(len(schedules))

    def save(self) -> bytes:
        return b""

    def load(self, data: bytes) -> None:
        if data:
            raise CostModelError("this cost model learns nothing, so nothing can be loaded into it")
