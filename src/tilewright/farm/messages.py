"""What travels through a farm: msgpack maps of plain values, sealed by whoever sends them.

The server in the middle passes messages on, and a peer can have it publish where the peer itself may not (a request's
reply subject is the peer's to choose). So a message carries its sender's certificate and a signature over the subject
that it was written for and its content: whoever reads it checks both, and that the certificate is not revoked, and
trusts no subject. Nothing is unpickled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.pki.identity import Peer
from tilewright.farm.pki.revocations import Revocations
from tilewright.farm.pki.tls import Authority, Credentials

PROTOCOL = 3
"""Version of the messages and subjects. A farm's keeper tells peers of another one that they do not fit."""

LIMIT = (8 << 20) - (64 << 10)  # bytes in one message, an artifact among them: 8 MiB with its wrapping
_DEEPEST = 64  # maps and lists within each other: far from where a decoder or an encoder of any peer gives up
_PLAIN = frozenset({str, bytes, bool, int, float, type(None)})


class NoMessage(FarmError):
    """Bytes that are no message of plain values."""

    kind = "no_message"


def pack(message: Mapping[str, Any]) -> bytes:
    """One message as bytes. Raises ``NoMessage`` for one that is too long."""
    data: bytes = require_msgpack().packb(message, use_bin_type=True)
    if len(data) > LIMIT:
        raise NoMessage(f"a message of {len(data)} bytes is over the limit of {LIMIT}")
    return data


def unpack(data: bytes) -> dict[str, Any]:
    """The message in ``data``. Raises ``NoMessage`` for anything but a map of plain values."""
    try:
        message = require_msgpack().unpackb(data, raw=False, strict_map_key=True, ext_hook=_refuse_extension)
    except FarmError:
        raise
    except Exception as e:  # the decoder raises many kinds
        raise NoMessage(f"not a message: {type(e).__name__}") from None
    if not isinstance(message, dict):
        raise NoMessage("not a message: no map")
    _check_plain(message)
    return message


def _check_plain(message: dict[str, Any]) -> None:
    level: list[Any] = [message]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for value in level:
            kind = type(value)  # the decoder makes these types themselves, never ones derived from them
            if kind is dict and all(type(k) is str for k in value):
                inner.extend(value.values())
            elif kind is list:
                inner.extend(value)
            elif kind not in _PLAIN:
                raise NoMessage(f"not a message: a {kind.__name__} in it")
        if not inner:
            return
        level = inner
    raise NoMessage(f"not a message: more than {_DEEPEST} levels deep")


def _refuse_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code}")


def require_msgpack() -> Any:
    """The msgpack package. Raises ``FarmError`` where it is not installed."""
    try:
        import msgpack
    except ImportError:
        raise FarmError("the farm needs msgpack", "pip install 'tilewright[farm]'") from None
    return msgpack


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

    def seal(self, subject: str, body: Mapping[str, Any]) -> bytes:
        """A message for ``subject``, and for no other."""
        content = pack(body)
        if self._authority is None:
            return pack({"body": content})
        from tilewright.farm.pki import x509

        signature = x509.sign(self._key, _signed(subject, content))
        return pack({"body": content, "from": self._own, "signature": signature})

    def open(
        self, subject: str, data: bytes, roles: Collection[str], *, revocable: bool = True
    ) -> tuple[dict[str, Any], Peer | None]:
        """What a message for ``subject`` says, and who of ``roles`` sealed it. ``revocable`` is false where the caller
        checks by itself whether the sender is revoked.

        Raises ``Refused`` for another or a revoked sender and for a broken seal, ``Stale`` where it is not known who is
        revoked, ``NoMessage`` for what is none.
        """
        outer = unpack(data)
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
        return unpack(content), peer

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


class Seen:
    """Remembers the last identities that passed by, so that what is played back can be told."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._known: OrderedDict[str, None] = OrderedDict()

    def first(self, identity: str) -> bool:
        """Whether this is the first time; from now on it is not."""
        if identity in self._known:
            return False
        self._known[identity] = None
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return True
