"""Tells readers of bundles which signing keys are revoked, by a farm's list of revoked certificates.

The farm's peers use the same list (:mod:`~tilewright.farm.pki.revocations`), checked by the same code and kept in the
same folder. A reader gets the list from a source: a keeper, a web server, or a file. The source need not answer at
every moment, as a keeper must for peers: until it answers, the newest known list counts until that list ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import selectors
import threading
import time
from pathlib import Path

from tilewright.errors import TilewrightError, UsageError
from tilewright.farm.budgets import MESSAGE
from tilewright.farm.errors import FarmError
from tilewright.farm.pki.identity import AUTHORITY, ROLES, key_serial
from tilewright.farm.pki.private_files import explained
from tilewright.farm.pki.revocations import FRESH, RevocationList, Revocations
from tilewright.forking import ForkLock, imported, steady
from tilewright.paths import cache_root

ANSWER_SECONDS = 15.0  # timeout of a question to the list's source
_LONGEST = 2 * MESSAGE.most  # bytes read of a list; PEM takes more bytes than DER
_CA = "ca.pem"
_READERS = ("reader", "client", "administrator", "runner", "builder")  # roles whose certificate a server accepts
_SIGNED = ("tilewright.farm.pki.x509", "cryptography.hazmat.backends.openssl.backend")
_WEB = ("urllib.request", "encodings.idna")
_MODULES = {
    "tls": (
        "tilewright.farm.link", "tilewright.farm.pki.certificates", "nats.aio.client", "msgpack", "encodings.idna",
        "concurrent.futures.thread",
    ),
    "http": _WEB, "https": _WEB,
}  # fmt: skip
"""Modules that asking imports, by the scheme of the source."""

_log = logging.getLogger("tilewright.runtime")


class Followed:
    """A farm's list of revoked certificates, from ``place``: ``tls://HOST:PORT`` of its server, an ``http`` or
    ``https`` URL, or a file's path.

    ``certs``: a folder with the authority's certificate. A ``tls`` place also needs the reader's own certificate
    there, as farm commands take it. Safe to share among threads. Raises ``FarmError`` where a certificate is missing.
    """

    def __init__(self, place: str, certs: Path) -> None:
        self.place, self._certs = place, certs
        self._scheme = place.partition("://")[0] if "://" in place else ""
        for name in (*_SIGNED, *_MODULES.get(self._scheme, ())):
            with contextlib.suppress(ModuleNotFoundError):  # asking reports the missing package
                imported(name)  # now, because this process may fork while another thread asks
        homes = (certs, certs / AUTHORITY, *(certs / r for r in ROLES))
        with explained(certs):
            found = next((h / _CA for h in homes if (h / _CA).exists()), None)
        if found is None:
            raise FarmError(f"{certs} has no {_CA}", "Name a folder with the certificate of the farm's authority")
        self.revocations = Revocations(found)
        self.revocations.remember(cache_root() / "farm")
        self._lock = ForkLock()
        self._asked = float("-inf")  # time.monotonic() of the last question to the source
        self._asking: threading.Thread | None = None

    def revokes(self, public: bytes) -> str:
        """Names the list that revokes a public key (32 bytes); empty if the key is not revoked. Raises ``Stale``
        without a list."""
        self._look()
        if self.revocations.lists(key_serial(public)):
            return f"list {self.revocations.number} of {self.place}"
        self.revocations.require_list()
        return ""

    def stamp(self) -> tuple[object, ...]:
        """Key for caching answers of :meth:`revokes`: answers can differ only between different stamps."""
        self._look()
        newest = self.revocations.newest
        return (self.revocations.number, newest is not None and newest.until < time.time())

    def ask(self) -> RevocationList:
        """Gets the list from its source now. Raises ``FarmError``."""
        if self._scheme == "tls":
            with steady, asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Steady())) as runner:
                runner.run(self._ask_keeper())
        elif self._scheme in ("", "http", "https"):
            self.revocations.take(_der(self._read()))
        else:
            raise UsageError(f"{self.place} is no place of a list", "Use tls://HOST:PORT, an https URL or a file")
        return self.revocations.require_list()

    def _look(self) -> None:
        """Has a thread ask the source when the last question is ``FRESH / 2`` seconds old. The caller waits for the
        answer only if the source was not asked for ``FRESH`` seconds."""
        if time.monotonic() - self._asked < FRESH / 2:
            return
        with self._lock:
            age = time.monotonic() - self._asked
            if age < FRESH / 2:
                return
            if self._asking is None or not self._asking.is_alive():
                self._asking = threading.Thread(target=self._ask_beside, name="tilewright-revoked", daemon=True)
                self._asking.start()
            if age > FRESH:
                self._asking.join(ANSWER_SECONDS)
            self._asked = time.monotonic()

    def _ask_beside(self) -> None:
        before = self.revocations.trouble
        try:
            self.ask()
            self.revocations.trouble = ""
        except (TilewrightError, OSError) as e:
            trouble = e.message if isinstance(e, TilewrightError) else f"{self.place}: {e}"
            if trouble != before and self.revocations.number:
                _log.warning("list %d of revoked certificates stays in force: %s", self.revocations.number, trouble)
            self.revocations.trouble = trouble

    async def _ask_keeper(self) -> None:
        from tilewright.farm.link import Endpoint

        endpoint = Endpoint(self.place, self._certs, *_READERS, revocations=self.revocations)
        await (await endpoint.connect()).close()

    def _read(self) -> bytes:
        if not self._scheme:
            path = Path(self.place)
            with explained(path), path.open("rb") as file:
                data = file.read(_LONGEST)
        else:
            from http.client import HTTPException
            from urllib.error import HTTPError
            from urllib.request import urlopen

            try:
                with urlopen(self.place, timeout=ANSWER_SECONDS) as answer:
                    data = answer.read(_LONGEST)
            except (OSError, ValueError, HTTPException) as e:
                if isinstance(e, HTTPError):
                    e.close()  # an HTTPError is an open response; from Python 3.14 on, leaving it open warns
                raise FarmError(
                    f"{self.place} has no list of revoked certificates: {e}", "Check the address or file"
                ) from None
        return data


class _Steady(selectors.DefaultSelector):
    """Selector of an event loop that runs under the lock ``steady``. It releases the lock while it waits, so that the
    process forks then, and not in the middle of a signature."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        steady.release()
        try:
            return super().select(timeout)
        finally:
            steady.acquire()


@functools.cache
def follow(place: str, certs: str) -> Followed:
    """The :class:`Followed` that all bundles of this process share. Raises as :class:`Followed` does."""
    return Followed(place, Path(certs))


def _der(data: bytes) -> bytes:
    """Converts a list that was read from a file or URL, PEM or DER, to DER."""
    from tilewright.farm.pki import x509

    try:
        return x509.revocation_list_der(data) if data.lstrip().startswith(b"-----") else data
    except ValueError:
        return b""  # which is refused as a list
