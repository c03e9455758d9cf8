"""A farm's messages: msgpack maps of plain values, signed by their senders.

The server passes messages on. A peer can make it publish where the peer itself may not, by a request's reply subject.
So readers do not trust the subject. A message carries its sender's certificate and a signature over its subject and
content. The reader checks both, and that the certificate is not revoked. Nothing is unpickled.
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
"""Version of the messages and subjects. A farm's keeper refuses peers of another version."""

_OUTER = replace(WRAPPING, most=MESSAGE.most + WRAPPING.most)  # budget of a message with certificate and signature


def pack(message: Mapping[str, Any], budget: Budget = MESSAGE) -> bytes:
    """Encodes a message as bytes. Raises ``OverBudget`` if it is too long."""
    data: bytes = require_msgpack().packb(message, use_bin_type=True)
    budget.check(len(data))
    return data


class Seal:
    """Signs this process' messages, and opens and checks messages of peers.

    Without credentials, as on an unencrypted loopback farm, messages are neither signed nor checked, and senders stay
    unknown. ``revocations``: the list of revoked certificates that this process knows.
    """

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
        """Signs and encodes a message for ``subject``; it is valid for that subject only.

        ``budget``: the subject's by default; an answer has its own. Raises ``OverBudget`` if the message is too long.
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
        """Returns the content of a message for ``subject``, and its sender, who must have one of ``roles``.

        ``budget``: as of :meth:`seal`. ``revocable`` is false where the caller checks by itself whether the sender is
        revoked. The signature is checked before the content is decoded.

        Raises ``OverBudget`` for a message over its budget, ``Refused`` for a wrong or revoked sender and for a wrong
        signature. Raises ``Stale`` if no current list of revoked certificates is known, ``NoMessage`` for malformed
        bytes.
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
        """Whether the known list of revoked certificates is out of date, so that :meth:`open` refuses all messages."""
        return self.revocations is not None and not self.revocations.fresh

    def holder(self, certificate: bytes) -> Peer | None:
        """The holder of a certificate (DER), ``None`` without credentials. Raises ``Refused``."""
        return self._authority.peer(certificate)[0] if self._authority is not None else None

    def require_listed_nowhere(self, peer: Peer | None) -> None:
        """Raises ``Refused`` if a sender's certificate is on the known list of revoked certificates."""
        if peer is not None and self.revocations is not None:
            self.revocations.require_listed_nowhere(peer)


def _signed(subject: str, content: bytes) -> bytes:
    return subject.encode() + b"\0" + content
