from __future__ import annotations

from pathlib import Path

from tilewright.database import Database
from tilewright.testing.database import DatabaseContract


class TestSqlite(DatabaseContract):
    def open_database(self, folder: Path) -> Database:
        return Database.open(folder / "tuned.db")


class TestSqliteUrl(DatabaseContract):
    def open_database(self, folder: Path) -> Database:
        return Database.open(f"sqlite:///{folder / 'a folder' / 'tuned 100%.db'}")
