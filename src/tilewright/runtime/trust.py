"""Checks whether a database may be trusted: opening it means running the code in it.

A checksum in the file itself proves nothing. So the file's permissions decide: only its reader or root may be able to
write the file, or any folder on its path.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from tilewright.core import DatabaseError

_SIDE_FILES = ("-wal", "-shm", "-journal")  # SQLite reads these as part of the database
_WRITERS = stat.S_IWGRP | stat.S_IWOTH


def require_trust(path: Path) -> None:
    """Raises ``DatabaseError`` if a user other than this one and root can write the database.

    ``path`` has its symbolic links resolved. A folder further up may be writable by all if it is sticky (``/tmp``). The
    database's own folder may not: SQLite reads files beside it.
    """
    for suffix in ("", *_SIDE_FILES):
        file = Path(f"{path}{suffix}")
        try:
            status = file.lstat()
        except FileNotFoundError:
            continue
        _require(file, status, "the database" if not suffix else "a file that belongs to the database")
    _require_folders(path)


def require_place(path: Path) -> None:
    """Raises ``DatabaseError`` for a place where a new database could not be opened later, by the rules of
    :func:`require_trust`."""
    path = path.resolve()
    while not path.parent.exists():
        path = path.parent
    require_trust(path)


def require_own(path: Path, what: str, why: str) -> None:
    """Raises ``DatabaseError`` if a user other than this one and root can write a file; ``why``: why that matters."""
    mend = f"Make a copy of your own, or run `chmod go-w {path}`"
    _require(path, path.lstat(), what, why=why, mend=mend)
    _require_folders(path, why, "Keep it in a folder of your own")


def _require_folders(path: Path, why: str = "", mend: str = "") -> None:
    for depth, folder in enumerate(path.parents):
        status = folder.stat()
        sticky = bool(status.st_mode & stat.S_ISVTX)
        if sticky and not mend:  # /tmp: its mode must stay
            mend = "Keep it in a folder of your own, or open it with trust=True if you trust them"
        _require(folder, status, "the folder", sticky and depth > 0, why, mend)


_RUNS = "a database holds code that would run as you"


def _require(
    path: Path, status: os.stat_result, what: str, sticky: bool = False, why: str = "", mend: str = ""
) -> None:
    why = why or _RUNS
    if status.st_uid not in (0, os.geteuid()):
        raise DatabaseError(
            f"{what} {path} belongs to another user ({_user(status.st_uid)}), and {why}",
            mend or "Use a copy of your own, or open it with trust=True if you trust that user",
        )
    writers = status.st_mode & _WRITERS
    if writers & stat.S_IWGRP and not writers & stat.S_IWOTH and _private_group(status):
        writers = 0
    if writers and not sticky:
        who = "every user" if writers & stat.S_IWOTH else "its group"
        raise DatabaseError(
            f"{what} {path} can be written by {who}, and {why}",
            mend or f"Run `chmod go-w {path}`, or open it with trust=True if you trust them",
        )


def _private_group(status: os.stat_result) -> bool:
    """Whether the group is this user's own: of equal name, primary, and without other members.

    Many systems give each user a group of this kind, and make new files writable by it.
    """
    if status.st_uid == 0 or status.st_gid == 0:
        return False
    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return user.pw_gid == group.gr_gid and user.pw_name == group.gr_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
