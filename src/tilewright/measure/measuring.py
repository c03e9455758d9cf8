"""Interfaces between the tuner and its measurement targets: a local device, a farm, a recording."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from tilewright.closing import Closing
from tilewright.core import Artifact, Candidate, Device, Extent, Failure, Outcome, Target, Task, TilewrightError
from tilewright.extent import Sizes, greatest
from tilewright.kernels.ranges import at
from tilewright.size_ranges import spread

if TYPE_CHECKING:
    from tilewright.backends import Peaks
    from tilewright.building.builder import Builder
    from tilewright.measure.timing import PairedComparison

Item = tuple[Candidate, Artifact]

OnWait = Callable[[str], None]
"""Called with a text on who holds the device."""


class Runner(Closing, ABC):
    """Checks and times kernels; :class:`~tilewright.measure.runner.LocalRunner` documents each method."""

    @abstractmethod
    def submit(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> Future[list[Outcome]]: ...
    def run(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> list[Outcome]:
        """Call ``submit`` and wait for the outcomes."""
        return self.submit(task, items, incumbent, pairs).result()

    @abstractmethod
    def verify(self, task: Task, item: Item) -> Failure | None: ...
    @abstractmethod
    def compare(self, task: Task, challenger: Item, champion: Item, sessions: int = 8) -> PairedComparison: ...


class MeasurementTarget(Protocol):
    """A measurement target of a run; :class:`~tilewright.measure.local_target.LocalTarget` documents each member."""

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
"""Number of evenly spaced sizes of a range with checks on every input set; each other size uses one set in rotation."""

LARGEST_BLOCK = 64
"""Largest block size in rows for which every remainder is checked: larger blocks consist of smaller blocks."""


def checked_sizes(low: int, high: int, blocks: Iterable[int]) -> list[int]:
    """Sizes from ``low`` to ``high`` at which a kernel of a range is checked.

    They include both ends, and powers of two with their neighbours and the prime before each. For each block size up to
    ``LARGEST_BLOCK`` rows they include every remainder, once after few blocks and once after at least ``block`` blocks.
    For a larger block they include its size and both neighbours. Remainders are taken at the least sizes, where checks
    are cheapest.
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


def checked_points(candidate: Candidate) -> tuple[Sequence[Sizes], Sequence[Sizes]]:
    """Sizes at which a kernel of ranges is checked: on every input set, and on a single set.

    For one range, the first list has its ends and sizes between them, the second its :func:`checked_sizes`. For several
    ranges, the first list has all combinations of their ends. In the second list each range goes through its checked
    sizes from a different start, every other range in reverse. So the total cost is about that of middle sizes.
    """
    ranges, blocks = candidate.task.workload.ranges, blocks_of(candidate)
    few = {n: spread(e.low, e.high, ENDS) for n, e in ranges.items()}
    sizes = {n: sorted({*few[n], *checked_sizes(e.low, e.high, blocks[n])}) for n, e in ranges.items()}
    if len(ranges) == 1:
        ((name, known),) = sizes.items()
        return [{name: n} for n in few[name]], [{name: n} for n in known]
    corners = itertools.product(*((e.low, e.high) for e in ranges.values()))
    walks = []
    for k, known in enumerate(sizes.values()):
        start = k // 2 * len(known) // len(sizes)
        walks.append([*known[start:], *known[:start]][:: -1 if k % 2 else 1])
    others: list[Sizes] = [
        {name: walk[turn % len(walk)] for name, walk in zip(sizes, walks, strict=True)}
        for turn in range(max(map(len, walks)))
    ]
    return [dict(zip(ranges, c, strict=True)) for c in corners], others


def blocks_of(candidate: Candidate) -> dict[str, set[int]]:
    """Periods of each range: numbers of sizes after which the remainder of a kernel's block repeats.

    If the template does not describe its loops, the periods are the integers of its schedule.
    """
    from tilewright.kernels.templates import get_template

    task, schedule = candidate.task, candidate.schedule
    try:
        nests = get_template(schedule.template).nests(task, schedule)
    except TilewrightError:
        numbers = {int(v) for v in schedule.values.values() if isinstance(v, int)}
        return dict.fromkeys(task.workload.ranges, numbers)
    found: dict[str, set[int]] = {n: set() for n in task.workload.ranges}
    for nest in nests:
        for x in nest.loops:
            extent: int = nest.axes[x.axis]
            if isinstance(extent, Extent):
                step = x.step // math.gcd(x.step, extent.unit if extent.simple else 1)
                for name in extent.spans:
                    found[name].add(step)
    return found


def at_sizes(task: Task, items: Sequence[Item], sizes: Sizes | None = None) -> tuple[Task, list[Item]]:
    """Kernels with symbolic sizes, bound to ``sizes`` (default: the greatest). Other kernels stay as they are."""
    ranges = task.workload.ranges
    if not ranges:
        return task, list(items)
    chosen = greatest(ranges) if sizes is None else sizes
    one = replace(task, workload=at(task.workload, chosen))
    return one, [(Candidate(one, c.schedule.at(chosen)), artifact) for c, artifact in items]
