"""Files that hold secrets: written whole or not at all, and closed to other users."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
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
    if status.st_uid not in (0, os.geteuid()):
        raise FarmError(f"the key {path} belongs to another user", f"Run `chown {os.geteuid()} {path}`")
    others = stat.S_IRWXG | stat.S_IRWXO
    if status.st_uid != os.geteuid():
        others &= ~stat.S_IRGRP
    if status.st_mode & others:
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


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """A new folder with all files, or none."""
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))  # of mode 0700
    try:
        replace_files(draft, files)
        os.rename(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files of mode 0600. All are on disk before the first takes its place: a full disk spoils none."""
    drafts: list[tuple[str, str]] = []
    try:
        for name, data in files.items():
            descriptor, draft = tempfile.mkstemp(prefix=".new-", dir=folder)  # of mode 0600
            drafts.append((draft, name))
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
        for draft, name in drafts:
            os.replace(draft, folder / name)
    except BaseException:
        for draft, _ in drafts:
            with contextlib.suppress(OSError):
                os.unlink(draft)
        raise


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the system raises into a ``FarmError``."""
    try:
        yield
    except OSError as e:
        where = e.filename2 or e.filename or path
        mend = "Check the path, its owner and mode, and the room on its disk"
        raise FarmError(f"{where}: {e.strerror or e}", mend) from None
