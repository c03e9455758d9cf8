"""One measurer a core at a time: a file lock per core, which goes with the process that holds it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from tilewright.core import TilewrightError

_POLL = 0.1  # seconds
_mine: dict[str, int] = {}  # lock file -> thread of this process that holds it


@dataclass(frozen=True)
class Holder:
    """Who holds a core: process id, command line, and since when (seconds since the epoch)."""

    core: int
    pid: int
    command: str
    since: float

    def __str__(self) -> str:
        held = max(0, round(time.time() - self.since)) if self.since else 0
        return f"core {self.core} is held by process {self.pid} ({self.command or 'unknown'}) for {held} s"


class Cores(Protocol):
    """What a lock needs to know of a device."""

    @property
    def name(self) -> str: ...

    @property
    def cores(self) -> tuple[int, ...]: ...


def lock_folder() -> Path:
    """Where this user's locks lie: one place for all of the user's processes, whatever their environment."""
    uid = os.getuid()
    runtime = Path(f"/run/user/{uid}")
    with contextlib.suppress(OSError):
        if runtime.stat().st_uid == uid and os.access(runtime, os.W_OK):
            return runtime / "tilewright"
    return Path("/tmp") / f"tilewright-{uid}"


class DeviceLock:
    """Exclusive use of a device's cores among this user's processes; a context manager.

    ``acquire`` waits. ``on_wait`` is called with the :class:`Holder` when it has to, and again
    whenever that changes; ``timeout`` (seconds) bounds the wait, and setting ``stop`` ends it. Raises
    ``TilewrightError`` then, when this very thread holds the core already, or when the lock folder is not ours.
    """

    def __init__(
        self,
        device: Cores,
        on_wait: Callable[[Holder], None] | None = None,
        timeout: float | None = None,
        folder: Path | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.device = device
        self.on_wait = on_wait
        self.timeout = timeout
        self.stop = stop
        self.folder = folder or lock_folder()
        self._held: list[tuple[int, str]] = []

    def __enter__(self) -> DeviceLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
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
                "Have it removed by its owner or root",
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
                holder = _read_holder(fd, core)
                # The holder writes its name just after it has locked: an empty file is not news yet.
                if holder and told != (holder.pid, holder.since):
                    told = (holder.pid, holder.since)
                    if self.on_wait:
                        self.on_wait(holder)
                if self.stop is not None and self.stop.is_set():
                    raise TilewrightError(f"waiting for {self.device.name} was given up")
                if end is not None and time.monotonic() >= end:
                    raise TilewrightError(f"{self.device.name} is in use: {holder or 'holder unknown'}", "Wait for it")
                time.sleep(_POLL)
            _write_holder(fd)
        except BaseException:
            os.close(fd)
            raise
        _mine[path] = threading.get_ident()
        return fd, path


class Gpu(Cores, Protocol):
    """What a lock needs to know of a GPU: its ``cores`` are the number that its lock bears."""

    @property
    def kind(self) -> str: ...


class GpuLock(DeviceLock):
    """Exclusive use of a GPU among this user's processes, as :class:`DeviceLock` is of cores."""

    def __init__(
        self,
        device: Gpu,
        on_wait: Callable[[Holder], None] | None = None,
        timeout: float | None = None,
        folder: Path | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        # A folder of its own: numbers of GPUs and of cores overlap.
        own = lock_folder()
        tell = None if on_wait is None else lambda holder: on_wait(_GpuHolder.of(holder, device.name))
        super().__init__(device, tell, timeout, folder or own.with_name(f"{own.name}-{device.kind}"), stop)

    def acquire(self) -> None:
        try:
            super().acquire()
        except TilewrightError as e:
            text = re.sub(r"core \d+ is held", f"{self.device.name} is held", e.message)
            raise TilewrightError(text, e.hint) from None


@dataclass(frozen=True)
class _GpuHolder(Holder):
    name: str = ""

    @staticmethod
    def of(holder: Holder, name: str) -> _GpuHolder:
        return _GpuHolder(holder.core, holder.pid, holder.command, holder.since, name)

    def __str__(self) -> str:
        return re.sub(r"core \d+ is held", f"{self.name} is held", super().__str__())


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


def _read_holder(fd: int, core: int) -> Holder | None:
    try:
        data = json.loads(os.pread(fd, 4096, 0))
        command = "".join(c if c.isprintable() else " " for c in str(data["command"]))
        return Holder(core, int(data["pid"]), command, float(data["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _command() -> str:
    words = [os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]] if sys.argv else ["python"]
    return shlex.join(words)[:200]
