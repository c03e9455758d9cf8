"""Limits of connections, enforced where connections are accepted: connections of an address, and time of a request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.dashboard.errors import refuse
from tilewright.dashboard.serving.access import headers_of_safety, network_of

_LEAST_SHARE = 8  # a browser opens six connections
_MOST_LOGGED = 1000  # most clients that are logged as at their limit

_log = logging.getLogger("tilewright.dashboard")


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    ``connections``: most open connections, TLS handshakes included; one address may hold a tenth. An address is an IPv4
    address, or an IPv6 network of 64 bits. ``request_seconds``: time from a connection's start until its first request
    has arrived whole, TLS handshake included. ``unread_seconds``: time for which a client may leave data unread
    (Linux), and time from the end of a response until the next request has arrived whole. ``setting``: the option that
    sets the limit, for messages.
    """

    connections: int = 200
    request_seconds: float = 10.0
    unread_seconds: float = 60.0
    setting: str = "--max-connections"

    @property
    def share(self) -> int:
        """Number of connections that one address may hold."""
        return min(self.connections, max(_LEAST_SHARE, self.connections // 10))

    @staticmethod
    def streams(connections: int) -> int:
        """Most live pages under a limit of ``connections``: a quarter is reserved for other requests."""
        return max(1, 3 * connections // 4)


DEFAULT = Limits()


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> object: ...


Later = Callable[[float, Callable[[], None]], Timer]


def _on_the_loop(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)


class Connection:
    """A client's connection. It waits while no whole request has arrived, and ends when the wait times out."""

    def __init__(self, raw: socket.socket, client: str, seconds: float, later: Later) -> None:
        self.client = client
        self.streams = False
        self.ended = False
        self.since = 0.0
        self._raw = raw
        self._later = later
        self._deadline: Timer | None = None
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Starts to wait for a request; after ``seconds`` the connection ends."""
        self.arrived()
        self.streams = False
        self.since = time.monotonic()
        self._deadline = self._later(seconds, self.end)

    @property
    def waits(self) -> bool:
        """Whether the connection waits for a request."""
        return self._deadline is not None

    @property
    def closed(self) -> bool:
        """Whether the socket is closed."""
        return self._raw.fileno() < 0

    def arrived(self) -> None:
        """Stops waiting: a request has arrived whole."""
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()

    def end(self) -> None:
        """Shuts down the socket in any state: its transport then reads an end of file and closes the socket."""
        self.arrived()
        self.ended = True
        with contextlib.suppress(OSError):
            self._raw.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """A listening socket that admits connections within the limits, for servers of asyncio and of ``socketserver``.

    If an address has its share of connections, or all are taken, a new connection replaces the connection that has
    waited longest. So whole requests are answered, even if many idle connections are open.
    """

    def __init__(self, listening: socket.socket, limits: Limits, share: int, later: Later = _on_the_loop) -> None:
        super().__init__(fileno=listening.detach())
        self.limits = limits
        self.share = share
        self._later = later
        self._held: dict[tuple[str, int], Connection] = {}
        self._logged: set[str] = set()
        self._paused = True

    def accept(self) -> tuple[socket.socket, Any]:
        """Accepts the next connection. Raises ``BlockingIOError`` without a connection, and at every second call.

        Asyncio accepts connections until this error. So it reads a connection's data before it accepts the next.
        """
        self._paused = not self._paused
        if self._paused:
            raise BlockingIOError
        raw, peer = super().accept()
        client = network_of(str(peer[0]))
        held = self.connections()
        own = [c for c in held if c.client == client]
        crowd = own if len(own) >= self.share else held if len(held) >= self.limits.connections else []
        if crowd:
            self._log_limit(client if crowd is own else "All addresses together", len(crowd))
            oldest = min((c for c in crowd if c.waits), key=lambda c: c.since, default=None)
            if oldest is None:
                raw.close()
                raise ConnectionAbortedError
            oldest.end()
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Ends connections whose client vanished, or leaves received data unread.
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * self.limits.unread_seconds))
        connection = Connection(raw, client, self.limits.request_seconds, self._later)
        self._held[str(peer[0]), peer[1]] = connection
        return raw, peer

    def _log_limit(self, who: str, count: int) -> None:
        """Logs, once for each client, that the client is at its limit."""
        if who not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(who)
            _log.warning(
                "%s: %d connections open, the limit (%s). A new one ends the one that has owed a request for longest",
                who, count, self.limits.setting,
            )  # fmt: skip

    def connections(self, ended: bool = False) -> list[Connection]:
        """Open connections, the oldest first. ``ended``: also connections that are closing."""
        for peer, connection in list(self._held.items()):
            if connection.closed:
                connection.arrived()
                self._held.pop(peer, None)
        return [c for c in self._held.values() if ended or not c.ended]

    def connection_of(self, client: Any) -> Connection | None:
        """The connection from a client's address and port; ``None`` if the connection is gone."""
        return self._held.get(client)

    def streams_are_full(self, client: str) -> str:
        """The reason why ``client`` may open no further live page; empty if the client may."""
        streams = [c.client for c in self.connections() if c.streams]
        if streams.count(client) >= Limits.streams(self.share):
            return f"This address has {streams.count(client)} live pages open, as many as it may"
        if len(streams) >= Limits.streams(self.limits.connections):
            return f"There are {len(streams)} live pages open, as many as the dashboard takes"
        return ""


class Arrivals:
    """ASGI middleware that tells a connection when a request has arrived and when it is answered.

    The middleware also refuses live pages over their limit.
    """

    def __init__(self, app: Any, listener: Listener) -> None:
        self._app = app
        self._listener = listener

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        connection = self._listener.connection_of(scope["client"]) if scope["type"] == "http" else None
        if connection is None:
            await self._app(scope, receive, send)
            return
        if not any(k == b"transfer-encoding" or (k == b"content-length" and v != b"0") for k, v in scope["headers"]):
            connection.arrived()

        async def receiving() -> Any:
            message = await receive()
            if not message.get("more_body"):
                connection.arrived()
            return message

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                stream = any(k.lower() == b"content-type" and v.startswith(b"text/event-stream") for k, v in headers)
                why = stream and self._listener.streams_are_full(connection.client)
                if why:
                    more = [("Retry-After", "10"), ("Connection", "close"), *headers_of_safety()]
                    await refuse(sending, 503, f"{why}. Close some, or start it with more --max-connections", more)
                    raise _Full
                connection.streams = stream
                if connection.waits:  # the response begins before the whole request: the rest will not be read
                    message = {**message, "headers": [*headers, (b"connection", b"close")]}
            elif not message.get("more_body"):
                connection.wait(self._listener.limits.unread_seconds)
            await send(message)

        with contextlib.suppress(_Full):
            await self._app(scope, receiving, sending)


class _Full(Exception):
    """A live page that was refused: the application's response ends here."""
