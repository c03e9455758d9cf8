"""Schemas: the released ones are read, older ones upgraded after a backup, newer ones refused."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from harness.examples import DEVICE, TARGET, example_artifact, example_record, example_task
from tilewright.core import DatabaseError
from tilewright.database import Database, migrate, schema

SCHEMAS = Path(__file__).parent / "schemas"

NEXT = '''
"""A later schema: a column more, a table rebuilt, a table gone."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{down}"
branch_labels = None
depends_on = None


def upgrade():
    op.add_column("run", sa.Column("note", sa.Text(), nullable=False, server_default="none yet"))
    with op.batch_alter_table("workload") as table:
        table.alter_column("precision", new_column_name="exactness")
    op.drop_table("runner")
    {more}
'''


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_every_released_schema_has_a_file() -> None:
    assert sorted(p.stem for p in SCHEMAS.glob("*.db")) == list(schema.REVISIONS)


@pytest.mark.parametrize("revision", schema.REVISIONS)
def test_a_released_file_is_upgraded_and_read(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "tuned.db"
    shutil.copy(SCHEMAS / f"{revision}.db", path)
    with Database.open(path) as db:
        newest, oldest = db.runs()
        task = example_task()
        assert (oldest.task, oldest.state, oldest.summary) == (task, "done", {"seconds": 1.5})
        assert newest.task.key == task.key
        assert (newest.state, newest.host, newest.pid) == ("running", "example", 1234)
        assert db.trials(oldest.id) == [example_record(i) for i in range(12)]
        best = db.best(task, DEVICE.model)
        assert best is not None
        assert (best.trial_number, best.compiler) == (3, "gcc 12.2.0")
        assert db.artifact(best.artifact_sha256) == example_artifact(b"second")
        assert [k.task.workload.op for k in db.kernels("mine")] == ["mine"] * 3
        model = db.load_model(TARGET.key, "v1")
        assert model is not None
        assert model.data == b"model"
        assert [(m.op, m.count) for m in db.misses()] == [("softmax", 2)]
        db.add_trials(oldest.id, [example_record(12)])
    backups = [p.name for p in tmp_path.glob("*.bak-*")]
    assert backups == ([] if revision == schema.SCHEMA else [f"tuned.db.bak-{revision}"])


def test_migrations_build_the_schema_of_the_metadata(tmp_path: Path) -> None:
    """Upgrading a file of the first schema gives what a fresh file gets."""
    from alembic import command
    from alembic.autogenerate import compare_metadata
    from alembic.config import Config
    from alembic.migration import MigrationContext

    shutil.copy(SCHEMAS / f"{schema.REVISIONS[0]}.db", tmp_path / "migrated.db")
    engine = create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        assert context.get_current_revision() == schema.SCHEMA
    fresh = create_engine(f"sqlite:///{tmp_path / 'fresh.db'}")
    schema.metadata.create_all(fresh)
    for name in schema.metadata.tables:
        for look in ("get_pk_constraint", "get_foreign_keys", "get_unique_constraints", "get_indexes"):
            found = [sorted(map(repr, as_list(getattr(inspect(e), look)(name)))) for e in (engine, fresh)]
            assert found[0] == found[1], (name, look)
    engine.dispose()
    fresh.dispose()


def as_list(found: object) -> list[object]:
    return found if isinstance(found, list) else [found]


def test_revisions_are_one_line_of_descent() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    walked = [s.revision for s in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(walked)) == schema.REVISIONS


def test_the_schema_fits_postgresql_too() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in schema.metadata.sorted_tables:
        made = str(CreateTable(table).compile(dialect=dialect))
        assert "SERIAL" not in made
        for index in table.indexes:
            assert len(index.name or "") < 63
            assert str(CreateIndex(index).compile(dialect=dialect))
    trial = str(CreateTable(schema.trial).compile(dialect=dialect))
    assert "seconds DOUBLE PRECISION," in trial
    assert "data BYTEA NOT NULL" in str(CreateTable(schema.artifact).compile(dialect=dialect))


def test_every_table_and_column_says_what_it_holds() -> None:
    for table in schema.metadata.sorted_tables:
        assert str(table.info.get("holds", "")).endswith("."), table.name
        assert not [c.name for c in table.columns if not c.doc], table.name


def test_a_newer_file_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    Database.open(path).close()
    execute(path, "UPDATE alembic_version SET version_num = '0999'")
    execute(path, "UPDATE compatibility SET oldest_reader = '0998'")
    before = path.read_bytes()
    for readonly in (False, True):
        with pytest.raises(DatabaseError) as caught:
            Database.open(path, readonly=readonly)
        assert caught.value.message == (
            f"{path} was written by a newer Tilewright (schema 0999; this one knows {schema.SCHEMA})"
        )
        assert caught.value.hint.startswith("Upgrade tilewright")
    assert path.read_bytes() == before


def test_opening_a_present_schema_does_not_import_alembic(tmp_path: Path) -> None:
    script = (
        "import sys; from tilewright.database import Database\n"
        f"for i in range(2): Database.open({str(tmp_path / 'tuned.db')!r}).close()\n"
        "print([m for m in ('alembic', 'sqlalchemy.orm', 'xgboost', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def next_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version of Tilewright that knows one more schema; the file of its migration."""
    folder = tmp_path / "100% migrations"
    shutil.copytree(migrate.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / "versions" / "next.py"
    script.write_text(NEXT.format(revision="next", down=schema.SCHEMA, more=""))
    monkeypatch.setattr(migrate, "MIGRATIONS", folder)
    monkeypatch.setattr(migrate, "SCHEMA", "next")
    monkeypatch.setattr(migrate, "REVISIONS", (*schema.REVISIONS, "next"))
    monkeypatch.setattr(migrate, "OLDEST_READABLE", "next")  # it renames a column
    return script


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "it's 100% tuned?.db"
    shutil.copy(SCHEMAS / f"{schema.SCHEMA}.db", path)
    return path


def test_an_older_file_is_backed_up_and_upgraded(next_schema: Path, old_file: Path) -> None:
    kept = rows(old_file, "SELECT * FROM trial"), rows(old_file, "SELECT * FROM kernel")
    workloads = rows(old_file, "SELECT key, precision FROM workload")
    Database.open(old_file).close()
    assert rows(old_file, "SELECT version_num FROM alembic_version") == [("next",)]
    assert {r[0] for r in rows(old_file, "SELECT note FROM run")} == {"none yet"}
    assert rows(old_file, "SELECT key, exactness FROM workload") == workloads
    assert (rows(old_file, "SELECT * FROM trial"), rows(old_file, "SELECT * FROM kernel")) == kept
    backup = old_file.with_name(f"{old_file.name}.bak-{schema.SCHEMA}")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert rows(backup, "SELECT version_num FROM alembic_version") == [(schema.SCHEMA,)]
    assert rows(backup, "SELECT * FROM trial") == kept[0]
    assert rows(backup, "PRAGMA integrity_check") == [("ok",)]
    before = backup.stat().st_mtime_ns
    Database.open(old_file).close()
    assert backup.stat().st_mtime_ns == before
    names = {p.name for p in old_file.parent.iterdir()} - {"100% migrations"}
    assert names == {old_file.name, backup.name}


def test_a_backup_has_what_is_still_in_the_log(next_schema: Path, old_file: Path) -> None:
    writer = sqlite3.connect(old_file)
    assert writer.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    writer.execute("UPDATE run SET seed = 12345")
    writer.commit()
    Database.open(old_file).close()
    backup = old_file.with_name(f"{old_file.name}.bak-{schema.SCHEMA}")
    assert set(rows(backup, "SELECT seed FROM run")) == {(12345,)}
    assert set(rows(old_file, "SELECT seed, note FROM run")) == {(12345, "none yet")}
    writer.close()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('op.execute("INSERT INTO nowhere VALUES (1)")', "no such table: nowhere"),
        ('op.execute("DELETE FROM workload")', "rows refer to missing ones"),
    ],
)
def test_a_failed_migration_changes_nothing(next_schema: Path, old_file: Path, more: str, message: str) -> None:
    next_schema.write_text(NEXT.format(revision="next", down=schema.SCHEMA, more=more))
    with pytest.raises(DatabaseError, match=message):
        Database.open(old_file)
    assert rows(old_file, "SELECT version_num FROM alembic_version") == [(schema.SCHEMA,)]
    assert rows(old_file, "SELECT count(*) FROM runner") == [(0,)]
    assert len(rows(old_file, "SELECT precision FROM workload")) == 1
    assert old_file.with_name(f"{old_file.name}.bak-{schema.SCHEMA}").exists()
    next_schema.write_text(NEXT.format(revision="next", down=schema.SCHEMA, more=""))
    Database.open(old_file).close()
    assert rows(old_file, "SELECT version_num FROM alembic_version") == [("next",)]


def test_without_a_backup_there_is_no_migration(next_schema: Path, old_file: Path) -> None:
    old_file.with_name(f"{old_file.name}.bak-{schema.SCHEMA}").mkdir()
    with pytest.raises(DatabaseError):
        Database.open(old_file)
    assert rows(old_file, "SELECT version_num FROM alembic_version") == [(schema.SCHEMA,)]
    assert not list(old_file.parent.glob("*.partial"))


def test_an_older_file_opened_for_reading_stays_as_it_is(next_schema: Path, old_file: Path) -> None:
    before = old_file.read_bytes()
    with pytest.raises(DatabaseError, match=f"older Tilewright .schema {schema.SCHEMA}."):
        Database.open(old_file, readonly=True)
    assert old_file.read_bytes() == before


def test_a_file_one_schema_older_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    older = schema.REVISIONS[-2]
    assert schema.REVISIONS.index(schema.OLDEST_READABLE) <= schema.REVISIONS.index(older)
    shutil.copy(SCHEMAS / f"{older}.db", path)
    before = path.read_bytes()
    with Database.open(path, readonly=True) as db:
        run = db.runs()[-1]
        assert db.trials(run.id) == [example_record(i) for i in range(12)]
        assert db.best(example_task(), DEVICE.model) is not None
        assert db.stats().rows["trial"] == 12
        assert [m.op for m in db.misses()] == ["softmax"]
        assert db.load_model(TARGET.key, "v1") is not None
    assert path.read_bytes() == before


def test_a_newer_file_that_says_so_is_read_by_older_versions(
    next_schema: Path, old_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = "op.execute(\"UPDATE compatibility SET oldest_reader = '{}'\")"
    script = 'revision = "next"\ndown_revision = "{}"\nfrom alembic import op\ndef upgrade():\n    {}\n'
    next_schema.write_text(script.format(schema.SCHEMA, more.format(schema.SCHEMA)))
    Database.open(old_file).close()
    monkeypatch.undo()  # the older version again
    with Database.open(old_file, readonly=True) as db:
        assert len(db.trials(db.runs()[-1].id)) == 12
    with pytest.raises(DatabaseError, match=r"newer Tilewright .schema next"):
        Database.open(old_file)
    execute(old_file, "UPDATE compatibility SET oldest_reader = 'next'")
    with pytest.raises(DatabaseError, match=r"newer Tilewright .schema next"):
        Database.open(old_file, readonly=True)


def test_a_dry_run_of_a_file_says_what_it_would_do(next_schema: Path, old_file: Path, tmp_path: Path) -> None:
    before = old_file.read_bytes()
    would, *statements = migrate.upgrade_database(old_file, dry_run=True)
    assert would == f"schema {schema.SCHEMA} would be upgraded to next"
    assert "DROP TABLE runner" in statements
    assert any(s.startswith("ALTER TABLE run ADD COLUMN note") for s in statements)
    assert old_file.read_bytes() == before
    assert not list(old_file.parent.glob("*.bak-*"))
    assert migrate.upgrade_database(old_file) == [f"schema {schema.SCHEMA} was upgraded to next"]
    for dry in (True, False):
        assert migrate.upgrade_database(old_file, dry_run=dry) == ["schema next: up to date"]
    fresh = tmp_path / "fresh.db"
    assert migrate.upgrade_database(fresh, dry_run=True) == ["schema next would be created"]
    assert not fresh.exists()


def test_a_new_file_says_what_may_read_it(tmp_path: Path) -> None:
    for name, made in (("new", None), ("upgraded", schema.REVISIONS[0])):
        path = tmp_path / f"{name}.db"
        if made:
            shutil.copy(SCHEMAS / f"{made}.db", path)
        assert migrate.upgrade_database(path) == [
            f"schema {made} was upgraded to {schema.SCHEMA}" if made else f"schema {schema.SCHEMA} was created"
        ]
        assert rows(path, "SELECT * FROM compatibility") == [(schema.OLDEST_READER,)]


def test_the_released_file_says_what_the_script_writes(tmp_path: Path) -> None:
    """The script and the last released file agree, so that the next release can trust the script."""
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        from make_released import make
    finally:
        sys.path.pop(0)
    made = tmp_path / "made.db"
    make(made)
    released = SCHEMAS / f"{schema.SCHEMA}.db"
    for query in (
        "SELECT key, op, params, program FROM workload",
        "SELECT number, candidate_key, schedule, outcome FROM trial ORDER BY number",
        "SELECT rank, schedule, launch_program, artifact_sha256 FROM kernel ORDER BY rank",
    ):
        assert rows(made, query) == rows(released, query)
