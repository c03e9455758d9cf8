"""What the tuner asks of whatever measures for it: a device of this machine, a farm, a recording."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from tilewright.closing import Closing
from tilewright.core import Artifact, Candidate, Device, Failure, Outcome, Target, Task
from tilewright.kernels.ranges import at, varying

if TYPE_CHECKING:
    from tilewright.backends import Peaks
    from tilewright.building.builder import Builder
    from tilewright.measure.timing import PairedComparison

Item = tuple[Candidate, Artifact]

OnWait = Callable[[str], None]
"""Called with a line on who holds the device."""


class Runner(Closing, ABC):
    """Checks and times kernels; :class:`~tilewright.measure.runner.LocalRunner` says what each method does."""

    @abstractmethod
    def submit(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> Future[list[Outcome]]: ...
    def run(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> list[Outcome]:
        """``submit`` and wait."""
        return self.submit(task, items, incumbent, pairs).result()

    @abstractmethod
    def verify(self, task: Task, item: Item) -> Failure | None: ...
    @abstractmethod
    def compare(self, task: Task, challenger: Item, champion: Item, pairs: int = 31) -> PairedComparison: ...


class Site(Protocol):
    """Where a run measures; :class:`~tilewright.measure.places.Place` says what each part means."""

    @property
    def target(self) -> Target: ...
    @property
    def device(self) -> Device: ...
    @property
    def apart(self) -> bool: ...
    @property
    def emulated(self) -> bool: ...
    @property
    def runners(self) -> int: ...

    def lock(self, on_wait: OnWait) -> AbstractContextManager[object]: ...
    def warnings(self) -> list[str]: ...
    def builder(self) -> Builder: ...
    def runner(self) -> Runner: ...
    def peaks(self, task: Task) -> Peaks: ...


CHECKED = 5
"""Sizes at which a kernel of a range is checked."""


def at_size(task: Task, items: Sequence[Item], size: int | None = None) -> tuple[Task, list[Item]]:
    """Kernels that take their size, as those of one size: the greatest unless given. Others as they are."""
    extent = varying(task.workload)
    if extent is None:
        return task, list(items)
    chosen = extent.high if size is None else size
    one = Task(at(task.workload, chosen), task.target)
    return one, [(Candidate(one, c.schedule.at(extent, chosen)), artifact) for c, artifact in items]
