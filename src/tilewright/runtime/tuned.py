"""The tuned kernels of a workload; with ranges, the kernel of each size without another look-up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tilewright.core import TensorSpec, Workload
from tilewright.extent import Extent, Sizes, bounds, greatest
from tilewright.kernels.ranges import narrowed
from tilewright.runtime.entry import Entry
from tilewright.size_ranges import sizes_of

K = TypeVar("K")
"""A loaded kernel: of the processor, or of a device."""

Spans = Mapping[str, tuple[int, int]]

TRIED = 1 << 16
"""Most sizes of a range that are checked one by one for a kernel."""


@dataclass(frozen=True)
class Serving:
    """A kernel that serves the sizes within ``spans``, by name; ``spans`` is empty for a workload of fixed sizes."""

    spans: Spans
    entry: Entry

    def has(self, sizes: Sizes) -> bool:
        return all(low <= sizes[n] <= high for n, (low, high) in self.spans.items())

    @property
    def count(self) -> int:
        """Number of sizes that it serves."""
        return math.prod(high - low + 1 for low, high in self.spans.values())


class Tuned(Generic[K]):
    """The kernels of a workload, those for fixed or the fewest sizes first; ``load`` loads a kernel at given sizes."""

    def __init__(self, workload: Workload, serving: Sequence[Serving], load: Callable[[Entry, Sizes], K]) -> None:
        self.workload = workload
        self._serving = sorted(serving, key=lambda s: (bool(s.entry.ranges), s.count))
        self._load = load

    def entry(self, sizes: Sizes) -> Entry | None:
        """The entry that serves these sizes; ``None`` if nothing was tuned for them."""
        return next((s.entry for s in self._serving if s.has(sizes)), None)

    def kernel(self, sizes: Sizes) -> K:
        """The kernel for these sizes. Raises ``LookupError`` without one, and ``DatabaseError``."""
        found = self.entry(sizes)
        if found is None:
            raise LookupError(f"nothing was tuned for {self.workload.op} of {dict(sizes)}")
        return self._load(found, sizes)

    @property
    def serves_all(self) -> bool:
        """Whether there is a kernel for every size."""
        ranges = self.workload.ranges
        whole = {n: (e.low, e.high) for n, e in ranges.items()}
        if any(_within(whole, s.spans) for s in self._serving):
            return True
        if len(ranges) != 1:
            return False
        ((name, extent),) = ranges.items()
        sizes = range(extent.low, extent.high + 1)
        return len(sizes) <= TRIED and all(self.entry({name: n}) is not None for n in sizes)

    @property
    def seconds(self) -> float:
        """Measured seconds of one call, at the greatest sizes that were measured."""
        found = self.entry(greatest(self.workload.ranges)) or self._serving[-1].entry
        return found.seconds


def shared(workload: Workload, entry: Entry, stored: Callable[[Entry], Workload]) -> Serving | None:
    """The part of a workload's ranges that an entry's kernel serves; ``None`` for a kernel of another program.

    ``stored``: returns an entry's workload.
    """
    if entry.workload_key == workload.key:
        return Serving({n: (e.low, e.high) for n, e in workload.ranges.items()}, entry)
    if len(entry.inputs) != len(workload.inputs) or not all(map(_alike, entry.inputs, workload.inputs)):
        return None
    spans = _spans(workload, entry)
    if spans is None:
        return None
    theirs = stored(entry)
    there = narrowed(theirs, spans) if entry.ranges else theirs
    return Serving(spans, entry) if narrowed(workload, spans).program == there.program else None


def _alike(a: TensorSpec, b: TensorSpec) -> bool:
    """Whether two inputs are equal at some sizes."""
    if (a.dtype, a.constant, len(a.shape)) != (b.dtype, b.constant, len(b.shape)):
        return False
    lengths = ((bounds(m), bounds(n)) for m, n in zip(a.shape, b.shape, strict=True))
    return all(low <= high2 and low2 <= high for (low, high), (low2, high2) in lengths)


def _spans(workload: Workload, entry: Entry) -> Spans | None:
    """The sizes that both serve; ``None`` without any."""
    if entry.ranges:
        if entry.ranges.keys() != workload.ranges.keys():
            return None
        both = {n: _met(e, workload.ranges[n]) for n, e in entry.ranges.items()}
        return both if all(low <= high for low, high in both.values()) else None
    shapes = zip((s.shape for s in workload.inputs), (s.shape for s in entry.inputs), strict=True)
    sizes = sizes_of(shapes)
    if sizes is None or sizes.keys() != workload.ranges.keys():
        return None
    return {n: (size, size) for n, size in sizes.items()}


def _met(a: Extent, b: Extent) -> tuple[int, int]:
    return max(a.low, b.low), min(a.high, b.high)


def _within(inner: Spans, outer: Spans) -> bool:
    return all(outer[n][0] <= low and high <= outer[n][1] for n, (low, high) in inner.items())
