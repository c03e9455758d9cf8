"""Keeps builds and measurements apart if both use the same cores."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class BuildLock:
    """Allows either any number of builds or one measurement on the device's cores.

    A waiting measurement goes first. Builds begin only while a caller waits for a build (:meth:`wanted`): builds ahead
    of time must not delay kernels that are ready to be measured.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._builds = 0
        self._measuring = False
        self._waiting = 0
        self._wanted = 0

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        """A context held while a caller waits for a build, so that nothing is measured."""
        with self._changed:
            self._wanted += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._wanted -= 1

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """A context held while a compiler runs."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted and not self._measuring and not self._waiting)
            self._builds += 1
        try:
            yield
        finally:
            with self._changed:
                self._builds -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """A context held while kernels are timed: waits for running builds, and blocks new ones."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._measuring and not self._builds)
            finally:
                self._waiting -= 1
            self._measuring = True
        try:
            yield
        finally:
            with self._changed:
                self._measuring = False
                self._changed.notify_all()
