"""Adds an index of trials by run, status and time: pages and metrics count and rank without reading whole rows."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    columns = ["run_id", "status", "seconds", "number"]
    op.create_index("ix_trial_run_id_status_seconds_number", "trial", columns)
