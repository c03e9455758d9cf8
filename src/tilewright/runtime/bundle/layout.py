"""The layout of a bundle's file (docs/bundles.md has the table): a header, an index, and blobs.

The header is signed and holds the hash of the index. The index holds offset and hash of every blob, and the blobs fill
the rest of the file. So the signature covers every byte, and each kernel is checked when it is loaded, not when the
file is opened.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tilewright.core import DatabaseError, Value, canonical_json
from tilewright.kernels.parameters import numbers
from tilewright.serialization import require_types

MAGIC = b"TWBUNDLE"
VERSION = 1
HEADER = 160  # bytes
SIGNED = 96  # the signed bytes, from the start
_CONTEXT = b"tilewright bundle\0"  # keeps signatures of other files from being valid here
_FIELDS = struct.Struct("<8sIIQQ32s32s64s")
_COUNTS = struct.Struct("<5Q")
_KEY = struct.Struct(">8sI")
_ROW = struct.Struct(">QI")
_BLOB = struct.Struct(">32sQQ")


@dataclass(frozen=True)
class Header:
    """The header of a bundle.

    ``size``: bytes of the whole file. ``index``: bytes of the index, which follows the header. ``public``,
    ``signature``: the signer's key and signature; both empty in an unsigned bundle.
    """

    size: int
    index: int
    index_sha256: bytes
    public: bytes = b""
    signature: bytes = b""

    @property
    def message(self) -> bytes:
        """The bytes that are signed."""
        return _CONTEXT + self.pack()[:SIGNED]

    def pack(self) -> bytes:
        return _FIELDS.pack(
            MAGIC, VERSION, bool(self.public), self.size, self.index, self.index_sha256,
            self.public or bytes(32), self.signature or bytes(64),
        )  # fmt: skip


def unpack_header(data: bytes, size: int, where: str) -> Header:
    """The header of a file of ``size`` bytes, not authenticated yet. Raises ``DatabaseError``."""
    if len(data) < HEADER or data[:8] != MAGIC:
        raise DatabaseError(
            f"{where} is not a bundle, or only the beginning of one", "Copy it again, or name another file"
        )
    _, version, flags, length, index, digest, public, signature = _FIELDS.unpack(data[:HEADER])
    if version != VERSION:
        raise DatabaseError(
            f"{where} is a bundle of format {version}, and this version reads {VERSION}",
            "Upgrade Tilewright, or build the bundle again",
        )
    if length != size:
        raise damaged(where, f"it has {size:,} bytes of {length:,}")
    if index > size - HEADER or flags not in (0, 1):
        raise damaged(where, "its header is invalid")
    if not flags and any(public + signature):
        raise damaged(where, "its header is invalid")
    return Header(size, index, digest, public if flags else b"", signature if flags else b"")


def damaged(where: str, why: str) -> DatabaseError:
    return DatabaseError(f"the bundle {where} is damaged: {why}", "Copy it again from where it was built")


MALFORMED = (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions that reading malformed JSON raises."""


def unreadable(where: str, what: str, error: Exception) -> DatabaseError:
    return damaged(where, f"{what} cannot be read ({type(error).__name__}: {str(error)[:200]})")


# --------------------------------------------------------------------------- keys of the index


def key_of(kind: str, *parts: object) -> bytes:
    """The eight-byte hash by which rows are found; collisions may return more rows than requested."""
    return sha256(canonical_json([kind, *parts]).encode()).digest()[:8]


def shapes_key(op: str, shapes: Iterable[Sequence[Any]]) -> bytes:
    return key_of("shapes", op, [list(s) for s in shapes])


def params_key(op: str, params: Mapping[str, object]) -> bytes:
    """The key of an operator and its parameters, equal for parameters that ``kernels.parameters.agree`` calls equal."""
    return key_of("params", op, {name: _plain(v) for name, v in params.items()})


def _plain(value: object) -> object:
    if isinstance(value, (bool, int, float)):
        return float(value)
    found = numbers(value) if isinstance(value, str) else None
    if found is None:
        return value if isinstance(value, str) else repr(value)
    return float(found[0]) if len(set(found)) == 1 else [float(n) for n in found]


# --------------------------------------------------------------------------- the index

Row = dict[str, Value | None]
"""The columns of a kernel with its workload and target, as ``runtime/entry.py`` reads them, and a few more."""


