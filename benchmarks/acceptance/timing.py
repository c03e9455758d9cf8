"""Samples of calls, what the GPU's clock was meanwhile, and what a time means.

On the GPU every side runs the same rotated operand sets in CUDA graphs, so that none pays for Python. On the emulator
times are the clock's on the wall, and mean nothing.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from acceptance.operands import Call, Operands, size_of
from acceptance.world import World
from tilewright.core import Task, Workload

Timer = Callable[[], float]
"""Seconds a call, one sample."""

SAMPLE = 2e-3
"""Seconds that a sample takes at least, about."""
MOST_LAUNCHES = 400
SAMPLES = 9
"""For a median or a ratio, at least."""
MOST_SAMPLES = 201
LOOK = 0.01
"""Seconds between two looks at the clock."""


def timer(operands: Operands, call: Call) -> Timer:
    """Samples of a call; what a library chooses at its first call is chosen here."""
    if operands.world.emulated:
        call(0)
        return lambda: _wall(call, operands.sets)
    torch = operands.torch
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call(0)
        start.record(side)
        for i in range(operands.sets):
            call(i)
        stop.record(side)
    side.synchronize()
    once = max(float(start.elapsed_time(stop)) / 1e3 / operands.sets, 1e-6)
    launches = max(operands.sets, min(MOST_LAUNCHES, int(SAMPLE / once)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            call(i % operands.sets)

    def sample() -> float:
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1e3 / launches

    return sample


def _wall(call: Call, sets: int) -> float:
    began = time.perf_counter()
    for i in range(sets):
        call(i)
    return (time.perf_counter() - began) / sets


def in_turns(timers: Sequence[Timer], seconds: float, least: int = SAMPLES) -> list[list[float]]:
    """Samples of each side, interleaved, their order alternating, for about ``seconds``; the first rounds warm up."""
    for _ in range(2):
        for side in timers:
            side()
    samples: list[list[float]] = [[] for _ in timers]
    end = time.monotonic() + seconds
    while len(samples[0]) < least or (time.monotonic() < end and len(samples[0]) < MOST_SAMPLES):
        sides = list(zip(timers, samples, strict=True))
        for side, found in sides[:: -1 if len(samples[0]) % 2 else 1]:
            found.append(side())
    return samples


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Median of the ratios and its 95% confidence interval by order statistics."""
    ordered = sorted(ratios)
    n = len(ordered)
    half = 0.98 * n**0.5
    low, high = max(0, int(n / 2 - half)), min(n - 1, int(n / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


@contextmanager
def watched(world: World) -> Iterator[dict[str, Any]]:
    """Clocks, temperature and power meanwhile (medians), and all that held the clocks down. Empty until the end, and on
    the emulator."""
    during: dict[str, Any] = {}
    seen: list[dict[str, Any]] = []
    over = threading.Event()

    def look() -> None:
        while True:
            seen.append(world.state())
            if over.wait(LOOK):
                return

    if world.emulated:
        yield during
        return
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield during
    finally:
        over.set()
        thread.join()
        for name in ("sm_hz", "memory_hz", "temperature_c", "power_w"):
            if values := [s[name] for s in seen if name in s]:
                during[name] = statistics.median(values)
        during["slowed_by"] = sorted({reason for s in seen for reason in s["slowed_by"]})
        during["looks"] = len(seen)


def operations(workload: Workload) -> float:
    """Operations that a call needs: of causal attention, those on keys that a query sees."""
    sizes = dict(workload.params)
    if not sizes.get("is_causal"):
        return float(workload.flops)
    queries, keys = int(sizes["lq"]), int(sizes["lk"])
    return workload.flops * sum(min(i + 1, keys) for i in range(queries)) / (queries * keys)


def speed(world: World, task: Task, seconds: float, during: dict[str, Any]) -> dict[str, Any]:
    """A time as a rate of what bounds the operator, arithmetic or memory, and as a share of that peak: as stated, for
    the highest clock, and at the clock of the samples."""
    peaks = world.place.peaks(task)
    flops, moved = operations(task.workload), float(size_of(task.workload))
    by_memory = bool(peaks.flops and peaks.bandwidth and moved / peaks.bandwidth > flops / peaks.flops)
    rate, peak = (moved if by_memory else flops) / seconds, peaks.bandwidth if by_memory else peaks.flops
    share = rate / peak if peak else None
    clock, highest = during.get("sm_hz"), float(task.target.limit.get("clock_hz", 0))
    at_clock = share if by_memory or not (share and clock and highest) else share * highest / clock
    return {
        "rate": rate, "unit": "bytes/s" if by_memory else "operations/s", "share": share, "share_at_clock": at_clock,
        "during": during,
    }  # fmt: skip
