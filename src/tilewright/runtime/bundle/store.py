"""The kernels of a bundle, as a library looks them up: :class:`~tilewright.runtime.kernels.Kernels`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tilewright.core import DatabaseError, TilewrightError, Workload
from tilewright.files import stamp
from tilewright.forking import ForkLock
from tilewright.runtime.bundle.layout import key_of, params_key, shapes_key
from tilewright.runtime.bundle.reader import Bundle
from tilewright.runtime.bundle.trusted import Trust, trust_file
from tilewright.runtime.entry import Entry, Shapes
from tilewright.runtime.pins import read_pins

_log = logging.getLogger("tilewright.runtime")


class BundleStore:
    """The kernels of one bundle; a look-up reads only the rows that it needs, so its cost is independent of the
    bundle's size.

    When the bundle's file is replaced, the new file is checked like the first one. If the new file is refused, the old
    bundle stays in use, and the logger ``tilewright.runtime`` warns. Look-ups raise once the bundle's key is revoked or
    no longer trusted: by the user's file, or by a farm's list that the file follows. Raises as :class:`Bundle` does.
    """

    writable = False

    def __init__(self, path: Path, *, trust: Trust = False, pinned: str | os.PathLike[str] | None = None) -> None:
        self.path = path
        # Stored, as an iterator could not be read again for a replaced file.
        self._trust: Trust = tuple(trust) if isinstance(trust, Iterable) and not isinstance(trust, str) else trust
        self._lock = ForkLock()
        self._keys: tuple[object, ...]
        self._stamp, self._keys = self.stamp(), (stamp(trust_file()), ())
        self._bundle = Bundle(path, self._trust)
        self._rows: dict[int, Entry] = {}
        self._pins = None if pinned is None else read_pins(pinned)
        if self._pins is not None:
            self._pins.require(self.every(), path)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._now().index.operators))

    def entries(
        self, op: str, *, shapes: Shapes | None = None, params: Mapping[str, object] | None = None
    ) -> tuple[Entry, ...]:
        bundle = self._now()
        if shapes is not None:
            keys = [shapes_key(op, shapes), key_of("any", op)]
        elif params is not None:
            defaults = bundle.index.operators.get(op, [])
            keys = [*(params_key(op, {**d, **params}) for d in defaults), key_of("any", op)]
        else:
            keys = [key_of("op", op)]
        return self._found(bundle, keys, op)

    def samples(self, op: str) -> tuple[Entry, ...]:
        return self._found(self._now(), [key_of("sample", op)], op)

    def entries_of(self, key: str, op: str) -> tuple[Entry, ...]:
        found = [e for e in self._found(self._now(), [key_of("workload", key)], None) if e.workload_key == key]
        return tuple(e for e in found if e.op == op) or tuple(replace(e, op=op) for e in found)

    def every(self) -> tuple[Entry, ...]:
        return self._found(self._now(), [key_of("own")], None)

    def ranges(self) -> tuple[Entry, ...]:
        bundle = self._now()
        found = self._found(bundle, [key_of("any", op) for op in bundle.index.operators], None)
        return tuple(e for e in found if e.ranges)

    def choices(self) -> frozenset[tuple[object, ...]]:
        return frozenset({(self._now().header.index_sha256,)})

    def stamp(self) -> tuple[object, ...]:
        return stamp(self.path)

    def workloads(self, op: str) -> tuple[Workload, ...]:
        bundle = self._now()
        seen: dict[tuple[str, str], tuple[float, Workload]] = {}
        for number in bundle.index.find(key_of("op", op)):
            entry, row = bundle.entry(number)
            if entry.op == op:
                workload = bundle.workload(row)
                seen.setdefault((workload.key, workload.label), (float(str(row["created"])), workload))
        return tuple(w for _, w in sorted(seen.values(), key=lambda x: -x[0]))

    def code(self, sha256: str) -> bytes:
        data = self._now().blob(sha256)
        if data is None:
            raise DatabaseError(f"{self.path} lacks the code {sha256[:12]} of a kernel", "Build the bundle again")
        return data

    def write(self, statement: str, rows: Sequence[tuple[object, ...]], patience: float) -> None:
        raise DatabaseError(f"{self.path} is a bundle, which cannot be written to", "Name a database")

    def _found(self, bundle: Bundle, keys: Iterable[bytes], op: str | None) -> tuple[Entry, ...]:
        numbers = sorted({n for key in keys for n in bundle.index.find(key)})
        entries = [self._entry(bundle, n) for n in numbers]
        pins = self._pins
        return tuple(e for e in entries if op in (None, e.op) and (pins is None or pins.holds(e)))

    def _entry(self, bundle: Bundle, number: int) -> Entry:
        with self._lock:
            rows = self._rows if bundle is self._bundle else {}
            entry = rows.get(number)
            if entry is None:
                entry, _ = bundle.entry(number)
                rows[number] = entry
            return entry

    def _now(self) -> Bundle:
        """The current bundle, reopened if its file was replaced. Raises ``DatabaseError`` where its key is no longer
        trusted."""
        seen, keys = self.stamp(), (stamp(trust_file()), tuple(x.stamp() for x in self._bundle.lists))
        if (seen, keys) == (self._stamp, self._keys):
            return self._bundle
        with self._lock:
            if keys != self._keys:
                self._bundle.authenticate()
                self._keys = keys
            if seen != self._stamp:
                self._stamp = seen
                try:
                    fresh = Bundle(self.path, self._trust)
                    self._bundle, self._rows = fresh, {}
                except TilewrightError as e:
                    _log.warning("the bundle that is open stays in use: %s", e)
            return self._bundle
