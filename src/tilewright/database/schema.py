"""The tables and columns, with their documentation: ``doc`` of a column, ``info["holds"]`` of a table.

docs/database_schema.md is generated from this module. The types work on both SQLite and PostgreSQL. JSON is stored as
canonical text: it is compared and hashed as text, and never searched inside. Times are seconds (durations) or seconds
since the epoch.

To change the schema: edit this file, add ``migrations/versions/r<next>.py`` (``op.batch_alter_table`` rebuilds a table
that SQLite cannot alter), append the revision to ``REVISIONS``, run ``python tests/database/make_released.py`` and
commit the file that it writes. Migrations run without foreign keys; broken references are checked afterwards.
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
"""Revisions of the schema that this version can upgrade, oldest first; the last is its own."""

SCHEMA = REVISIONS[-1]

OLDEST_READABLE = "0001"
"""The oldest schema that this version can read without an upgrade, at least one revision back: it has every column
that a read names."""

OLDEST_READER = "0001"
"""The oldest schema whose versions of Tilewright can read this schema, at least one revision back: this schema has
every column that they name."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _key(name: str, type_: Any = Text, *args: Any, doc: str) -> Column[Any]:
    """A column of the primary key, never an implicit row number."""
    return Column(name, type_, *args, primary_key=True, autoincrement=False, doc=doc)


def _value(name: str, type_: Any = Text, *args: Any, doc: str) -> Column[Any]:
    return Column(name, type_, *args, nullable=False, doc=doc)


compatibility = Table(
    "compatibility",
    metadata,
    _key("oldest_reader", doc="the oldest schema whose versions of Tilewright can read this database"),
    info={"holds": "One row: which versions may read this database."},
)

workload = Table(
    "workload",
    metadata,
    _key("key", doc="`Workload.key`"),
    _value("op", doc="the operator's name when the workload was first stored"),
    _value("params", doc="JSON object: every parameter, defaults filled in"),
    _value("defaults", doc="JSON object: the parameters that have a default, with its value"),
    _value("param_names", doc="JSON list: the parameters' names in the order of their declaration"),
    _value("program", doc="JSON: the normalised tensor program"),
    _value("inputs", doc="JSON list: `[name, shape, dtype]` of each input in call order"),
    _value("output", doc="JSON list: `[name, shape, dtype]` of the result"),
    _value("flops", BigInteger, doc="arithmetic operations of one call"),
    _value("precision", doc="the precision policy: `ieee`, `tf32` (rounded or cut), `exact`"),
    _value("created", Double, doc="when it was first stored"),
    Index(None, "op"),
    info={
        "holds": "An operator with its sizes and element types. The key hashes the normalised program and the "
        "precision: a program has one workload under any name, and an edited program another one."
    },
)

alias = Table(
    "alias",
    metadata,
    _key("workload_key", Text, ForeignKey("workload.key"), doc="the workload"),
    _key("op", doc="the operator's name"),
    _key("params", doc="JSON object: every parameter, defaults filled in"),
    _value("defaults", doc="JSON object: the parameters that have a default"),
    _value("param_names", doc="JSON list: the parameters' names in order"),
    _value("created", Double, doc="when it was first stored"),
    Index(None, "op"),
    info={
        "holds": "Further names of a workload: an operator with the same program under another name or with other "
        "parameters. A look-up by name reads `workload` and `alias`."
    },
)

target = Table(
    "target",
    metadata,
    _key("key", doc="`Target.key`"),
    _value("name", doc="`cpu:avx512`, as `--target` takes it"),
    _value("data", doc="JSON object: `Target.to_json()`, with the cache sizes of the first machine"),
    _value("created", Double, doc="when it was first stored"),
    info={"holds": "What code is generated for: an instruction set or GPU architecture, and a number of threads."},
)

run = Table(
    "run",
    metadata,
    _key("id", doc="start (UTC) and a random part: `260131-142530-a1b2c3`"),
    _value("workload_key", Text, ForeignKey("workload.key"), doc="the workload that was tuned"),
    _value("target_key", Text, ForeignKey("target.key"), doc="the target that it was tuned for"),
    _value("device_name", doc="the device: `cpu:0-1`"),
    _value("device_model", doc="the hardware's own name; kernels belong to it"),
    _value("strategy", doc="the search strategy"),
    _value("seed", BigInteger, doc="the strategy's seed"),
    _value("trials_wanted", BigInteger, doc="the run's trials in all, failures included"),
    _value("settings", doc="JSON object: the other settings of the run"),
    _value("state", doc="`running`, `done`, `interrupted` or `failed`"),
    _value("started", Double, doc="when the run was started"),
    Column("finished", Double, doc="when the run ended"),
    _value("host", doc="the host of the process that owns the run"),
    _value("pid", BigInteger, doc="that process's number"),
    _value("process", doc="tells that process from later ones with its number: `boot|namespace|start`"),
    _value("versions", doc="JSON object: versions of Python, Tilewright and what else took part"),
    _value(
        "summary",
        doc=(
            "JSON object: what the run reported. `deadline`: when a search under a time budget ends, in "
            "seconds since the epoch. `phase`: `final` during the final. `best`: the winner with its final "
            "time; `best.default`: whether it is the default schedule. `paired`: how many times as fast the "
            "winner is as the `default` schedule (exactly 1 where it is that one, which then meets the "
            "`challenger`, the fastest other schedule), and the run's own best as the `earlier` kernel, each "
            "with a 95% interval from `low` to `high`; over a library by its name, where `low` and `high` are a "
            "95% interval if there is a `confidence` and quartiles if there is none (version 0.1). "
            "`ended.why`: `trials`, `time`, `space`, `stopped` or `failed`. `winners`: kernels that wait to "
            "be built here"
        ),
    ),
    Index(None, "started"),
    Index(None, "workload_key", "target_key", "device_model"),
    Index(None, "target_key", "device_model", "started"),
    info={"holds": "One tuning run of one task on one device."},
)

