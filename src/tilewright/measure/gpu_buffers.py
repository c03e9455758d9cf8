"""Memory on a device: guarded buffers for checking, and arenas of operand sets for timing.

A device has no pages to protect, so guard zones hold canary bytes that are compared after every run.
Around inputs the canary reads as NaN, so that a value read from beyond shows in the result.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilewright.backends.driver import OutOfMemory
from tilewright.verifying.buffers import CANARY, POISON

if TYPE_CHECKING:
    from tilewright.backends.driver import Context

Bytes = npt.NDArray[np.uint8]

GUARD = 64 << 10  # bytes of canary on either side: a stray tile begins at the edge
ALIGN = 256  # what device allocators give
PLACES = 61  # shifts of the buffers among which candidates take turns
BLOCK = 8 << 20  # bytes of random values from which an arena is filled


@dataclass(frozen=True)
class Region:
    """A buffer inside an arena: ``size`` bytes at ``address``, canaries of ``canary`` around it."""

    start: int
    address: int
    size: int
    end: int
    canary: int


class CheckArena:
    """One allocation that holds every buffer of a checked call, with guard zones between them.

    It is allocated when first needed and grows; ``close`` frees it.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._allocation = self._base = self._size = 0
        self._serial = 0

    def place(self, sizes: Sequence[int], leads: Sequence[int], inputs: int) -> list[Region]:
        """Fresh places for buffers of ``sizes`` bytes, each at an address ``lead`` bytes past a multiple of 256.

        The first ``inputs`` of them are inputs. Guard zones are written (queued). Places differ from call to
        call. Raises ``OutOfMemory``.
        """
        self._serial += 1
        shift = self._serial % PLACES * ALIGN
        spans = [2 * GUARD + _round(size + lead, ALIGN) for size, lead in zip(sizes, leads, strict=True)]
        self._reserve(sum(spans) + PLACES * ALIGN)
        regions = []
        at = self._base + shift
        for n, (size, lead, span) in enumerate(zip(sizes, leads, spans, strict=True)):
            canary = POISON if n < inputs else CANARY
            region = Region(at, at + GUARD + lead, size, at + span, canary)
            self.context.fill(region.start, canary, region.address - region.start)
            self.context.fill(region.address + size, canary, region.end - region.address - size)
            regions.append(region)
            at += span
        return regions

    def _reserve(self, size: int) -> None:
        if size <= self._size:
            return
        self.close()
        self._allocation = self.context.allocate(size + ALIGN)
        self._base, self._size = _round(self._allocation, ALIGN), size

    def trespassed(self, region: Region) -> bool:
        """Whether bytes around a buffer have changed; waits for the device."""
        for start, end in ((region.start, region.address), (region.address + region.size, region.end)):
            zone = np.empty(end - start, np.uint8)
            self.context.download(start, zone)
            if (zone != region.canary).any():
                return True
        return False

    def close(self) -> None:
        if self._size:
            self._size = 0
            self.context.free(self._allocation)


class KeptInputs:
    """Input sets of a task on the device: uploaded when they are first needed, and copied from there afterwards.

    ``room``: bytes that they may take in all; a set that finds none is uploaded each time.
    """

    def __init__(self, context: Context, room: int) -> None:
        self.context = context
        self.room = room
        self._kept: dict[Hashable, tuple[int, int]] = {}  # address and size

    def place(self, name: Hashable, values: Sequence[Bytes], addresses: Sequence[int]) -> bool:
        """Bring set ``name``, whose arrays are ``values``, to ``addresses`` (queued). Whether it was on the device
        before, where any kernel since may have written."""
        known = name in self._kept
        starts = [0, *accumulate(_round(len(v), ALIGN) for v in values)]
        if not known and not self._keep(name, starts[-1]):
            for address, data in zip(addresses, values, strict=True):
                self.context.upload(address, data)
            return False
        base = self._kept[name][0]
        for address, data, start in zip(addresses, values, starts, strict=False):
            if not known:
                self.context.upload(base + start, data)
            if len(data):
                self.context.copy(address, base + start, len(data))
        return known

    def _keep(self, name: Hashable, size: int) -> bool:
        """Set memory aside for a set, if there is any."""
        if size + sum(held for _, held in self._kept.values()) > self.room:
            return False
        try:
            self._kept[name] = self.context.allocate(max(1, size)), size
        except OutOfMemory:
            return False
        return True

    def close(self) -> None:
        """Forget all sets."""
        while self._kept:
            self.context.free(self._kept.popitem()[1][0])


class TimingArena:
    """Operand sets of one program for timing: one allocation a tensor, ``sets`` places in each.

    Inputs are random values, repeated with the tensor's own period, so that any place in it holds values that the
    program may be given. ``outputs``: bytes of each. Raises ``OutOfMemory``.
    """

    def __init__(self, context: Context, inputs: Sequence[Bytes], outputs: Sequence[int], sets: int) -> None:
        self.context = context
        self.sets = sets
        self._allocated: list[int] = []
        self._bases: list[int] = []
        self._strides: list[int] = []
        slack = (PLACES + 1) * ALIGN
        try:
            for size in (*(len(v) for v in inputs), *outputs):
                stride = _round(size, ALIGN)
                address = context.allocate(sets * stride + slack + ALIGN)
                self._allocated.append(address)
                self._bases.append(_round(address, ALIGN))
                self._strides.append(stride)
            for n, values in enumerate(inputs):
                self._fill(self._bases[n], values, sets * self._strides[n] + slack)
            for base, stride in list(zip(self._bases, self._strides, strict=True))[len(inputs) :]:
                context.fill(base, POISON, sets * stride + slack)
            context.synchronize()
        except BaseException:
            self.close()
            raise

    def _fill(self, base: int, values: Bytes, size: int) -> None:
        # A block of whole periods, then copies that double what is there.
        repeats = max(1, min(BLOCK, size) // max(1, len(values)))
        block = np.tile(values, repeats) if repeats > 1 else values
        self.context.upload(base, block[:size])
        done = min(len(block), size)
        while done < size:
            step = min(done, size - done)
            self.context.copy(base + done, base, step)
            done += step

    def tensors(self, number: int, place: int = 0) -> list[int]:
        """Addresses of the inputs and the outputs of set ``number`` (any whole number); ``place`` moves them all."""
        at = number % self.sets
        shift = place % PLACES * ALIGN
        return [base + at * stride + shift for base, stride in zip(self._bases, self._strides, strict=True)]

    def close(self) -> None:
        while self._allocated:
            self.context.free(self._allocated.pop())


def _round(size: int, step: int) -> int:
    return -(-size // step) * step
