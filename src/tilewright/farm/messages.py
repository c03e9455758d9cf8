"""What travels through a farm: msgpack maps of plain values, sealed by whoever sends them.

The server in the middle passes messages on, and a peer can have it publish where the peer itself may not (a request's
reply subject is the peer's to choose). So a message carries its sender's certificate and a signature over the subject
that it was written for and its content: whoever reads it checks both, and that the certificate is not revoked, and
trusts no subject. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.farm.budgets import MESSAGE, WRAPPING, Budget, OverBudget, of_subject
from tilewright.farm.decoding import NoMessage, require_msgpack, unpack
from tilewright.farm.errors import Refused
from tilewright.farm.pki.identity import Peer
from tilewright.farm.pki.revocations import Revocations
from tilewright.farm.pki.tls import Authority, Credentials

PROTOCOL = 3
"""Version of the messages and subjects. A farm's keeper tells peers of another one that they do not fit."""

_OUTER = replace(WRAPPING, most=MESSAGE.most + WRAPPING.most)  # of a message with what it is wrapped in


def pack(message: Mapping[str, Any], budget: Budget = MESSAGE) -> bytes:
    """One message as bytes. Raises ``OverBudget`` for one that is too long."""
    data: bytes = require_msgpack().packb(message, use_bin_type=True)
    budget.check(len(data))
    return data


class Seal:
    """Seals this process' messages and opens those of others. Without credentials, as on a loopback farm in the
    clear, messages are neither signed nor checked, and nobody is known. ``revocations``: who is revoked, as far as this
    process has heard."""

    def __init__(self, credentials: Credentials | None, revocations: Revocations | None = None) -> None:
        self._authority: Authority | None = None
        self.revocations = revocations
        if credentials is not None:
            from tilewright.farm.pki import x509

            self._key = x509.load_key(Path(credentials.key).read_bytes())
            self._own = x509.certificate_der(x509.load_certificate(Path(credentials.cert).read_bytes()))
            self._authority = Authority(credentials.ca)
            self.revocations = revocations or Revocations(credentials.ca)

    def seal(self, subject: str, body: Mapping[str, Any], budget: Budget | None = None) -> bytes:
        """A message for ``subject``, and for no other. ``budget``: the subject's, unless it is an answer to one there.

        Raises ``OverBudget`` for one that is too long.
        """
        content = pack(body, budget or of_subject(subject))
        outer = {"body": content}
        if self._authority is not None:
            from tilewright.farm.pki import x509

            outer |= {"from": self._own, "signature": x509.sign(self._key, _signed(subject, content))}
        return pack(outer, _OUTER)

    def open(
        self, subject: str, data: bytes, roles: Collection[str], budget: Budget | None = None, *, revocable: bool = True
    ) -> tuple[dict[str, Any], Peer | None]:
        """What a message for ``subject`` says, and who of ``roles`` sealed it. ``budget``: as of :meth:`seal`.
        ``revocable`` is false where the caller checks by itself whether the sender is revoked.

        Nothing of the content is read before its signature is known to be right. Raises ``OverBudget`` for more than
        there may be, ``Refused`` for another or a revoked sender and for a broken seal, ``Stale`` where it is not known
        who is revoked, ``NoMessage`` for what is none.
        """
        allowed = budget or of_subject(subject)
        if len(data) > allowed.most + WRAPPING.most:
            raise OverBudget(allowed, len(data))
        outer = unpack(data, _OUTER)
        content = outer.get("body")
        if not isinstance(content, bytes):
            raise NoMessage("not a message: nothing in it")
        peer = None
        if self._authority is not None:
            from tilewright.farm.pki import x509

            der, signature = outer.get("from"), outer.get("signature")
            if not isinstance(der, bytes) or not isinstance(signature, bytes):
                raise Refused("a message without a signature")
            peer, certificate = self._authority.peer(der)
            if peer.role not in roles:
                raise Refused(f"a message of {peer}, where only a {' or '.join(roles)} may speak")
            if not x509.verify(certificate, _signed(subject, content), signature):
                raise Refused(f"a message in the name of {peer} is forged, or was written for another subject")
            if revocable and self.revocations is not None:
                self.revocations.check(peer)
        return unpack(content, allowed), peer

    @property
    def stale(self) -> bool:
        """Whether it is not known who is revoked, so that :meth:`open` refuses everybody."""
        return self.revocations is not None and not self.revocations.fresh

    def holder(self, certificate: bytes) -> Peer | None:
        """Whose a certificate (DER) is, ``None`` without credentials. Raises ``Refused``."""
        return self._authority.peer(certificate)[0] if self._authority is not None else None

    def require_listed_nowhere(self, peer: Peer | None) -> None:
        """Raises ``Refused`` where a sender is known to be revoked."""
        if peer is not None and self.revocations is not None:
            self.revocations.require_listed_nowhere(peer)


def _signed(subject: str, content: bytes) -> bytes:
    return subject.encode() + b"\0" + content
