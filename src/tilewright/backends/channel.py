"""Messages between a process and its isolated child: length-prefixed JSON over a socket.

Both directions carry JSON only. The child runs or compiles code under test and may send anything, so the parent
never unpickles its messages.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

_HEADER = struct.Struct("!I")
LIMIT = 64 << 20  # bytes in one message; a longer message means that the peer is corrupt


class ChannelClosed(EOFError):
    """The peer is gone, or sent an invalid message."""


class Channel:
    """A connected stream socket that carries JSON objects."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._pending = bytearray()

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: Mapping[str, Any], timeout: float | None = None) -> None:
        """Write one message. Raises ``ChannelClosed`` if the peer is gone, and ``TimeoutError`` if the peer has not
        accepted the whole message after ``timeout`` seconds: it may then have a part of the message."""
        data = json.dumps(message, separators=(",", ":")).encode()
        self.sock.settimeout(timeout)
        try:
            self.sock.sendall(_HEADER.pack(len(data)) + data)
        except TimeoutError:
            raise
        except OSError as e:
            raise ChannelClosed(str(e)) from e
        finally:
            self.sock.settimeout(None)

    def receive(self, timeout: float | None = None) -> dict[str, Any]:
        """Next message. Raises ``TimeoutError`` after ``timeout`` seconds, ``ChannelClosed`` at the end."""
        end = None if timeout is None else time.monotonic() + timeout
        size = self._take(_HEADER.size, end, keep=True)
        (length,) = _HEADER.unpack(size)
        if length > LIMIT:
            raise ChannelClosed(f"a message of {length} bytes")
        data = self._take(_HEADER.size + length, end)[_HEADER.size :]
        try:
            message = json.loads(data)
        except ValueError as e:
            raise ChannelClosed("not JSON") from e
        if not isinstance(message, dict):
            raise ChannelClosed("not an object")
        return message

    def _take(self, count: int, end: float | None, keep: bool = False) -> bytes:
        """First ``count`` pending bytes, read as needed; with ``keep`` they stay pending.

        A timeout in the middle of a message loses nothing: the bytes received so far stay pending.
        """
        while len(self._pending) < count:
            left = None if end is None else end - time.monotonic()
            if left is not None and (left <= 0 or not self._readable(left)):
                raise TimeoutError
            try:
                chunk = self.sock.recv(1 << 16)
            except OSError as e:
                raise ChannelClosed(str(e)) from e
            if not chunk:
                raise ChannelClosed("end of stream")
            self._pending += chunk
        data = bytes(self._pending[:count])
        if not keep:
            del self._pending[:count]
        return data

    def _readable(self, seconds: float) -> bool:
        """Whether data or the channel's end came within ``seconds``. ``poll``: ``select`` is limited to 1,024 files."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(math.ceil(seconds * 1000)))

    def close(self) -> None:
        self.sock.close()
