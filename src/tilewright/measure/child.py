"""The parent's side of the isolated child process: it starts, addresses and ends the child."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright import core
from tilewright.backends.channel import Channel, ChannelClosed
from tilewright.measure.messages import Ready, receive
from tilewright.measure.sandbox import Limits

START_SECONDS = 60.0

# Threads of numerical libraries would spin on the cores on which kernels are timed.
_QUIET = {
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}  # fmt: skip


_SECRETS = ("TILEWRIGHT_DB", "TILEWRIGHT_DB_PASSWORD", "PGPASSWORD", "PGPASSFILE")
"""Environment variables that kernels under test must not see."""


def environment() -> dict[str, str]:
    """Environment of a child that runs kernels: this process's variables without secrets, one thread for numerical
    libraries, and this package on the path."""
    kept = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    path = os.pathsep.join([str(Path(core.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return {**kept, **_QUIET, "PYTHONPATH": path.rstrip(os.pathsep)}


@dataclass(eq=False)
class ChildDied(Exception):
    """The child ended. ``code``: as ``subprocess`` returns it (negative for a signal). ``said``: its last line."""

    code: int | None
    said: str

    @property
    def signal(self) -> str | None:
        """Name of the signal that ended the child."""
        if self.code is None or self.code >= 0:
            return None
        return signal.Signals(-self.code).name if -self.code in set(signal.Signals) else f"signal {-self.code}"

    def __str__(self) -> str:
        how = f"killed by {self.signal}" if self.signal else f"exited with status {self.code}"
        return f"{how} ({self.said})" if self.said else how


class Child:
    """One worker process, ready for requests. Raises ``ChildDied`` if the process does not get ready.

    ``limits``: for each limit of the child ``True``, or why the limit does not hold (``sandbox.py``).
    Start the child from a thread that lives as long as the child should: on Linux the parent-death signal
    belongs to the thread that started the process.
    """

    def __init__(self, settings: Mapping[str, Any], command: list[str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        command = command or [sys.executable, "-m", "tilewright.measure.worker"]
        try:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid())],
                pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=self._errors, start_new_session=True, env=environment(),
            )  # fmt: skip
        except OSError as e:
            ours.close()
            self._errors.close()
            raise ChildDied(None, f"it does not start: {e}") from e
        finally:
            theirs.close()
        self.pid = self.process.pid
        self.channel = Channel(ours)
        self.tainted = False  # whether a kernel failed that may have corrupted the child's memory
        try:
            self.channel.send(settings)
            ready = receive(self.channel, START_SECONDS)
            self.limits: Limits = ready.limits if isinstance(ready, Ready) else {}
        except (ChannelClosed, TimeoutError) as e:
            raise self.bury() from e

    def bury(self) -> ChildDied:
        """Kill the child if it still runs, and return how it ended."""
        code = self._await_end(0.2)
        if code is None:
            self.kill()
            code = self.process.wait()
        said = self._last_line()
        self._close()
        return ChildDied(code, said)

    def close(self) -> None:
        """End the child: an idle child exits by itself, a busy one is killed."""
        self.channel.close()
        if self._await_end(0.2) is None:
            self.kill()
            self.process.wait()
        self._close()

    def _await_end(self, seconds: float) -> int | None:
        end = time.monotonic() + seconds
        while (code := self.process.poll()) is None and time.monotonic() < end:
            time.sleep(0.002)
        return code

    def kill(self) -> None:
        """End the child at once, in any state."""
        # Kill its process group too, so that no process started by a kernel stays behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    def _close(self) -> None:
        self.channel.close()
        self._errors.close()

    def _last_line(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 2000))
        lines = [x.strip() for x in self._errors.read().decode(errors="replace").splitlines() if x.strip()]
        text = "".join(c if c.isprintable() else " " for c in lines[-1]) if lines else ""
        return text[:200]
