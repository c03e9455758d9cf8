"""The farm that a dashboard shows: its status, cached for a few seconds, without delaying pages."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from tilewright.core import TilewrightError
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.link import Endpoint
from tilewright.farm.subjects import LOOKERS

FRESH = 2.0  # seconds for which a status is cached
WAIT = 1.0  # most seconds that a caller waits for a new status
STALE = 10.0  # seconds for which an old status is returned while the new one is late
ANSWER = 5.0  # timeout in seconds of a question to a connected farm


class FarmSource:
    """Caches a farm's status. Any thread may ask; a thread of its own connects at the first question.

    ``address``, ``certs``: as for ``Farm``; a reader's certificate is preferred. Raises ``UsageError`` or ``FarmError``
    for an invalid address or invalid certificates. An unreachable farm is reported when its status is asked for.
    """

    def __init__(self, address: str, certs: Path | None = None) -> None:
        self.address = Endpoint(address, certs, *LOOKERS).address
        self._certs = certs
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "farm source")
        self._farm: Farm | None = None
        self._asked: Future[None] | None = None
        self._began = 0.0  # when the last question was asked
        self._status: dict[str, Any] | None = None
        self._error: TilewrightError | None = None  # why the last question failed; None if it succeeded
        self._at = self._status_at = float("-inf")

    def status(self) -> dict[str, Any]:
        """The farm's status (docs/farm.md). Raises ``FarmError`` with the reason if there is no recent status."""
        with self._lock:
            now = time.monotonic()
            if (self._asked is None or self._asked.done()) and now - self._at >= FRESH:
                with suppress(RuntimeError):  # closed
                    self._asked, self._began = self._thread.submit(self._ask), now
            asked, began = self._asked, self._began
        if asked is not None and now - self._at >= FRESH:
            wait([asked], max(0.0, began + WAIT - now))
        with self._lock:
            if self._error is None and self._status is not None and now - self._status_at < STALE:
                return self._status
            raise self._error or FarmError(f"{self.address} has not answered yet", "Look again in a few seconds")

    def _ask(self) -> None:
        """Asks the farm, on the thread that owns the connection, and stores the answer."""
        status, error = None, None
        try:
            self._farm = self._farm or Farm(self.address, self._certs, patience=ANSWER, roles=LOOKERS)
            status = self._farm.ask("status", timeout=ANSWER)
        except TilewrightError as e:
            error = e
        except Exception as e:  # reported to the callers of status(), which run on other threads
            error = FarmError(f"{self.address}: {type(e).__name__}: {e}")
        if error is not None:
            self._leave()
        with self._lock:
            self._at = time.monotonic()
            if status is not None:
                self._status, self._status_at = status, self._at
            self._error = error

    def _leave(self) -> None:
        if self._farm is not None:
            self._farm.close()
            self._farm = None

    def close(self) -> None:
        """Closes the connection to the farm."""
        with self._lock:
            self._error = self._error or FarmError("the connection to the farm is closed")
        with suppress(RuntimeError):  # closed before
            self._thread.submit(self._leave)
        self._thread.shutdown()
