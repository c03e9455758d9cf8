"""What every test shares: no test touches the user's own database or cache, or wakes golden files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One artifact cache for the session, and a default database that is nobody's."""
    folder = tmp_path_factory.mktemp("tilewright")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE", str(folder / "cache"))
        patch.setenv("TILEWRIGHT_DB", str(folder / "default.db"))
        patch.setenv("TILEWRIGHT_CONFIG", os.devnull)
        yield folder


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A test run that a shell started in the background ignores Ctrl-C, and so would every command it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write generated sources of new template versions to tests/golden"
    )


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files may be written."""
    return bool(request.config.getoption("--update-golden"))
