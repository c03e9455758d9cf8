"""How the system's compiler is run: with limits, in a clean environment, with a temporary folder of its own.

Local builds and a farm's builders do the same. Of the environment only the path to programs is kept (and on macOS what
chooses the SDK), so no header path (``CPATH``), other compiler pass (``GCC_EXEC_PREFIX``, ``COMPILER_PATH``), added
option or plugin (``CCC_OVERRIDE_OPTIONS``) and no preloaded library comes from it; options are those of the target and
of ``$CXX``, which the machine's owner sets. Temporary files and diagnostics lie in a folder that goes with the
compiler. Compilers that are libraries are run the same way, in a process that stays (``compiler_worker.py``).
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
"""Bytes of address space of each of the compiler's processes; an ordinary kernel takes a twentieth."""

LARGEST = 256 << 20
"""Bytes of any file that a compiler writes, what it says included."""

LOG = 1 << 20
"""Bytes read of what a compiler says."""

_KEPT = ("PATH", *(("DEVELOPER_DIR", "SDKROOT") if sys.platform == "darwin" else ()))

# To glibc: heaps in large pages, where the system has them for who asks. A compiler of a small kernel spends a tenth of
# its time on getting memory page by page.
_TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216"

# A shell sets them between fork and exec: Python code there may deadlock in a process with threads. One that cannot be
# set (macOS has no limit of address space) is passed over. Units are seconds, KiB, and blocks of 512 bytes. The soft
# limit of time comes first: its signal says what it is for, the hard one's is SIGKILL. The soft limit of the stack is
# what threads get; GCC and NVRTC raise it for their first thread.
_LIMITED = """
{ ulimit -c 0; ulimit -S -t "$1"; ulimit -H -t "$2"; ulimit -v "$3"; ulimit -f "$4"; } 2>/dev/null
{ ulimit -S -s 8192; ulimit -H -s 65536; } 2>/dev/null
shift 4
exec "$@"
"""
_NOT_STARTED = (126, 127)  # a shell's exit status where exec fails


@dataclass(frozen=True)
class Ran:
    """How a program ended: its exit status (minus the signal) and what it said on standard error.

    ``timed_out``: it was killed at the deadline; its ``status`` says nothing then.
    """

    status: int
    said: str
    timed_out: bool

    @property
    def started(self) -> bool:
        """Whether there was such a program."""
        return self.status not in _NOT_STARTED


def environment(folder: str | None = None) -> dict[str, str]:
    """The whole environment of a compiler program whose temporary files go to ``folder`` (default: the system's)."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "LC_ALL": "C", "GLIBC_TUNABLES": _TUNABLES, "TMPDIR": folder or tempfile.gettempdir()}


def confined(command: Sequence[str], text: str, deadline: float) -> Ran:
    """Run a program on ``text``, as its standard input, for at most ``deadline`` seconds of wall time.

    It is killed with whatever it started past the deadline and when the caller is interrupted; where the caller
    itself is killed, the limit of processor time ends it. Raises ``TilewrightError`` when it cannot be tried.
    """
    with scratch() as folder, open(os.path.join(folder, "said"), "w+b") as said:
        # The end of its output tells at once that it ended; Python looks for that every 50 ms otherwise.
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
    """Start a program under the limits, whose standard error goes to ``said``; ``variables`` are its whole environment.

    ``seconds`` of processor time (default: no limit). Raises ``TilewrightError`` when it cannot be tried.
    """
    time = ("unlimited", "unlimited") if seconds is None else (str(seconds), str(seconds + 1))
    try:
        # A session of its own, so that the driver's children die with it.
        return subprocess.Popen(
            ["/bin/sh", "-c", _LIMITED, "sh", *time, str(MEMORY >> 10), str(LARGEST >> 9), *command],
            stdin=stdin, stdout=stdout, stderr=said, start_new_session=True, env=variables,
        )  # fmt: skip
    except OSError as e:
        raise not_started(e) from None


def not_started(error: OSError) -> TilewrightError:
    """The error to raise where the system does not start a compiler."""
    what = f"no compiler can be started: {one_line(str(error))}"
    return TilewrightError(what, "See what disk space, memory and processes are left")


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a program of :func:`start` at once, with whatever it started, and take its exit status."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.contextmanager
def scratch(what: str = "compiler output") -> Iterator[str]:
    """A temporary folder for ``what`` that nobody else can read. Raises ``TilewrightError`` where nothing can be
    written."""
    try:
        with tempfile.TemporaryDirectory(prefix="tilewright-", ignore_cleanup_errors=True) as folder:
            yield folder
    except OSError as e:
        raise TilewrightError(f"cannot write {what}: {one_line(str(e))}", "Free some space, or set TMPDIR") from e


def one_line(text: str, limit: int = 300) -> str:
    """A program's words on one printable line of at most ``limit`` characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
