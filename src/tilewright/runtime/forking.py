"""Locks and forks: a child has none of the parent's other threads, so nothing may wait for them."""

from __future__ import annotations

import os
import threading
import weakref


class ForkLock:
    """A re-entrant lock; a forked child gets a new one, so another thread's hold cannot block it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()


_locks: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew_locks() -> None:
    for lock in tuple(_locks):
        lock._renew()


steady = threading.RLock()
"""Held while SQLite or the dynamic linker is at work; a fork waits for that to end.

Their own locks would otherwise stay locked in the child. Take it last: nothing is waited for inside.
"""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=steady.acquire, after_in_parent=steady.release, after_in_child=steady.release)
    os.register_at_fork(after_in_child=_renew_locks)
