"""A job in a worker's hands, what comes of it, and what the worker remembers of itself."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tilewright.farm.errors import FarmError
from tilewright.farm.pki.identity import Peer
from tilewright.files import SHARED, replace_file

STRIKES = 3  # failures of a device in a row before it is quarantined


class Missing(FarmError):
    """The farm does not have an artifact that a job needs."""

    kind = "missing"


@dataclass
class Reply:
    """What came of a job: plain values, ``data`` for the farm's store, and what is the device's own fault.

    ``again``: another device should try.
    """

    result: Mapping[str, Any]
    data: tuple[bytes, ...] = ()
    strike: str = ""
    again: bool = False


@dataclass
class Held:
    """A job in this process' hands. ``ticket``: where its delivery is acknowledged. ``sender``: who signed it, ``None``
    in a farm without certificates."""

    id: str
    client: str
    session: str
    payload: Mapping[str, Any]
    needs: tuple[str, ...]
    ticket: str
    delivered: int
    sender: Peer | None = None
    paths: dict[str, str] = field(default_factory=dict)
    begun: bool = False
    dropped: bool = False  # cancelled, or given back
    done: bool = False  # its result is on the way
    seconds: float = 0.0  # that it took


class Record:
    """What a worker remembers of itself when it is started again: failures in a row, quarantine, a job it died in.

    A full disk costs only this memory.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, path.with_suffix(".job")
        self.strikes, self.quarantine = 0, ""
        self._job: BinaryIO | None = None  # written with every job: kept open, never synced
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.strikes, self.quarantine = int(kept["strikes"]), str(kept["quarantine"])
        with contextlib.suppress(OSError):
            died_in = self._at.read_text(encoding="utf-8", errors="replace")[:200]
            if died_in:
                self.strike(f"it ended while it worked on {died_in}")
                self.at("")

    def at(self, job: str) -> None:
        """The job that it works on now, ``""`` for none."""
        with contextlib.suppress(OSError):
            if self._job is None:
                self._at.parent.mkdir(parents=True, exist_ok=True)
                self._job = self._at.open("wb", buffering=0)
            self._job.truncate(0)
            self._job.seek(0)
            self._job.write(job.encode())

    def strike(self, why: str) -> None:
        """The device failed, not a kernel. Enough in a row quarantine it."""
        self.strikes += 1
        if self.strikes >= STRIKES and not self.quarantine:
            self.quarantine = f"{self.strikes} failures in a row, the last: {why}"[:500]
        self.save()

    def save(self, **changes: Any) -> None:
        vars(self).update(changes)
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            kept = {"strikes": self.strikes, "quarantine": self.quarantine}
            replace_file(self._path, json.dumps(kept).encode(), SHARED)

    def close(self) -> None:
        """It leaves in good order."""
        if self._job is not None:
            self.at("")
            self._job.close()
