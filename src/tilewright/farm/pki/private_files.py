"""Checks that files with secrets are closed to other users, and explains file errors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tilewright.farm.errors import FarmError


def require_private(path: Path) -> None:
    """Raises ``FarmError`` if users other than this user and root can read or write a key file.

    A group may read a key that root owns, as mounted secrets are (libpq has this rule too).
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
    """Context that turns an ``OSError`` into a ``FarmError``."""
    try:
        yield
    except OSError as e:
        where = e.filename2 or e.filename or path
        hint = "Check the path, its owner and mode, and the room on its disk"
        raise FarmError(f"{where}: {e.strerror or e}", hint) from None
