"""Guarded arrays: memory that reveals reads and writes out of bounds.

An array lies in its own mapping between two inaccessible zones. Bytes between the array and a guard
zone hold a canary.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE
LINE = 64  # bytes of a cache line
GUARD = 64 << 20  # least bytes of inaccessible address space on either side: it occupies no memory
LENGTHS = 8  # a guard has at least this many array lengths: strides of vectors along few rows may go that far
LEAST_GUARD = 1 << 20  # guard size if the system refuses more
CANARY = 0xA5
POISON = 0xFF  # read as a real of any width: a quiet NaN
PLACES = ("end", "start", "odd", "heap")

_PROT_NONE = 0


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.argtypes, libc.mmap.restype = (address, size, number, number, number, ctypes.c_long), address
    libc.munmap.argtypes = address, size
    libc.mprotect.argtypes = libc.madvise.argtypes = address, size, number
    return libc


_LIBC = _libc()

HUGE_FROM = 4 << 20  # array bytes from which NumPy requests huge pages


class GuardedArray:
    """A dense array of ``shape`` and ``dtype`` between guard zones of ``LENGTHS`` times its length, ``GUARD`` at least.

    ``place``: ``end`` puts its last byte right before the upper guard, ``start`` its first byte right after the
    lower guard. ``odd`` puts it one element past ``start`` (aligned to the element only). ``heap`` puts it where
    NumPy's allocator usually puts arrays, for timing: 16 bytes past a multiple of 64, and in huge pages from 4 MiB
    on. ``stagger`` shifts it, as arrays at equal page offsets would compete for cache sets. Every place honours
    ``align`` (bytes). ``name``: for messages. Raises ``MemoryError``.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: npt.DTypeLike,
        place: str = "end",
        align: int = 1,
        stagger: int = 0,
        name: str = "an array",
    ) -> None:
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        size = count * kind.itemsize
        step = max(align, kind.itemsize)
        lead = {"start": 0, "odd": step, "heap": -(-(stagger * 576 % PAGE + 16) // step) * step, "end": 0}[place]
        body = -(-(size + lead) // PAGE) * PAGE or PAGE
        if place == "end":
            lead = (body - size) // step * step
        self.name = name
        for self.guard in (max(GUARD, LENGTHS * body), LEAST_GUARD):
            memory = _guarded(body, self.guard)
            if memory is not None:
                break
        else:
            raise MemoryError(f"no memory for an array of {size} bytes")
        if place == "heap" and size >= HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            _LIBC.madvise(ctypes.addressof(memory), body, mmap.MADV_HUGEPAGE)  # fails on kernels without huge pages
        self._bytes = np.frombuffer(memoryview(memory), np.uint8)
        self._before, self._after = self._bytes[:lead], self._bytes[lead + size :]
        self._before[:] = CANARY
        self._after[:] = CANARY
        self.data: npt.NDArray[np.uint8] = self._bytes[lead : lead + size]
        self.array: npt.NDArray[np.generic] = self.data.view(kind).reshape(tuple(shape))
        self.address = ctypes.addressof(memory) + lead
        self.zone = ctypes.addressof(memory) - self.guard, ctypes.addressof(memory) + body + self.guard
        _alive.add(self)

    def trespassed(self) -> bool:
        """Whether bytes next to the array have changed."""
        return bool((self._before != CANARY).any() or (self._after != CANARY).any())

    def restore(self) -> None:
        """Write the canaries again."""
        self._before.fill(CANARY)
        self._after.fill(CANARY)


_alive: weakref.WeakSet[GuardedArray] = weakref.WeakSet()


def alive() -> Iterable[GuardedArray]:
    """All guarded arrays of this process."""
    return tuple(_alive)


def _guarded(body: int, guard: int) -> ctypes.Array[ctypes.c_char] | None:
    """``body`` bytes between inaccessible zones of ``guard`` bytes; unmapped with the last reference.

    ``None`` if the system refuses the mapping.
    """
    # A mapping that is inaccessible from the start never counts as memory, under any overcommit policy.
    base = _LIBC.mmap(None, body + 2 * guard, _PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    failed = base == ctypes.c_void_p(-1).value
    if failed or _LIBC.mprotect(base + guard, body, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        if not failed:
            _LIBC.munmap(base, body + 2 * guard)
        return None
    memory = (ctypes.c_char * body).from_address(base + guard)
    weakref.finalize(memory, _LIBC.munmap, base, body + 2 * guard).atexit = False
    return memory
