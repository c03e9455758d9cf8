"""The tables. docs/database.md says what each column means; a test holds the two together.

The types hold on SQLite and PostgreSQL alike. JSON is kept as canonical text: it is compared and
hashed as text, and never searched inside. Times are seconds (durations) or seconds since the epoch.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

REVISIONS = ("0001", "0002", "0003")
"""Every schema this version can upgrade, oldest first; the last one is its own."""

SCHEMA = REVISIONS[-1]

OLDEST_READABLE = "0001"
"""The oldest schema that this version reads as it is: it has every column that a read names. At least one back."""

OLDEST_READER = "0001"
"""The oldest schema whose versions can read this one: it has every column that they name. At least one back."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _key(name: str, type_: Any = Text, *args: Any) -> Column[Any]:
    """Part of the primary key. Never an implicit row number."""
    return Column(name, type_, *args, primary_key=True, autoincrement=False)


def _value(name: str, type_: Any = Text, *args: Any) -> Column[Any]:
    return Column(name, type_, *args, nullable=False)


compatibility = Table("compatibility", metadata, _key("oldest_reader"))

workload = Table(
    "workload",
    metadata,
    _key("key"),
    _value("op"),
    _value("params"),
    _value("defaults"),
    _value("param_names"),
    _value("program"),
    _value("inputs"),
    _value("output"),
    _value("flops", BigInteger),
    _value("precision"),
    _value("created", Double),
    Index(None, "op"),
)

alias = Table(
    "alias",
    metadata,
    _key("workload_key", Text, ForeignKey("workload.key")),
    _key("op"),
    _key("params"),
    _value("defaults"),
    _value("param_names"),
    _value("created", Double),
    Index(None, "op"),
)

target = Table(
    "target",
    metadata,
    _key("key"),
    _value("name"),
    _value("data"),
    _value("created", Double),
)

run = Table(
    "run",
    metadata,
    _key("id"),
    _value("workload_key", Text, ForeignKey("workload.key")),
    _value("target_key", Text, ForeignKey("target.key")),
    _value("device_name"),
    _value("device_model"),
    _value("strategy"),
    _value("seed", BigInteger),
    _value("trials_wanted", BigInteger),
    _value("settings"),
    _value("state"),
    _value("started", Double),
    Column("finished", Double),
    _value("host"),
    _value("pid", BigInteger),
    _value("process"),
    _value("versions"),
    _value("summary"),
    Index(None, "started"),
    Index(None, "workload_key", "target_key", "device_model"),
    Index(None, "target_key", "device_model", "started"),
)

trial = Table(
    "trial",
    metadata,
    _key("run_id", Text, ForeignKey("run.id", ondelete="CASCADE")),
    _key("number", Integer),
    _value("candidate_key"),
    _value("template"),
    _value("template_version", Integer),
    _value("schedule"),
    _value("origin"),
    Column("prediction", Double),
    _value("status"),
    Column("seconds", Double),
    _value("outcome"),
    _value("build_seconds", Double),
    _value("created", Double),
    UniqueConstraint("run_id", "candidate_key"),
    Index(None, "run_id", "status", "seconds", "number"),  # counts and times without the wide rows: database/views.py
)

artifact = Table(
    "artifact",
    metadata,
    _key("sha256"),
    _value("data", LargeBinary),
    _value("size", BigInteger),
    _value("target_key", Text, ForeignKey("target.key")),
    _value("compiler"),
    _value("flags"),
    _value("source"),
    _value("source_sha256"),
    _value("created", Double),
)

kernel = Table(
    "kernel",
    metadata,
    _key("workload_key", Text, ForeignKey("workload.key")),
    _key("target_key", Text, ForeignKey("target.key")),
    _key("device_model"),
    _key("rank", Integer),
    Column("run_id", Text, ForeignKey("run.id", ondelete="SET NULL")),
    Column("trial_number", Integer),
    _value("template"),
    _value("template_version", Integer),
    _value("schedule"),
    _value("launch_program"),
    _value("seconds", Double),
    Column("peak_fraction", Double),
    _value("artifact_sha256", Text, ForeignKey("artifact.sha256")),
    _value("state"),
    _value("updated", Double),
    Index(None, "artifact_sha256"),
)

model = Table(
    "model",
    metadata,
    _key("id"),
    _value("target_key", Text, ForeignKey("target.key")),
    _value("feature_version"),
    _value("data", LargeBinary),
    _value("trials", BigInteger),
    _value("created", Double),
    Index(None, "target_key", "feature_version", "created"),
)

runner = Table(
    "runner",
    metadata,
    _key("id"),
    _value("name"),
    _value("device"),
    _value("labels"),
    _value("last_seen", Double),
    _value("state"),
)

miss = Table(
    "miss",
    metadata,
    _key("op"),
    _key("params"),
    _key("target_key"),
    _value("count", BigInteger),
    _value("first", Double),
    _value("last", Double),
)
