"""Which certificates count no more: the list that the farm's authority signs, as a reader of signatures knows it.

The list is a CRL (RFC 5280) with a number that only grows, the time at which it was made and the time at which it ends.
Its signature is the authority's, so it may come by any way; that it is the newest one is what a keeper has to say, and
counts for :data:`FRESH` seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from dataclasses import dataclass
from pathlib import Path

from tilewright.farm.errors import FarmError, Refused, Stale
from tilewright.farm.pki.identity import CLOCKS, DAY, Peer, minute, read_list
from tilewright.files import locked, replace_files

WARNING_DAYS = 30  # how long before its end a certificate, or the list, is worth a warning
FRESH = 60.0  # seconds for which a list counts after a keeper has said that it is the newest
SIGN_ANEW = "Sign a list: `tilewright farm revoke --dir DIR`, and copy its users.json to every server"
_COPY = "Copy DIR/ca/users.json to every server again"


@dataclass(frozen=True)
class RevocationList:
    """``number`` orders the lists of an authority; it counts from ``made`` to ``until`` (seconds since the epoch)."""

    number: int
    made: float
    until: float
    serials: frozenset[int]
    der: bytes

    def days_left(self, now: float | None = None) -> int:
        """Whole days until it ends. ``now``: this machine's clock unless given."""
        return math.floor((self.until - (time.time() if now is None else now)) / DAY)


class Revocations:
    """The newest list of revoked certificates that this process has seen, of the authority whose certificate is ``ca``.

    Raises ``FarmError`` if ``ca`` is no certificate.
    """

    def __init__(self, ca: Path) -> None:
        from tilewright.farm.pki import x509

        self._authority = x509.read_certificate(ca)
        self._farm = hashlib.sha256(x509.certificate_der(self._authority)).hexdigest()[:32]
        self._memory: Path | None = None
        self._confirmed = float("-inf")
        self.newest: RevocationList | None = None
        self.trouble = ""  # why no keeper has confirmed the list lately

    def remember(self, folder: Path) -> None:
        """Take up the list that an earlier process left in ``folder``, and leave the newest there from now on.

        So a server that is restored from an old copy cannot bring back whom a newer list had revoked. What cannot be
        read or written there costs this memory alone.
        """
        self._memory = folder / f"revoked-{self._farm}.crl"
        found = self._remembered()
        if found is not None:
            self.newest = found

    def take(self, der: bytes) -> bool:
        """Take up a list, from wherever it came; whether it is newer than what was known.

        Raises ``Refused`` for one that this authority has not signed, ``Stale`` for one that is older or has ended.
        """
        known = self.newest
        if known is not None and der == known.der:
            return False
        found = self._read(der)
        if known is not None and found.number <= self.number:
            raise Stale(
                f"list {found.number} of revoked certificates ({minute(found.made)}) was refused: list {known.number} "
                f"({minute(known.made)}) is known here", _COPY,
            )  # fmt: skip
        self.newest = found
        self._keep(found)
        return True

    def take_file(self, path: Path) -> bool:
        """Take up the list in a server's ``users.json``. Raises as :meth:`take` does, and ``FarmError``."""
        from tilewright.farm.pki import x509

        pem = read_list(path)
        if not pem:
            raise FarmError(f"{path} has no list of revoked certificates", SIGN_ANEW)
        try:
            der = x509.revocation_list_der(pem.encode())
        except ValueError:
            raise FarmError(f"{path} is damaged", _COPY) from None
        return self.take(der)

    def confirm(self, when: float) -> None:
        """A keeper has said that no list is newer. ``when``: the steady clock before it was asked."""
        self._confirmed, self.trouble = max(when, self._confirmed), ""

    @property
    def number(self) -> int:
        """Of the newest list; 0 where none is known."""
        return self.newest.number if self.newest is not None else 0

    @property
    def fresh(self) -> bool:
        """Whether there is a list that counts now."""
        newest = self.newest
        return newest is not None and time.monotonic() - self._confirmed <= FRESH and time.time() <= newest.until

    def require_listed_nowhere(self, peer: Peer) -> None:
        """Raises ``Refused`` where the peer's certificate is on the newest list that is known, however old that is."""
        if self.newest is not None and peer.serial in self.newest.serials:
            again = f"Issue another: `tilewright farm issue {peer.name} --renew`"
            raise Refused(f"the certificate of {peer} (serial {peer.serial:x}) is revoked", again)

    def check(self, peer: Peer) -> None:
        """Raises ``Refused`` where the peer's certificate is revoked, ``Stale`` where it is not known whether it is."""
        self.require_listed_nowhere(peer)
        newest = self.newest
        if newest is None:
            why = f": {self.trouble}" if self.trouble else ""
            raise Stale(f"the farm has no list of revoked certificates{why}", SIGN_ANEW)
        self._check_end(newest)
        if not self.fresh:
            why = f" ({self.trouble})" if self.trouble else ""
            raise Stale(
                f"no keeper has said for over {FRESH:.0f} s who is revoked{why}; until then no signature counts",
                "Start the farm's server, which has a keeper",
            )

    def _read(self, der: bytes) -> RevocationList:
        from tilewright.farm.pki import x509

        try:
            signed = x509.load_revocation_list(der)
            if not x509.list_signed_by(signed, self._authority):
                raise ValueError("another signature")
            found = RevocationList(*x509.describe_list(signed), der)
        except ValueError:
            raise Refused("what came is no list of revoked certificates of this farm's authority", _COPY) from None
        if found.made - CLOCKS > time.time():
            raise Refused(f"the list of revoked certificates is of {minute(found.made)}", "Set the machines' clocks")
        self._check_end(found)
        return found

    def _remembered(self) -> RevocationList | None:
        with contextlib.suppress(OSError, FarmError):
            return self._read(self._memory.read_bytes()) if self._memory else None
        return None

    def _keep(self, found: RevocationList) -> None:
        """Leave a list for later processes, unless another has left a newer one."""
        if self._memory is None:
            return
        with contextlib.suppress(OSError, FarmError):
            folder = self._memory.parent
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(folder):
                before = self._remembered()
                if before is None or before.number < found.number:
                    replace_files(folder, {self._memory.name: found.der})

    def _check_end(self, found: RevocationList) -> None:
        if found.until < time.time():
            raise Stale(f"the list of revoked certificates ended on {minute(found.until)}", SIGN_ANEW)
