"""A device with the measurement errors of real devices, in simulated time. It is also builder, runner and database."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, TypeVar

from tilewright.core import Artifact, Candidate, LaunchProgram, Measurement, Outcome, Proposal, Schedule, Target
from tilewright.measure import timing
from tilewright.measure.timing import PairedComparison

TARGET = Target("cpu", "portable", "x86_64", (), 16, 16)
SAMPLE = 150e-6
PLACING = 30e-3
"""Seconds that a session takes in addition to its samples: new arrays, copies of the code, warm-up calls."""
T = TypeVar("T")


def done(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future


class LyingDevice:
    """A device on which kernel ``n`` takes ``true[n]`` seconds; measured times have these errors:

    - ``bias``: the largest relative error of a build, constant over all measurements of the build;
    - ``placing``: the largest relative error of a placement of code and arrays, constant over the placement;
    - drift: the clock rate wanders by 10% within a second;
    - bursts: for about 30 ms, three times a second, another process takes up to half of the device;
    - noise: half a percent of each sample.
    """

    batch = 16

    def __init__(self, true: Sequence[float], seed: int, bias: float = 0.015, placing: float = 0.015) -> None:
        self.true, self.bias, self.placing = true, bias, placing
        self.rng = random.Random(seed)
        self.now = 0.0
        self.phase = self.rng.uniform(0, 2 * math.pi)
        self.burst = (0.0, 0.0, 1.0)
        self.builds: list[float] = []
        self.reference_times: dict[Schedule, float] = {}
        self.champion: Any = None

    # ------------------------------------------------------------------ what lies

    def _lie(self, size: float) -> float:
        return 1 + self.rng.uniform(-size, size)

    def _sample(self, seconds: float) -> float:
        """One timing sample of a kernel that takes ``seconds`` in this placement, with drift, bursts and noise."""
        rng, (begins, ends, slower) = self.rng, self.burst
        if self.now > ends:
            begins = self.now + rng.expovariate(3.0)
            self.burst = begins, begins + rng.expovariate(1 / 30e-3), 1 + rng.random()
        pace = 1 + 0.05 * math.sin(6.0 * self.now + self.phase)
        if begins <= self.now <= ends:
            pace *= slower * (1 + 0.1 * rng.random())
        self.now += SAMPLE
        return seconds * pace * (1 + 0.005 * (rng.random() + rng.random() + rng.random() - 1.5) * 2)

    # ------------------------------------------------------------------ builder and runner

    def submit(self, *given: Any, alone: bool = False) -> Future[Any]:
        """Builds candidates; or, given a task, items and an incumbent, measures the items."""
        return done([self._built(c) for c in given[0]] if len(given) == 1 else self.run(*given))

    def _built(self, candidate: Candidate) -> Artifact:
        self.builds.append(self.true[int(candidate.schedule.values["n"])] * self._lie(self.bias))
        return Artifact("", str(len(self.builds) - 1), LaunchProgram(()), TARGET, "", (), "")

    def wait(self, builds: Future[list[Artifact]]) -> list[Artifact]:
        return builds.result()

    def build(self, candidates: Sequence[Candidate]) -> list[Artifact]:
        return [self._built(c) for c in candidates]

    def fetch(self, artifact: Artifact) -> None:
        pass

    def verify(self, task: object, item: object) -> None:
        return None

    def placed(self, item: tuple[Candidate, Artifact]) -> float:
        """Seconds that a build takes in a new placement of code and arrays."""
        return self.builds[int(item[1].sha256)] * self._lie(self.placing)

    def run(self, task: object, items: Sequence[Any], incumbent: Any = None) -> list[Outcome]:
        found: list[Outcome] = []
        reference = None if incumbent is None else self.placed(incumbent)
        for item in items:
            mine = self.placed(item)
            if reference is None:
                incumbent, reference, seconds = item, mine, sorted(self._sample(mine) for _ in range(7))[3]
            else:
                paired = timing.compare(
                    lambda n, a=mine, b=reference: [(self._sample(a), self._sample(b)) for _ in range(n)],
                    SAMPLE,
                    SAMPLE,
                )  # type: ignore[misc]
                seconds = self.reference_times[incumbent[0].schedule] * paired.ratio
            self.reference_times[item[0].schedule] = seconds
            found.append(Measurement(seconds, 0.01, 15))
        return found

    def compare(self, task: object, one: Any, other: Any, sessions: int) -> PairedComparison:
        def session(n: int) -> list[tuple[float, float, float]]:
            self.now += PLACING
            first, challenger, second = self.placed(other), self.placed(one), self.placed(other)
            taken = []
            for k in range(n):  # round robin, so that each takes every position
                times = [0.0, 0.0, 0.0]
                for leg in (k % 3, (k + 1) % 3, (k + 2) % 3):
                    times[leg] = self._sample((first, challenger, second)[leg])
                taken.append((times[1], times[0], times[2]))
            return taken

        return timing.paired_comparison(session, 3 * SAMPLE, sessions)

    # ------------------------------------------------------------------ strategy and database

    def suggest(self, count: int, history: Sequence[Any], pending: Sequence[Any]) -> list[Proposal]:
        """Proposes each kernel once; the first is the default schedule."""
        begun = len(history) + len(pending)
        return [Proposal(kernel(n)) for n in range(len(self.true))[begun : begun + count]]

    def add_trials(self, run: str, records: Sequence[Any]) -> None:
        pass

    def best(self, task: object, model: str) -> Any:
        return self.champion

    def set_kernels(self, task: object, model: str, run: str, kernels: list[Any], artifacts: list[Any]) -> None:
        self.champion = SimpleNamespace(schedule=kernels[0], template_version=1, run_id=run, trial_number=None)

    @property
    def stored(self) -> float:
        """True time of the stored kernel, in seconds."""
        values: Mapping[str, Any] = self.champion.schedule.values
        return self.true[int(values["n"])]


def kernel(n: int) -> Schedule:
    return Schedule("t", 1, (("n", n),))
