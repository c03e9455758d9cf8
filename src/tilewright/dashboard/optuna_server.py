"""Serves Optuna's own dashboard over a database, read-only and on this machine only.

Optuna's dashboard has routes that write, and no login. So only reading requests reach it, and its storage refuses
writes. The ``Host`` header must name this machine: otherwise a web page could reach the dashboard by DNS rebinding.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tilewright.core import UsageError
from tilewright.dashboard.errors import cannot_listen
from tilewright.dashboard.serving.access import ISOLATION, Access
from tilewright.dashboard.serving.connections import Limits, Listener
from tilewright.database import Database
from tilewright.farm.addresses import is_loopback

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LIMITS = Limits(connections=32, setting="fixed")
"""All clients have the loopback address, which may hold every connection."""
PATIENCE = 30.0
"""Timeout in seconds of a client's socket."""
MOST_BODY = 1 << 16
"""Most bytes that are read of a refused request, so that its sender reads the response."""
READING = ("GET", "HEAD")
_HEADERS = [
    # In addition to the policy that Optuna's pages carry: a browser enforces both.
    ("Content-Security-Policy", "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    *((name.decode(), value.decode()) for name, value in ISOLATION),
]


def serve_optuna(db: str | os.PathLike[str], host: str, port: int, ready: Callable[[str], None] | None = None) -> None:
    """Serves Optuna's dashboard of a database until Ctrl-C or SIGTERM. ``port``: 0 for a free port.

    ``ready`` is called with the URL once the server listens. Raises ``UsageError`` for a host that other machines can
    reach and without the extra ``optuna``, ``DashboardError`` if the port cannot be bound, and ``DatabaseError``.
    """
    try:
        with optuna_server(db, host, port) as server:
            if ready is not None:
                ready(server.url)
            server.serve_forever()
    except KeyboardInterrupt:
        return


@contextmanager
def optuna_server(db: str | os.PathLike[str], host: str = "127.0.0.1", port: int = 0) -> Iterator[OptunaServer]:
    """Creates a listening server. ``serve_forever`` serves until another thread calls ``shutdown``."""
    if not is_loopback(host):
        raise UsageError(
            f"Optuna's dashboard has no login, so it is not served on {host}", "Use 127.0.0.1, ::1 or localhost"
        )
    missing = [name for name in ("optuna", "optuna_dashboard") if find_spec(name) is None]
    if missing:
        raise UsageError(f"Optuna's dashboard needs {missing[0]}", "Install it: pip install 'tilewright[optuna]'")
    import optuna_dashboard

    from tilewright.dashboard.optuna_storage import ReadOnlyStorage

    with Database.open(db, create=False, readonly=True) as database, OptunaServer(host, port) as server:
        server.set_app(guarded(optuna_dashboard.wsgi(ReadOnlyStorage(database)), Access(port=server.server_port)))
        yield server


def guarded(app: WSGIApplication, access: Access) -> WSGIApplication:
    """Wraps ``app``: refuses requests that write, and hosts other than this machine's names."""

    def guard(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        method, host = environ["REQUEST_METHOD"], environ.get("HTTP_HOST", "")
        if method not in READING:
            _read_away(environ)
            return _refuse(start_response, "405 Method Not Allowed", "This dashboard is for reading only")
        if not access.accepts_host(host):
            return _refuse(start_response, "421 Misdirected Request", "The Host header does not name this dashboard")

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Callable[[bytes], object]:
            return start_response(status, [*headers, *_HEADERS], *rest)

        return app(environ, start)

    return guard


def _refuse(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    allow = [("Allow", ", ".join(READING))] if status.startswith("405") else []
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), *allow, *_HEADERS])
    return [f"{text}\n".encode()]


def _read_away(environ: WSGIEnvironment) -> None:
    length = environ.get("CONTENT_LENGTH") or "0"
    if length.isdecimal():
        with suppress(OSError):
            environ["wsgi.input"].read(min(int(length), MOST_BODY))


class OptunaServer(ThreadingMixIn, WSGIServer):
    """A WSGI server with a thread for each connection and a limited number of connections."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as e:
            raise cannot_listen(host, port, e) from None
        self.listener = self.socket = Listener(self.socket, LIMITS, LIMITS.connections, _in_a_thread)

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.server_port}/"

    def server_bind(self) -> None:
        TCPServer.server_bind(self)
        # Not WSGIServer's own method, which would look up this machine's name by DNS.
        self.server_name, self.server_port = self._host, self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a client's disconnect or timeout is not logged
            super().handle_error(request, client_address)


def _in_a_thread(seconds: float, call: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE
    server: OptunaServer

    def parse_request(self) -> bool:
        parsed = super().parse_request()
        connection = self.server.listener.connection_of(self.client_address[:2])
        if connection is not None and self.command in READING:  # other requests' bodies are read until the deadline
            connection.arrived()
        return parsed

    def log_message(self, *_args: Any) -> None:
        """Logs nothing: an open page would log a line for each of its many requests."""
