"""Mutual TLS 1.3 among the farm's machines, and the identification of certificates.

Both ends trust only the farm's own authority, not the system's authorities. nats-server is the server's end of a
connection; :class:`Authority` checks the certificates in messages.
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
_REMEMBERED = 4096  # certificates whose signatures are checked once


@dataclass(frozen=True)
class Credentials:
    """The files of one certificate's folder, and the certificate's holder."""

    ca: Path
    cert: Path
    key: Path
    owner: Peer


def find_credentials(certs: Path, *roles: str) -> Credentials:
    """Finds the certificate of a role: in ``certs`` itself, or in the subfolder of the first of ``roles`` that exists.

    Raises ``FarmError`` for a missing or malformed file, and for a certificate of another role or authority, or that is
    not valid now. Raises it too for a key that other users can read, or that belongs to another certificate.
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
    client_context(credentials)  # checks that TLS accepts the files
    return credentials


class ClientContext(ssl.SSLContext):
    """The TLS context of one connection. ``shown``: the other end's certificate (DER), empty before the handshake."""

    shown = b""


class _Noting(ssl.SSLObject):
    def do_handshake(self) -> None:
        super().do_handshake()
        cast(ClientContext, self.context).shown = self.getpeercert(binary_form=True) or b""


def client_context(credentials: Credentials) -> ClientContext:
    """The TLS context for a connection to a server. The server's certificate must name the requested host."""
    context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the server's certificate and host name
    context.sslobject_class = _Noting
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cafile=credentials.ca)
        # With an empty passphrase OpenSSL refuses an encrypted key; without one it would ask on the terminal.
        context.load_cert_chain(credentials.cert, credentials.key, password="")
    except OSError as e:  # an SSLError is one
        reason = str(getattr(e, "reason", None) or e.strerror).replace("_", " ").lower()
        raise FarmError(
            f"{credentials.key} is not the key of {credentials.cert}: {reason}",
            f"Copy the whole folder again, or renew it: `tilewright farm issue {credentials.owner.name} --renew`",
        ) from None
    return context


class Authority:
    """Identifies the holders of certificates in messages. Safe to share among threads.

    Raises ``FarmError`` if ``ca`` is not a certificate.
    """

    def __init__(self, ca: Path) -> None:
        from tilewright.farm.pki import x509

        self._certificate = x509.read_certificate(ca)
        # Refusals are not cached: certificates that anyone may send must not evict certificates in use.
        self._known = functools.lru_cache(_REMEMBERED)(self._examine)

    def peer(self, der: bytes, slack: float = CLOCKS) -> tuple[Peer, x509.Certificate]:
        """Returns a certificate's holder and the certificate itself.

        Raises ``Refused`` unless this authority issued the certificate, it names one role, and it is valid now.
        ``slack``: seconds by which its validity may be missed, for clocks that differ.
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
