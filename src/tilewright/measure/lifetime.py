"""Ties a process to its parent, so that it ends even if the parent is killed."""

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

    # Other systems have no parent-death signal: poll (kernels run without the GIL).
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def tied_to(parent: int) -> Callable[[], None] | None:
    """Return a function that ties a new process to ``parent``; ``None`` if the system has no parent-death signal.

    It may run between fork and exec (``preexec_fn``), where imports are not allowed.

    The signal comes when the thread that started the process ends: start it from a thread that lives as long.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before prctl
            os._exit(1)

    return tie
