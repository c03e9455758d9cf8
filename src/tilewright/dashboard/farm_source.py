"""The farm that a dashboard watches: its status, a few seconds old at most, without making pages wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core import TilewrightError
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.link import Endpoint
from tilewright.farm.subjects import LOOKERS

FRESH = 2.0  # seconds for which a status answers for all who ask
WAIT = 1.0  # seconds that one who asks waits, at most
STALE = 10.0  # seconds for which a status stands in for one that is late
ANSWER = 5.0  # seconds that a farm has to answer once there is a connection


class FarmSource:
    """A farm's status. Any thread may ask; a thread of its own connects when somebody first does.

    ``address``, ``certs``: as for ``Farm``; a reader's certificate is used where there is one. Raises ``UsageError`` or
    ``FarmError`` for an address or certificates that cannot be right; whether the farm is there shows when it is asked.
    """

    def __init__(self, address: str, certs: Path | None = None) -> None:
        self.address = Endpoint(address, certs, *LOOKERS).address
        self._certs = certs
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wanted = self._closed = False
        self._answers = 0
        self._began = 0.0  # when the question under way was asked
        self._status: dict[str, Any] | None = None
        self._error: TilewrightError | None = None  # the last answer, where it was none
        self._at = self._status_at = float("-inf")

    def status(self) -> dict[str, Any]:
        """What the farm says of itself (docs/farm.md). Raises ``FarmError``, which says why there is none."""
        with self._changed:
            now = time.monotonic()
            if not self._closed and now - self._at >= FRESH:
                self._ask(now)
            if self._error is None and self._status is not None and now - self._status_at < STALE:
                return self._status
            raise self._error or FarmError(f"{self.address} has not answered yet", "Look again in a few seconds")

    def _ask(self, now: float) -> None:
        """Have a new answer made, and wait for it, unless others have waited for the same one already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="farm source", daemon=True)
            self._thread.start()
        if not self._wanted:
            self._wanted, self._began = True, now
            self._changed.notify_all()
        before = self._answers
        self._changed.wait_for(lambda: self._answers > before or self._closed, max(0.0, self._began + WAIT - now))

    def _work(self) -> None:
        farm: Farm | None = None
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._wanted or self._closed)
                    if self._closed:
                        return
                status, error = None, None
                try:
                    farm = farm or Farm(self.address, self._certs, patience=ANSWER, roles=LOOKERS)
                    status = farm.ask("status", timeout=ANSWER)
                except TilewrightError as e:
                    error = e
                except Exception as e:  # whatever it is, those who ask are told
                    error = FarmError(f"{self.address}: {type(e).__name__}: {e}")
                if error is not None and farm is not None:
                    farm.close()
                    farm = None
                self._tell(status, error)
        finally:
            if farm is not None:
                farm.close()

    def _tell(self, status: dict[str, Any] | None, error: TilewrightError | None) -> None:
        with self._changed:
            self._at = time.monotonic()
            if status is not None:
                self._status, self._status_at = status, self._at
            self._error, self._wanted = error, False
            self._answers += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Leave the farm. Whoever waits is let go."""
        with self._changed:
            self._closed = True
            self._error = self._error or FarmError("the connection to the farm is closed")
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(ANSWER)


def worker_state(worker: Mapping[str, Any]) -> str:
    """What a worker of a farm's status does, in a word."""
    if worker["quarantine"]:
        return "quarantined"
    if worker["draining"]:
        return "draining"
    return "busy" if worker["running"] else "idle"
