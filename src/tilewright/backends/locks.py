"""One measurer a device at a time: a file lock per core or GPU, which goes with the process that holds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tilewright.core import TilewrightError

_POLL = 0.1  # seconds
_mine: dict[str, int] = {}  # lock file -> thread of this process that holds it


@dataclass(frozen=True)
class Holder:
    """Who holds a core or a GPU: process id, command line, and since when (seconds since the epoch)."""

    what: str
    pid: int
    command: str
    since: float

    def __str__(self) -> str:
        held = max(0, round(time.time() - self.since)) if self.since else 0
        return f"{self.what} is held by process {self.pid} ({self.command or 'unknown'}) for {held} s"


class Lockable(Protocol):
    """What a lock needs to know of a device: ``cores`` are its cores' numbers, or the one that a GPU's lock bears."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def cores(self) -> tuple[int, ...]: ...


def lock_folder(kind: str = "cpu") -> Path:
    """Where this user's locks lie: one place for all of the user's processes, whatever their environment.

    Each kind of device has its own: numbers of GPUs and of cores overlap.
    """
    uid, suffix = os.getuid(), "" if kind == "cpu" else f"-{kind}"
    runtime = Path(f"/run/user/{uid}")
    with contextlib.suppress(OSError):
        if runtime.stat().st_uid == uid and os.access(runtime, os.W_OK):
            return runtime / f"tilewright{suffix}"
    return Path("/tmp") / f"tilewright-{uid}{suffix}"


class DeviceLock:
    """Exclusive use of a device among this user's processes; a context manager.

    ``acquire`` waits. ``on_wait`` is called with the :class:`Holder` when it has to, and again
    whenever that changes; ``timeout`` (seconds) bounds the wait, and setting ``stop`` ends it. Raises
    ``TilewrightError`` then, when this very thread holds it already, or when the lock folder is not ours.
    """

    def __init__(
        self,
        device: Lockable,
        on_wait: Callable[[Holder], None] | None = None,
        timeout: float | None = None,
        folder: Path | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.device = device
        self.on_wait = on_wait
        self.timeout = timeout
        self.stop = stop
        self.folder = folder or lock_folder(device.kind)
        self._held: list[tuple[int, str]] = []

    def __enter__(self) -> DeviceLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def held(self) -> bool:
        return bool(self._held)

    def acquire(self) -> None:
        """Take every core, lowest number first, so that two waiters never hold what the other wants."""
        if self._held:
            return
        end = None if self.timeout is None else time.monotonic() + self.timeout
        self._make_folder()
        try:
            for core in sorted(self.device.cores):
                self._held.append(self._take(core, end))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give the cores back."""
        while self._held:
            fd, path = self._held.pop()
            _mine.pop(path, None)
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
                # Unlocked by name: a forked child's copy of the descriptor would keep it locked.
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            facts = self.folder.lstat()
        except OSError as e:
            raise TilewrightError(f"cannot make the lock folder {self.folder}: {e.strerror}") from e
        if facts.st_uid != os.getuid() or not self.folder.is_dir() or self.folder.is_symlink():
            raise TilewrightError(
                f"the lock folder {self.folder} belongs to someone else",
                "Ask its owner or an administrator to remove it",
            )

    def _take(self, core: int, end: float | None) -> tuple[int, str]:
        path = str(self.folder / f"core-{core}.lock")
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as e:
            raise TilewrightError(f"cannot open the lock {path}: {e.strerror}") from e
        try:
            told: tuple[int, float] | None = None
            while not _try_lock(fd):
                if _mine.get(path) == threading.get_ident():
                    raise TilewrightError(f"this thread holds {self.device.name} already", "Release it first")
                holder = _read_holder(fd, f"core {core}" if self.device.kind == "cpu" else self.device.name)
                # The holder writes its name just after it has locked: an empty file is not news yet.
                if holder and told != (holder.pid, holder.since):
                    told = (holder.pid, holder.since)
                    if self.on_wait:
                        self.on_wait(holder)
                if self.stop is not None and self.stop.is_set():
                    raise TilewrightError(f"{self.device.name} stayed in use; the wait was ended")
                if end is not None and time.monotonic() >= end:
                    raise TilewrightError(f"{self.device.name} is in use: {holder or 'holder unknown'}", "Wait for it")
                time.sleep(_POLL)
            _write_holder(fd)
        except BaseException:
            os.close(fd)
            raise
        _mine[path] = threading.get_ident()
        return fd, path


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(fd: int) -> None:
    # Best effort: the lock is what counts.
    data = {"pid": os.getpid(), "command": _command(), "since": time.time()}
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(data).encode(), 0)


def _read_holder(fd: int, what: str) -> Holder | None:
    try:
        data = json.loads(os.pread(fd, 4096, 0))
        command = "".join(c if c.isprintable() else " " for c in str(data["command"]))
        return Holder(what, int(data["pid"]), command, float(data["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _command() -> str:
    words = [os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]] if sys.argv else ["python"]
    return shlex.join(words)[:200]
