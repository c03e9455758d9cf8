"""Waiting in tests: until something holds, and for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def until(
    holds: Callable[[], object], seconds: float = 60.0, pause: float = 0.02, said: Callable[[], str] = lambda: ""
) -> None:
    """Look again every ``pause`` seconds until something holds. Raises ``TimeoutError`` with what ``said`` gives."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not happen within {seconds:.0f} s\n{said()}")
        time.sleep(pause)


def hang() -> None:
    """Stand for a program that hangs: only a signal, or the end of the process, ends the wait."""
    threading.Event().wait()
