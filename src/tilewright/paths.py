"""Default paths of Tilewright's files, and reading of system files. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def default_path() -> str:
    """Path or URL of the default database.

    ``$TILEWRIGHT_DB``, else ``tilewright/tilewright.db`` in ``$XDG_DATA_HOME`` (``~/.local/share``).
    """
    return os.environ.get("TILEWRIGHT_DB") or str(_xdg("XDG_DATA_HOME", ".local/share") / "tilewright.db")


def cache_root() -> Path:
    """Folder of the artifact cache.

    ``$TILEWRIGHT_CACHE``, else ``tilewright`` in ``$XDG_CACHE_HOME`` (``~/.cache``). The code that creates the folder
    gives it mode 0700: it holds native code that will be run.
    """
    given = os.environ.get("TILEWRIGHT_CACHE")
    return Path(given).expanduser().absolute() if given else _xdg("XDG_CACHE_HOME", ".cache")


def config_root() -> Path:
    """Folder of the user's settings: ``tilewright`` in ``$XDG_CONFIG_HOME`` (``~/.config``)."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def text_of(path: str | Path) -> str:
    """Text of a file; empty if it cannot be read, as a machine may lack a file of the system."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _xdg(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable, "")
    # The XDG specification says to ignore relative paths.
    root = Path(base) if os.path.isabs(base) else Path.home() / fallback
    return root / "tilewright"
