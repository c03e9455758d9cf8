"""A database that others could have written is not opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from runtime_kernels import Maker

from tilewright.core import DatabaseError
from tilewright.runtime import Library
from tilewright.runtime.trust import require_trust

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def path(maker: Maker) -> Path:
    maker.matmul(4, 4, 4)
    folder = maker.path.parent / "folder"
    folder.mkdir(mode=0o755)
    return Path(os.rename(maker.path, folder / "t.db") or folder / "t.db")


def writable_by_all(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWOTH)


def writable_by_group(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWGRP)
    if os.geteuid() == 0:
        os.chown(path, -1, 12345)


@pytest.mark.parametrize("spoil", [writable_by_all, pytest.param(writable_by_group, marks=root_only)])
@pytest.mark.parametrize("part", ["file", "folder", "above"])
def test_refuses_what_others_can_write(path: Path, spoil: Callable[[Path], None], part: str) -> None:
    Library(path)
    place = {"file": path, "folder": path.parent, "above": path.parent.parent}[part]
    spoil(place)
    try:
        who = "every user" if spoil is writable_by_all else "its group"
        with pytest.raises(DatabaseError, match=rf"can be written by {who}.*chmod go-w .*trust=True") as error:
            Library(path)
        assert str(place) in str(error.value)
        assert Library(path, trust=True).explain("matmul", m=4, n=4, k=4).tier == "exact"
    finally:
        place.chmod(0o700)
    Library(path)


@root_only
@pytest.mark.parametrize("part", ["file", "folder", "above"])
def test_refuses_another_owner(path: Path, part: str) -> None:
    place = {"file": path, "folder": path.parent, "above": path.parent.parent}[part]
    os.chown(place, 12345, -1)
    try:
        with pytest.raises(DatabaseError, match="belongs to another user"):
            Library(path)
        Library(path, trust=True)
    finally:
        os.chown(place, 0, -1)


def test_side_files_count_too(path: Path) -> None:
    log = Path(f"{path}-wal")
    log.touch()
    writable_by_all(log)
    with pytest.raises(DatabaseError, match=r"belongs to the database .*-wal can be written by every user"):
        Library(path)


def test_a_sticky_folder_will_do_above_but_not_beside(path: Path) -> None:
    path.parent.parent.chmod(0o1777)
    Library(path)
    path.parent.chmod(0o1777)
    with pytest.raises(DatabaseError, match=r"can be written by every user.* Keep it in a folder of your own"):
        Library(path)


def test_links_are_followed_first(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert Library(link).path == str(path)
    writable_by_all(path.parent)
    with pytest.raises(DatabaseError, match="folder"):
        Library(link)


def test_is_checked_again_at_every_read(path: Path) -> None:
    library = Library(path)
    writable_by_all(path)
    with pytest.raises(DatabaseError, match="every user"):
        library.plan("matmul", m=4, n=4, k=4)


def test_a_group_of_ones_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems with a group for each user make new files writable by it."""
    import grp
    import pwd

    user = pwd.struct_passwd(("ada", "x", 4242, 4242, "", "/", ""))
    plain = os.stat(path)
    members: list[str] = []
    status = os.stat_result((0o100664, *plain[1:4], 4242, 4242, *plain[6:10]))
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("ada", "x", 4242, members)))
    monkeypatch.setattr(Path, "lstat", lambda self: status)
    monkeypatch.setattr(Path, "stat", lambda self: os.stat_result((0o40775, *tuple(status)[1:])))
    require_trust(path)
    members.append("bob")
    with pytest.raises(DatabaseError, match="its group"):
        require_trust(path)
