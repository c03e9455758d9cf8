"""One PostgreSQL server for all tests of a process that ask for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from postgres import Server
from tilewright.database.migrate import upgrade_database


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server, and no settings of the user's own for libpq."""
    started = Server(tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith("PG") or n == "TILEWRIGHT_DB_PASSWORD"]:
            patch.delenv(name)
        yield started
    started.close()


@pytest.fixture(scope="session")
def ready(server: Server) -> str:
    """Name of a database with Tilewright's tables, to be copied."""
    name = server.create()
    upgrade_database(server.url(name))
    return name


@pytest.fixture
def url(server: Server, ready: str) -> str:
    """A database of this test's own, with Tilewright's tables."""
    return server.url(server.create(ready))
