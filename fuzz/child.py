"""Runs work in a child process, and reports its crash or hang without failing itself."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Send = Callable[[dict[str, Any]], None]


def run(work: Callable[[Send], None], silence: float) -> Iterator[dict[str, Any]]:
    """Yields the messages that ``work`` sends, then ``{"end": ...}``: empty, or how the child failed.

    The child is killed after ``silence`` seconds without a message.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _work(work, write)
    os.close(write)
    end = ""
    try:
        with os.fdopen(read, "rb", buffering=0) as stream, selectors.DefaultSelector() as ready:
            ready.register(stream, selectors.EVENT_READ)
            while ready.select(silence):
                line = stream.readline()
                if not line:
                    break
                yield json.loads(line)
            else:
                end = f"no word for {silence:g} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            if end or sys.exc_info()[0] is not None:
                os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    if not end and os.WIFSIGNALED(status):
        end = f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    elif not end and os.waitstatus_to_exitcode(status):
        end = f"ended with status {os.waitstatus_to_exitcode(status)}"
    yield {"end": end}


def _work(work: Callable[[Send], None], write: int) -> None:
    status = 1
    try:
        with os.fdopen(write, "w", buffering=1) as stream:
            work(lambda message: print(json.dumps(message), file=stream, flush=True))
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Clock:
    """A time limit in minutes, from now on."""

    def __init__(self, minutes: float) -> None:
        self.begin, self.end = time.monotonic(), time.monotonic() + 60 * minutes

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.begin) / 60
