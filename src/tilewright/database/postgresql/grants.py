"""The SQL that grants PostgreSQL roles the least privileges that they need.

The owner owns and upgrades the tables; a writer tunes; a reader reads. Passwords are set separately, so that they are
not printed.
"""

from __future__ import annotations

from tilewright.core import UsageError
from tilewright.database.schema import metadata

_SCHEMA_TABLES = ("alembic_version", "compatibility")  # only upgrades write these tables
_LONGEST = 63  # largest number of bytes of a name in PostgreSQL


def grants(owner: str, writer: str, reader: str, schema: str = "public") -> str:
    """A script for ``psql``, to be run by a superuser in the database itself. It is idempotent.

    Raises ``UsageError`` for names that are not valid for roles, or not three different names.
    """
    if len({owner, writer, reader}) < 3:
        raise UsageError("owner, writer and reader need three different names", "Choose another name")
    for name in (owner, writer, reader, schema):
        _check(name)
    if {owner, writer, reader} & {"public", "none"}:
        raise UsageError("public and none cannot be role names", "Use another name")
    o, w, r, s = (_quoted(x) for x in (owner, writer, reader, schema))
    roles = "\n".join(_role(x) for x in (owner, writer, reader))
    tables = ", ".join(map(_literal, sorted({*metadata.tables, *_SCHEMA_TABLES})))
    fixed = ", ".join(map(_literal, _SCHEMA_TABLES))
    return f"""\
-- Roles of a Tilewright database: run by a superuser, in the database itself; then give the roles their
-- passwords with \\password ROLE. Run it again whenever a role or table was made by other means.
BEGIN;
{roles}
CREATE SCHEMA IF NOT EXISTS {s} AUTHORIZATION {o};
DO $tilewright$
DECLARE name text;
BEGIN
  EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO {_inside(o)}, {_inside(w)}, {_inside(r)}', current_database());
  FOR name IN SELECT tablename FROM pg_tables
    WHERE schemaname = {_literal(schema)} AND tablename IN ({tables}) LOOP
    EXECUTE format('ALTER TABLE {_inside(s)}.%I OWNER TO {_inside(o)}', name);
    EXECUTE format('REVOKE ALL ON {_inside(s)}.%I FROM PUBLIC, {_inside(w)}, {_inside(r)}', name);
    EXECUTE format('GRANT SELECT ON {_inside(s)}.%I TO {_inside(w)}, {_inside(r)}', name);
    IF name NOT IN ({fixed}) THEN
      EXECUTE format('GRANT INSERT, UPDATE, DELETE ON {_inside(s)}.%I TO {_inside(w)}', name);
    END IF;
  END LOOP;
END
$tilewright$;
REVOKE ALL ON SCHEMA {s} FROM PUBLIC, {w}, {r};
GRANT USAGE, CREATE ON SCHEMA {s} TO {o};
GRANT USAGE ON SCHEMA {s} TO {w}, {r};
-- Tables that the owner makes later, in an upgrade.
ALTER DEFAULT PRIVILEGES FOR ROLE {o} IN SCHEMA {s} GRANT SELECT ON TABLES TO {r};
ALTER DEFAULT PRIVILEGES FOR ROLE {o} IN SCHEMA {s} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {w};
COMMIT;
"""


def _role(name: str) -> str:
    return (
        f"DO $tilewright$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {_literal(name)}) THEN "
        f"CREATE ROLE {_quoted(name)} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE; END IF; END $tilewright$;"
    )


def _check(name: str) -> None:
    if not name or len(name.encode()) > _LONGEST or not name.isprintable() or "$" in name:
        raise UsageError(
            f"{name!r} cannot be the name of a role or schema", f"Use 1 to {_LONGEST} printable bytes without $"
        )
    if name.lower().startswith("pg_"):
        raise UsageError(f"{name!r} is a name that PostgreSQL keeps for itself", "Use another name")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _inside(quoted: str) -> str:
    """Escapes a quoted name for the format string of PostgreSQL's ``format``."""
    return quoted.replace("%", "%%").replace("'", "''")
