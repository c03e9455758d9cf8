"""Features of schedules for cost models: knobs, footprint and static features.

Knob features are named ``template.knob`` and have a meaning in their task alone. Footprint features ``footprint.*``
have the same names for every operator. Templates add ``static.*``: further facts known before compilation, such as the
prefetch distance, or on a GPU occupancy, waves and traffic. Footprint and static features together give the features
that are comparable between tasks (:mod:`~tilewright.cost_model.transferable`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.caching import cached_property
from tilewright.core import IllegalSchedule, Schedule, Task
from tilewright.cost_model.bound import least_cycles
from tilewright.cost_model.transferable import transferable
from tilewright.kernels.loopnest.footprint import footprint
from tilewright.kernels.templates import get_template, task_space
from tilewright.search_space import Space

Matrix = NDArray[np.float32]
Analysis = Callable[[Schedule], Mapping[str, float]]

CACHE_ROWS = 1 << 15
FOOTPRINT, STATIC, BESIDE = "footprint.", "static.", "beside."
LEAST = "least_cycles"
"""Name of the static feature of CUDA schedules that holds a lower bound of their clocks (:mod:`.bound`)."""


def footprint_of(task: Task) -> Analysis:
    """The footprint analysis of the task's schedules."""

    def analyse(schedule: Schedule) -> Mapping[str, float]:
        return footprint(get_template(schedule.template).nests(task, schedule), task.target)

    return analyse


def static_of(task: Task) -> Analysis:
    """Static features of the task's schedules from their templates; for CUDA also the lower bound of their clocks."""

    def analyse(schedule: Schedule) -> Mapping[str, float]:
        known = get_template(schedule.template).static(task, schedule)
        least = least_cycles(task, known)
        return known if least is None else {**known, LEAST: least}

    return analyse


class FeatureExtractor:
    """Feature rows of a task's schedules, each computed once.

    ``space``, ``analyse`` (the footprint) and ``static`` default to those of the task's templates. A custom ``analyse``
    has no static features unless ``static`` is given, and no default schedule for comparison.
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
            space = task_space(task)
        self.task = task
        self.space = space
        self._static = static or (static_of(task) if analyse is None else None)
        self._of_templates = analyse is None
        self._analyse = analyse or footprint_of(task)
        self._rows: dict[Schedule, tuple[Matrix, Matrix]] = {}

    @cached_property
    def _columns(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Names of footprint, static and transferable features, the last of all templates. Any schedule serves as a
        sample: all schedules of a template have the same names."""
        rng = random.Random(0)
        footprint: tuple[str, ...] = ()
        static: tuple[str, ...] = ()
        shared: dict[str, None] = {}
        for space in self.space.live:
            known, more = self._analysed(space.sample(rng))
            footprint, static = tuple(known), tuple(more)
            shared.update(dict.fromkeys(transferable(self.task, known, more)))
        return footprint, static, tuple(shared)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names of :meth:`matrix`, in order."""
        footprint, static, _ = self._columns
        return (*self.space.feature_names, *(FOOTPRINT + n for n in footprint), *(STATIC + n for n in static))

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Column names of :meth:`shared`, in order: the features, then their differences from the default schedule."""
        return (*self._columns[2], *(BESIDE + n for n in self._columns[2]))

    @cached_property
    def _beside(self) -> Matrix:
        """Transferable features of the first template's default schedule; NaN without a default schedule."""
        names = self._columns[2]
        if not self._of_templates:
            return np.full(len(names), np.nan, np.float32)
        default = get_template(self.space.live[0].template).default(self.task)
        return self._shared_row(*self._analysed(default))

    def _shared_row(self, footprint: Mapping[str, float], static: Mapping[str, float]) -> Matrix:
        means = transferable(self.task, footprint, static)
        return np.array([means.get(n, math.nan) for n in self._columns[2]], np.float32)

    def matrix(self, schedules: Sequence[Schedule]) -> Matrix:
        """Return one row per schedule, of shape ``(len(schedules), len(names))``.

        Raises ``IllegalSchedule`` for a schedule outside the space.
        """
        rows = [self._row(s)[0] for s in schedules]
        return np.array(rows, np.float32).reshape(len(rows), len(self.names))

    def shared(self, schedules: Sequence[Schedule]) -> Matrix:
        """Return the transferable features, of shape ``(len(schedules), len(shared_names))``.

        Raises ``IllegalSchedule`` for a schedule outside the space.
        """
        rows = [self._row(s)[1] for s in schedules]
        return np.array(rows, np.float32).reshape(len(rows), len(self.shared_names))

    def knobs(self, schedules: Sequence[Schedule]) -> Matrix:
        """Return the columns that are cheap to compute: the first ``len(space.feature_names)`` of the matrix.

        Raises ``IllegalSchedule`` for a schedule outside the space.
        """
        width = len(self.space.feature_names)
        return np.array([self.space.encode(s) for s in schedules], np.float32).reshape(-1, width)

    def footprint(self, schedule: Schedule) -> dict[str, float]:
        """Return the footprint features of a schedule by name. Raises ``IllegalSchedule`` as :meth:`matrix` does."""
        names = self._columns[0]
        start = len(self.space.feature_names)
        return dict(zip(names, map(float, self._row(schedule)[0][start : start + len(names)]), strict=True))

    def known(self, schedule: Schedule) -> bool:
        """Whether the schedule has features: today's space contains it."""
        try:
            self._row(schedule)
        except IllegalSchedule:
            return False
        return True

    def _analysed(self, schedule: Schedule) -> tuple[Mapping[str, float], Mapping[str, float]]:
        return self._analyse(schedule), self._static(schedule) if self._static is not None else {}

    def _row(self, schedule: Schedule) -> tuple[Matrix, Matrix]:
        row = self._rows.get(schedule)
        if row is None:
            knobs = self.space.encode(schedule)
            footprint, static, _ = self._columns
            known, more = self._analysed(schedule)
            own = [*knobs, *(known[n] for n in footprint), *(more[n] for n in static)]
            here = self._shared_row(known, more)
            row = np.array(own, np.float32), np.concatenate([here, here - self._beside])
            if len(self._rows) >= CACHE_ROWS:
                self._rows.clear()
            self._rows[schedule] = row
        return row


def align(matrix: Matrix, names: Sequence[str], wanted: Sequence[str]) -> Matrix:
    """The columns ``wanted``, in that order; NaN for a column that ``names`` lacks."""
    if tuple(names) == tuple(wanted):
        return matrix
    at = {n: i for i, n in enumerate(names)}
    out = np.full((len(matrix), len(wanted)), np.nan, np.float32)
    for column, name in enumerate(wanted):
        if name in at:
            out[:, column] = matrix[:, at[name]]
    return out
