"""Keeping builds out of the way of a measurement that uses every core."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class BuildLock:
    """Either any number of builds at once, or one measurement, on the cores that measure.

    A waiting measurement goes first, and builds begin only while somebody waits for one (:meth:`wanted`): what is built
    ahead must not delay what is ready to be measured.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._builds = 0
        self._measuring = False
        self._waiting = 0
        self._wanted = 0

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        """Held while somebody waits for a build, so that there is nothing to measure."""
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
        """Held while a compiler runs."""
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
        """Held while kernels are timed: waits for running builds to end, and keeps new ones out."""
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
