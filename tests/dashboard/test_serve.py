"""A real server on loopback: where it may listen, and that no client holds it up."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tilewright.core import TilewrightError, UsageError
from tilewright.dashboard.serving.access import Guard
from tilewright.dashboard.serving.connections import DEFAULT, Limits
from tilewright.dashboard.serving.serve import Binding, Server, bind_address, make_server

TOKEN = "correct-horse-battery"
PLENTY = 60.0  # seconds, for what takes a moment on a machine that does nothing else


class App:
    """A page, a stream, and what became of the stream."""

    def __init__(self) -> None:
        self.streams = 0
        self.ended = threading.Event()

    def starlette(self, binding: Binding) -> Starlette:
        async def page(request: Request) -> Response:
            return PlainTextResponse("a page")

        async def stream(_: Request) -> Response:
            async def events() -> Any:
                self.streams += 1
                try:
                    yield b"data: first\n\n"
                    await asyncio.sleep(600)
                finally:
                    self.streams -= 1
                    self.ended.set()

            return StreamingResponse(events(), media_type="text/event-stream")

        async def flood(_: Request) -> Response:
            async def events() -> Any:
                try:
                    while True:
                        yield b"x" * 65536
                        await asyncio.sleep(0)
                finally:
                    self.ended.set()

            return StreamingResponse(events(), media_type="text/event-stream")

        async def form(request: Request) -> Response:
            return PlainTextResponse(await request.body())

        return Starlette(
            routes=[
                Route("/", page), Route("/live", stream), Route("/flood", flood), Route("/login", form, methods=["POST"])
            ],
            middleware=[Middleware(Guard, access=binding.access)],
        )  # fmt: skip


class Served:
    def __init__(self, server: Server, binding: Binding, app: App, thread: threading.Thread) -> None:
        self.server, self.binding, self.app, self.thread = server, binding, app, thread
        self.port = binding.access.port or 0

    def connect(self, source: str = "127.0.0.1") -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PLENTY, source_address=(source, 0))

    @property
    def connections(self) -> int:
        return len(self.server.listener.connections())

    def get(self, path: str = "/", source: str = "127.0.0.1", **headers: str) -> tuple[int, dict[str, str], bytes]:
        with contextlib.closing(self.connect(source)) as c:
            c.request("GET", path, headers=headers)
            reply = c.getresponse()
            return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()

    def follow(self, source: str = "127.0.0.1") -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        c = self.connect(source)
        c.request("GET", "/live")
        reply = c.getresponse()
        assert reply.status == 200
        return c, reply

    def stop(self) -> None:
        self.server.stop()
        self.thread.join(PLENTY)
        assert not self.thread.is_alive()


@contextlib.contextmanager
def served(limits: Limits = DEFAULT, **options: Any) -> Iterator[Served]:
    app = App()
    opened = bind_address("127.0.0.1", 0, **options)
    ready = threading.Event()
    server = make_server(app.starlette(opened), opened, limits, lambda _url: ready.set())
    thread = threading.Thread(target=server.run)
    thread.start()
    found = Served(server, opened, app, thread)
    try:
        assert ready.wait(PLENTY)
        yield found
    finally:
        found.stop()


def closed(raw: socket.socket) -> bool:
    """Whether the other end closes in the end; what it sends before does not count."""
    raw.settimeout(PLENTY)
    try:
        while raw.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.fixture(scope="module")
def one() -> Iterator[Served]:
    with served() as found:
        yield found


# --------------------------------------------------------------------------- answers


def test_an_answer_says_no_more_than_it_must(one: Served) -> None:
    status, headers, body = one.get()
    assert (status, body) == (200, b"a page")
    assert "server" not in headers
    assert "date" in headers
    assert headers["x-frame-options"] == "DENY"
    assert one.binding.url == f"http://127.0.0.1:{one.port}/"


def test_proxy_headers_are_not_believed(one: Served) -> None:
    status, _, _ = one.get(
        "/", **{"X-Forwarded-Host": "evil.example", "X-Forwarded-For": "10.0.0.1", "Forwarded": "host=evil"}
    )
    assert status == 200
    assert one.get("/", Host="evil.example", **{"X-Forwarded-Host": f"127.0.0.1:{one.port}"})[0] == 421


def test_long_headers_are_refused(one: Served) -> None:
    with socket.create_connection(("127.0.0.1", one.port)) as raw:
        with contextlib.suppress(OSError):
            raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
        assert closed(raw)
    assert one.get()[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 TLS?\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"\0" * 64 + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_of_ours(one: Served, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", one.port)) as raw:
        raw.sendall(data)
        raw.settimeout(PLENTY)
        assert raw.recv(65536).split()[1] in (b"400", b"421")


# --------------------------------------------------------------------------- limits


EIGHT = Limits(connections=80, request_seconds=600.0)
"""Eight connections an address, six of them streams."""
BEGINNINGS = (
    "", "G", "GET / HTTP/1.1\r\nHost: localhost:PORT\r\n",
    "POST /login HTTP/1.1\r\nHost: localhost:PORT\r\nContent-Length: 9\r\n\r\nab",
    "POST /login HTTP/1.1\r\nHost: localhost:PORT\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
)  # fmt: skip
"""Requests of which something is still to come."""


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_an_address_holds_its_share_of_connections_and_its_requests_are_answered(begin: str) -> None:
    with served(EIGHT) as found, contextlib.ExitStack() as stack:
        raws = []
        for _ in range(30):
            raws.append(stack.enter_context(socket.create_connection(("127.0.0.1", found.port))))
            raws[-1].sendall(begin.replace("PORT", str(found.port)).encode())
        assert eventually(lambda: sum(dropped(raw) for raw in raws) == 30 - EIGHT.share)
        assert eventually(lambda: found.connections == EIGHT.share)  # the last one takes the place that was made
        assert EIGHT.share == EIGHT.connections // 10
        for source in ("127.0.0.1", "127.0.0.2"):
            assert found.get(source=source)[0] == 200


def test_an_address_at_its_limit_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with served(EIGHT) as found, contextlib.ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(socket.create_connection(("127.0.0.1", found.port)))
        assert found.get()[0] == 200
    [line] = [r.getMessage() for r in caplog.records if r.name == "tilewright.dashboard"]
    assert line.startswith("127.0.0.1: 8 connections open, the limit (--max-connections)")


def test_a_request_under_way_is_not_cut_for_new_connections() -> None:
    with served(EIGHT) as found, contextlib.ExitStack() as stack:
        c, reply = found.follow()
        stack.callback(c.close)
        for _ in range(30):
            stack.enter_context(socket.create_connection(("127.0.0.1", found.port)))
        assert found.get()[0] == 200
        assert reply.read(len(b"data: first\n\n")) == b"data: first\n\n"
        assert found.app.streams == 1


def test_the_oldest_connection_that_waits_makes_room_when_all_are_taken() -> None:
    with served(Limits(connections=8, request_seconds=600.0)) as found, contextlib.ExitStack() as stack:
        raws = [stack.enter_context(connected(found.port, f"127.0.0.{n}")) for n in range(2, 10)]
        assert eventually(lambda: found.connections == 8)
        assert found.get()[0] == 200
        assert [dropped(raw) for raw in raws] == [True, *[False] * 7]


def connected(port: int, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), source_address=(source, 0))


def dropped(raw: socket.socket) -> bool:
    """Whether the server has closed it."""
    raw.setblocking(False)
    try:
        return raw.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def eventually(condition: Any) -> bool:
    until = time.monotonic() + PLENTY
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if condition():
                return True
        time.sleep(0.02)
    return False


def test_idle_connections_make_room() -> None:
    with served(Limits(connections=2)) as found:
        idle = []
        for _ in range(5):
            c = found.connect()
            c.request("GET", "/")
            reply = c.getresponse()
            assert (reply.status, reply.read()) == (200, b"a page")
            idle.append(c)
        for c in idle:
            c.close()


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_a_request_has_to_arrive_in_time(begin: str) -> None:
    """Also from one who sends a little more each time."""
    with served(Limits(request_seconds=0.3)) as found, socket.create_connection(("127.0.0.1", found.port)) as raw:
        with contextlib.suppress(OSError):
            raw.sendall(begin.replace("PORT", str(found.port)).encode())
            for _ in range(5):
                time.sleep(0.1)
                raw.sendall(b"X-A: b\r\n" if begin.startswith("GET") else b"")
        assert closed(raw)
        assert eventually(lambda: found.get()[0] == 200)  # one that arrives in time, for it must as well


def test_a_further_request_has_to_arrive_in_time() -> None:
    limits = Limits(unread_seconds=0.3)
    with served(limits) as found, socket.create_connection(("127.0.0.1", found.port)) as raw:
        raw.sendall(f"GET / HTTP/1.1\r\nHost: localhost:{found.port}\r\n\r\nGET ".encode())
        assert closed(raw)


def test_an_answer_before_the_end_of_a_request_is_the_last(one: Served) -> None:
    """Nobody reads what is still to come."""
    with socket.create_connection(("127.0.0.1", one.port)) as raw:
        raw.sendall(f"PUT / HTTP/1.1\r\nHost: localhost:{one.port}\r\nContent-Length: 9\r\n\r\nab".encode())
        raw.settimeout(PLENTY)
        said = b"".join(iter(lambda: raw.recv(65536), b"")).lower()
    assert said.startswith(b"http/1.1 405")
    assert b"\r\nconnection: close\r\n" in said


def test_one_address_does_not_take_all_live_pages() -> None:
    """Its pages are answered still, and a live page that ends makes room."""
    with served(EIGHT) as found:
        streams = [found.follow() for _ in range(6)]
        status, headers, said = found.get("/live")
        assert (status, headers["connection"], headers["x-frame-options"]) == (503, "close", "DENY")
        assert int(headers["retry-after"]) > 0
        assert b"6 live pages open, as many as it may" in said
        assert b"--max-connections" in said
        assert found.get("/")[0] == 200
        streams.pop()[0].close()
        assert eventually(lambda: found.app.streams == 5)
        again = found.follow()
        for c, _ in (*streams, again):
            c.close()


def test_all_addresses_together_leave_connections_for_pages() -> None:
    with served(Limits(connections=8)) as found:
        streams = [found.follow(source=f"127.0.0.{n}") for n in range(2, 8)]
        status, _, said = found.get("/live")
        assert (status, b"as many as the dashboard takes" in said) == (503, True)
        assert found.get("/")[0] == 200
        for c, _ in streams:
            c.close()


def test_behind_a_proxy_one_address_holds_all_connections(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    with served(EIGHT, behind_proxy=True, token_file=token) as found, contextlib.ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(socket.create_connection(("127.0.0.1", found.port)))
        assert eventually(lambda: found.connections == 30)


def test_a_stream_may_last_longer_than_a_request() -> None:
    with served(Limits(request_seconds=0.2)) as found:
        followed: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = []
        assert eventually(lambda: followed.append(found.follow()) or True)  # the request itself arrives in time
        c, reply = followed.pop()
        assert reply.read(len(b"data: first\n\n")) == b"data: first\n\n"
        assert not found.app.ended.wait(0.4)
        c.close()
        reply.close()
        assert found.app.ended.wait(PLENTY)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="no such option here")
def test_who_does_not_read_is_let_go() -> None:
    with served(Limits(unread_seconds=0.5)) as found, socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", found.port))
        raw.sendall(f"GET /flood HTTP/1.1\r\nHost: 127.0.0.1:{found.port}\r\n\r\n".encode())
        assert found.app.ended.wait(PLENTY)


def test_stopping_ends_open_streams() -> None:
    with served() as found:
        followed = [found.follow() for _ in range(3)]
        assert eventually(lambda: found.app.streams == 3)
        found.stop()  # long before a stream ends by itself
        assert found.app.streams == 0
        for c, reply in followed:
            with contextlib.suppress(OSError, http.client.HTTPException):
                reply.read()
            c.close()
        with pytest.raises(OSError):
            found.get()


# --------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    cert, private = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.touch(0o600)
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert, private


def test_pages_are_served_by_https(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    trusting = ssl.create_default_context(cafile=str(cert))
    with served(tls_cert=cert, tls_key=key, token_file=token) as found:
        assert found.binding.url.startswith("https://")
        c = http.client.HTTPSConnection("127.0.0.1", found.port, timeout=PLENTY, context=trusting)
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {TOKEN}"}, 200)):
            c.request("GET", "/", headers=headers)
            reply = c.getresponse()
            reply.read()
            assert reply.status == status
        c.close()
        assert found.binding.tls is not None
        assert found.binding.tls.minimum_version >= ssl.TLSVersion.TLSv1_2
    with served(EIGHT, tls_cert=cert, tls_key=key) as found, contextlib.ExitStack() as stack:
        for _ in range(30):  # handshakes that do not begin are connections too
            stack.enter_context(socket.create_connection(("127.0.0.1", found.port)))
        c = http.client.HTTPSConnection("127.0.0.1", found.port, timeout=PLENTY, context=trusting)
        c.request("GET", "/")
        assert c.getresponse().status == 200
        c.close()
        assert found.connections <= EIGHT.share
    hasty = served(Limits(request_seconds=0.3), tls_cert=cert, tls_key=key)
    with hasty as found, socket.create_connection(("127.0.0.1", found.port)) as raw:
        raw.sendall(b"\x16\x03\x01")  # a handshake that does not go on
        assert closed(raw)


def test_what_is_no_certificate(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    private = tmp_path / "key.pem"
    private.touch(0o600)
    private.write_text("no key")
    open_key = tmp_path / "open.pem"
    open_key.write_bytes(key.read_bytes())
    open_key.chmod(0o644)
    for pair, words in (
        ((cert, None), "go together"),
        ((None, key), "go together"),
        ((cert, private), "do not make a certificate"),
        ((cert, open_key), "open to other users"),
        ((tmp_path / "missing.pem", key), "No such file"),
    ):
        with pytest.raises(TilewrightError, match=words) as caught:
            bind_address("127.0.0.1", 0, tls_cert=pair[0], tls_key=pair[1])
        assert caught.value.hint


# --------------------------------------------------------------------------- where it may listen

OPEN = ("0.0.0.0", "::", "192.0.2.7")


@pytest.mark.parametrize("host", OPEN)
@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        ((), ("--token-file FILE", "--tls-cert CERT --tls-key KEY", "--behind-proxy", "umask 077")),
        (("token",), ("--tls-cert CERT --tls-key KEY", "--behind-proxy")),
        (("tls",), ("--token-file FILE", "umask 077")),
        (("proxy",), ("--token-file FILE", "umask 077")),
    ],
)
def test_other_machines_need_a_login_and_encryption(
    host: str, given: tuple[str, ...], lacks: tuple[str, ...], certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    cert, key = certificate if "tls" in given else (None, None)
    with pytest.raises(UsageError) as caught:
        bind_address(
            host, 0, token_file=tmp_path / "token" if "token" in given else None, tls_cert=cert, tls_key=key,
            behind_proxy="proxy" in given,
        )  # fmt: skip
    options = ("--token-file FILE", "--tls-cert CERT --tls-key KEY", "--behind-proxy", "umask 077")
    assert [o for o in options if o in caught.value.hint] == list(lacks)


def test_a_proxy_on_this_machine_needs_a_login() -> None:
    with pytest.raises(UsageError, match="--token-file FILE"):
        bind_address("127.0.0.1", 0, behind_proxy=True)


def test_with_both_it_listens_everywhere(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    binding = bind_address("0.0.0.0", 0, token_file=token, behind_proxy=True, allow_hosts=("gpu1.example.org",))
    with binding.listener:
        assert binding.access.accepts_host("gpu1.example.org")
        assert not binding.access.accepts_host("0.0.0.0")
        assert binding.url == f"http://gpu1.example.org:{binding.access.port}/"


def test_a_port_that_is_taken() -> None:
    with bind_address("localhost", 0).listener as listener:
        port = listener.getsockname()[1]
        with pytest.raises(TilewrightError, match=f"port {port}: Address already in use") as caught:
            bind_address("127.0.0.1", port)
    assert "--port" in caught.value.hint


@pytest.mark.parametrize("host", ["", "no such host", "256.1.1.1", "a" * 300])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(TilewrightError):
        bind_address(host, 0)
