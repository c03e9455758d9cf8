"""Builds a bundle of a database's best kernels; equal content and options give equal bytes."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core import UsageError
from tilewright.database import Database
from tilewright.database.copies import replacing
from tilewright.database.transfer import export_best
from tilewright.database.transfer.files import require_replaceable
from tilewright.files import SHARED
from tilewright.runtime.bundle.layout import (
    HEADER,
    MAGIC,
    Header,
    key_of,
    pack_index,
    params_key,
    shapes_key,
    unpack_header,
)  # fmt: skip
from tilewright.runtime.entry import Entry, entry_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_ROWS = """
    SELECT n.*, w.inputs, w.output, w.flops, w.precision, w.program, w.created,
           t.data AS target, t.name AS target_name, k.device_model, k.run_id, k.schedule, k.launch_program, k.seconds,
           k.peak_fraction, k.artifact_sha256, k.state, k.updated, a.compiler, a.flags, a.source, a.source_sha256,
           r.strategy, r.versions
    FROM (SELECT key AS workload_key, op, params, defaults, param_names, 1 AS own FROM workload
          UNION ALL SELECT workload_key, op, params, defaults, param_names, 0 AS own FROM alias) n
    JOIN workload w ON w.key = n.workload_key
    JOIN kernel k ON k.workload_key = n.workload_key AND k.rank = 1
    JOIN target t ON t.key = k.target_key
    JOIN artifact a ON a.sha256 = k.artifact_sha256
    LEFT JOIN run r ON r.id = k.run_id
    ORDER BY n.op, n.workload_key, n.params, n.own DESC, k.target_key, k.device_model
"""
Progress = Callable[[int, int], None]


def build(
    database: Database,
    destination: Path,
    key: Ed25519PrivateKey | None,
    *,
    op: str | None = None,
    target: str | None = None,
    progress: Progress | None = None,
) -> int:
    """Writes the best verified kernel of each task and device model to a bundle; returns the number of kernels.

    ``key``: the signing key; ``None`` for an unsigned bundle. ``op``, ``target`` (``cpu:avx2``): write only their
    kernels. An earlier bundle of that name is replaced. Raises ``UsageError`` for another file of that name and for
    nothing to write, and ``DatabaseError``.
    """
    require_replaceable(destination, MAGIC, "a bundle")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        file = Path(folder, "best.db")
        export_best(database, file, op, progress)
        with closing(sqlite3.connect(file)) as connection:
            connection.row_factory = sqlite3.Row
            prefixes = _prefixes(connection)
            blobs = _Blobs(Path(folder))
            rows, keys, operators = _rows(connection, op, target, blobs, prefixes)
            if not rows:
                raise UsageError(f"{database.location} holds no verified kernel for {target}", "Remove --target")
            for sha in sorted({str(r["artifact_sha256"]) for r in rows}):
                (data,) = connection.execute("SELECT data FROM artifact WHERE sha256 = ?", (sha,)).fetchone()
                blobs.add(bytes(data))
        from tilewright import __version__

        meta = {"made_by": f"tilewright {__version__}", "operators": operators}
        index, order = pack_index(meta, rows, keys, blobs.lengths)
        size = HEADER + len(index) + sum(blobs.lengths.values())
        header = signed(Header(size, len(index), sha256(index).digest()), key)
        with writing(destination) as out:
            out.write(header.pack() + index)
            for digest in order:
                out.write(blobs.read(digest))
    return sum(bool(r["own"]) for r in rows)


def sign_again(source: Path, destination: Path, key: Ed25519PrivateKey) -> None:
    """Writes a copy of a bundle with a new signature. The caller has checked every byte of the bundle."""
    require_replaceable(destination, MAGIC, "a bundle")
    data = source.read_bytes()
    old = unpack_header(data[:HEADER], len(data), str(source))
    header = signed(Header(old.size, old.index, old.index_sha256), key)
    with writing(destination) as out:
        out.write(header.pack() + data[HEADER:])


def signed(header: Header, key: Ed25519PrivateKey | None) -> Header:
    """The header with a key's signature."""
    if key is None:
        return header
    public = key.public_key().public_bytes_raw()
    unsigned = Header(header.size, header.index, header.index_sha256, public)
    return Header(header.size, header.index, header.index_sha256, public, key.sign(unsigned.message))


