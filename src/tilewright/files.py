"""Files that change as a whole or not at all, and folders that one process changes at a time. Standard library only.

A file is written under a temporary name, synced, and renamed. So a reader sees either the old text or the new one, and
a full disk or a killed writer spoils neither. A process that reads a file and then rewrites it holds the folder's lock.
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
"""Modes of new files, before the process's umask."""

PATIENCE = 30.0
"""Seconds to wait for a folder's lock."""

_POLL = 0.005  # largest pause between two attempts to lock, in seconds


def stamp(file: str | Path) -> tuple[int, ...]:
    """Identifies the state of a file: inode, size in bytes, and modification time; empty if the file is missing."""
    try:
        s = os.stat(file)
    except OSError:
        return ()
    return (s.st_ino, s.st_size, s.st_mtime_ns)


@contextlib.contextmanager
def replacing(path: Path, mode: int = PRIVATE, *, sync: bool = True, drafts: Path | None = None) -> Iterator[Path]:
    """Yields a new empty file, which replaces ``path`` on success and is removed on an error.

    A link is followed; a path that is no regular file (``/dev/stdout``) is yielded itself. ``sync``: flush to disk
    before the rename, so that after a power cut one of the two files is whole. ``drafts``: folder of the same file
    system for the new file, by default that of ``path``.
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
    """Replaces a file's contents with ``data``, as :func:`replacing` does. Raises ``OSError``."""
    with replacing(path, mode, sync=sync) as draft:
        draft.write_bytes(data)


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files of mode 0600. All are on disk before the first one is renamed, so a full disk changes no file."""
    with contextlib.ExitStack() as written:
        for name, data in reversed(list(files.items())):  # the draft that is written last is renamed first
            draft = written.enter_context(replacing(folder / name))
            draft.write_bytes(data)
            _sync(draft)


@contextlib.contextmanager
def locked(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Holds the folder's exclusive lock among the threads and processes of this machine.

    Locks the folder itself, which leaves no file behind. If the file system refuses that (NFS), locks a file ``.lock``
    in the folder. Raises ``OSError``, and ``TimeoutError`` after ``patience`` seconds: the lock's holder may be
    stopped.
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
            # Unlocked by name: a forked child's copy of the descriptor would keep the lock held.
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
