"""Mutual TLS 1.3 among the farm's machines, and who a peer's certificate says it is.

Both ends trust one authority, the farm's own, and nothing of the system's. A context is for one role;
:func:`peer_of` and :func:`check_peer` say who is at the other end, and whether it may be.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.farm import certificates
from tilewright.farm.certificates import CA, CERT, CRL, KEY
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.identity import parse_identity
from tilewright.farm.private_files import explained, require_private


@dataclass(frozen=True)
class Peer:
    """Who a certificate belongs to. ``not_after``: seconds since the epoch."""

    role: str
    name: str
    serial: int
    not_after: float

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


@dataclass(frozen=True)
class Credentials:
    """The files of one certificate's folder, and whose it is. ``crl`` need not exist."""

    ca: Path
    cert: Path
    key: Path
    crl: Path
    owner: Peer


def find_credentials(certs: Path, role: str, *, now: float | None = None) -> Credentials:
    """The certificate of a role: in ``certs`` itself, or in its folder named after the role.

    Raises ``FarmError`` for what could not work: a file that is missing or no certificate, a key that others
    can read or that belongs to another certificate, a certificate of another role or authority, or one that
    is not valid now.
    """
    with explained(certs):
        single = any((certs / name).exists() for name in (CA, CERT, KEY))
        found = [(certs if single else certs / role) / name for name in (CA, CERT, KEY)]
        missing = next((p for p in found if not p.exists()), None)
    if missing:
        mend = f"Name the folder that `tilewright farm init` made, or its {role}'s folder"
        raise FarmError(f"there is no {missing}", mend)
    ca, cert, key = found
    own = certificates.read(cert)
    again = f"Issue another with `tilewright farm issue {own.name} --renew` and copy its folder here"
    if own.role != role:
        raise FarmError(f"{cert} is a {own.role}'s, and a {role}'s is needed", f"Name the folder of a {role}")
    require_private(key)
    if not certificates.issued_by(cert, ca):
        raise FarmError(
            f"{cert} and {ca} are of different authorities", "Copy the whole folder again, as it was issued"
        )
    moment = time.time() if now is None else now
    if own.not_after < moment:
        raise FarmError(f"the certificate {cert} expired on {_day(own.not_after)}", again)
    if own.not_before > moment:
        mend = "Set this machine's clock"
        raise FarmError(f"the certificate {cert} is not valid before {_day(own.not_before)}", mend)
    credentials = Credentials(ca, cert, key, cert.with_name(CRL), Peer(own.role, own.name, own.serial, own.not_after))
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), credentials)
    return credentials


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """For the scheduler: connections from holders of a certificate of a runner, builder or client alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    # Without session tickets every connection shows its certificate, and is held to it anew.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return _load(context, credentials)


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """For everyone else: connections to a scheduler whose certificate names the host that was asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_REQUIRED
    context.check_hostname = True
    return _load(context, credentials)


def _load(context: ssl.SSLContext, credentials: Credentials) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cafile=credentials.ca)
    except (ssl.SSLError, OSError) as e:
        raise FarmError(f"{credentials.ca} can't be read: {_reason(e)}", "Copy it again from DIR/ca") from None
    try:
        # An empty passphrase: an encrypted key is refused, not asked for on the terminal.
        context.load_cert_chain(credentials.cert, credentials.key, password="")
    except (ssl.SSLError, OSError) as e:
        raise FarmError(
            f"{credentials.key} is not the key of {credentials.cert}: {_reason(e)}",
            f"Copy the whole folder again, or renew it: `tilewright farm issue {credentials.owner.name} --renew`",
        ) from None
    return context


def peer_of(source: ssl.SSLObject | ssl.SSLSocket | Mapping[str, Any] | None) -> Peer:
    """Who is at the other end, from a connection after its handshake or from its ``getpeercert()``.

    The certificate must have been verified by TLS. Raises ``Refused`` if it says no role.
    """
    certificate: Any = source.getpeercert() if isinstance(source, ssl.SSLObject | ssl.SSLSocket) else source
    if not certificate:
        raise Refused("the peer showed no certificate", "Connect with --certs")
    uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    role, name = parse_identity(uris)
    return Peer(
        role, name, int(certificate["serialNumber"], 16), float(ssl.cert_time_to_seconds(certificate["notAfter"]))
    )


class Revocations:
    """The revoked serial numbers in a file that may be replaced at any time. Safe to share among threads.

    No file means that none are revoked; a file that goes away later changes nothing.
    """

    def __init__(self, crl: Path, ca: Path) -> None:
        self._crl = crl
        self._ca = ca
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._serials: frozenset[int] = frozenset()

    def revoked(self, serial: int) -> bool:
        """Whether a serial number is revoked by now.

        Raises ``FarmError`` while the file is not signed by the authority: who is revoked is unknown then, and
        nobody can be let in.
        """
        with self._lock:
            try:
                status = self._crl.stat()
            except FileNotFoundError:
                return serial in self._serials
            except OSError as e:
                raise FarmError(f"{self._crl} can't be read: {_reason(e)}", "Check its owner and mode") from None
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                self._serials = frozenset(certificates.revoked(self._crl, self._ca))
                self._seen = seen
            return serial in self._serials


def check_peer(
    peer: Peer, roles: Collection[str], revocations: Revocations | None = None, now: float | None = None
) -> None:
    """Raise ``Refused`` unless the peer has one of ``roles`` and a certificate that is still good.

    To be asked again during long connections, which TLS checks only at their beginning.
    """
    if peer.role not in roles:
        wanted = " or ".join(sorted(roles))
        raise Refused(f"{peer} has the wrong role: a {wanted} is needed", f"Use the certificate of a {wanted}")
    if peer.not_after < (time.time() if now is None else now):
        raise Refused(
            f"the certificate of {peer} expired on {_day(peer.not_after)}",
            f"Issue another: `tilewright farm issue {peer.name} --renew`",
        )
    if revocations is not None and revocations.revoked(peer.serial):
        raise Refused(
            f"the certificate of {peer} is revoked", f"Issue another: `tilewright farm issue {peer.name} --renew`"
        )


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else error.strerror
    return str(reason or error).replace("_", " ").lower()