@contextmanager
def writing(destination: Path) -> Iterator[Any]:
    """A file that appears under its name only when it is complete, with the permissions of an ordinary new file."""
    with replacing(destination, SHARED) as partial, partial.open("wb") as out:
        yield out


class _Blobs:
    """Blobs by their hash, on disk until the bundle is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lengths: dict[bytes, int] = {}

    def add(self, data: bytes) -> str:
        digest = sha256(data)
        if digest.digest() not in self.lengths:
            self.lengths[digest.digest()] = len(data)
            Path(self._folder, digest.hexdigest()).write_bytes(data)
        return digest.hexdigest()

    def read(self, digest: bytes) -> bytes:
        return Path(self._folder, digest.hex()).read_bytes()


def _prefixes(connection: sqlite3.Connection) -> dict[str, str]:
    """The common prefix (the prelude) of all sources of a target, by target, which is stored once."""
    found: dict[str, str] = {}
    query = "SELECT target_key, source FROM artifact ORDER BY sha256"
    for target, source in connection.execute(query):
        shared = os.path.commonprefix([found.get(target, source), source])  # noqa: RUF071 - no paths
        found[target] = shared[: shared.rfind("\n") + 1]
    return found


def _rows(
    connection: sqlite3.Connection, op: str | None, target: str | None, blobs: _Blobs, prefixes: dict[str, str]
) -> tuple[list[dict[str, Any]], list[tuple[bytes, int]], dict[str, list[dict[str, Any]]]]:
    """The rows, the index keys of each row, and for each operator the defaults of its kernels."""
    rows: list[dict[str, Any]] = []
    keys: list[tuple[bytes, int]] = []
    operators: dict[str, list[dict[str, Any]]] = {}
    sampled: set[tuple[str, str]] = set()
    of_artifact = dict(connection.execute("SELECT sha256, target_key FROM artifact"))
    for found in connection.execute(_ROWS):
        row = dict(found)
        if (op is not None and row["op"] != op and not row["own"]) or target not in (None, row.pop("target_name")):
            continue
        source, prefix = row.pop("source"), prefixes[of_artifact[row["artifact_sha256"]]]
        row["program_sha256"] = blobs.add(row.pop("program").encode())
        row["source_parts"] = [blobs.add(part.encode()) for part in (prefix, source.removeprefix(prefix)) if part]
        entry = entry_of(row)
        keys += [(key, len(rows)) for key in _keys(entry, bool(row["own"]))]
        if (entry.op, entry.target.key) not in sampled:
            sampled.add((entry.op, entry.target.key))
            keys.append((key_of("sample", entry.op), len(rows)))
        known = operators.setdefault(entry.op, [])
        if entry.defaults not in known:
            known.append(entry.defaults)
        rows.append(row)
    for defaults in operators.values():
        defaults.sort(key=lambda d: json.dumps(d, sort_keys=True))
    return rows, keys, operators


def _keys(entry: Entry, own: bool) -> Sequence[bytes]:
    """The index keys of a kernel. A kernel with symbolic sizes is read in every look-up of its operator."""
    shapes = [s for s, _ in entry.shapes]
    keys = [key_of("op", entry.op), key_of("workload", entry.workload_key)]
    if own:
        keys.append(key_of("own"))
    if all(type(n) is int for s in shapes for n in s):
        return [*keys, shapes_key(entry.op, shapes), params_key(entry.op, {**entry.defaults, **entry.params})]
    return [*keys, key_of("any", entry.op)]
