"""A bundle with a checked signature; data read from it later is checked against signed hashes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.columns import workload_of
from tilewright.core import DatabaseError, TilewrightError, Workload
from tilewright.dtypes import VALUES
from tilewright.runtime.bundle.ed25519 import verify
from tilewright.runtime.bundle.layout import (
    HEADER,
    MALFORMED,
    Index,
    Row,
    damaged,
    unpack_header,
    unreadable,
)
from tilewright.runtime.bundle.trusted import UNSIGNED, Trust, given_keys, read_keys, write_key
from tilewright.runtime.entry import Entry, entry_of
from tilewright.runtime.trust import require_own
from tilewright.serialization import require_types

if TYPE_CHECKING:
    from tilewright.farm.following import Followed

_COLUMNS: Mapping[str, Any] = {
    "own": int, "created": float, "peak_fraction": float | None, "strategy": str | None, "versions": str | None,
    "compiler": str, "flags": str, "source_sha256": str, "source_parts": list[str], "program_sha256": str,
}  # fmt: skip
"""Types of a row's columns beyond an entry's columns."""

_MEND = "Ask its author, or build it again"


class Bundle:
    """An open bundle, closed with this object. Replacing its file does not affect it.

    ``trust``: as ``Library`` takes it. Raises ``DatabaseError`` for a damaged bundle, or without a trusted signature,
    and ``UsageError`` for invalid keys.
    """

    def __init__(self, path: Path, trust: Trust = False) -> None:
        self.path, self._trust = path, trust
        self.signer = ""
        self.lists: list[Followed] = []  # farms' lists that may revoke its key
        where = str(path)
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self._fd)
            if not stat.S_ISREG(status.st_mode):
                raise DatabaseError(f"{where} is not a regular file", "Name another file")
            self.header = unpack_header(os.pread(self._fd, HEADER, 0), status.st_size, where)
            self.authenticate()
            index = os.pread(self._fd, self.header.index, HEADER)
        except OSError as e:
            raise DatabaseError(f"{where} cannot be read: {e.strerror}", "Check its path and mode") from None
        if sha256(index).digest() != self.header.index_sha256:
            raise damaged(where, "its index does not hash to what its header says")
        self.index = Index(index, where, self.header.size)

    def authenticate(self) -> None:
        """Determines the signer's name or key, and checks that it is trusted now. Raises ``DatabaseError``,
        ``UsageError``."""
        public, path, trust = self.header.public, self.path, self._trust
        keys = read_keys()
        anyone = trust is True or trust == UNSIGNED
        trusted = keys.trusted if isinstance(trust, bool) or anyone else given_keys(trust)
        if not public:
            if not anyone:
                raise DatabaseError(
                    f"the bundle {path} is not signed, and its code would run as you",
                    f'If you trust its author, pass --trust {UNSIGNED} to a command, or trust="{UNSIGNED}" to Library',
                )
            _require_own(path, trust)
            return
        key = write_key(public)
        name = keys.revoked.get(public) or keys.trusted.get(public) or key
        if public in keys.revoked:
            raise _revoked(path, name, keys.where)
        if not anyone and public not in trusted:
            raise DatabaseError(
                f"the bundle {path} is signed by {key}, which is not trusted",
                f"If that is its author's key, run: tilewright bundle key trust {key}"
                if trust is False
                else "Pass that key as trust, if it is its author's",
            )
        if not verify(public, self.header.message, self.header.signature):
            raise damaged(str(path), f"its signature is not that of {trusted.get(public) or key}")
        try:
            self.lists = keys.lists()
            where = next(filter(None, (followed.revokes(public) for followed in self.lists)), "")
        except TilewrightError as e:
            said = f"the bundle {path} is not opened: it is not known whether its key is revoked, since {e.message}"
            raise DatabaseError(said, e.hint) from None
        if where:
            raise _revoked(path, name, where)
        if public not in trusted:
            _require_own(path, trust)
        self.signer = trusted.get(public) or key

    def entry(self, number: int) -> tuple[Entry, Row]:
        """A row of the index as the runtime's entry, and the whole row. Raises ``DatabaseError``."""
        row = self.index.row(number)
        try:
            entry = entry_of(row)
            require_types(Entry, entry, "it")
            for column, kind in _COLUMNS.items():
                require_types(kind, row[column], column)
            for _, argument in entry.schedule.launch:
                int(argument)
            for text in (row["versions"] or "{}", row["flags"]):
                json.loads(str(text))
            for spec in (*entry.inputs, *entry.outputs):
                if spec.dtype not in VALUES or any(n < 0 for n in spec.shape):
                    raise ValueError(f"{spec.name} is not a tensor")
        except MALFORMED as e:
            raise unreadable(str(self.path), f"row {number}", e) from None
        return entry, row

    def workload(self, row: Row) -> Workload:
        """The workload of a row that :meth:`entry` returned, with its program. Raises ``DatabaseError``."""
        program = self.blob(str(row["program_sha256"]))
        if program is None:
            raise damaged(str(self.path), "a program is missing")
        try:
            found = workload_of({**row, "program": program.decode()})
            if found.key != row["workload_key"]:
                raise ValueError("it is not that of its workload")
            return found
        except MALFORMED as e:
            raise unreadable(str(self.path), "a program", e) from None

    def blob(self, digest: str) -> bytes | None:
        """The blob with this SHA-256, checked against it; ``None`` without one. Raises ``DatabaseError``."""
        try:
            place = self.index.blob(bytes.fromhex(digest))
        except ValueError:
            raise damaged(str(self.path), f"{digest[:64]!r} is not a hash") from None
        if place is None:
            return None
        try:
            data = os.pread(self._fd, place[1], place[0])
        except OSError as e:
            raise DatabaseError(f"{self.path} cannot be read: {e.strerror}", "Copy it again") from None
        if sha256(data).hexdigest() != digest:
            raise damaged(str(self.path), f"the bytes of {digest[:12]} do not hash to that")
        return data

    def check(self) -> int:
        """Checks every byte and returns the number of blobs. Raises ``DatabaseError``."""
        parts = self.index.every_blob()
        for digest, _, _ in parts:
            self.blob(digest.hex())
        return len(parts)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


def _revoked(path: Path, name: str, where: str) -> DatabaseError:
    return DatabaseError(f"the bundle {path} is signed by a revoked key, {name}", f"{_MEND}; {where} revokes the key")


def _require_own(path: Path, trust: Trust) -> None:
    """Without a trusted signature, the file's permissions decide, as for databases."""
    if trust is not True:
        try:
            require_own(path, "the bundle", "it holds code that would run as you")
        except OSError as e:  # the file was deleted after it was opened
            raise DatabaseError(f"{path} cannot be read: {e.strerror}", "Check its path and mode") from None
