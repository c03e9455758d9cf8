"""Serving the dashboard: where it may listen, and a server that no single client can hold up."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tilewright.core import UsageError
from tilewright.dashboard.errors import DashboardError, cannot_listen, refuse
from tilewright.dashboard.serving.access import (
    MAKE_TOKEN,
    MOST_HEADERS,
    Access,
    client_of,
    headers_of_safety,
    read_token,
    require_token,
    split_host,
)
from tilewright.farm.errors import FarmError
from tilewright.farm.pki.private_files import require_private

PORT = 8765
CONNECTIONS = 200
_IDLE_SECONDS = 5  # between two requests of one connection
_STOP_SECONDS = 3  # for answers under way, once the server is told to stop


@dataclass(frozen=True)
class Limits:
    """``connections``: those that are answered, streams included; ``spare`` more are told that there are too many.

    ``request_seconds``: for a whole request to arrive, and for a TLS handshake. ``unread_seconds``: how long a client
    may leave what was sent to it unread (Linux).
    """

    connections: int = CONNECTIONS
    spare: int = 50
    request_seconds: float = 10.0
    unread_seconds: float = 60.0

    @property
    def streams(self) -> int:
        """How many live pages one client may have open: some places are left to others."""
        return max(4, 3 * self.connections // 4)


# --------------------------------------------------------------------------- where it may listen


@dataclass(frozen=True)
class Place:
    """Where to listen, checked: a socket that is bound, who may see what, and the certificate's context."""

    listener: socket.socket
    access: Access
    tls: ssl.SSLContext | None
    url: str


def open_place(
    host: str,
    port: int,
    *,
    token_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    behind_proxy: bool = False,
    allow_hosts: tuple[str, ...] = (),
    writable: bool = False,
) -> Place:
    """Bind ``host`` and ``port`` (0 for a free one) if that is safe with what else is given.

    Raises ``UsageError`` with what to add where it is not, ``DashboardError``, and ``FarmError`` about private files.
    """
    if (tls_cert is None) != (tls_key is None):
        raise UsageError("a certificate and its key go together", "Give both --tls-cert CERT and --tls-key KEY")
    require_token(writable, token_file is not None)
    for name in allow_hosts:
        split_host(name)
    family, address, loopback = _resolve(host, port)
    _check(host, loopback, token_file is not None, tls_cert is not None, behind_proxy)
    token = None if token_file is None else read_token(token_file)
    context = None if tls_cert is None or tls_key is None else _tls_context(tls_cert, tls_key)
    listener = _listen(family, address, host)
    port = int(listener.getsockname()[1])
    names = allow_hosts if _is_wildcard(address[0]) else (host, *allow_hosts)
    access = Access(token, names, context is not None, behind_proxy, port, writable)
    shown = (split_host(allow_hosts[0])[0] if allow_hosts else "localhost") if _is_wildcard(address[0]) else host
    shown = f"[{shown}]" if ":" in shown else shown
    return Place(listener, access, context, f"{'https' if context else 'http'}://{shown}:{port}/")


def _check(host: str, loopback: bool, token: bool, tls: bool, proxy: bool) -> None:
    missing = [] if token else ["--token-file FILE"]
    if not loopback:
        missing += [] if tls or proxy else ["--tls-cert CERT --tls-key KEY (or --behind-proxy, if a proxy does TLS)"]
        what = f"{host} can be reached from other machines"
    elif proxy:
        what = "a proxy lets others in"
    else:
        return
    if missing:
        make = "" if token else f". Make the file with {MAKE_TOKEN}"
        raise UsageError(f"{what}: this takes a login and encryption", f"Add {' and '.join(missing)}{make}")


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Any, bool]:
    """How to bind ``host``, and whether it is this machine's own in every sense of its name."""
    import ipaddress

    hint = "Give an address of this machine with --host"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(f"{host!r} is no host", hint) from None
    if not host or not found:
        raise UsageError(f"{host!r} is no host", hint)
    family, _, _, _, address = min(found, key=lambda f: f[0])  # IPv4 first, which localhost means to most programs
    return family, address, all(ipaddress.ip_address(f[4][0]).is_loopback for f in found)


def _is_wildcard(address: str) -> bool:
    return address in ("0.0.0.0", "::")


def _listen(family: socket.AddressFamily, address: Any, host: str) -> socket.socket:
    try:
        return socket.create_server(address, family=family, backlog=128)
    except OSError as e:
        raise cannot_listen(host, address[1], e) from None


def _tls_context(cert: Path, key: Path) -> ssl.SSLContext:
    cert, key = cert.expanduser(), key.expanduser()
    require_private(key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password="")  # an encrypted key fails, instead of asking on the terminal
    except ssl.SSLError as e:
        raise DashboardError(
            f"{cert} and {key} do not make a certificate: {e.reason or e}",
            "Give PEM files that belong together, the key without a passphrase",
        ) from None
    except OSError as e:
        raise FarmError(f"{cert}: {e.strerror}", "Check the path, its owner and mode") from None
    return context


# --------------------------------------------------------------------------- the server


def serve(app: Any, place: Place, limits: Limits = Limits(), ready: Callable[[str], None] = lambda _url: None) -> None:
    """Serve until Ctrl-C, SIGTERM or ``Server.stop``; streams end at once, other answers within seconds."""
    make_server(app, place, limits, ready).run()


