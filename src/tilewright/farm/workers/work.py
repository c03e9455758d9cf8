"""A job that a worker holds, the job's reply, and the worker's record across restarts."""

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
    """A job's reply: plain values, and ``data`` to store as artifacts.

    ``strike``: the failure if it is the device's fault, else empty. ``again``: another device should try the job.
    """

    result: Mapping[str, Any]
    data: tuple[bytes, ...] = ()
    strike: str = ""
    again: bool = False


@dataclass
class Held:
    """A job that this process holds. ``ticket``: subject that acknowledges its delivery. ``delivered``: number of its
    deliveries. ``sender``: the signer, ``None`` in a farm without certificates."""

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
    seconds: float = 0.0  # execution time


class Record:
    """A worker's record across restarts: failures in a row, quarantine, and the job that it died in.

    Write errors, as on a full disk, are ignored.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, path.with_suffix(".job")
        self.strikes, self.quarantine = 0, ""
        self._job: BinaryIO | None = None  # kept open and never synced, because every job writes it
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.strikes, self.quarantine = int(kept["strikes"]), str(kept["quarantine"])
        with contextlib.suppress(OSError):
            died_in = self._at.read_text(encoding="utf-8", errors="replace")[:200]
            if died_in:
                self.strike(f"it ended while it worked on {died_in}")
                self.at("")

    def at(self, job: str) -> None:
        """Records the running job, ``""`` for no job."""
        with contextlib.suppress(OSError):
            if self._job is None:
                self._at.parent.mkdir(parents=True, exist_ok=True)
                self._job = self._at.open("wb", buffering=0)
            self._job.truncate(0)
            self._job.seek(0)
            self._job.write(job.encode())

    def strike(self, why: str) -> None:
        """Counts a failure of the device, not of a kernel. ``STRIKES`` failures in a row quarantine it."""
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
        """Clears the running job: the worker leaves in good order."""
        if self._job is not None:
            self.at("")
            self._job.close()
