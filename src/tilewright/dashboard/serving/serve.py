"""The dashboard's server: checks and binds a socket, and runs uvicorn on it."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from tilewright.core import UsageError
from tilewright.dashboard.errors import DashboardError, cannot_listen
from tilewright.dashboard.serving.access import (
    MAKE_TOKEN,
    MOST_HEADERS,
    Access,
    read_token,
    require_token,
    split_host,
)
from tilewright.dashboard.serving.connections import DEFAULT, Arrivals, Limits, Listener
from tilewright.farm.errors import FarmError
from tilewright.farm.pki.private_files import require_private

PORT = 8765
_IDLE_SECONDS = 5  # between two requests of one connection
_STOP_SECONDS = 3  # for running responses, once the server is told to stop

# --------------------------------------------------------------------------- address


@dataclass(frozen=True)
class Binding:
    """A bound socket with its access rules, TLS context (``None`` for HTTP) and URL."""

    listener: socket.socket
    access: Access
    tls: ssl.SSLContext | None
    url: str


def bind_address(
    host: str,
    port: int,
    *,
    token_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    behind_proxy: bool = False,
    allow_hosts: tuple[str, ...] = (),
    writable: bool = False,
) -> Binding:
    """Binds ``host`` and ``port`` (0 for a free port) if the options make this address safe.

    Raises ``UsageError`` with the missing option otherwise, ``DashboardError`` if the port cannot be bound, and
    ``FarmError`` for a token or key file that other users may read.
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
    return Binding(listener, access, context, f"{'https' if context else 'http'}://{shown}:{port}/")


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
    """The family and address to bind for ``host``, and whether all addresses of ``host`` are loopback addresses."""
    import ipaddress

    hint = "Give an address of this machine with --host"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(f"{host!r} is not a host", hint) from None
    if not host or not found:
        raise UsageError(f"{host!r} is not a host", hint)
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


def serve(
    app: Any, binding: Binding, limits: Limits = DEFAULT, ready: Callable[[str], None] = lambda _url: None
) -> None:
    """Serves ``app`` until Ctrl-C, SIGTERM or ``Server.stop``; live pages end at once, other responses within
    seconds."""
    make_server(app, binding, limits, ready).run()


def make_server(
    app: Any, binding: Binding, limits: Limits = DEFAULT, ready: Callable[[str], None] = lambda _url: None
) -> Server:
    """Creates a server without starting it. ``ready`` is called with the URL once the server listens."""
    _need_files(limits)
    # Behind a proxy all clients have the proxy's address.
    listener = Listener(binding.listener, limits, limits.connections if binding.access.behind_proxy else limits.share)
    config = uvicorn.Config(
        Arrivals(app, listener), lifespan="on", loop="none", http="h11", ws="none", interface="asgi3", log_config=None,
        log_level="error", access_log=False, proxy_headers=False, server_header=False, timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS, h11_max_incomplete_event_size=MOST_HEADERS,
    )  # fmt: skip
    config.load()
    config.ssl = binding.tls
    return Server(config, listener, lambda: ready(binding.url))


def _need_files(limits: Limits) -> None:
    """Raises the process's limit of open files to fit all connections and the database's files."""
    wanted = limits.connections + 200
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
    """A uvicorn server on a listening socket; it ends live pages when it is told to stop."""

    def __init__(self, config: uvicorn.Config, listener: Listener, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.listener = listener
        self._ready = ready

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until stopped, in an event loop of its own."""
        asyncio.run(self.serve(sockets or [self.listener]))

    def stop(self) -> None:
        """Stops the server in good order; a second call stops it at once. Any thread may call this method."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept connections, then calls ``ready``."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends live pages, then the server, then the remaining connections."""
        for connection in self.listener.connections():
            if connection.streams:
                connection.end()  # its browser reconnects when a server listens again
        await super().shutdown(sockets)
        for connection in self.listener.connections():
            connection.end()
        for _ in range(100):
            if not self.listener.connections(ended=True):
                break
            await asyncio.sleep(0.01)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Context in which SIGTERM and SIGINT stop the server; signals are not raised again after the server's end."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, RuntimeError):  # outside the main thread only ``stop`` ends it
            for s in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(s, self.stop)
        yield
