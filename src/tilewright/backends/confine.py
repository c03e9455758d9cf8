"""Runs the system's compiler with limits, in a clean environment and with a temporary folder of its own.

Local builds and a farm's builders use it. The environment has only the path to programs (and on macOS the variables
that choose the SDK). So no header path (``CPATH``), compiler pass (``GCC_EXEC_PREFIX``, ``COMPILER_PATH``), option or
plugin (``CCC_OVERRIDE_OPTIONS``) or preloaded library comes from the caller. Options are those of the target and of
``$CXX``, which the machine's owner sets. Temporary files and diagnostics lie in a folder that is deleted after the
compilation. Compilers that are libraries run the same way, in a worker process (``compiler_worker.py``).
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from tilewright.errors import TilewrightError

MEMORY = 4 << 30
"""Largest address space of each compiler process in bytes; an ordinary kernel needs a twentieth."""

LARGEST = 256 << 20
"""Largest size in bytes of any file that a compiler writes, its messages included."""

LOG = 1 << 20
"""Largest number of bytes read from a compiler's messages."""

_KEPT = ("PATH", *(("DEVELOPER_DIR", "SDKROOT") if sys.platform == "darwin" else ()))

# For glibc: request huge pages for heaps, if the system offers them. Without them, a small kernel's compilation spends
# a tenth of its time on page faults.
_TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216"

# A shell sets the limits between fork and exec: Python code there may deadlock in a process with threads. A limit that
# the system lacks (macOS has no limit of address space) is skipped. Units are seconds, KiB, and blocks of 512 bytes.
# The soft limit of time comes first: its signal identifies a timeout, while the hard limit sends SIGKILL. The soft
# limit of the stack is the size of threads' stacks; GCC and NVRTC raise it for their first thread.
_LIMITED = """
{ ulimit -c 0; ulimit -S -t "$1"; ulimit -H -t "$2"; ulimit -v "$3"; ulimit -f "$4"; } 2>/dev/null
{ ulimit -S -s 8192; ulimit -H -s 65536; } 2>/dev/null
shift 4
exec "$@"
"""
_NOT_STARTED = (126, 127)  # exit statuses of a shell whose exec fails


@dataclass(frozen=True)
class Ran:
    """How a program ended: its exit status (negative for a signal) and its standard error.

    ``timed_out``: whether it was killed at the deadline; ``status`` is meaningless then.
    """

    status: int
    said: str
    timed_out: bool

    @property
    def started(self) -> bool:
        """Whether the program could be started."""
        return self.status not in _NOT_STARTED


def environment(folder: str | None = None) -> dict[str, str]:
    """The whole environment of a compiler program whose temporary files go to ``folder`` (default: the system's)."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "LC_ALL": "C", "GLIBC_TUNABLES": _TUNABLES, "TMPDIR": folder or tempfile.gettempdir()}


def confined(command: Sequence[str], text: str, deadline: float) -> Ran:
    """Run a program with ``text`` as its standard input, for at most ``deadline`` seconds of wall time.

    The program and its children are killed past the deadline, and when the caller is interrupted. If the caller
    itself is killed, the limit of processor time ends them. Raises ``TilewrightError`` if the start fails.
    """
    with scratch() as folder, open(os.path.join(folder, "said"), "w+b") as said:
        # A closed output shows the program's end at once; Python would poll for it every 50 ms.
        process = start(command, subprocess.PIPE, said, environment(folder), math.ceil(deadline) + 1, subprocess.PIPE)
        timed_out = False
        try:
            process.communicate(text.encode(), timeout=deadline)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            if process.returncode is None:
                kill_group(process)
        said.seek(0)
        return Ran(process.returncode, said.read(LOG).decode(errors="replace"), timed_out)


def start(
    command: Sequence[str],
    stdin: Any,
    said: IO[bytes],
    variables: Mapping[str, str],
    seconds: int | None = None,
    stdout: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a program under the limits, with standard error in ``said``; ``variables`` are its whole environment.

    ``seconds``: limit of processor time (default: none). Raises ``TilewrightError`` if the program cannot be started.
    """
    time = ("unlimited", "unlimited") if seconds is None else (str(seconds), str(seconds + 1))
    try:
        # A session of its own, so that the compiler driver's children are killed with it.
        return subprocess.Popen(
            ["/bin/sh", "-c", _LIMITED, "sh", *time, str(MEMORY >> 10), str(LARGEST >> 9), *command],
            stdin=stdin, stdout=stdout, stderr=said, start_new_session=True, env=variables,
        )  # fmt: skip
    except OSError as e:
        raise not_started(e) from None


def not_started(error: OSError) -> TilewrightError:
    """The error for a system that does not start a compiler."""
    what = f"no compiler can be started: {one_line(str(error))}"
    return TilewrightError(what, "See what disk space, memory and processes are left")


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program of :func:`start` with its children, and collect its exit status."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.contextmanager
def scratch(what: str = "compiler output") -> Iterator[str]:
    """A temporary folder for ``what`` that other users cannot read. Raises ``TilewrightError`` if it cannot be
    written."""
    try:
        with tempfile.TemporaryDirectory(prefix="tilewright-", ignore_cleanup_errors=True) as folder:
            yield folder
    except OSError as e:
        raise TilewrightError(f"cannot write {what}: {one_line(str(e))}", "Free some space, or set TMPDIR") from e


def one_line(text: str, limit: int = 300) -> str:
    """A program's output on one printable line of at most ``limit`` characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