def make_server(
    app: Any, place: Place, limits: Limits = Limits(), ready: Callable[[str], None] = lambda _url: None
) -> Server:
    """A server that has not begun. ``ready`` is called with the address once it listens."""
    _need_files(limits)
    config = uvicorn.Config(
        _Marking(app, limits, place.access.behind_proxy),
        lifespan="on", loop="none", http="h11", ws="none", interface="asgi3", log_config=None,
        log_level="error", access_log=False, proxy_headers=False, server_header=False, timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS, h11_max_incomplete_event_size=MOST_HEADERS,
    )  # fmt: skip
    return Server(config, place, limits, ready)


def _need_files(limits: Limits) -> None:
    """See to it that so many connections can be open at a time, the database's files beside them."""
    wanted = limits.connections + limits.spare + 150
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise UsageError(
            f"{limits.connections} connections need {wanted} open files, of which the system allows {hard}",
            "Give fewer --max-connections, or raise the limit with ulimit -n",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Server(uvicorn.Server):
    """uvicorn's server with limits of its own, on a socket that is bound already."""

    def __init__(self, config: uvicorn.Config, place: Place, limits: Limits, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._place = place
        self._limits = limits
        self._ready = ready

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.run(self.serve(sockets))

    def stop(self) -> None:
        """Stop in good order; at once the second time. May be called from any thread."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise DashboardError("the dashboard did not start", "What stopped it is said above")
        tls = self._place.tls
        own: dict[str, Any] = {}
        if tls is not None:
            own = {"ssl": tls, "ssl_handshake_timeout": self._limits.request_seconds, "ssl_shutdown_timeout": 2.0}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _Connection(self.config, self.server_state, self.lifespan.state, self._limits),
            sock=self._place.listener, backlog=128, **own,
        )  # fmt: skip
        self.servers = [server]
        self.started = True
        self._ready(self._place.url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for c in list(self.server_state.connections):
            if isinstance(c, _Connection) and c.streams:
                c.transport.abort()  # its browser comes back when there is a server again
        await super().shutdown(sockets)
        for c in list(self.server_state.connections):
            c.transport.abort()
        await asyncio.sleep(0)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal ends the server, and nothing else: it is not raised again once the server has ended."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not in the main thread: ``stop`` ends it
            for s in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(s, self.stop)
        yield


class _Marking:
    """Notes on a request that its answer is a stream of events, which ends only when somebody ends it.

    No client's streams take all places: of one that has as many as it may, the next is refused. Behind a proxy all
    clients are the proxy.
    """

    KEY = "tilewright.stream"

    def __init__(self, app: Any, limits: Limits, behind_proxy: bool) -> None:
        self._app = app
        self._most = limits.connections if behind_proxy else limits.streams
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        client = client_of(scope) if scope["type"] == "http" else ""
        full = False

        async def marking(message: Any) -> None:
            nonlocal full
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                stream = any(k.lower() == b"content-type" and v.startswith(b"text/event-stream") for k, v in headers)
                full = stream and self._open[client] >= self._most
                if full:
                    again = [("Retry-After", "10"), ("Connection", "close"), *headers_of_safety()]
                    await refuse(send, 503, "This client has as many live pages open as it may", again)
                    raise _Full
                scope[self.KEY] = stream
                self._open[client] += stream
            await send(message)

        try:
            await self._app(scope, receive, marking)
        except _Full:
            pass
        finally:
            if scope.get(self.KEY):
                self._open[client] -= 1
                self._open += Counter()  # let go of those that have none


class _Full(Exception):
    """A stream that was refused: nothing more of it is made."""


class _Connection(H11Protocol):
    """One connection, within the limits."""

    def __init__(self, config: uvicorn.Config, state: Any, app_state: dict[str, Any], limits: Limits) -> None:
        super().__init__(config, state, app_state)
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def streams(self) -> bool:
        """Whether it carries a stream of events now."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering and bool(self.cycle.scope.get(_Marking.KEY))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        raw = transport.get_extra_info("socket")
        if raw is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # Ends connections whose client is gone without a word, or leaves what it gets unread.
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * self._limits.unread_seconds))
        if len(self.connections) > self._limits.connections:
            self._make_room()
        if len(self.connections) > self._limits.connections + self._limits.spare:
            transport.abort()
            return
        if len(self.connections) > self._limits.connections:
            self.app = _busy
        self._deadline = self.loop.call_later(self._limits.request_seconds, self._late)

    def _make_room(self) -> None:
        """Close a connection that waits for another request of its client: browsers keep some for a while."""
        for c in self.connections:
            if isinstance(c, _Connection) and c.timeout_keep_alive_task is not None:
                c.timeout_keep_alive_handler()
                self.connections.discard(c)
                return

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # The time counts from a request's first byte to its last, however many come between.
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._on_time()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.request_seconds, self._late)

    def _on_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, with the headers that every answer has; not in the middle of another answer."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close"), *headers_of_safety()]
        answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (answer, h11.Data(data=msg.encode("ascii")), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _late(self) -> None:
        self._deadline = None
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_time()
        super().connection_lost(exc)


async def _busy(scope: Any, _receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        headers = [("Retry-After", "10"), ("Connection", "close"), *headers_of_safety()]
        await refuse(
            send, 503, "The dashboard has as many connections as it takes. Try again in a little while", headers
        )
