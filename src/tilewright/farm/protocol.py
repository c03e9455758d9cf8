"""What farm processes say to each other: msgpack maps in length-prefixed frames over one stream.

Only plain values travel (None, booleans, numbers, text, bytes, lists, maps). Nothing is unpickled on
either side, so what a peer sends can be refused but never runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
from collections.abc import Mapping
from typing import Any

from tilewright.core import TilewrightError
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.tls import Peer

PROTOCOL = 1
"""Version of the messages. Two ends of different versions refuse each other."""

PORT = 8786
LIMIT = 64 << 20  # bytes in one message
BACKLOG = 256 << 20  # bytes waiting for a peer that does not read, from which it is given up
HELLO_SECONDS = 10.0
SILENT = 4  # heartbeats without a sign after which a peer counts as gone
_HEADER = struct.Struct("!I")
_DEEPEST = 64  # maps and lists within each other: far from where a decoder or an encoder of any peer gives up
_FIRST_LIMIT = 1 << 20  # bytes in a first message: whoever sends it is not known yet


class LinkClosed(FarmError):
    """The peer is gone, or sent what is no message."""

    kind = "link_closed"


def pack(message: Mapping[str, Any]) -> bytes:
    """One message as bytes, header included. Raises ``LinkClosed`` for one that is too long."""
    msgpack = require_msgpack()
    data: bytes = msgpack.packb(message, use_bin_type=True)
    if len(data) > LIMIT:
        raise LinkClosed(f"a message of {len(data)} bytes is over the limit of {LIMIT}")
    return _HEADER.pack(len(data)) + data


def unpack(data: bytes) -> dict[str, Any]:
    """The message in ``data``. Raises ``LinkClosed`` for anything but a map of plain values."""
    msgpack = require_msgpack()
    try:
        message = msgpack.unpackb(data, raw=False, strict_map_key=True, ext_hook=_refuse_extension)
    except Exception as e:  # the decoder raises many kinds
        raise LinkClosed(f"not a message: {type(e).__name__}") from None
    if not isinstance(message, dict) or not isinstance(message.get("op"), str):
        raise LinkClosed("not a message: no map with an op")
    _check_plain(message)
    return message


_PLAIN = frozenset({str, bytes, bool, int, float, type(None)})


def _check_plain(message: dict[str, Any]) -> None:
    level: list[Any] = [message]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for value in level:
            kind = type(value)  # the decoder makes these types themselves, never ones derived from them
            if kind is dict:
                inner.extend(value.values())
            elif kind is list:
                inner.extend(value)
            elif kind not in _PLAIN:
                raise LinkClosed(f"not a message: a {kind.__name__} in it")
        if not inner:
            return
        level = inner
    raise LinkClosed(f"not a message: more than {_DEEPEST} levels deep")


def _refuse_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code}")


def require_msgpack() -> Any:
    """The msgpack package. Raises ``FarmError`` where it is not installed."""
    try:
        import msgpack
    except ImportError:
        raise FarmError("the farm needs msgpack", "pip install 'tilewright[farm]'") from None
    return msgpack


class Link:
    """One connection. ``peer`` is who its certificate says it is; ``None`` without certificates."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer | None) -> None:
        self._reader = reader
        self._writer = writer
        self._limit = _FIRST_LIMIT
        self.peer = peer
        self.heard = asyncio.get_running_loop().time()

    def trust(self) -> None:
        """Allow messages of full length: the peer is known now."""
        self._limit = LIMIT

    def post(self, message: Mapping[str, Any]) -> None:
        """Send without waiting. A peer that does not read loses the connection."""
        if self._writer.is_closing():
            return
        self._writer.write(pack(message))
        if self._writer.transport.get_write_buffer_size() > BACKLOG:
            self.abort()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send, and wait until the peer keeps up. Raises ``LinkClosed``."""
        try:
            self._writer.write(pack(message))
            await self._writer.drain()
        except (OSError, RuntimeError) as e:
            raise LinkClosed(str(e) or "the connection was closed") from None

    async def receive(self) -> dict[str, Any]:
        """The next message. Raises ``LinkClosed``."""
        try:
            (length,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            if length > self._limit:
                raise LinkClosed(f"a message of {length} bytes: the peer does not speak Tilewright's protocol")
            data = await self._reader.readexactly(length)
        except asyncio.IncompleteReadError:
            raise LinkClosed("the connection was closed") from None
        except OSError as e:
            raise LinkClosed(_reason(e)) from None
        self.heard = asyncio.get_running_loop().time()
        return unpack(data)

    @property
    def address(self) -> str:
        name = self._writer.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if name else "?"

    def abort(self) -> None:
        """Close at once, dropping what waits to be sent."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close after sending what waits."""
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError, TilewrightError):
            await asyncio.wait_for(self._writer.wait_closed(), 2.0)


def _reason(error: OSError) -> str:
    import ssl

    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error.strerror or 'failed'}".replace("_", " ").lower().replace("tls", "TLS", 1)
    return error.strerror or str(error) or "the connection was closed"


# --------------------------------------------------------------------------- the first message


def versions() -> dict[str, Any]:
    """What a first message states of its sender, for :func:`check_versions`."""
    from tilewright import __version__

    return {"protocol": PROTOCOL, "tilewright": __version__, "python": f"{sys.version_info[0]}.{sys.version_info[1]}"}


def check_versions(theirs: Mapping[str, Any], who: str) -> None:
    """Raise ``Refused`` unless a peer has this process' versions of protocol, Tilewright and Python."""
    own = versions()
    for name, label in (("protocol", "protocol"), ("tilewright", "Tilewright"), ("python", "Python")):
        if theirs.get(name) != own[name]:
            raise Refused(
                f"the {who} has {label} {theirs.get(name)}, the scheduler {own[name]}",
                f"Install the same version of {'Tilewright' if name != 'python' else 'Python'} on both",
            )


def parse_address(address: str) -> tuple[str, str, int]:
    """Scheme (``tls`` or ``tcp``), host and port of ``tls://HOST:PORT``. Raises ``FarmError``."""
    scheme, sep, rest = address.partition("://")
    if not sep:
        scheme, rest = "tls", address
    host, colon, port = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        host, port = rest, str(PORT)
    host = host.removeprefix("[").removesuffix("]")
    if scheme not in ("tls", "tcp") or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise FarmError(f"{address!r} is no farm address", "Write tls://HOST:PORT")
    return scheme, host, int(port)


def is_loopback(host: str) -> bool:
    """Whether an address given by name or number is this machine's own."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
