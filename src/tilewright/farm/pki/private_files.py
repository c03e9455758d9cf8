"""Files that hold secrets: closed to other users, and what the system says of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
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
def explained(path: Path) -> Iterator[None]:
    """Turn what the system raises into a ``FarmError``."""
    try:
        yield
    except OSError as e:
        where = e.filename2 or e.filename or path
        hint = "Check the path, its owner and mode, and the room on its disk"
        raise FarmError(f"{where}: {e.strerror or e}", hint) from None
