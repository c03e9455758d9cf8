"""Adds the table ``compatibility``: the oldest schema whose versions can read this database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    table = op.create_table(
        "compatibility",
        sa.Column("oldest_reader", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("oldest_reader", name="pk_compatibility"),
    )
    op.bulk_insert(table, [{"oldest_reader": "0001"}])
