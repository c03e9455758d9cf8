"""Timing kernels on a device with events: what is decided, and how a batch is queued.

Launches are queued behind a blocker that keeps the device busy meanwhile, so that what the events
enclose is the device's time and not the host's. Every launch takes the next set of operands, so that
none is found in the L2 cache. Short kernels are captured into a graph, which queues all calls of a sample at once:
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

SAMPLE = 150e-6  # seconds that a sample lasts at least: an event adds about a microsecond
MOST_LAUNCHES = 640  # queued behind one blocker: a device's queue holds about a thousand
BUDGET = 0.03  # seconds of device time a trial
SAMPLES = 15
SURE = 5  # samples that are enough where they agree
STEADY = 0.004  # relative interquartile range of samples that agree
WARM_UP = 2e-3  # seconds for which a kernel runs before it counts: clocks, instruction cache
MOST_WARM = 64  # calls for that
ANCHOR_EVERY = 20  # candidates after which the incumbent is timed again
L2_FACTOR = 3  # operand sets are this many times the L2 cache in all
MOST_SETS = 256
LONGEST_BLOCK = 0.2  # seconds
FIRST_COST = 20e-6  # seconds that queueing a launch takes the host, until it is known
MARGIN = 1.5  # of the blocker over the time that queueing took before
HOST_TRIES = 3


MOST_CAPTURED = 640  # launches in a graph
LONGEST_REPLAY = 1.5e-3  # seconds of a graph

Launch = Callable[[int], None]
"""Queues so many calls of a kernel, each on the operand set after the last call's, whichever kernel's that was."""


@dataclass(frozen=True)
class Plan:
    """How many samples to take, how many calls in each, and what a sample queues: its launches and an event."""

    samples: int
    calls: int
    queued: int = 2


def plan(seconds: float, samples: int = SAMPLES, launches: int = 1, budget: float = BUDGET) -> Plan:
    """Samples of a kernel whose calls take about ``seconds`` and queue so many launches: at least three, fewer than
    asked for when they would take more than ``budget`` seconds. Half of a queue, so that a round of two kernels fits,
    lasts :data:`SAMPLE` where a launch takes a microsecond."""
    most = max(1, (MOST_LAUNCHES // 2 - 1) // launches)
    calls = min(most, math.ceil(SAMPLE / max(seconds, 1e-7)))
    many = int(budget / max(seconds * calls, 1e-9))
    return Plan(max(min(FEWEST, samples), min(samples, many)), calls, calls * launches + 1)


def captured(seconds: float, sets: int, launches: int = 1) -> int:
    """Calls in a graph of a kernel whose calls take about ``seconds``: whole turns of the operand sets, so that graphs
    that follow each other find none in the cache, for a sample at least. 0 where launches one by one do as well."""
    alone = plan(seconds, launches=launches)
    calls = sets * math.ceil(SAMPLE / max(seconds, 1e-7) / sets)
    worth = alone.calls > 1 and 2 * calls <= alone.calls * alone.samples and calls * seconds <= LONGEST_REPLAY
    return calls if worth and calls * launches <= MOST_CAPTURED else 0


def replays(seconds: float, calls: int, samples: int = SAMPLES) -> Plan:
    """Samples that are graphs of so many calls. Longer ones are fewer: their calls count, three samples at least."""
    enough = math.ceil(samples * SAMPLE / max(seconds * calls, 1e-9))
    return Plan(max(min(FEWEST, samples), min(samples, enough)), calls)


def rotation(set_bytes: int, l2_bytes: int, room: int, rotate: bool = True) -> int:
    """How many sets of operands to keep: three times the L2 cache in all, within ``room`` bytes."""
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
        """Seconds a call, one figure a sample."""
        return self.interleaved([launch], [wanted], wanted.samples)[0]

    def interleaved(self, launches: Sequence[Launch], plans: Sequence[Plan], rounds: int) -> list[list[float]]:
        """Seconds a call of each kernel in each round. Kernels take turns; every other round runs
        backwards. Raises ``DeviceError``."""
        per_round = sum(p.queued for p in plans)
        out: list[list[float]] = [[] for _ in launches]
        step = max(1, MOST_LAUNCHES // per_round)
        for first in range(0, rounds, step):
            numbers = range(first, min(rounds, first + step))
            for kernel, seconds in self._queued(launches, plans, numbers):
                out[kernel].append(seconds)
        return out

    def _queued(self, launches: Sequence[Launch], plans: Sequence[Plan], rounds: range) -> list[tuple[int, float]]:
        """One synchronisation's worth; taken again where the host did not keep ahead of the device."""
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
