"""The first schema: workloads, targets, runs, trials, kernels, artifacts, models, runners, misses."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _column(name: str, type_: Any = sa.Text, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, type_(), nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "miss",
        _column("op"),
        _column("params"),
        _column("target_key"),
        _column("count", sa.BigInteger),
        _column("first", sa.Double),
        _column("last", sa.Double),
        sa.PrimaryKeyConstraint("op", "params", "target_key", name="pk_miss"),
    )
    op.create_table(
        "runner",
        _column("id"),
        _column("name"),
        _column("device"),
        _column("labels"),
        _column("last_seen", sa.Double),
        _column("state"),
        sa.PrimaryKeyConstraint("id", name="pk_runner"),
    )
    op.create_table(
        "target",
        _column("key"),
        _column("name"),
        _column("data"),
        _column("created", sa.Double),
        sa.PrimaryKeyConstraint("key", name="pk_target"),
    )
    op.create_table(
        "workload",
        _column("key"),
        _column("op"),
        _column("params"),
        _column("defaults"),
        _column("param_names"),
        _column("program"),
        _column("inputs"),
        _column("output"),
        _column("flops", sa.BigInteger),
        _column("precision"),
        _column("created", sa.Double),
        sa.PrimaryKeyConstraint("key", name="pk_workload"),
    )
    op.create_index("ix_workload_op", "workload", ["op"])
    op.create_table(
        "alias",
        _column("workload_key"),
        _column("op"),
        _column("params"),
        _column("defaults"),
        _column("param_names"),
        _column("created", sa.Double),
        sa.ForeignKeyConstraint(["workload_key"], ["workload.key"], name="fk_alias_workload_key"),
        sa.PrimaryKeyConstraint("workload_key", "op", "params", name="pk_alias"),
    )
    op.create_index("ix_alias_op", "alias", ["op"])
    op.create_table(
        "artifact",
        _column("sha256"),
        _column("data", sa.LargeBinary),
        _column("size", sa.BigInteger),
        _column("target_key"),
        _column("compiler"),
        _column("flags"),
        _column("source"),
        _column("source_sha256"),
        _column("created", sa.Double),
        sa.ForeignKeyConstraint(["target_key"], ["target.key"], name="fk_artifact_target_key"),
        sa.PrimaryKeyConstraint("sha256", name="pk_artifact"),
    )
    op.create_table(
        "model",
        _column("id"),
        _column("target_key"),
        _column("feature_version"),
        _column("data", sa.LargeBinary),
        _column("trials", sa.BigInteger),
        _column("created", sa.Double),
        sa.ForeignKeyConstraint(["target_key"], ["target.key"], name="fk_model_target_key"),
        sa.PrimaryKeyConstraint("id", name="pk_model"),
    )
    op.create_index(
        "ix_model_target_key_feature_version_created", "model", ["target_key", "feature_version", "created"]
    )
    op.create_table(
        "run",
        _column("id"),
        _column("workload_key"),
        _column("target_key"),
        _column("device_name"),
        _column("device_model"),
        _column("strategy"),
        _column("seed", sa.BigInteger),
        _column("trials_wanted", sa.BigInteger),
        _column("settings"),
        _column("state"),
        _column("started", sa.Double),
        _column("finished", sa.Double, nullable=True),
        _column("host"),
        _column("pid", sa.BigInteger),
        _column("process"),
        _column("versions"),
        _column("summary"),
        sa.ForeignKeyConstraint(["target_key"], ["target.key"], name="fk_run_target_key"),
        sa.ForeignKeyConstraint(["workload_key"], ["workload.key"], name="fk_run_workload_key"),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
    )
    op.create_index("ix_run_started", "run", ["started"])
    op.create_index("ix_run_target_key_device_model_started", "run", ["target_key", "device_model", "started"])
    op.create_index(
        "ix_run_workload_key_target_key_device_model", "run", ["workload_key", "target_key", "device_model"]
    )
    op.create_table(
        "kernel",
        _column("workload_key"),
        _column("target_key"),
        _column("device_model"),
        _column("rank", sa.Integer),
        _column("run_id", nullable=True),
        _column("trial_number", sa.Integer, nullable=True),
        _column("template"),
        _column("template_version", sa.Integer),
        _column("schedule"),
        _column("launch_program"),
        _column("seconds", sa.Double),
        _column("peak_fraction", sa.Double, nullable=True),
        _column("artifact_sha256"),
        _column("state"),
        _column("updated", sa.Double),
        sa.ForeignKeyConstraint(["artifact_sha256"], ["artifact.sha256"], name="fk_kernel_artifact_sha256"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_kernel_run_id", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["target_key"], ["target.key"], name="fk_kernel_target_key"),
        sa.ForeignKeyConstraint(["workload_key"], ["workload.key"], name="fk_kernel_workload_key"),
        sa.PrimaryKeyConstraint("workload_key", "target_key", "device_model", "rank", name="pk_kernel"),
    )
    op.create_index("ix_kernel_artifact_sha256", "kernel", ["artifact_sha256"])
    op.create_table(
        "trial",
        _column("run_id"),
        _column("number", sa.Integer),
        _column("candidate_key"),
        _column("template"),
        _column("template_version", sa.Integer),
        _column("schedule"),
        _column("origin"),
        _column("prediction", sa.Double, nullable=True),
        _column("status"),
        _column("seconds", sa.Double, nullable=True),
        _column("outcome"),
        _column("build_seconds", sa.Double),
        _column("created", sa.Double),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_trial_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_trial"),
        sa.UniqueConstraint("run_id", "candidate_key", name="uq_trial_run_id_candidate_key"),
    )
