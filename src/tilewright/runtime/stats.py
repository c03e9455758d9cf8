"""Counters of calls.

A counter has three cells: the C side increments one while it holds the GIL, and a second one atomically without the
GIL. Python increments the third under a lock. No cell has two kinds of writers, so no count is lost.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from tilewright.forking import ForkLock
from tilewright.serialization import Json

TIERS = ("exact", "range", "nearest", "foreseen", "default", "fallback")
"""Tiers of answers, the best first, described by :class:`~tilewright.runtime.explain.Explanation`."""

UNTUNED = ("nearest", "foreseen", "default")
"""Tiers of kernels that were compiled without tuning."""

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
    """Numbers of calls that a library answered.

    ``tiers``: number of calls by each of :data:`TIERS`. ``reasons``: number of calls that no kernel took unchanged, by
    reason of ``REASONS``: all calls of ``fallback``, and calls of a user's operator whose arrays were copied first.
    """

    calls: int
    tiers: dict[str, int]
    reasons: dict[str, int]


class Cell:
    """A counter of one kind of call; counters of equal name are added up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.python = 0
        self._native = (ctypes.c_ulonglong * 2)()

    @property
    def address(self) -> int:
        """The address of the C side's counter; the counter without the GIL follows it."""
        return ctypes.addressof(self._native)

    @property
    def value(self) -> int:
        return self.python + sum(self._native)


class Counters:
    """The cells behind :class:`Stats`; plans keep them alive."""

    def __init__(self) -> None:
        self._named = {name: Cell(name) for name in _CELLS}
        self._cells = list(self._named.values())
        self._start = dict.fromkeys(_CELLS, 0)
        self._lock = ForkLock()

    def __getitem__(self, name: str) -> Cell:
        """The cell that calls of every kind share."""
        return self._named[name]

    def cell(self, name: str) -> Cell:
        """A new cell of ``name``, kept for good."""
        made = Cell(name)
        with self._lock:
            self._cells.append(made)
        return made

    def tally(self, *cells: str | Cell) -> Tally:
        """The cells that a call of a kind increments; a name stands for the shared cell."""
        return Tally(self, tuple(self[c] if isinstance(c, str) else c for c in cells))

    def add(self, *cells: Cell) -> None:
        with self._lock:
            for cell in cells:
                cell.python += 1

    def restart(self) -> None:
        """Starts counting from zero: earlier calls are left out of later snapshots."""
        with self._lock:
            self._start = self._total()

    def _total(self) -> dict[str, int]:
        total = dict.fromkeys(_CELLS, 0)
        for cell in self._cells:
            total[cell.name] += cell.value
        return total

    def snapshot(self) -> Stats:
        with self._lock:
            total = {n: count - self._start[n] for n, count in self._total().items()}
        tiers = {n: total[n] for n in TIERS}
        return Stats(sum(tiers.values()), tiers, {n: total[n] for n in REASONS if total[n]})


class Tally:
    """The cells that a call increments; keeps them alive."""

    def __init__(self, counters: Counters, cells: tuple[Cell, ...]) -> None:
        self._counters, self._cells = counters, cells

    def add(self) -> None:
        self._counters.add(*self._cells)

    @property
    def addresses(self) -> list[int]:
        """The C side's address of each cell."""
        return [cell.address for cell in self._cells]

    @property
    def address(self) -> int:
        """The C side's address of the first cell."""
        return self._cells[0].address

    @property
    def shared_address(self) -> int:
        """The address of the first cell's atomic counter, for code without the GIL, which increments only this cell."""
        return self.address + _WORD
