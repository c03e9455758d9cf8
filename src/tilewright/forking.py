"""Locks and forks: a child has none of the parent's other threads, so nothing may wait for them."""

from __future__ import annotations

import logging  # noqa: F401 - see below
import os
import threading
import weakref
from importlib import import_module
from types import ModuleType


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
"""Held while SQLite, the dynamic linker or an import is at work; a fork waits for that to end.

Their own locks would otherwise stay locked in the child. Take it last: nothing is waited for inside. So what is
imported under it must not need it while it is imported, as a module of another package may.
"""


def imported(name: str) -> ModuleType:
    """A module, imported now if it was not yet; a fork waits for that.

    A child that is forked in the middle of an import inherits the module's lock, and hangs when it imports the same.
    """
    with steady:
        return import_module(name)


# A fork takes locks in the order opposite to that of registration: steady, then logging's own, which modules that are
# imported under steady take too.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=steady.acquire, after_in_parent=steady.release, after_in_child=steady.release)
    os.register_at_fork(after_in_child=_renew_locks)
