"""Waiting in tests: until a condition is true, and forever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def until(
    holds: Callable[[], object], seconds: float = 60.0, pause: float = 0.02, said: Callable[[], str] = lambda: ""
) -> None:
    """Polls ``holds`` every ``pause`` seconds until it is true. Raises ``TimeoutError`` with the text from ``said``."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not happen within {seconds:.0f} s\n{said()}")
        time.sleep(pause)


def hang() -> None:
    """Simulates a program that hangs: only a signal or the end of the process ends the wait."""
    threading.Event().wait()
