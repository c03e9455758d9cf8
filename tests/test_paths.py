from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.paths import cache_root, default_path

VARIABLES = ("TILEWRIGHT_DB", "TILEWRIGHT_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_home_is_the_last_resort(home: Path) -> None:
    assert default_path() == str(home / ".local/share/tilewright/tilewright.db")
    assert cache_root() == home / ".cache/tilewright"


def test_folders_follow_the_xdg_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_path() == "/data/tilewright/tilewright.db"
    assert cache_root() == Path("/cache/tilewright")


@pytest.mark.parametrize("value", ["", "relative"])
def test_relative_xdg_folders_are_ignored(home: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", value)
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert default_path() == str(home / ".local/share/tilewright/tilewright.db")
    assert cache_root() == home / ".cache/tilewright"


def test_own_variables_win(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("TILEWRIGHT_DB", "sqlite:////tuned.db")
    monkeypatch.setenv("TILEWRIGHT_CACHE", "~/kernels")
    assert default_path() == "sqlite:////tuned.db"
    assert cache_root() == home / "kernels"
    monkeypatch.setenv("TILEWRIGHT_DB", "")
    monkeypatch.setenv("TILEWRIGHT_CACHE", "")
    assert default_path() == "/data/tilewright/tilewright.db"
    assert cache_root() == Path("/cache/tilewright")
