"""Device memory: guarded buffers for checking, and arenas of operand sets for timing.

A device has no pages to protect, so guard zones hold canary bytes, which are compared after every run.
Around inputs the canary reads as NaN, so that a read out of bounds shows in the result.
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

GUARD = 64 << 10  # bytes of canary on either side: a stray tile writes next to the buffer
ALIGN = 256  # alignment of device allocators, in bytes
PLACES = 61  # number of shifts of the buffers; successive candidates use successive shifts
BLOCK = 8 << 20  # bytes of random values that are repeated to fill an arena


@dataclass(frozen=True)
class Region:
    """A buffer inside an arena: ``size`` bytes at ``address``, canaries of ``canary`` around it."""

    start: int
    address: int
    size: int
    end: int
    canary: int


class CheckArena:
    """One allocation for all buffers of a checked call, with guard zones between them.

    The first use allocates it, and it grows on demand; ``close`` frees it.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._allocation = self._base = self._size = 0
        self._serial = 0

    def place(self, sizes: Sequence[int], leads: Sequence[int], inputs: int) -> list[Region]:
        """Place buffers of ``sizes`` bytes, each at an address ``lead`` bytes past a multiple of 256.

        The first ``inputs`` buffers are inputs. The guard zones' writes are queued. Addresses differ from call to
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


@dataclass(frozen=True)
class Kept:
    """Arrays in one allocation of ``size`` bytes at ``base``, a multiple of 8; ``addresses``: one per array."""

    base: int
    size: int
    addresses: tuple[int, ...]


class KeptArrays:
    """Arrays on the device for the checks of a task, by name: uploaded once, kept until ``close``.

    ``room``: largest number of bytes of all arrays together.
    """

    def __init__(self, context: Context, room: int) -> None:
        self.context = context
        self.room = room
        self._kept: dict[Hashable, Kept] = {}

    def get(self, name: Hashable) -> Kept | None:
        """Arrays kept under a name. Kernels that ran since the upload may have overwritten them."""
        return self._kept.get(name)

    def keep(self, name: Hashable, values: Sequence[Bytes]) -> Kept | None:
        """Upload arrays under a new name; ``None`` without enough memory."""
        starts = [0, *accumulate(_round(len(v), ALIGN) for v in values)]
        size = max(ALIGN, starts[-1])
        if size + sum(k.size for k in self._kept.values()) > self.room:
            return None
        try:
            base = self.context.allocate(size)
        except OutOfMemory:
            return None
        kept = self._kept[name] = Kept(base, size, tuple(base + start for start in starts[:-1]))
        for address, data in zip(kept.addresses, values, strict=True):
            self.context.upload(address, data)
        return kept

    def close(self) -> None:
        """Free all arrays."""
        while self._kept:
            self.context.free(self._kept.popitem()[1].base)


class TimingArena:
    """Operand sets of one program for timing: one allocation per tensor, with ``sets`` copies of the tensor.

    Inputs are random values, repeated with the tensor's own period, so that any position in the allocation holds valid
    values. ``outputs``: bytes of each output. Raises ``OutOfMemory``.
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
        # Upload a block of whole periods, then double the filled part by copies on the device.
        repeats = max(1, min(BLOCK, size) // max(1, len(values)))
        block = np.tile(values, repeats) if repeats > 1 else values
        self.context.upload(base, block[:size])
        done = min(len(block), size)
        while done < size:
            step = min(done, size - done)
            self.context.copy(base + done, base, step)
            done += step

    def tensors(self, number: int, place: int = 0) -> list[int]:
        """Addresses of inputs and outputs of set ``number`` (any whole number), all shifted by ``place`` steps."""
        at = number % self.sets
        shift = place % PLACES * ALIGN
        return [base + at * stride + shift for base, stride in zip(self._bases, self._strides, strict=True)]

    def close(self) -> None:
        while self._allocated:
            self.context.free(self._allocated.pop())


def _round(size: int, step: int) -> int:
    return -(-size // step) * step
