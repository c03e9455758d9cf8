"""Classifies psycopg's errors: passing errors, which are retried, and errors that the user must correct."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import DBAPIError

_ROLE = "Check the user in the URL, and that the server lets it in (pg_hba.conf)"
_UPGRADE = "Run tilewright db upgrade as the database's owner"
_LOCKED = ("stayed locked by another client", "Wait for that client to end, then try again")

# Cause and hint by SQLSTATE or its class (its first two characters); see PostgreSQL's appendix A.
_STATES = {
    "28P01": (
        "refused the password",
        "Set TILEWRIGHT_DB_PASSWORD, PGPASSWORD or PGPASSFILE, or mend the password in the URL",
    ),
    "28": ("refused the user", _ROLE),
    "3D000": ("does not exist", "Create it (createdb), then run tilewright db upgrade; or check the URL"),
    "3F": ("has no schema to keep tables in", "Create the schema that search_path names, or set another search_path"),
    "42501": ("does not permit this", "Grant the role what it lacks, or use the writer's or the owner's role"),
    "42P01": ("lacks a table of Tilewright's", _UPGRADE),
    "42703": ("lacks a column of Tilewright's", _UPGRADE),
    "25006": ("is read-only: a standby, or set so", "Use the primary server"),
    "53100": ("is full: no room is left on the server's disk", "Free some space on the server"),
    "53200": ("cannot be used: the server ran out of memory", "Give the server more memory, then try again"),
    "53300": ("has no connection left", "Raise the server's max_connections, or run fewer clients at once"),
    "57P03": ("is not ready: it is starting, stopping or recovering", "Try again in a moment"),
    "55P03": _LOCKED,
    "40": _LOCKED,
    "57014": ("cancelled the statement", "Raise the server's statement_timeout, then try again"),
    "58": ("cannot be read or written: the server's disk reported an error", "Check the server's disk and log"),
    "XX": ("is damaged", "Check the server's log; restore a backup"),
    "23503": ("lacks a row that these refer to; nothing was stored", "See that no other process uses this run"),
    "23": ("already holds one of these rows; nothing was stored", "See that no other process uses this run"),
    "22": ("cannot take one of these values; nothing was stored", "Leave out what is not text, such as NUL characters"),
}
_TLS = ("could not agree on TLS with the server", "Check sslmode, sslrootcert and the server's certificate")
_OPTION = ("cannot be reached with these options of the URL", "Check the URL's port and options")
_UNREACHABLE = ("cannot be reached", "Check host and port, and that the server runs; then try again")

# A failed connection has no SQLSTATE, only a text, in English unless the server is set to another language.
_TEXTS = (
    ("password authentication failed", _STATES["28P01"]),
    ("no password supplied", _STATES["28P01"]),
    ("authentication failed", _STATES["28"]),
    ("no pg_hba.conf entry", _STATES["28"]),
    ("pg_hba.conf rejects", _STATES["28"]),
    ("is not permitted to log in", _STATES["28"]),
    ("permission denied for database", _STATES["42501"]),
    ("certificate", _TLS),
    ("SSL", _TLS),
    ("invalid", _OPTION),
)
_PASSING_TEXTS = (
    ("too many clients", _STATES["53300"]),
    ("connection slots are reserved", _STATES["53300"]),
    ("too many connections", _STATES["53300"]),
    ("the database system is", _STATES["57P03"]),
)


def origin(error: BaseException) -> Any | None:
    """psycopg's error that caused ``error``; ``None`` if the cause is not psycopg's."""
    found = error.orig if isinstance(error, DBAPIError) else error
    return found if type(found).__module__.partition(".")[0] == "psycopg" else None


def state(error: BaseException) -> str:
    """The SQLSTATE of an error; empty if it has no SQLSTATE."""
    return str(getattr(origin(error), "sqlstate", None) or "")


def is_conflict(error: BaseException) -> bool:
    """Whether the transaction was aborted for a conflict with another transaction: it may start again at once."""
    return state(error) in ("40001", "40P01")


def is_lost(error: BaseException) -> bool:
    """Whether a connection to the server broke, or failed for a passing reason: the transaction may start again later.

    Unknown reasons count as passing, because a failing network may produce any message.
    """
    found, code = origin(error), state(error)
    if code:
        return code[:2] == "08" or code in ("57P01", "57P02", "57P03", "53300", "25P03")
    if found is not None and isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    name = type(found).__name__
    return name in ("OperationalError", "InterfaceError", "ConnectionTimeout") and _lasting(error) is None


def is_starting(error: BaseException) -> bool:
    """Whether the server answers that it will accept connections soon."""
    return is_lost(error) and _explained_by(error, _PASSING_TEXTS) is not None


def explain(error: BaseException) -> tuple[str, str]:
    """The cause of an error, as a predicate of the database, and the hint."""
    code = state(error)
    known = _STATES.get(code) or _STATES.get(code[:2])
    if known is not None:
        return known
    if not code:
        known = _lasting(error) or _explained_by(error, _PASSING_TEXTS)
        if known is not None:
            return known
    if is_lost(error):
        return _UNREACHABLE
    if type(origin(error)).__name__ == "DataError":  # psycopg refused a value before the server saw it
        return _STATES["22"]
    first_line = (str(origin(error)).splitlines() or [""])[0]
    return f"failed: {first_line}", "See the server's log"


def _lasting(error: BaseException) -> tuple[str, str] | None:
    """Cause and hint if a connection failed for a lasting reason; ``None`` for any other error."""
    said = str(origin(error))
    if 'database "' in said and "does not exist" in said:
        return _STATES["3D000"]
    if 'role "' in said and "does not exist" in said:
        return _STATES["28"]
    return _explained_by(error, _TEXTS)


def _explained_by(error: BaseException, texts: tuple[tuple[str, tuple[str, str]], ...]) -> tuple[str, str] | None:
    said = str(origin(error))
    return next((known for part, known in texts if part in said), None)
