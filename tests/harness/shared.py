"""Expensive read-only files of a test session, made by the first pytest worker that asks for them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that all workers of a session share, or all sessions with equal
    ``TILEWRIGHT_TEST_SESSION``."""
    if several := os.environ.get("TILEWRIGHT_TEST_SESSION"):
        Path(several).mkdir(0o700, parents=True, exist_ok=True)
        return Path(several)
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Returns the folder ``name``, which ``make`` fills once; other workers wait until it is complete."""
    session = session_folder(factory)
    folder, making = session / name, session / f"{name}.making"
    with (session / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            make(making)
            making.rename(folder)
    return folder
