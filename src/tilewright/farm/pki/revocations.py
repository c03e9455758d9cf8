"""The list of revoked certificates that the farm's authority signs, as a reader of signatures keeps it.

The list is a CRL (RFC 5280) with a number that only grows, the time at which it was made and the time at which it ends.
The authority signs the list, so it may arrive by any way. A keeper confirms that a list is the newest, and the
confirmation counts for :data:`FRESH` seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.farm.budgets import MESSAGE
from tilewright.farm.errors import FarmError, Refused, Stale
from tilewright.farm.pki.identity import CLOCKS, DAY, Peer, minute, read_list
from tilewright.files import locked, replace_files
from tilewright.forking import steady

WARNING_DAYS = 30  # days before the end of a certificate, or of the list, from which Tilewright warns
FRESH = 60.0  # seconds for which a list counts after a keeper has said that it is the newest
_PATIENCE = 2.0  # seconds to wait for the lock of the list's file: its holder writes one file
SIGN_LIST = "Sign a list: `tilewright farm revoke --dir DIR`, and copy its users.json to every server"
_ASKED_AGAIN = "Tilewright asks again within a minute"
_COPY = "Copy DIR/ca/users.json to every server again"


@dataclass(frozen=True)
class RevocationList:
    """A decoded list of revoked certificates. ``number`` orders the lists of an authority. The list counts from
    ``made`` to ``until`` (seconds since the epoch)."""

    number: int
    made: float
    until: float
    serials: frozenset[int]
    der: bytes

    def __str__(self) -> str:
        day = time.strftime("%Y-%m-%d", time.gmtime(self.until))
        return f"list {self.number} of revoked certificates ({len(self.serials)}), until {day}"

    def to_json(self) -> dict[str, Any]:
        serials = sorted(f"{serial:x}" for serial in self.serials)
        return {"number": self.number, "made": self.made, "until": self.until, "serials": serials}

    def days_left(self, now: float | None = None) -> int:
        """Whole days until the list ends. ``now``: this machine's clock by default."""
        return math.floor((self.until - (time.time() if now is None else now)) / DAY)


