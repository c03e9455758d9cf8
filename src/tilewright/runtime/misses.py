"""Counts misses, which are calls without a tuned kernel, and stores them in the database periodically.

``tilewright misses`` lists them, and ``tilewright tune --from-misses`` tunes them.
"""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Mapping

from tilewright.backends.cpu.targets import detect
from tilewright.core import TilewrightError, Value, canonical_json
from tilewright.forking import ForkLock
from tilewright.runtime.kernels import Kernels
from tilewright.runtime.stats import Cell, Counters

EVERY = 10.0
"""Seconds between two writes."""

_KEPT = 4096  # kinds of calls; further kinds count in the totals only
_PATIENCE = 0.25  # seconds to wait for a busy database; the counts stay for the next write
_ADD = """
    INSERT INTO miss (op, params, target_key, count, first, last) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (op, params, target_key) DO UPDATE SET count = count + excluded.count, last = excluded.last
"""

Key = tuple[str, str, str]
"""Operator, parameters, and the target's key; empty for the processor's target."""

_log = logging.getLogger("tilewright.runtime")


class Misses:
    """Counts of misses by operator and parameters. Safe from several threads and after a fork.

    A database that is busy or cannot be written is skipped, without an error in the program that runs kernels.
    """

    def __init__(self, store: Kernels, counters: Counters, keep: bool) -> None:
        self._store = store
        self._counters = counters
        self._keep = keep
        self._cells: dict[Key, dict[str, Cell]] = {}
        self._stored: dict[Key, int] = {}
        self._next = time.monotonic() + EVERY
        self._lock = ForkLock()
        if keep:
            _all.add(self)

    def cell(
        self, op: str, params: Mapping[str, Value], defaults: Mapping[str, Value], name: str, target: str = ""
    ) -> Cell:
        """The counter of an operator's calls with these parameters, as part of ``name``; the counter of ``name`` if
        there is no room.

        ``target``: the key of a device's target.
        """
        given = {k: v for k, v in params.items() if k not in defaults or defaults[k] != v}
        key = (op, canonical_json(given), target)
        with self._lock:
            if not self._keep or (key not in self._cells and len(self._cells) >= _KEPT):
                return self._counters[name]
            cells = self._cells.setdefault(key, {})
            if name not in cells:
                cells[name] = self._counters.cell(name)
            return cells[name]

    def flush(self, at_once: bool = True) -> None:
        """Stores the counts since the last write; without ``at_once`` only when :data:`EVERY` seconds have passed."""
        now = time.monotonic()
        if not at_once and now < self._next:
            return
        with self._lock:
            self._next = now + EVERY
            counted = self._counted()
            news = {key: n - self._stored.get(key, 0) for key, n in counted.items() if n > self._stored.get(key, 0)}
            if news and self._write(news):
                self._stored = counted

    def forget(self) -> None:
        """Marks all counts as stored; in a forked child, the parent stores them."""
        self._stored = self._counted()

    def _counted(self) -> dict[Key, int]:
        return {key: sum(cell.value for cell in cells.values()) for key, cells in self._cells.items()}

    def _write(self, news: Mapping[Key, int]) -> bool:
        path = self._store.path
        try:
            if not self._store.writable or not os.access(path, os.W_OK):
                return False
            here = detect(1).key
            now = time.time()
            rows = [(op, params, target or here, count, now, now) for (op, params, target), count in news.items()]
            self._store.write(_ADD, rows, _PATIENCE)
        except (sqlite3.Error, OSError, TilewrightError) as e:
            _log.debug("misses are not stored in %s: %s", path, e)
            return False
        return True


_all: weakref.WeakSet[Misses] = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    for misses in tuple(_all):
        misses.flush()


def _forget_all() -> None:
    for misses in tuple(_all):
        misses.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
