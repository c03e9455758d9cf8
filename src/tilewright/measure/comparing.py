"""Finds the fastest variant of a network: the variants run interleaved on the same arguments, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.measure.timing import CONFIDENCE, SESSIONS, median_interval, repeats_for
from tilewright.units import with_unit

SAMPLE_SECONDS = 1e-3
"""Least duration in seconds of a variant's calls within one turn."""
MOST_ROUNDS = 61
BUDGET = 3.0
"""Seconds of timing in total."""

LONGEST_SPIN = 0.2
"""Longest wait in seconds for idle threads: threads of a pool spin after a call (onnxruntime's for about 0.035 s), and
take a core from another pool while they spin."""
LOOK = 2e-3
"""Seconds between two checks whether threads still spin."""

Samples = Mapping[str, Sequence[float]]
"""Seconds of a call in each round, by the name of the variant."""


@dataclass(frozen=True)
class Comparison:
    """``kept``: name of the fastest variant; ``seconds``: the median time of its calls.

    ``ratios``: for each other variant, its seconds over the kept variant's in the same round: the median, and the ends
    of an interval that holds the median with 99% confidence. Above 1 the kept variant is faster.
    """

    kept: str
    seconds: float
    ratios: Mapping[str, tuple[float, float, float]]

    def to_json(self) -> dict[str, Any]:
        return {"kept": self.kept, "seconds": self.seconds, "ratios": {n: list(r) for n, r in self.ratios.items()}}

    def __str__(self) -> str:
        rivals = "; ".join(f"{m:.3f}x faster than {n} ({a:.3f}x to {b:.3f}x)" for n, (m, a, b) in self.ratios.items())
        return f"{self.kept}: {with_unit(self.seconds, 's')} a call, {rivals}"


def compared(samples: Samples) -> Comparison:
    """Choose the variant that no other variant beats by the median of their paired ratios; the first of equals.

    Variants that differ only by noise are equally good, so no interval is tested.
    """
    names = list(samples)
    kept = max(names, key=lambda name: min(statistics.median(_ratios(samples, other, name)) for other in names))
    ratios = {}
    for name in names:
        if name != kept:
            against = _ratios(samples, name, kept)
            ratios[name] = (statistics.median(against), *median_interval(against, CONFIDENCE))
    return Comparison(kept, statistics.median(samples[kept]), ratios)


def _ratios(samples: Samples, one: str, other: str) -> list[float]:
    return [a / b for a, b in zip(samples[one], samples[other], strict=True)]


def in_turns(
    forms: Mapping[str, Callable[[], object]],
    *,
    rounds: int = MOST_ROUNDS,
    budget: float = BUDGET,
    sample: float = SAMPLE_SECONDS,
    fewest: int = SESSIONS,
    clock: Callable[[], float] | None = None,
    wait: Callable[[], object] = lambda: None,
    threads: int = 1,
    after_round: Callable[[], object] = lambda: None,
) -> Samples:
    """Time a call of each variant in ``rounds`` rounds. Each round runs all variants, in a rotating order.

    In each turn a first call is not timed: it finds the caches and the heap as another variant left them.

    ``budget``: seconds beyond which there are fewer rounds, but at least ``fewest``, whose interval has ends.
    ``sample``: least seconds of the calls of one turn. ``clock``: default ``time.perf_counter``. ``wait``: returns when
    the calls so far have ended, on a device that runs asynchronously. ``threads``: of the variants; with several, each
    turn begins when the threads of the last turn have stopped spinning. ``after_round``: called once a round, untimed.
    """
    now = clock or time.perf_counter

    def seconds(call: Callable[[], object], repeats: int) -> float:
        wait()
        start = now()
        for _ in range(repeats):
            call()
        wait()
        return (now() - start) / repeats

    names = list(forms)
    once = {name: [seconds(forms[name], 1) for _ in range(2)][-1] for name in names}  # the first call warms up
    repeats = {name: repeats_for(once[name], sample) for name in names}
    round_seconds = sum(once[name] * (1 + repeats[name]) for name in names)
    rounds = max(min(fewest, rounds), int(min(rounds, budget / max(round_seconds, 1e-9))))
    samples: dict[str, list[float]] = {name: [] for name in names}
    for r in range(rounds):
        for k in range(len(names)):
            name = names[(r + k) % len(names)]
            if threads > 1:
                _until_idle()
            forms[name]()
            samples[name].append(seconds(forms[name], repeats[name]))
        after_round()
    return samples


def _until_idle() -> None:
    """Return when no thread of this process is busy, at the latest after :data:`LONGEST_SPIN`."""
    until = time.monotonic() + LONGEST_SPIN
    while time.monotonic() < until:
        before = time.process_time()
        time.sleep(LOOK)
        if time.process_time() - before < LOOK / 4:
            return