trial = Table(
    "trial",
    metadata,
    _key("run_id", Text, ForeignKey("run.id", ondelete="CASCADE"), doc="the run"),
    _key("number", Integer, doc="the trial's place in the run"),
    _value("candidate_key", doc="`Candidate.key`: task and schedule"),
    _value("template", doc="the schedule's template"),
    _value("template_version", Integer, doc="the template's version"),
    _value("schedule", doc="JSON object: `Schedule.to_json()`"),
    _value("origin", doc="who proposed the schedule: `random`, `mutation`, ..."),
    Column("prediction", Double, doc="the cost model's score before the trial, higher is better"),
    _value("status", doc="`ok`, or the kind of failure: `compile`, `timeout`, `wrong_result`, ..."),
    Column("seconds", Double, doc="search time: median time of one call; null for a failure"),
    _value("outcome", doc="JSON object: the measurement with its environment, or the failure with its message"),
    _value("build_seconds", Double, doc="seconds spent on building it"),
    _value("created", Double, doc="when it was measured"),
    UniqueConstraint("run_id", "candidate_key"),
    Index(None, "run_id", "status", "seconds", "number"),  # counts and times without the wide rows: database/views.py
    info={"holds": "One schedule that was compiled, checked and measured, or failed. Times compare within a run only."},
)

artifact = Table(
    "artifact",
    metadata,
    _key("sha256", doc="hash of `data`"),
    _value("data", LargeBinary, doc="the shared library"),
    _value("size", BigInteger, doc="bytes in `data`"),
    _value("target_key", Text, ForeignKey("target.key"), doc="the target that it needs"),
    _value("compiler", doc="name and version"),
    _value("flags", doc="JSON list: the compiler's flags"),
    _value("source", doc="the generated source"),
    _value("source_sha256", doc="hash of what was compiled"),
    _value("created", Double, doc="when it was stored"),
    info={"holds": "Compiled code of stored kernels, with what it was made from."},
)

kernel = Table(
    "kernel",
    metadata,
    _key("workload_key", Text, ForeignKey("workload.key"), doc="the workload that it computes"),
    _key("target_key", Text, ForeignKey("target.key"), doc="the target that it was compiled for"),
    _key("device_model", doc="where it was the best"),
    _key("rank", Integer, doc="1 (the best) to 3"),
    Column("run_id", Text, ForeignKey("run.id", ondelete="SET NULL"), doc="the run that found it"),
    Column("trial_number", Integer, doc="the trial that found it"),
    _value("template", doc="the schedule's template"),
    _value("template_version", Integer, doc="the template's version"),
    _value("schedule", doc="JSON object: `Schedule.to_json()`"),
    _value("launch_program", doc="JSON object: `LaunchProgram.to_json()`, how the artifact is called"),
    _value("seconds", Double, doc="time of one call when it was last checked"),
    Column(
        "peak_fraction",
        Double,
        doc="share of the device's peak, by the workload's operations: above 1 where tiles need fewer",
    ),
    _value("artifact_sha256", Text, ForeignKey("artifact.sha256"), doc="its code"),
    _value("state", doc="`verified`, or `stale` when its template has changed since"),
    _value("updated", Double, doc="when it was stored or last checked"),
    Index(None, "artifact_sha256"),
    info={
        "holds": "The best three kernels of a task on a device model. `Database.set_kernels` replaces them in one "
        "transaction, and removes unused artifacts."
    },
)

model = Table(
    "model",
    metadata,
    _key("id", doc="random"),
    _value("target_key", Text, ForeignKey("target.key"), doc="the target whose trials it was trained on"),
    _value("feature_version", doc="version of the features that it reads"),
    _value("data", LargeBinary, doc="the model"),
    _value("trials", BigInteger, doc="number of trials that it was trained on"),
    _value("created", Double, doc="when it was stored"),
    Index(None, "target_key", "feature_version", "created"),
    info={"holds": "The last snapshot of a cost model for each target and version of the features."},
)

runner = Table(
    "runner",
    metadata,
    _key("id", doc="the runner"),
    _value("name", doc="its name for people"),
    _value("device", doc="its device's model"),
    _value("labels", doc="JSON object: what it offers"),
    _value("last_seen", Double, doc="when it last spoke"),
    _value("state", doc="its state"),
    info={"holds": "Machines that measure for others. Reserved: nothing writes it yet."},
)

miss = Table(
    "miss",
    metadata,
    _key("op", doc="the operator that was asked for"),
    _key("params", doc="JSON object: its parameters"),
    _key("target_key", doc="the target; it need not be in `target`"),
    _value("count", BigInteger, doc="number of look-ups"),
    _value("first", Double, doc="time of the first look-up"),
    _value("last", Double, doc="time of the last look-up"),
    info={"holds": "Look-ups that found no tuned kernel: what to tune next."},
)
