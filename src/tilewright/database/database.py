"""``Database``: all reads and writes of the database."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, delete, func, select, update

from tilewright.closing import Closing
from tilewright.core import DatabaseError, Pairs, Target, Value
from tilewright.database import rows, schema
from tilewright.database.engine import Transactions, check_file, patiently, sqlite_engine
from tilewright.database.errors import explained
from tilewright.database.location import locate
from tilewright.database.migrate import prepare
from tilewright.database.postgresql import postgresql_engine, size, take_turns
from tilewright.database.postgresql.errors import is_starting
from tilewright.database.records import DatabaseStats, Miss, StoredModel
from tilewright.database.views import Views


class Database(Views, Closing):
    """An open database. Any thread may call any method; each call is one transaction.

    ``Runs`` has the methods for runs and trials, ``Kernels`` the methods for kernels and compiled code, ``Views`` the
    queries of pages and metrics. Every failure is a ``DatabaseError`` (the database's fault) or a ``UsageError`` (the
    caller's fault). A call that cannot reach its server waits for it and begins again. A commit whose answer was lost
    may have taken place, so writes are idempotent. Only ``add_miss`` may then count too many.
    """

    @staticmethod
    def open(
        path_or_url: str | os.PathLike[str],
        create: bool = True,
        readonly: bool = False,
        timeout: float = 60.0,
    ) -> Database:
        """Opens a SQLite file, by path or as ``sqlite:///PATH``, or ``postgresql+psycopg://USER@HOST/DATABASE``.

        ``timeout``: seconds to wait for other processes, here and in every later call. A call waits twice as long for a
        server that it cannot reach. If the server cannot be reached now, opening fails at once.

        Files: ``create`` makes a missing file and its folders, for this user only. An older schema is upgraded after a
        backup to ``FILE.bak-<revision>``.

        PostgreSQL: the tables must be there (``upgrade_database``). The password comes from the URL,
        else ``$TILEWRIGHT_DB_PASSWORD``, else what libpq knows (``PGPASSWORD``, ``PGPASSFILE``).


        A schema of another version is refused. With ``readonly`` it is accepted if this version can read it.
        """
        location = locate(path_or_url)
        with explained(location.text):
            if location.path is not None:
                check_file(location.path, create=create, readonly=readonly)
                engine = sqlite_engine(location.path, timeout, readonly=readonly)
            else:
                assert location.url is not None
                engine = postgresql_engine(location.url, timeout)
            transactions = Transactions(engine, timeout)
            try:
                if location.path is None:
                    patiently(lambda: engine.connect().close(), timeout, is_starting)
                prepare(location, transactions, readonly=readonly, timeout=timeout)
            except BaseException:
                engine.dispose()
                raise
        return Database(location, transactions, readonly)

    def close(self) -> None:
        self._transactions.close()

    # ----------------------------------------------------------------------- models, misses

    def save_model(self, target: Target, feature_version: str, data: bytes, trials: int) -> str:
        """Stores a cost model's snapshot in place of the older snapshots for its target and version of features;
        returns its id."""
        m = schema.model
        values = {
            "id": secrets.token_hex(8),
            "target_key": target.key,
            "feature_version": feature_version,
            "data": data,
            "trials": trials,
            "created": time.time(),
        }

        def work(c: Connection) -> None:
            take_turns(c, "model", target.key, feature_version)
            rows.put_targets(c, [target])
            same = (m.c.target_key == target.key) & (m.c.feature_version == feature_version)
            c.execute(delete(m).where(same))
            c.execute(m.insert(), values)

        self._write(work)
        return str(values["id"])

    def load_model(self, target_key: str, feature_version: str) -> StoredModel | None:
        """The last snapshot of a cost model for a target and version of the features."""
        m = schema.model
        same = (m.c.target_key == target_key) & (m.c.feature_version == feature_version)
        wanted = select(m).where(same).order_by(m.c.created.desc()).limit(1)
        row = self._read(lambda c: c.execute(wanted).one_or_none())
        return None if row is None else rows.read(StoredModel, row, data=bytes(row.data))

    def add_miss(self, op: str, params: Mapping[str, Value] | Pairs, target_key: str, count: int = 1) -> None:
        """Counts ``count`` look-ups that found no tuned kernel. They count twice if the answer to the commit was
        lost."""
        m = schema.miss
        now = time.time()
        key = {"op": op, "params": rows.params_text(params), "target_key": target_key}

        def work(c: Connection) -> None:
            rows.insert_new(c, m, [{**key, "count": 0, "first": now, "last": now}])
            same = [m.c[name] == value for name, value in key.items()]
            c.execute(update(m).where(*same).values(count=m.c.count + count, last=now))

        self._write(work)

    def remove_misses(self, misses: Iterable[Miss]) -> None:
        """Removes misses, for example after their tasks were tuned."""
        m = schema.miss
        keys = [{"op": x.op, "params": rows.params_text(x.params), "target_key": x.target_key} for x in misses]

        def work(c: Connection) -> None:
            for key in keys:
                c.execute(delete(m).where(*(m.c[name] == value for name, value in key.items())))

        self._write(work)

    def misses(self, limit: int | None = None) -> list[Miss]:
        """Misses, the most frequent first."""
        m = schema.miss
        wanted = select(m).order_by(m.c.count.desc(), m.c.last.desc()).limit(limit)
        found = self._read(lambda c: c.execute(wanted).all())
        with rows.decoding(self.location, "miss"):
            return [rows.miss_of(r) for r in found]

    # ----------------------------------------------------------------------- upkeep

    def stats(self) -> DatabaseStats:
        """Number of rows by table, and sizes in bytes."""

        def work(c: Connection) -> DatabaseStats:
            tables = [t for t in schema.metadata.sorted_tables if t is not schema.compatibility]
            counted = {t.name: int(c.execute(select(func.count()).select_from(t)).scalar_one()) for t in tables}
            code = int(c.execute(select(func.coalesce(func.sum(schema.artifact.c.size), 0))).scalar_one())
            return DatabaseStats(dict(sorted(counted.items())), self._bytes(c), code)

        return self._read(work)

    def _bytes(self, connection: Connection) -> int:
        if not self.is_file:
            return size(connection)
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(f.stat().st_size for f in files if f.exists())

    def vacuum(self) -> int:
        """Returns unused space to the disk, or on PostgreSQL to later rows. Returns the number of bytes by which the
        database shrank."""
        if self.readonly:
            raise DatabaseError(f"{self.location} was opened for reading only", "Open it without readonly")
        with explained(self.location):
            before = self._transactions.read(self._bytes)
            self._transactions.vacuum(t.name for t in schema.metadata.sorted_tables)
            return before - self._transactions.read(self._bytes)
