"""Locks that give each core or GPU to one measurement at a time: file locks, released when their process ends."""

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
    """The holder of a core or a GPU: process id, command line, and start time (seconds since the epoch)."""

    what: str
    pid: int
    command: str
    since: float

    def __str__(self) -> str:
        held = max(0, round(time.time() - self.since)) if self.since else 0
        return f"{self.what} is held by process {self.pid} ({self.command or 'unknown'}) for {held} s"


class Lockable(Protocol):
    """A lockable device: ``cores`` has the numbers of its cores, or the number of a GPU's lock."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def cores(self) -> tuple[int, ...]: ...


def lock_folder(kind: str = "cpu") -> Path:
    """Folder of this user's locks: one for all of the user's processes, in any environment.

    Each kind of device has its own folder: numbers of GPUs and of cores overlap.
    """
    uid, suffix = os.getuid(), "" if kind == "cpu" else f"-{kind}"
    runtime = Path(f"/run/user/{uid}")
    with contextlib.suppress(OSError):
        if runtime.stat().st_uid == uid and os.access(runtime, os.W_OK):
            return runtime / f"tilewright{suffix}"
    return Path("/tmp") / f"tilewright-{uid}{suffix}"


class DeviceLock:
    """Exclusive use of a device among this user's processes; a context manager.

    ``acquire`` waits. ``on_wait`` is called with the :class:`Holder` at the start of a wait, and again
    when the holder changes; ``timeout`` (seconds) limits the wait, and setting ``stop`` ends it. Raises
    ``TilewrightError`` then, if this thread already holds the lock, or if the lock folder is another user's.
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
        """Lock every core, lowest number first, so that two waiting processes cannot deadlock."""
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
        """Release the cores."""
        while self._held:
            fd, path = self._held.pop()
            _mine.pop(path, None)
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
                # Unlock explicitly: a forked child's copy of the descriptor would keep the lock.
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
                # The holder writes its name just after locking: an empty file says nothing yet.
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
    # Best effort: only the lock itself matters.
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
