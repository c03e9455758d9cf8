"""The first schema, from which migrations start. A new database gets the newest schema, from the metadata."""

from __future__ import annotations

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    raise AssertionError("no database is created with the first schema any more")
