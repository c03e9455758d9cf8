"""Locks that survive a fork: a child has none of the parent's other threads, so it must not wait for them."""

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
"""Lock that is held while SQLite, the dynamic linker or an import is at work; a fork waits for it.

Without it, a child could inherit the internal locks of SQLite, the linker or an import in their locked state. Take it
last: code that holds it must wait for no other lock. A module that is imported under it must not need the lock during
its import, as a module of another package may.
"""


def imported(name: str) -> ModuleType:
    """Imports and returns a module; a fork waits for the import.

    A child forked in the middle of an import inherits the module's lock, and hangs when it imports the same module.
    """
    with steady:
        return import_module(name)


# A fork takes locks in the order opposite to that of registration: ``steady`` first, then logging's lock, which modules
# that are imported under ``steady`` take too.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=steady.acquire, after_in_parent=steady.release, after_in_child=steady.release)
    os.register_at_fork(after_in_child=_renew_locks)
