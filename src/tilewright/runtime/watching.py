"""Notices new kernels: one thread of this process polls the files of its open libraries."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from typing import Protocol

from tilewright.core import TilewrightError
from tilewright.forking import ForkLock

EVERY = 0.4
"""Seconds between two polls."""

_log = logging.getLogger("tilewright.runtime")


class Watched(Protocol):
    def _look(self) -> None:
        """Checks the file, and applies changes."""


class Watcher:
    """Polls the objects given to :meth:`add`, as long as they are referenced elsewhere."""

    def __init__(self) -> None:
        self._watched: weakref.WeakSet[Watched] = weakref.WeakSet()
        self._lock = ForkLock()
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        with self._lock:
            self._watched.add(watched)
            self.start()

    def start(self) -> None:
        """Starts the thread if there is anything to poll; also in a forked child, where the thread is missing."""
        with self._lock:
            if len(self._watched) and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._run, name="tilewright-watch", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(EVERY)
            with self._lock:
                if not len(self._watched):
                    self._thread = None
                    return
                watched = list(self._watched)
            while watched:
                try:
                    watched.pop()._look()
                except TilewrightError as e:  # missing or damaged: loaded kernels stay in use
                    _log.debug("%s", e)


watcher = Watcher()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=watcher.start)
