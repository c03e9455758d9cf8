"""Times kernels on a device with events: sampling plans, and how a batch is queued.

Launches are queued behind a blocker kernel that keeps the device busy, so that events enclose only the
device's time, not the host's. Every launch uses the next set of operands, so that no operand is in the
L2 cache. Short kernels are captured into a graph, which queues all calls of a sample at once:
launching them one by one takes the host far longer than they take the device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.measure.timing import FEWEST

if TYPE_CHECKING:
    from tilewright.backends.driver import Context, Event

SAMPLE = 150e-6  # least seconds of a sample: an event adds about a microsecond
MOST_LAUNCHES = 640  # largest number queued behind one blocker: a device's queue holds about a thousand
BUDGET = 0.03  # seconds of device time per trial
SAMPLES = 15
SURE = 5  # number of samples that is enough if they agree
STEADY = 0.004  # largest relative interquartile range of samples that agree
WARM_UP = 2e-3  # seconds that a kernel runs before it is timed: clocks, instruction cache
MOST_WARM = 64  # largest number of warm-up calls
RETIME_EVERY = 20  # number of candidates after which the incumbent is timed again
L2_FACTOR = 3  # total size of the operand sets, in L2 cache sizes
MOST_SETS = 256
LONGEST_BLOCK = 0.2  # seconds
FIRST_COST = 20e-6  # assumed seconds of host time to queue a launch, until it is measured
MARGIN = 1.5  # ratio of the blocker's duration to the last queueing time
HOST_TRIES = 3


MOST_CAPTURED = 640  # largest number of launches in a graph
LONGEST_REPLAY = 1.5e-3  # longest duration of a graph in seconds

Launch = Callable[[int], None]
"""Queues the given number of calls of a kernel. Each call takes the operand set after that of the last call."""


@dataclass(frozen=True)
class Plan:
    """Number of samples, of calls in each sample, and of entries that a sample queues: launches and an event."""

    samples: int
    calls: int
    queued: int = 2


def plan(seconds: float, samples: int = SAMPLES, launches: int = 1, budget: float = BUDGET) -> Plan:
    """Plan for a kernel with about ``seconds`` and ``launches`` per call: at least three samples, and fewer than
    ``samples`` if those would exceed ``budget`` seconds. A sample takes at most half of the queue, so that a round of
    two kernels fits. That half lasts :data:`SAMPLE` if a launch takes a microsecond."""
    most = max(1, (MOST_LAUNCHES // 2 - 1) // launches)
    calls = min(most, math.ceil(SAMPLE / max(seconds, 1e-7)))
    many = int(budget / max(seconds * calls, 1e-9))
    return Plan(max(min(FEWEST, samples), min(samples, many)), calls, calls * launches + 1)


def captured(seconds: float, sets: int, launches: int = 1) -> int:
    """Number of calls in a graph for a kernel with about ``seconds`` per call. The calls go through all operand sets a
    whole number of times, so that successive graphs find no operand in the cache. They last at least one sample. 0 if
    single launches are as good."""
    alone = plan(seconds, launches=launches)
    calls = sets * math.ceil(SAMPLE / max(seconds, 1e-7) / sets)
    worth = alone.calls > 1 and 2 * calls <= alone.calls * alone.samples and calls * seconds <= LONGEST_REPLAY
    return calls if worth and calls * launches <= MOST_CAPTURED else 0


def replays(seconds: float, calls: int, samples: int = SAMPLES) -> Plan:
    """Plan for samples that are graphs of ``calls`` calls. Long graphs need fewer samples, but at least three."""
    enough = math.ceil(samples * SAMPLE / max(seconds * calls, 1e-9))
    return Plan(max(min(FEWEST, samples), min(samples, enough)), calls)


def rotation(set_bytes: int, l2_bytes: int, room: int, rotate: bool = True) -> int:
    """Number of operand sets: three times the L2 cache in total, within ``room`` bytes."""
    if not rotate:
        return 1
    wanted = math.ceil(L2_FACTOR * l2_bytes / max(set_bytes, 1))
    return max(1, min(MOST_SETS, wanted, room // max(set_bytes, 1)))


class Stopwatch:
    """Times queued work on one device."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._events: list[Event] = []
        self._cost = FIRST_COST

    def samples(self, launch: Launch, wanted: Plan) -> list[float]:
        """Seconds per call, one value per sample."""
        return self.interleaved([launch], [wanted], wanted.samples)[0]

    def interleaved(self, launches: Sequence[Launch], plans: Sequence[Plan], rounds: int) -> list[list[float]]:
        """Seconds per call of each kernel in each round. The kernels are interleaved, and every other round
        runs in reverse order. Raises ``DeviceError``."""
        per_round = sum(p.queued for p in plans)
        out: list[list[float]] = [[] for _ in launches]
        step = max(1, MOST_LAUNCHES // per_round)
        for first in range(0, rounds, step):
            numbers = range(first, min(rounds, first + step))
            for kernel, seconds in self._queued(launches, plans, numbers):
                out[kernel].append(seconds)
        return out

    def _queued(self, launches: Sequence[Launch], plans: Sequence[Plan], rounds: range) -> list[tuple[int, float]]:
        """Time as many rounds as one synchronisation covers; repeat if queueing fell behind the device."""
        total = len(rounds) * sum(p.queued for p in plans)
        counts = [p.calls for p in plans]
        while len(self._events) <= len(rounds) * len(counts):
            self._events.append(self.context.event())
        for last in range(HOST_TRIES):
            block = min(LONGEST_BLOCK, MARGIN * self._cost * total)
            self.context.busy(block)
            began = time.perf_counter()
            marks = self._queue(launches, counts, rounds)
            spent = time.perf_counter() - began
            self.context.synchronize()
            self._cost = max(0.9 * self._cost, spent / total)
            if spent <= block or block >= LONGEST_BLOCK or last == HOST_TRIES - 1:
                break
        return [
            (kernel, self.context.elapsed(self._events[n], self._events[n + 1]) / counts[kernel])
            for n, kernel in enumerate(marks)
        ]

    def _queue(self, launches: Sequence[Launch], counts: Sequence[int], rounds: range) -> list[int]:
        order: list[int] = []
        self._events[0].record()
        for r in rounds:
            turn = range(len(launches))
            for kernel in turn if r % 2 == 0 else reversed(turn):
                launches[kernel](counts[kernel])
                order.append(kernel)
                self._events[len(order)].record()
        return order
