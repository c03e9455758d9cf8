"""Peak rates: multiply-adds per second, and bytes per second from memory and each cache, measured on the given
cores."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.build import build_library
from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cpu.loader import load_path
from tilewright.closing import Closing
from tilewright.core import Target, Task
from tilewright.dtypes import DTYPES

EACH, TOGETHER = 16 << 20, 32 << 20
"""Least number of bytes that a core reads from memory in one pass, and that all cores read together."""
PASSES = 5
"""Number of passes, of which the fastest counts."""


class PeakProbe(Closing):
    """Samples the float32 peak and the bandwidths of ``cores``, one thread each; a context manager.

    Needs the support library, which is compiled once.
    """

    def __init__(self, target: Target, cores: Sequence[int]) -> None:
        self.cores = tuple(cores)
        path, sha256, _ = build_library([""], target, find_compiler(), ArtifactCache())
        self._library = load_path(path, sha256)

    def close(self) -> None:
        self._library.close()

    def sample(self, seconds: float) -> float:
        """FLOP/s of all cores at once, from each core's fastest millisecond in at least ``seconds``.

        A peak is an upper bound for kernels, so milliseconds disturbed by other programs do not count.
        """

        def measure(_: int) -> float:
            end = time.monotonic() + seconds
            found: list[float] = []
            while not found or time.monotonic() < end:
                found.append(self._library.handle.tw_peak_flops(0.0))  # about a millisecond
            return max(found)

        return sum(self._on_each(measure))

    def bandwidth(self) -> float:
        """Bytes per second read from memory by all cores at once.

        Each pass starts with lines that are in no cache. So an array may be smaller than the last-level cache, of which
        a virtual machine may see hundreds of megabytes. 0 without memory for the arrays.
        """
        library, size = self._library.handle, max(EACH, TOGETHER // len(self.cores))
        arrays = [library.tw_alloc(size) for _ in self.cores]
        together = threading.Barrier(len(self.cores))

        def one_pass(array: int) -> float:
            library.tw_evict(array, size)
            together.wait()
            return float(library.tw_read_bandwidth(array, size))

        def measure(n: int) -> float:
            ctypes.memset(arrays[n], 0, size)  # allocates the pages in the memory nearest to this core
            return max(one_pass(arrays[n]) for _ in range(PASSES))

        try:
            return sum(self._on_each(measure)) if all(arrays) else 0.0
        finally:
            for array in arrays:
                library.tw_free(array, size)

    def copy_bandwidth(self, size: int, seconds: float) -> float:
        """Bytes per second copied by all cores at once, ``size`` bytes at a time."""
        return sum(self._on_each(lambda _: float(self._library.handle.tw_copy_bandwidth(size, seconds))))

    def caches(self, target: Target, seconds: float) -> dict[str, float]:
        """Bytes per second read from each cache by all cores at once, each on half of its cache or of its share."""
        shared = min(target.l3_bytes // 2 // len(self.cores), max(TOGETHER, 2 * target.l2_bytes))
        sizes = {"l1": target.l1_bytes // 2, "l2": target.l2_bytes // 2, "l3": shared}
        below = dict(zip(sizes, (0, target.l1_bytes, target.l2_bytes), strict=True))
        return {level: self._cached(size, seconds) for level, size in sizes.items() if size > below[level]}

    def _cached(self, size: int, seconds: float) -> float:
        return sum(self._on_each(lambda _: float(self._library.handle.tw_bandwidth(size, seconds))))

    def _on_each(self, measure: Callable[[int], float]) -> list[float]:
        """Run ``measure(n)`` on core number n, on all cores at once."""
        rates = [0.0] * len(self.cores)

        def work(n: int) -> None:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, [self.cores[n]])  # of this thread only
            rates[n] = measure(n)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(len(self.cores))]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        return rates


def per_float32(task: Task) -> float:
    """Speed of operations on a task's elements relative to float32: by their size, and by the processor's dot products
    of 8-bit or 16-bit elements (``vpdpbusd``, ``vdpbf16ps``)."""
    output = DTYPES[task.workload.output.dtype]
    by_size = 1.0 if output.kind == "bool" else 4 / output.bytes
    operands = {x.dtype for x in task.workload.inputs[:2]}
    if operands <= {"int8", "uint8"} and "int8" in operands and "avx512vnni" in task.target.isa:
        return max(4.0, by_size)
    if operands == {"bfloat16"} and "avx512bf16" in task.target.isa:
        return max(2.0, by_size)
    return by_size
