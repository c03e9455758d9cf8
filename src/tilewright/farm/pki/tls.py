"""Mutual TLS 1.3 among the farm's machines, and whose the certificates are that they show.

Both ends trust one authority, the farm's own, and nothing of the system's. The server's end of a connection is
nats-server's; :class:`Authority` is for the certificates that come in messages.
"""

from __future__ import annotations

import functools
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.pki.identity import CLOCKS, ISSUE_SERVER, RETIRED, Peer, minute
from tilewright.farm.pki.private_files import explained, require_private

if TYPE_CHECKING:
    from tilewright.farm.pki import x509

_OURS = "Use a certificate of this farm's authority, and copy its whole folder as it was issued"
_REMEMBERED = 4096  # certificates whose signatures need no second look


@dataclass(frozen=True)
class Credentials:
    """The files of one certificate's folder, and whose it is."""

    ca: Path
    cert: Path
    key: Path
    owner: Peer


def find_credentials(certs: Path, *roles: str) -> Credentials:
    """The certificate of a role: in ``certs`` itself, or in its folder named after the first of ``roles`` that has one.

    Raises ``FarmError`` for what could not work: a file that is missing or no certificate, a key that others
    can read or that belongs to another certificate, a certificate of another role or authority, or one that
    is not valid now.
    """
    from tilewright.farm.pki import certificates, x509

    wanted = " or ".join(roles)
    hint = f"Name the folder that `tilewright farm init` made, or one certificate's: for {wanted}"
    with explained(certs):
        homes = [certs, *(certs / r for r in roles)]
        home = next((h for h in homes if (h / certificates.CERT).exists()), None)
        if home is None:
            old = "server" in roles and (certs / RETIRED).is_dir()
            raise FarmError(f"{certs} has no certificate for {wanted}", ISSUE_SERVER if old else hint)
    ca, cert, key = (home / name for name in (certificates.CA, certificates.CERT, certificates.KEY))
    own, _ = Authority(ca).peer(x509.certificate_der(x509.read_certificate(cert)), slack=0.0)
    if own.role not in roles:
        raise FarmError(f"{cert} is for {own.role}, but {wanted} is needed", hint)
    require_private(key)
    credentials = Credentials(ca, cert, key, own)
    client_context(credentials)  # whether TLS takes the files
    return credentials


class ClientContext(ssl.SSLContext):
    """The context of one connection. ``shown``: the certificate of its other end (DER), empty until it is encrypted."""

    shown = b""


class _Noting(ssl.SSLObject):
    def do_handshake(self) -> None:
        super().do_handshake()
        cast(ClientContext, self.context).shown = self.getpeercert(binary_form=True) or b""


def client_context(credentials: Credentials) -> ClientContext:
    """For a connection to a server whose certificate names the host that was asked for."""
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks the server's certificate and its name
    context.sslobject_class = _Noting
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cafile=credentials.ca)
        # An empty passphrase: an encrypted key is refused, not asked for on the terminal.
        context.load_cert_chain(credentials.cert, credentials.key, password="")
    except OSError as e:  # an SSLError is one
        reason = str(getattr(e, "reason", None) or e.strerror).replace("_", " ").lower()
        raise FarmError(
            f"{credentials.key} is not the key of {credentials.cert}: {reason}",
            f"Copy the whole folder again, or renew it: `tilewright farm issue {credentials.owner.name} --renew`",
        ) from None
    return context


class Authority:
    """Tells whose the certificates are that come in messages. Safe to share among threads.

    Raises ``FarmError`` if ``ca`` is no certificate.
    """

    def __init__(self, ca: Path) -> None:
        from tilewright.farm.pki import x509

        self._certificate = x509.read_certificate(ca)
        # Refusals are not remembered: what anyone may send must not push out what is in use.
        self._known = functools.lru_cache(_REMEMBERED)(self._examine)

    def peer(self, der: bytes, slack: float = CLOCKS) -> tuple[Peer, x509.Certificate]:
        """Whose a certificate is, and the certificate itself.

        Raises ``Refused`` unless this authority issued it, it names one role, and it is valid now. ``slack``: seconds
        that may be missing.
        """
        own, certificate = self._known(der)
        now = time.time()
        if own.not_after + slack < now:
            again = f"Issue another with `tilewright farm issue {own.name} --renew`, and copy its folder again"
            raise Refused(f"the certificate of {own} expired on {minute(own.not_after)}", again)
        if own.not_before - slack > now:
            raise Refused(
                f"the certificate of {own} is not valid before {minute(own.not_before)}",
                "Set the clocks of the machines",
            )
        return own, certificate

    def _examine(self, der: bytes) -> tuple[Peer, x509.Certificate]:
        from tilewright.farm.pki import x509

        try:
            certificate = x509.load_certificate(der, der=True)
        except ValueError:
            raise Refused("the received certificate cannot be read", _OURS) from None
        if not x509.signed_by(certificate, self._certificate):
            raise Refused("the certificate is of another authority", _OURS)
        return x509.describe(certificate), certificate
