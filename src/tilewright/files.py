"""Files that change as a whole or not at all, and folders that one process changes at a time. Standard library only.

A file is written under a name of its own, synced, and renamed: a reader sees the old text or the new one, a full disk
or a killed writer spoils neither. Whoever writes what follows from what was read holds the folder's lock meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PRIVATE, SHARED = 0o600, 0o666
"""Modes of new files, less what the process's umask takes away."""

PATIENCE = 30.0
"""Seconds that a folder's lock is waited for."""

_POLL = 0.005  # seconds, at most


def stamp(file: str | Path) -> tuple[int, ...]:
    """What tells one state of a file from another: inode, bytes, and time of its last change; empty without a file."""
    try:
        s = os.stat(file)
    except OSError:
        return ()
    return (s.st_ino, s.st_size, s.st_mtime_ns)


@contextlib.contextmanager
def replacing(path: Path, mode: int = PRIVATE, *, sync: bool = True, drafts: Path | None = None) -> Iterator[Path]:
    """A new empty file, which takes the place of ``path`` at the end, or vanishes on an error.

    A link is followed, and what is no regular file (``/dev/stdout``) is given itself. ``sync``: onto the disk first,
    so that a power cut leaves one of the two files. ``drafts``: a folder of the same file system for the new file,
    default that of ``path``.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        yield path
        return
    draft = (drafts or path.parent) / f".{path.name[:100]}.{secrets.token_hex(8)}.partial"
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode))
        yield draft
        if sync:
            _sync(draft)
        os.replace(draft, path)
        if sync:
            _sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes, mode: int = PRIVATE, *, sync: bool = True) -> None:
    """Give a file these bytes, as :func:`replacing` does. Raises ``OSError``."""
    with replacing(path, mode, sync=sync) as draft:
        draft.write_bytes(data)


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files of mode 0600. All are on disk before the first takes its place: a full disk spoils none."""
    with contextlib.ExitStack() as written:
        for name, data in reversed(list(files.items())):  # the last that is written takes its place first
            draft = written.enter_context(replacing(folder / name))
            draft.write_bytes(data)
            _sync(draft)


@contextlib.contextmanager
def locked(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Alone in a folder, among the threads and processes of this machine that ask for it.

    Locking the folder itself leaves no file behind; where a file system refuses that (NFS), a file ``.lock`` in it is
    locked. Raises ``OSError``, ``TimeoutError`` among them after ``patience`` seconds: its holder may be stopped.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            _lock(descriptor, patience, folder)
        except TimeoutError:
            raise
        except OSError:
            os.close(descriptor)
            descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            _lock(descriptor, patience, folder)
        yield
    finally:
        with contextlib.suppress(OSError):
            # Unlocked by name: a forked child's copy of the descriptor would keep it locked.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _lock(descriptor: int, patience: float, folder: Path) -> None:
    end, pause = time.monotonic() + patience, 0.0001
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                held = f"another process has held its lock for {patience:g} s"
                raise TimeoutError(errno.ETIMEDOUT, held, str(folder)) from None
        time.sleep(pause)
        pause = min(2 * pause, _POLL)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
