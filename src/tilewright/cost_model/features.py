"""Numbers that describe schedules to a cost model: their knobs, their footprint, their static resources.

Knob features are named ``template.knob``; footprint features ``footprint.*`` have the same names and
meaning for every operator, so one model can serve all tasks of a target. Templates add ``static.*``: what else they
know before compiling, such as how far ahead is prefetched, or on a GPU occupancy, waves and traffic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.core import IllegalSchedule, Schedule, Task
from tilewright.search_space import Space

FEATURE_VERSION = 2
"""Stored with saved models. Bump it when a feature changes its meaning."""

Matrix = NDArray[np.float32]
Analysis = Callable[[Schedule], Mapping[str, float]]

CACHE_ROWS = 1 << 15
FOOTPRINT, STATIC = "footprint.", "static."


def footprint_of(task: Task) -> Analysis:
    """The footprint analysis of the task's schedules."""
    from tilewright.kernels.loopnest.footprint import footprint
    from tilewright.kernels.templates import get_template

    def analyse(schedule: Schedule) -> Mapping[str, float]:
        return footprint(get_template(schedule.template).nests(task, schedule), task.target)

    return analyse


def static_of(task: Task) -> Analysis:
    """What the task's templates know of a schedule beside its loops."""
    from tilewright.kernels.templates import get_template

    def analyse(schedule: Schedule) -> Mapping[str, float]:
        return get_template(schedule.template).static(task, schedule)

    return analyse


class FeatureExtractor:
    """Feature rows of a task's schedules, each computed once.

    ``space``, ``analyse`` (the footprint) and ``static`` default to what the task's templates give;
    with an analysis of one's own there is nothing static unless given too.
    """

    def __init__(
        self,
        task: Task,
        *,
        space: Space | None = None,
        analyse: Analysis | None = None,
        static: Analysis | None = None,
    ) -> None:
        if space is None:
            from tilewright.kernels.templates import task_space

            space = task_space(task)
        self.task = task
        self.space = space
        self._static = static or (static_of(task) if analyse is None else None)
        self._analyse = analyse or footprint_of(task)
        self._names: tuple[str, ...] | None = None
        self._analysed: tuple[str, ...] = ()
        self._rows: dict[Schedule, Matrix] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        if self._names is None:
            # Any schedule will do: the names are the same for all.
            self._row(self.space.sample(random.Random(0)))
        assert self._names is not None
        return self._names

    def matrix(self, schedules: Sequence[Schedule]) -> Matrix:
        """One row a schedule, of shape ``(len(schedules), len(names))``.

        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        width = len(self.names)
        out = np.empty((len(schedules), width), np.float32)
        for i, schedule in enumerate(schedules):
            row = self._rows.get(schedule)
            out[i] = self._row(schedule) if row is None else row
        return out

    def knobs(self, schedules: Sequence[Schedule]) -> Matrix:
        """The columns that cost nothing to compute: the first ``len(space.feature_names)`` of the matrix.

        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        width = len(self.space.feature_names)
        return np.array([self.space.encode(s) for s in schedules], np.float32).reshape(-1, width)

    def known(self, schedule: Schedule) -> bool:
        """Whether the schedule has features: it is in the space as it is today."""
        try:
            self._row(schedule)
        except IllegalSchedule:
            return False
        return True

    def _row(self, schedule: Schedule) -> Matrix:
        row = self._rows.get(schedule)
        if row is None:
            analysed = {FOOTPRINT + n: v for n, v in self._analyse(schedule).items()}
            if self._static is not None:
                analysed.update((STATIC + n, v) for n, v in self._static(schedule).items())
            if self._names is None:
                self._analysed = tuple(analysed)
                self._names = (*self.space.feature_names, *analysed)
            row = np.array([*self.space.encode(schedule), *(analysed[n] for n in self._analysed)], np.float32)
            if len(self._rows) >= CACHE_ROWS:
                self._rows.clear()
            self._rows[schedule] = row
        return row


def align(matrix: Matrix, names: Sequence[str], wanted: Sequence[str]) -> Matrix:
    """The columns called ``wanted``, in that order; NaN (unknown) where ``names`` lacks one."""
    if tuple(names) == tuple(wanted):
        return matrix
    at = {n: i for i, n in enumerate(names)}
    out = np.full((len(matrix), len(wanted)), np.nan, np.float32)
    for column, name in enumerate(wanted):
        if name in at:
            out[:, column] = matrix[:, at[name]]
    return out
