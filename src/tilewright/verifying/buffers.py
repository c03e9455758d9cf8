"""Guarded arrays: memory in which a kernel's stray reads and writes show.

An array lies in its own mapping between two inaccessible zones. Where it does not touch a guard
zone, the bytes around it hold a canary.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE
LINE = 64  # bytes of a cache line
GUARD = 1 << 20  # bytes of inaccessible address space on either side; strides of a stray access are long
CANARY = 0xA5
POISON = 0xFF  # as a real of any width: a quiet NaN
PLACES = ("end", "start", "odd", "heap")

_PROT_NONE = 0


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc


_LIBC = _libc()

HUGE_FROM = 4 << 20  # bytes from which NumPy asks for huge pages


class GuardedArray:
    """A dense array of ``shape`` and ``dtype`` between guard pages.

    ``place``: ``end`` puts its last byte right before the upper guard, ``start`` its first byte
    right after the lower one, ``odd`` one element past that (aligned to the element only), ``heap`` where
    NumPy's allocator tends to put arrays, for timing: 16 bytes past a multiple of 64, in huge pages from
    4 MiB on, and staggered by ``stagger`` (arrays at equal page offsets would fight for the same cache
    sets). ``align`` (bytes) is honoured in every place.
    """

    def __init__(
        self, shape: Sequence[int], dtype: npt.DTypeLike, place: str = "end", align: int = 1, stagger: int = 0
    ) -> None:
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        size = count * kind.itemsize
        step = max(align, kind.itemsize)
        lead = {"start": 0, "odd": step, "heap": -(-(stagger * 576 % PAGE + 16) // step) * step, "end": 0}[place]
        body = -(-(size + lead) // PAGE) * PAGE or PAGE
        if place == "end":
            lead = (body - size) // step * step
        self._map = mmap.mmap(-1, body + 2 * GUARD)
        if place == "heap" and size >= HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self._map.madvise(mmap.MADV_HUGEPAGE)
        # from_buffer is the one portable way to a mapping's address; the view lives as long as the map.
        self._view = (ctypes.c_char * (body + 2 * GUARD)).from_buffer(self._map)
        base = ctypes.addressof(self._view)
        for guard in (base, base + GUARD + body):
            if _LIBC.mprotect(guard, GUARD, _PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect failed")
        self._bytes = np.frombuffer(self._map, np.uint8, body, GUARD)
        self._before, self._after = self._bytes[:lead], self._bytes[lead + size :]
        self._before[:] = CANARY
        self._after[:] = CANARY
        self.data: npt.NDArray[np.uint8] = self._bytes[lead : lead + size]
        self.array: npt.NDArray[np.generic] = self.data.view(kind).reshape(tuple(shape))
        self.address = base + GUARD + lead

    def poison(self, byte: int) -> None:
        """Fill with a byte, such as :data:`POISON`."""
        self.data.fill(byte)

    def trespassed(self) -> bool:
        """Whether bytes just outside the array have changed."""
        return bool((self._before != CANARY).any() or (self._after != CANARY).any())

    def restore(self) -> None:
        """Write the canaries anew."""
        self._before.fill(CANARY)
        self._after.fill(CANARY)
