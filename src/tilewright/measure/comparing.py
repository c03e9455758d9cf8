"""Which of several forms of a network is the fastest: they take turns on the same arguments, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.measure.timing import CONFIDENCE, SESSIONS, median_interval, repeats_for
from tilewright.units import with_unit

SAMPLE_SECONDS = 1e-3
"""Calls of a form within a turn take at least about so long together."""
MOST_ROUNDS = 61
BUDGET = 3.0
"""Seconds of timing."""

LONGEST_SPIN = 0.2
"""Seconds for which a pool's threads look for work after a call, at most: onnxruntime's do for about 0.035 s, and take
a core from another pool meanwhile."""
LOOK = 2e-3
"""Seconds between two looks at whether they still do."""

Samples = Mapping[str, Sequence[float]]
"""Seconds of a call of each form, by its name, in each round."""


@dataclass(frozen=True)
class Comparison:
    """``kept``: the form that is kept, and ``seconds``, the median of its calls.

    ``ratios``: of each other form, its seconds over the kept one's in the same round: the median, and the ends of an
    interval that holds the median with 99% confidence. Above 1 the kept form is faster.
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
    """The form that no other one beats by the median of their paired ratios is kept; of equals the first.

    Forms that noise alone tells apart are as good as each other, so no interval has to agree.
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
    """Seconds of a call of each form, in ``rounds`` in which each takes its turn, in an order that rotates.

    In each turn a first call is not timed: it finds the caches and the heap as another form left them.

    ``budget``: seconds beyond which rounds become fewer, down to ``fewest``, whose interval has ends. ``sample``:
    seconds that the calls of a turn take together at least. ``clock``: default ``time.perf_counter``. ``wait``: returns
    when the calls so far have ended, on a device that works on while they return. ``threads``: of the forms; with
    several, each turn begins when the threads of the turn before have stopped looking for work. ``after_round``: called
    once a round, untimed.
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
    """Return when no thread of this process works, at the latest after :data:`LONGEST_SPIN`."""
    until = time.monotonic() + LONGEST_SPIN
    while time.monotonic() < until:
        before = time.process_time()
        time.sleep(LOOK)
        if time.process_time() - before < LOOK / 4:
            return
