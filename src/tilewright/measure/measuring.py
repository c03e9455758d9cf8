"""What the tuner asks of whatever measures for it: a device of this machine, a farm, a recording."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from tilewright.closing import Closing
from tilewright.core import Artifact, Candidate, Device, Extent, Failure, Outcome, Target, Task, TilewrightError
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
    def compare(self, task: Task, challenger: Item, champion: Item, sessions: int = 8) -> PairedComparison: ...


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


ENDS = 3
"""Evenly spaced sizes of a range at which a kernel is checked on every input set; at others on one set, in turns."""

LARGEST_BLOCK = 64
"""Rows of a block of which every remainder is checked, at most: larger blocks are made of smaller ones."""


def checked_sizes(low: int, high: int, blocks: Iterable[int]) -> list[int]:
    """Sizes from ``low`` to ``high`` at which a kernel of a range is checked.

    They are both ends; powers of two, their neighbours and the prime before them; and for each of the given numbers of
    rows of a block every remainder, behind few blocks and behind at least as many as a block has rows. Of blocks of
    more than ``LARGEST_BLOCK`` rows they are the sizes of one, and next to it. Remainders are taken at the least sizes,
    which cost least.
    """
    found = {low, low + 1, high - 1, high}
    for power in (1 << k for k in range(high.bit_length() + 1)):
        prime = next((n for n in range(power - 2, 1, -1) if all(n % d for d in range(2, math.isqrt(n) + 1))), low)
        found |= {power - 1, power, power + 1, prime}
    for block in set(blocks):
        if block > LARGEST_BLOCK:
            found |= {block - 1, block, block + 1}
            continue
        for start in {low, max(low, block * block)}:
            found |= set(range(start, start + block))
    return sorted(n for n in found if low <= n <= high)


def blocks_of(candidate: Candidate) -> set[int]:
    """How many sizes of its range a kernel has before the remainders of one of its blocks come again.

    Where its template does not describe its loops: the numbers of its schedule.
    """
    from tilewright.kernels.templates import get_template

    task, schedule = candidate.task, candidate.schedule
    try:
        nests = get_template(schedule.template).nests(task, schedule)
    except TilewrightError:
        return {int(v) for v in schedule.values.values() if isinstance(v, int)}
    chosen = [(nest.axes[x.axis], x.step) for nest in nests for x in nest.loops]
    return {step // math.gcd(step, n.unit) for n, step in chosen if isinstance(n, Extent)}


def at_size(task: Task, items: Sequence[Item], size: int | None = None) -> tuple[Task, list[Item]]:
    """Kernels that take their size, as those of one size: the greatest unless given. Others as they are."""
    extent = varying(task.workload)
    if extent is None:
        return task, list(items)
    chosen = extent.high if size is None else size
    one = Task(at(task.workload, chosen), task.target)
    return one, [(Candidate(one, c.schedule.at(extent, chosen)), artifact) for c, artifact in items]
