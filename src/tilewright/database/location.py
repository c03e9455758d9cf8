"""The location of a database, a SQLite file or a PostgreSQL server, and its text without the password."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tilewright.core import UsageError

PASSWORD = "TILEWRIGHT_DB_PASSWORD"
"""Environment variable with the password, used if the URL has no password. libpq's own sources come after it."""

_ACCEPTED = "Give a file, sqlite:///FILE, or postgresql+psycopg://USER@HOST/DATABASE"
_DRIVERS = ("postgresql", "postgresql+psycopg")
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")


@dataclass(frozen=True)
class Location:
    """A database's location: either ``path`` (SQLite) or ``url`` (PostgreSQL) is set. ``text`` has no password."""

    text: str
    path: Path | None = None
    url: URL | None = field(default=None, repr=False)


def locate(path_or_url: str | os.PathLike[str]) -> Location:
    """Parses a path, ``sqlite:///PATH`` or ``postgresql+psycopg://...``. Raises ``UsageError``.

    Errors never repeat a URL that could not be parsed: any part of it may be a password.
    """
    text = os.fspath(path_or_url)
    if "://" in text:
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            raise UsageError("cannot read the database URL", f"{_ACCEPTED}; percent-encode its password") from None
        if url.get_backend_name() in ("postgresql", "postgres"):
            return _server(url)
        if url.get_backend_name() != "sqlite" or not url.database:
            raise UsageError(f"cannot use the database {_masked(url)}", _ACCEPTED)
        text = url.database
    if not text or "\0" in text:
        raise UsageError(f"cannot use {text!r} as a database file", "Give the path of a file")
    path = Path(os.path.abspath(os.path.expanduser(text)))
    return Location(str(path), path=path)


def _server(url: URL) -> Location:
    if url.drivername == "postgres":
        url = url.set(drivername="postgresql")
    if url.drivername not in _DRIVERS:
        raise UsageError(
            f"cannot use the driver {url.drivername.partition('+')[2]} for PostgreSQL",
            "Write the URL as postgresql+psycopg://...",
        )
    # If a password has an unencoded @ or /, a part of the password would be taken for a host or database.
    if any("@" in (part or "") for part in (url.host, url.database)):
        raise UsageError("cannot read the database URL: it has more than one @", "Percent-encode its password")
    url = url.set(drivername="postgresql+psycopg")
    given = url.query.get("password")
    if given is not None:
        url = url.difference_update_query(["password"]).set(password=given if isinstance(given, str) else given[-1])
    if url.password is None and os.environ.get(PASSWORD):
        url = url.set(password=os.environ[PASSWORD])
    return Location(_masked(url), url=url)


def _masked(url: URL) -> str:
    hidden = {name: "***" for name in url.query if name in _SECRETS}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)
