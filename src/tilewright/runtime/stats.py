"""Counts of calls.

A count has three cells: one that the C side adds to while it holds the GIL, one that is added to atomically without
it, one that Python adds to under a lock. None ever writes another's, so no count is lost.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from tilewright.forking import ForkLock
from tilewright.serialization import Json

TIERS = ("exact", "range", "nearest", "foreseen", "default", "fallback")
"""Ways to answer, the best first: what :class:`~tilewright.runtime.explain.Explanation` says of each."""

UNTUNED = ("nearest", "foreseen", "default")
"""Those by a kernel that was compiled because nothing was tuned."""

REASONS = (
    "untuned",  # no kernel serves these shapes
    "device",  # kernels serve them on other devices alone, or no driver reaches this one
    "type",  # an argument is not exactly a numpy.ndarray
    "dtype",
    "shape",
    "empty",  # an array without elements
    "strides",  # not dense and row-major
    "alignment",
    "readonly",  # the output cannot be written
    "overlap",  # the output shares memory with an input
    "arguments",  # their number, or a keyword
)
_CELLS = (*TIERS, *REASONS)
_WORD = ctypes.sizeof(ctypes.c_ulonglong)


@dataclass(frozen=True)
class Stats(Json):
    """Calls that a library answered.

    ``tiers``: how many in each way of :data:`TIERS`. ``reasons``: calls that no kernel took as they were, by reason of
    ``REASONS``; all of ``fallback``, and calls of a user's operator whose arrays were copied first.
    """

    calls: int
    tiers: dict[str, int]
    reasons: dict[str, int]


class Cell:
    """A count of its own that is also part of ``name``'s: of calls of one kind."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.python = 0
        self._native = (ctypes.c_ulonglong * 2)()

    @property
    def address(self) -> int:
        """Where the C side counts; behind it, where it counts without the GIL."""
        return ctypes.addressof(self._native)

    @property
    def value(self) -> int:
        return self.python + sum(self._native)


class Counters:
    """The cells behind :class:`Stats`; plans keep them alive."""

    def __init__(self) -> None:
        self._native = (ctypes.c_ulonglong * (2 * len(_CELLS)))()  # two a name, as in a cell
        self._python = dict.fromkeys(_CELLS, 0)
        self._cells: list[Cell] = []
        self._start = dict.fromkeys(_CELLS, 0)
        self._lock = ForkLock()

    def cell(self, name: str) -> Cell:
        """A new cell of ``name``, kept for good."""
        made = Cell(name)
        with self._lock:
            self._cells.append(made)
        return made

    def tally(self, *names: str | Cell) -> Tally:
        """What one call of a kind adds to."""
        return Tally(self, names)

    def address(self, name: str | Cell) -> int:
        """Where the C side counts ``name``; behind it, where it counts without the GIL."""
        if isinstance(name, Cell):
            return name.address
        return ctypes.addressof(self._native) + _CELLS.index(name) * 2 * _WORD

    def add(self, *names: str | Cell) -> None:
        with self._lock:
            for name in names:
                if isinstance(name, Cell):
                    name.python += 1
                else:
                    self._python[name] += 1

    def restart(self) -> None:
        """Count from here on: calls so far are in no later snapshot."""
        with self._lock:
            self._start = self._total()

    def _total(self) -> dict[str, int]:
        total = {n: self._python[n] + sum(self._native[2 * i : 2 * i + 2]) for i, n in enumerate(_CELLS)}
        for cell in self._cells:
            total[cell.name] += cell.value
        return total

    def snapshot(self) -> Stats:
        with self._lock:
            total = {n: count - self._start[n] for n, count in self._total().items()}
        tiers = {n: total[n] for n in TIERS}
        return Stats(sum(tiers.values()), tiers, {n: total[n] for n in REASONS if total[n]})


class Tally:
    """The cells that a call adds one to; keeps them alive."""

    def __init__(self, counters: Counters, names: tuple[str | Cell, ...]) -> None:
        self._counters, self._names = counters, names

    def add(self) -> None:
        self._counters.add(*self._names)

    @property
    def addresses(self) -> list[int]:
        """Where the C side counts, of each cell."""
        return [self._counters.address(n) for n in self._names]

    @property
    def address(self) -> int:
        """That of the first."""
        return self.addresses[0]

    @property
    def shared_address(self) -> int:
        """Where code without the GIL counts, atomically: it adds to the first alone."""
        return self.address + _WORD
