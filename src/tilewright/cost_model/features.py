"""Numbers that describe schedules to a cost model: their knobs, their footprint, their static resources.

Knob features are named ``template.knob`` and mean something in their task alone. Footprint features ``footprint.*``
have the same names for every operator. Templates add ``static.*``: what else they know before compiling, such as how
far ahead is prefetched, or on a GPU occupancy, waves and traffic. From the latter two come the features by which tasks
are compared (:mod:`~tilewright.cost_model.transferable`).
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
"""Name of the static feature of CUDA schedules that says how many clocks they take at the least (:mod:`.bound`)."""


def footprint_of(task: Task) -> Analysis:
    """The footprint analysis of the task's schedules."""

    def analyse(schedule: Schedule) -> Mapping[str, float]:
        return footprint(get_template(schedule.template).nests(task, schedule), task.target)

    return analyse


def static_of(task: Task) -> Analysis:
    """What the task's templates know of a schedule beside its loops, and of CUDA's what follows for its time."""

    def analyse(schedule: Schedule) -> Mapping[str, float]:
        known = get_template(schedule.template).static(task, schedule)
        least = least_cycles(task, known)
        return known if least is None else {**known, LEAST: least}

    return analyse


class FeatureExtractor:
    """Feature rows of a task's schedules, each computed once.

    ``space``, ``analyse`` (the footprint) and ``static`` default to what the task's templates give;
    with an analysis of one's own there is nothing static unless given too, and no default schedule to be beside.
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
        """Names of what is analysed and of what is transferable, the latter of all templates. Any schedule will do:
        the names are the same for all of a template."""
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
        """Column names of :meth:`shared`, in order: of the features, and of how far each is from the default's."""
        return (*self._columns[2], *(BESIDE + n for n in self._columns[2]))

    @cached_property
    def _beside(self) -> Matrix:
        """The shared features of the first template's default schedule; unknown where there is none."""
        names = self._columns[2]
        if not self._of_templates:
            return np.full(len(names), np.nan, np.float32)
        default = get_template(self.space.live[0].template).default(self.task)
        return self._shared_row(*self._analysed(default))

    def _shared_row(self, footprint: Mapping[str, float], static: Mapping[str, float]) -> Matrix:
        means = transferable(self.task, footprint, static)
        return np.array([means.get(n, math.nan) for n in self._columns[2]], np.float32)

    def matrix(self, schedules: Sequence[Schedule]) -> Matrix:
        """One row a schedule, of shape ``(len(schedules), len(names))``.

        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        rows = [self._row(s)[0] for s in schedules]
        return np.array(rows, np.float32).reshape(len(rows), len(self.names))

    def shared(self, schedules: Sequence[Schedule]) -> Matrix:
        """What means the same for other tasks, of shape ``(len(schedules), len(shared_names))``.

        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        rows = [self._row(s)[1] for s in schedules]
        return np.array(rows, np.float32).reshape(len(rows), len(self.shared_names))

    def knobs(self, schedules: Sequence[Schedule]) -> Matrix:
        """The columns that cost nothing to compute: the first ``len(space.feature_names)`` of the matrix.

        Raises ``IllegalSchedule`` for a schedule that is not in the space.
        """
        width = len(self.space.feature_names)
        return np.array([self.space.encode(s) for s in schedules], np.float32).reshape(-1, width)

    def footprint(self, schedule: Schedule) -> dict[str, float]:
        """What is known of a schedule's loops, by name. Raises ``IllegalSchedule`` as :meth:`matrix` does."""
        names = self._columns[0]
        start = len(self.space.feature_names)
        return dict(zip(names, map(float, self._row(schedule)[0][start : start + len(names)]), strict=True))

    def known(self, schedule: Schedule) -> bool:
        """Whether the schedule has features: it is in the space as it is today."""
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
    """The columns called ``wanted``, in that order; where ``names`` lacks one it is unknown (NaN)."""
    if tuple(names) == tuple(wanted):
        return matrix
    at = {n: i for i, n in enumerate(names)}
    out = np.full((len(matrix), len(wanted)), np.nan, np.float32)
    for column, name in enumerate(wanted):
        if name in at:
            out[:, column] = matrix[:, at[name]]
    return out
