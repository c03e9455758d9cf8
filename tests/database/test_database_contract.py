from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.database import Database
from tilewright.testing.database import DatabaseContract


class TestSqlite(DatabaseContract):
    def open_database(self, folder: Path) -> Database:
        return Database.open(folder / "tuned.db")


class TestSqliteUrl(DatabaseContract):
    def open_database(self, folder: Path) -> Database:
        return Database.open(f"sqlite:///{folder / 'a folder' / 'tuned 100%.db'}")


class TestPostgresql(DatabaseContract):
    """``open_database`` gives one database for each test, whose folder is its own."""

    @pytest.fixture(autouse=True)
    def fresh(self, url: str) -> None:
        self.url = url

    def open_database(self, folder: Path) -> Database:
        return Database.open(self.url)
