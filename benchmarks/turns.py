"""Calls timed in turns, and what their times say: what the benchmarks of whole networks share."""

from __future__ import annotations

import ctypes
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from suite import geomean
from tilewright.measure import comparing
from tilewright.measure.timing import median_interval

SAMPLE = 5e-3
"""Seconds that a sample lasts at least."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of ``mallopt``: free bytes at the heap's end, and bytes of one piece, that go back to the system."""

FEWEST = 9
"""Rounds whose interval has ends."""

Ratio = list[float]
"""A median with the interval that holds the population's."""


def keep_heap() -> None:
    """Have the heap keep what is freed (glibc's ``mallopt``): otherwise large results cost page faults in every call or
    in none, by what else lies in the heap. Other C libraries are left as they are."""
    with suppress(OSError, AttributeError):
        own = ctypes.CDLL(None)
        for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            own.mallopt(parameter, 1 << 30)


def in_turns(
    calls: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    budget: float = math.inf,
    threads: int = 1,
) -> Mapping[str, Sequence[float]]:
    """Seconds of a call, by name and round, as ``tilewright.measure.comparing.in_turns`` takes them, in samples of
    :data:`SAMPLE` seconds; ``budget``: seconds beyond which rounds become fewer, down to :data:`FEWEST`. ``threads``:
    of the calls."""
    return comparing.in_turns(
        calls, rounds=rounds, budget=budget, sample=SAMPLE, fewest=FEWEST, clock=clock, threads=threads
    )


def compared(times: Mapping[str, Sequence[float]], ours: str = "tilewright") -> dict[str, object]:
    """Median seconds of each, and of every rival the ratio of its time to ours in the same round."""
    ratios: dict[str, Ratio] = {}
    for name, theirs in times.items():
        if name != ours:
            each = [b / a for a, b in zip(times[ours], theirs, strict=True)]
            ratios[name] = [statistics.median(each), *median_interval(each)]
    return {"seconds": {n: statistics.median(t) for n, t in times.items()}, "ratios": ratios}


def shown(ratio: Ratio | None, digits: int = 2) -> str:
    """A ratio with its interval, to so many decimals; no more than the ratio where too few rounds bound it."""
    if ratio is None:
        return "-"
    middle, low, high = (f"{r:.{digits}f}" for r in ratio)
    return f"{middle} ({low} to {high})" if ratio[1] else middle


def summary(ratios: Sequence[Ratio], what: str) -> str:
    """The geometric mean of ratios, and how many are clearly above and below 1."""
    faster, slower = sum(r[1] > 1 for r in ratios), sum(r[2] < 1 for r in ratios)
    return (
        f"Beside {what}: geometric mean **{geomean([r[0] for r in ratios]):.2f}** of {len(ratios)}; "
        f"{faster} clearly faster, {slower} clearly slower."
    )
