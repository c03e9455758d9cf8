"""Files that hold secrets: written whole or not at all, and closed to other users."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tilewright.farm.errors import FarmError


def require_private(path: Path) -> None:
    """Raise ``FarmError`` if others than this user and root can read a key or write it.

    A key of root's may be readable by a group, as mounted secrets are (libpq has the same rule).
    """
    with explained(path):
        status = path.stat()
    mine = status.st_uid == os.geteuid()
    if not mine and status.st_uid != 0:
        raise FarmError(f"the key {path} belongs to another user", f"Run `chown {os.geteuid()} {path}`")
    if status.st_mode & (0o077 if mine else 0o037):
        raise FarmError(f"the key {path} is open to other users", f"Run `chmod 600 {path}`")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone in a folder. Locking the folder itself leaves no file behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files of mode 0600. All are on disk before the first takes its place: a full disk spoils none."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder, ignore_cleanup_errors=True) as drafts:  # of mode 0700
        for name, data in files.items():
            draft = Path(drafts, name)
            draft.touch(mode=0o600)
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for name in files:
            os.replace(Path(drafts, name), folder / name)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the system raises into a ``FarmError``."""
    try:
        yield
    except OSError as e:
        where = e.filename2 or e.filename or path
        hint = "Check the path, its owner and mode, and the room on its disk"
        raise FarmError(f"{where}: {e.strerror or e}", hint) from None