class Index:
    """The verified index of a bundle; rows are parsed on demand.

    Raises ``DatabaseError`` for bytes that are no index.
    """

    def __init__(self, data: bytes, where: str, size: int) -> None:
        self.where = where
        self._data = data
        try:
            lengths = _COUNTS.unpack_from(data)
            places = [_COUNTS.size]
            for length, width in zip(lengths, (1, _KEY.size, _ROW.size, _BLOB.size, 1), strict=True):
                places.append(places[-1] + length * width)
            self._meta, self._keys, self._rows, self._blobs, self._heap, end = places
            if end != len(data):
                raise ValueError("parts that do not fill it")
            self.rows, self.blobs = lengths[2], lengths[3]
            meta = json.loads(data[self._meta : self._keys])
            self.made_by = str(meta["made_by"])
            self.operators: dict[str, list[dict[str, Value]]] = {
                op: [dict(d) for d in defaults] for op, defaults in meta["operators"].items()
            }
            for op, defaults in self.operators.items():
                for d in defaults:
                    require_types(dict[str, Value], d, f"defaults of {op}")
        except (struct.error, *MALFORMED) as e:
            raise unreadable(where, "its index", e) from None
        self._first_blob, self._end = HEADER + len(data), size

    def find(self, key: bytes) -> list[int]:
        """Numbers of the rows with a key, ascending."""
        found = []
        at = self._bisect(self._keys, _KEY.size, key, (self._rows - self._keys) // _KEY.size)
        while at < self._rows and self._data[at : at + 8] == key:
            found.append(_KEY.unpack_from(self._data, at)[1])
            at += _KEY.size
        return found

    def row(self, number: int) -> Row:
        """A row. Raises ``DatabaseError`` for an unreadable row."""
        try:
            offset, length = _ROW.unpack_from(self._data, self._rows + number * _ROW.size)
            row = json.loads(self._data[self._heap + offset : self._heap + offset + length])
            if not isinstance(row, dict):
                raise ValueError("no object")
        except (struct.error, *MALFORMED) as e:
            raise unreadable(self.where, f"row {number} of its index", e) from None
        return row

    def blob(self, digest: bytes) -> tuple[int, int] | None:
        """Offset and length in the file of the blob with this SHA-256; ``None`` without one.

        Raises ``DatabaseError`` for an offset outside of the file.
        """
        at = self._bisect(self._blobs, _BLOB.size, digest, self.blobs)
        if self._data[at : at + 32] != digest or at >= self._heap:
            return None
        _, offset, length = _BLOB.unpack_from(self._data, at)
        if offset < self._first_blob or offset + length > self._end:
            raise damaged(self.where, "a part of it lies outside of the file")
        return offset, length

    def every_blob(self) -> list[tuple[bytes, int, int]]:
        """Hash, offset and length of every blob, in the file's order. Raises ``DatabaseError`` unless they fill the
        file."""
        found = [_BLOB.unpack_from(self._data, self._blobs + i * _BLOB.size) for i in range(self.blobs)]
        found.sort(key=lambda b: b[1])
        at = self._first_blob
        for _, offset, length in found:
            if offset != at:
                raise damaged(self.where, "its parts leave gaps")
            at += length
        if at != self._end:
            raise damaged(self.where, "its parts do not fill it")
        return found

    def _bisect(self, start: int, width: int, key: bytes, count: int) -> int:
        """The offset of the first record whose first bytes are not below ``key``."""
        places = range(start, start + count * width, width)
        found = bisect_left(places, key, key=lambda at: self._data[at : at + len(key)])
        return start + found * width


def pack_index(
    meta: Mapping[str, object],
    rows: Sequence[Mapping[str, object]],
    keys: Iterable[tuple[bytes, int]],
    lengths: Mapping[bytes, int],
) -> tuple[bytes, list[bytes]]:
    """The bytes of an index, and the hashes of the blobs in the order in which they follow it.

    ``keys``: pairs of an index key and its row. ``lengths``: the length of each blob, by its SHA-256.
    """
    head = canonical_json(meta).encode()
    heap = [canonical_json(r).encode() for r in rows]
    table, at = [], 0
    for text in heap:
        table.append(_ROW.pack(at, len(text)))
        at += len(text)
    pairs = sorted(set(keys))
    order = sorted(lengths)
    total = _COUNTS.size + len(head) + len(pairs) * _KEY.size + len(rows) * _ROW.size + len(order) * _BLOB.size + at
    blobs, place = [], HEADER + total
    for digest in order:
        blobs.append(_BLOB.pack(digest, place, lengths[digest]))
        place += lengths[digest]
    counts = _COUNTS.pack(len(head), len(pairs), len(rows), len(order), at)
    packed = [_KEY.pack(key, row) for key, row in pairs]
    return b"".join([counts, head, *packed, *table, *blobs, *heap]), order
