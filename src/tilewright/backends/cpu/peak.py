"""The limit that no kernel passes: multiply-adds a second, measured on the cores in question."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Sequence

from tilewright.backends.cpu.build import build_library
from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cpu.loader import load_path
from tilewright.core import Target


class PeakProbe:
    """Samples the float32 peak of ``cores``, one thread each; a context manager.

    Needs the support library, which is compiled once.
    """

    def __init__(self, target: Target, cores: Sequence[int]) -> None:
        self.cores = tuple(cores)
        path, sha256, _ = build_library([""], target, find_compiler(), ArtifactCache())
        self._library = load_path(path, sha256)

    def __enter__(self) -> PeakProbe:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.close()

    def sample(self, seconds: float = 0.1) -> float:
        """FLOP/s of all cores at once: the mean over at least ``seconds``, as a kernel would see it."""
        rates = [0.0] * len(self.cores)

        def measure(n: int) -> None:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, [self.cores[n]])  # of this thread only
            end = time.monotonic() + seconds
            found: list[float] = []
            while not found or time.monotonic() < end:
                found.append(self._library.handle.tw_peak_flops(0.0))  # about a millisecond
            rates[n] = statistics.harmonic_mean(found)

        workers = [threading.Thread(target=measure, args=(n,)) for n in range(len(self.cores))]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        return sum(rates)
