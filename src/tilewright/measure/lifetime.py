"""Processes that end with the one that started them, even where that is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Make sure that this process ends when ``parent`` does, even inside a kernel that never returns."""
    tie = tied_to(parent)
    if tie is not None:
        tie()
        return

    # No such signal elsewhere: look from time to time (kernels run without the GIL).
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def tied_to(parent: int) -> Callable[[], None] | None:
    """What a new process calls to end when ``parent`` does, also between fork and exec (``preexec_fn``), where nothing
    may be imported any more. ``None`` where the system has no such signal.

    The signal comes when the thread ends that started the process: start it from one that lives as long.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return tie