class Revocations:
    """The newest list of revoked certificates that this process has seen, of the authority whose certificate is ``ca``.

    Raises ``FarmError`` if ``ca`` is not a certificate.
    """

    def __init__(self, ca: Path) -> None:
        from tilewright.farm.pki import x509

        with steady:
            self._authority = x509.read_certificate(ca)
            self._farm = hashlib.sha256(x509.certificate_der(self._authority)).hexdigest()[:32]
        self._memory: Path | None = None
        self._confirmed = float("-inf")
        self.newest: RevocationList | None = None
        self.trouble = ""  # why no keeper has confirmed the list lately

    def remember(self, folder: Path) -> None:
        """Reads the list that an earlier process stored in ``folder``, and stores the newest list there from now on.

        So a server that is restored from an old copy cannot readmit a certificate that a newer list revoked, for any
        process with this folder. Errors of reading and writing there are ignored.
        """
        self._memory = folder / f"revoked-{self._farm}.crl"
        self._read_stored()

    def take(self, der: object) -> bool:
        """Takes a list from any source; returns whether it is newer than the known list. ``der``: the list's bytes, or
        any value that a peer sent in their place.

        Raises ``Refused`` for a list that this authority has not signed, ``Stale`` for a list that is older or has
        ended.
        """
        known = self.newest
        if known is not None and der == known.der:
            self._check_end(known)
            return False
        found = self.read(der)
        if found.made - CLOCKS > time.time():
            raise Refused(
                f"the list of revoked certificates is of {minute(found.made)}", "Set the clocks of the machines"
            )
        self._check_end(found)
        with self._alone():
            self._read_stored()
            known = self.newest
            if known is not None and found.number <= known.number and der != known.der:
                raise Stale(
                    f"list {found.number} of revoked certificates ({minute(found.made)}) was refused: list "
                    f"{known.number} ({minute(known.made)}) is known here", _COPY,
                )  # fmt: skip
            self.newest = found
            self._keep(found)
        return True

    def take_file(self, path: Path) -> bool:
        """Takes the list in a server's ``users.json``. Raises as :meth:`take` does, and ``FarmError``."""
        from tilewright.farm.pki import x509

        pem = read_list(path)
        if not pem:
            raise FarmError(f"{path} has no list of revoked certificates", SIGN_LIST)
        try:
            der = x509.revocation_list_der(pem.encode())
        except ValueError:
            raise FarmError(f"{path} is damaged", _COPY) from None
        return self.take(der)

    def read(self, der: object) -> RevocationList:
        """Decodes a list, even if it has ended. Raises ``Refused`` for a list that this authority has not signed."""
        from tilewright.farm.pki import x509

        try:
            if not isinstance(der, bytes):
                raise ValueError("no bytes")
            MESSAGE.check(len(der))  # a list travels in a message
            with steady:  # no fork while cryptography initialises itself at its first use
                signed = x509.load_revocation_list(der)
                if not x509.list_signed_by(signed, self._authority):
                    raise ValueError("another signature")
                return RevocationList(*x509.describe_list(signed), der)
        except ValueError:
            raise Refused(
                "the received list of revoked certificates is not signed by this farm's authority", _COPY
            ) from None

    def confirm(self, when: float) -> None:
        """Notes that a keeper confirmed the known list as the newest. ``when``: ``time.monotonic()`` before the
        question."""
        self._confirmed, self.trouble = max(when, self._confirmed), ""

    @property
    def number(self) -> int:
        """Number of the newest known list; 0 without a list."""
        return self.newest.number if self.newest is not None else 0

    @property
    def fresh(self) -> bool:
        """Whether the known list counts now: it has not ended, and a keeper confirmed it within ``FRESH`` seconds."""
        newest = self.newest
        return newest is not None and time.monotonic() - self._confirmed <= FRESH and time.time() <= newest.until

    def lists(self, serial: int) -> bool:
        """Whether a serial number is on the newest known list, however old the list is."""
        return self.newest is not None and serial in self.newest.serials

    def require_list(self) -> RevocationList:
        """The newest known list. Raises ``Stale`` without a list, or if it has ended."""
        if self.newest is None:
            why = f": {self.trouble}" if self.trouble else ""
            raise Stale(f"the farm has no list of revoked certificates{why}", _ASKED_AGAIN if why else SIGN_LIST)
        self._check_end(self.newest)
        return self.newest

    def require_listed_nowhere(self, peer: Peer) -> None:
        """Raises ``Refused`` if the peer's certificate is on the newest known list, however old the list is."""
        if self.lists(peer.serial):
            again = f"Issue another: `tilewright farm issue {peer.name} --renew`"
            raise Refused(f"the certificate of {peer} (serial {peer.serial:x}) is revoked", again)

    def check(self, peer: Peer) -> None:
        """Raises ``Refused`` if the peer's certificate is revoked, ``Stale`` if no current list is known."""
        self.require_listed_nowhere(peer)
        self.require_list()
        if not self.fresh:
            why = f" ({self.trouble})" if self.trouble else ""
            raise Stale(
                f"no keeper has said for over {FRESH:.0f} s who is revoked{why}; until then no signature counts",
                "Start the farm's server, which has a keeper",
            )

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Locks the stored list's folder, where that is possible."""
        with contextlib.ExitStack() as held:
            if self._memory is not None:
                with contextlib.suppress(OSError):
                    self._memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    held.enter_context(locked(self._memory.parent, _PATIENCE))
            yield

    def _read_stored(self) -> None:
        """Reads the stored list. An ended list is useful too: it shows which lists are older."""
        with contextlib.suppress(OSError, FarmError):
            found = self.read(self._memory.read_bytes()) if self._memory else None
            if found is not None and found.number > self.number:
                self.newest = found

    def _keep(self, found: RevocationList) -> None:
        if self._memory is not None:
            with contextlib.suppress(OSError):
                replace_files(self._memory.parent, {self._memory.name: found.der})

    def _check_end(self, found: RevocationList) -> None:
        if found.until < time.time():
            raise Stale(f"the list of revoked certificates ended on {minute(found.until)}", SIGN_LIST)
