"""What reaches the pages at all: methods, hosts, tokens, sessions, and the headers of every answer."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client import TestClient
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tilewright.core import TilewrightError, UsageError
from tilewright.dashboard.serving.access import (
    ATTEMPTS,
    SESSION_SECONDS,
    Access,
    Attempts,
    Guard,
    Sessions,
    local_path,
    read_token,
    split_host,
)
from tilewright.dashboard.serving.login import MOST_BODY, login_routes

TOKEN = "correct-horse-battery"
HTML = {"Accept": "text/html,application/xhtml+xml"}
SAFETY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


def application(access: Access) -> Starlette:
    async def page(request: Request) -> Response:
        headers = {"Cache-Control": "public, max-age=1", "X-Frame-Options": "ALLOWALL"}
        return PlainTextResponse(f"{request.method} {request.url.path}", headers=headers)

    async def fails(_: Request) -> Response:
        raise ZeroDivisionError("the inside of the program")

    async def endless(_: Request) -> Response:
        async def events() -> Any:
            while True:
                yield b"data: x\n\n"
                await asyncio.sleep(0.01)

        return StreamingResponse(events(), media_type="text/event-stream")

    templates = Environment(loader=PackageLoader("tilewright.dashboard"), autoescape=True, undefined=StrictUndefined)
    names = ("/", "/runs", "/metrics", "/static/app.css", "/staticky")
    routes = [Route(path, page) for path in names]
    routes += [Route("/fails", fails), Route("/live", endless), *login_routes(access, templates)]
    return Starlette(routes=routes, middleware=[Middleware(Guard, access=access)])


def client(access: Access, base: str = "http://localhost:8765", **more: Any) -> TestClient:
    return TestClient(application(access), base_url=base, follow_redirects=False, **more)


@pytest.fixture
def free() -> Iterator[TestClient]:
    with client(Access(port=8765)) as found:
        yield found


@pytest.fixture
def locked() -> Iterator[TestClient]:
    with client(Access(TOKEN, port=8765)) as found:
        yield found


def log_in(found: TestClient, token: str = TOKEN, **more: Any) -> Any:
    return found.post("/login", data={"token": token, "next": "/runs?op=matmul"}, **more)


def no_errors(access: Access) -> TestClient:
    return client(access, raise_server_exceptions=False)


# --------------------------------------------------------------------------- headers and methods


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("path", ["/", "/static/app.css", "/nowhere", "/fails", "/login", "/live"])
@pytest.mark.parametrize("method", ["HEAD", "GET", "POST", "TRACE"])
def test_every_answer_has_the_headers_of_safety(token: str | None, path: str, method: str) -> None:
    if (path, method, token) == ("/live", "GET", None):
        return  # it never ends
    with no_errors(Access(token, port=8765)) as found:
        reply = found.request(method, path)
    for name, value in SAFETY.items():
        assert reply.headers.get_list(name) == [value], name
    assert "strict-transport-security" not in reply.headers
    if token and path != "/static/app.css":
        assert reply.headers["cache-control"] == "no-store"


def test_a_failure_says_nothing_of_the_inside() -> None:
    with no_errors(Access(port=8765)) as found:
        reply = found.get("/fails")
    assert (reply.status_code, "inside" in reply.text, "Zero" in reply.text) == (500, False, False)


def test_without_a_token_caches_ask_again(free: TestClient) -> None:
    assert free.get("/").headers["cache-control"] == "public, max-age=1"
    assert free.get("/nowhere").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_pages_only_read(free: TestClient, locked: TestClient, method: str) -> None:
    for found in (free, locked):
        for path in ("/", "/metrics", "/static/app.css", "/login/"):
            reply = found.request(method, path)
            assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD")
    assert locked.get("/logout").status_code == 405


def test_head_is_the_headers_of_get_and_ends_a_stream(free: TestClient) -> None:
    reply = free.head("/runs")
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["content-length"] == str(len("HEAD /runs"))
    assert free.head("/live").headers["content-type"].startswith("text/event-stream")


def test_websockets_are_closed(free: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), free.websocket_connect("/"):
        pass


def test_https_is_remembered_for_names_but_not_for_loopback() -> None:
    for access in (Access(hosts=("box",), tls=True), Access(hosts=("box",), behind_proxy=True)):
        with client(access, "https://box") as found:
            assert found.get("/").headers["strict-transport-security"] == "max-age=86400"
        with client(access, "https://localhost") as found:
            assert "strict-transport-security" not in found.get("/").headers


# --------------------------------------------------------------------------- hosts


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8765", 200), ("LOCALHOST:8765", 200), ("127.0.0.1:8765", 200), ("[::1]:8765", 200),
        ("127.0.0.2:8765", 200), ("box:8765", 200), ("box.example.org:9000", 200), ("[fd00::1]:8765", 200),
        ("localhost", 421), ("localhost:8766", 421), ("box", 421), ("box:9000", 421), ("evil.example:8765", 421),
        ("localhost.evil.example:8765", 421), ("box.example.org:8765", 421), ("10.0.0.1:8765", 421),
        ("localhost:8765:8765", 421), ("evil@localhost:8765", 421), ("localhost:08765000", 421), ("", 421),
        ("[::1:8765", 421), ("[box]:8765", 421), ("localhost\t:8765", 421), ("2130706433:8765", 421),
    ],
)  # fmt: skip
def test_only_hosts_that_are_ours(host: str, status: int) -> None:
    access = Access(hosts=("BOX", "box.example.org:9000", "fd00:0::1"), port=8765)
    with client(access) as found:
        reply = found.get("/", headers={"Host": host})
    assert reply.status_code == status
    assert reply.headers["content-type"].startswith("text/plain")


def test_an_address_that_was_connected_to_is_no_foreign_name() -> None:
    access = Access(port=8765)
    assert access.accepts_host("10.1.2.3:8765", "10.1.2.3")
    assert access.accepts_host("10.1.2.3:8765", "::ffff:10.1.2.3")
    assert not access.accepts_host("10.1.2.3:8765", "10.1.2.4")
    assert not access.accepts_host("evil.example:8765", "evil.example")


def test_behind_a_proxy_the_port_is_the_proxys() -> None:
    access = Access(TOKEN, ("box.example.org",), behind_proxy=True, port=8765)
    assert access.accepts_host("box.example.org")
    assert access.accepts_host("box.example.org:8443")
    assert not access.accepts_host("evil.example")


def test_a_request_has_one_host(free: TestClient) -> None:
    reply = free.get("/", headers=[("Host", "localhost:8765"), ("Host", "evil.example")])
    assert reply.status_code == 400


@pytest.mark.parametrize(
    "text", ["", "a b", "http://box", "box:0", "box:70000", "box:x", "-box", "a/b", "[::1", "[1.2"]
)
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(UsageError):
        split_host(text)
    with pytest.raises(UsageError):
        Access(hosts=(text,))


def test_a_refusal_does_not_repeat_what_a_terminal_would_act_on(free: TestClient) -> None:
    reply = free.get("/", headers={"Host": "\x1b[31mred"})
    assert "\x1b" not in reply.text
    assert "\\x1b" in reply.text


# --------------------------------------------------------------------------- login


def test_without_a_token_nobody_is_asked(free: TestClient) -> None:
    assert free.get("/runs", headers=HTML).text == "GET /runs"
    assert free.get("/login").headers["location"] == "/"
    assert log_in(free).headers["location"] == "/"
    assert "set-cookie" not in log_in(free).headers


def test_a_page_leads_to_the_login_and_back(locked: TestClient) -> None:
    reply = locked.get("/runs?op=matmul&a=%2Fb", headers=HTML)
    assert reply.status_code == 303
    assert reply.headers["location"] == "/login?next=/runs%3Fop%3Dmatmul%26a%3D%252Fb"
    form = locked.get(reply.headers["location"], headers=HTML)
    assert form.status_code == 200
    assert 'name="next" value="/runs?op=matmul&amp;a=%2Fb"' in form.text
    reply = log_in(locked)
    assert (reply.status_code, reply.headers["location"]) == (303, "/runs?op=matmul")
    assert locked.get("/runs", headers=HTML).text == "GET /runs"
    assert locked.get("/metrics").text == "GET /metrics"
    assert locked.get("/login?next=/runs").headers["location"] == "/runs"


def test_the_form_can_be_used_by_everyone(locked: TestClient) -> None:
    text = locked.get("/login").text
    assert '<label for="token">' in text
    assert 'type="password"' in text
    assert "autofocus" in text
    assert '<html lang="en">' in text
    assert 'role="alert"' not in text
    assert not re.search(r"style=|<script>|onclick", text)
    assert 'role="alert"' in log_in(locked, "wrong").text


@pytest.mark.parametrize(
    ("tls", "proxy", "prefix"), [(False, False, ""), (True, False, "__Host-"), (False, True, "__Host-")]
)
def test_the_cookie_grants_access(tls: bool, proxy: bool, prefix: str) -> None:
    access = Access(TOKEN, tls=tls, behind_proxy=proxy, port=8765)
    with client(access, f"http{'s' if tls else ''}://localhost:8765") as found:
        cookie = log_in(found).headers["set-cookie"]
    name, _, rest = cookie.partition("=")
    value, *attributes = rest.split("; ")
    assert name == f"{prefix}tilewright-8765"
    assert TOKEN not in value
    wanted = {"HttpOnly", f"Max-Age={SESSION_SECONDS}", "Path=/", "SameSite=strict"} | ({"Secure"} if prefix else set())
    assert set(attributes) == wanted


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer  {TOKEN} "])
def test_scripts_send_the_token_with_each_request(locked: TestClient, header: str) -> None:
    for path in ("/metrics", "/runs"):
        assert locked.get(path, headers={"Authorization": header}).text == f"GET {path}"


@pytest.mark.parametrize(
    "header", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer é"]
)
def test_strangers_are_told_how_to_sign_in(locked: TestClient, header: str | None) -> None:
    given = {"Authorization": header.encode()} if header else {}
    for path in ("/metrics", "/", "/staticky", "/nowhere", "/login/", "/live"):
        reply = locked.get(path, headers=given)  # type: ignore[arg-type]
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer"), path
    assert locked.get("/static/app.css").text == "GET /static/app.css"


def test_scripts_of_pages_are_not_redirected(locked: TestClient) -> None:
    assert locked.get("/runs", headers={**HTML, "Sec-Fetch-Mode": "cors"}).status_code == 401
    assert locked.get("/runs", headers={**HTML, "Sec-Fetch-Mode": "navigate"}).status_code == 303


@pytest.mark.parametrize("query", [f"token={TOKEN}", f"a=b&TOKEN={TOKEN}", "token=", f"%74oken={TOKEN}"])
@pytest.mark.parametrize("path", ["/", "/login", "/metrics"])
def test_a_token_in_an_address_is_refused(locked: TestClient, path: str, query: str) -> None:
    reply = locked.get(f"{path}?{query}", headers=HTML)
    assert (reply.status_code, TOKEN in reply.text) == (400, False)


@pytest.mark.parametrize(
    "text",
    [
        "//evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example", "javascript:alert(1)", "runs",
        "/%2Fevil.example", "/%5cevil.example", "/runs\r\nSet-Cookie: a=b", "/a b", "/é", "", "/login", "/logout?a=b",
        "/" + "a" * 2001, " /runs", "/\t/evil.example", "//[evil",
    ],
)  # fmt: skip
def test_after_a_login_nobody_is_sent_elsewhere(locked: TestClient, text: str) -> None:
    assert local_path(text) == "/"
    reply = locked.post("/login", data={"token": TOKEN, "next": text})
    if len(text) < 2000:
        assert (reply.status_code, reply.headers["location"]) == (303, "/")


@pytest.mark.parametrize("text", ["/", "/runs", "/runs/a/compare?with=b&x=%2F", "/operators/my%20op", "/a//b"])
def test_local_paths_are_kept(text: str) -> None:
    assert local_path(text) == text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Origin": "http://localhost:8765", "Sec-Fetch-Site": "same-origin"}, 303),
        ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, 303),
        ({"Origin": "http://localhost:8765"}, 303),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:9000"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:8765"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"}, 403),
    ],
)
def test_forms_of_other_sites_are_refused(locked: TestClient, headers: dict[str, str], status: int) -> None:
    assert log_in(locked, headers=headers).status_code == status
    assert locked.post("/logout", headers=headers).status_code == status


def test_what_is_no_login(locked: TestClient) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert locked.post("/login", content=b"token=" + b"x" * MOST_BODY, headers=kind).status_code == 413
    assert locked.post("/login", json={"token": TOKEN}).status_code == 415
    for body in (b"token=%ff", b"\xff", b"&".join(b"a=b" for _ in range(20))):
        assert locked.post("/login", content=body, headers=kind).status_code == 400
    assert locked.post("/login", content=b"", headers=kind).status_code == 403


def test_logging_out_ends_the_session_and_its_copies(locked: TestClient) -> None:
    log_in(locked)
    (copy,) = locked.cookies.items()
    reply = locked.post("/logout")
    assert (reply.status_code, reply.headers["location"]) == (303, "/login")
    assert not locked.cookies
    locked.cookies.set(*copy)
    assert locked.get("/runs").status_code == 401


def test_a_link_on_another_site_finds_its_session_at_the_second_try(locked: TestClient) -> None:
    assert 'http-equiv="refresh"' in locked.get("/login", headers={"Sec-Fetch-Site": "cross-site"}).text
    assert 'http-equiv="refresh"' not in locked.get("/login", headers={"Sec-Fetch-Site": "same-origin"}).text
    assert 'http-equiv="refresh"' not in locked.get("/login").text


def test_guessing_is_slow(locked: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for n in range(ATTEMPTS):
            reply = (
                log_in(locked, "wrong-wrong-wrong") if n % 2 else locked.get("/", headers={"Authorization": "Bearer x"})
            )
            assert reply.status_code == (403 if n % 2 else 401)
        for reply in (log_in(locked), locked.get("/", headers={"Authorization": f"Bearer {TOKEN}"})):
            assert reply.status_code == 429
            assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert "a login was refused: wrong token from testclient" in caplog.text
    assert "wrong-wrong-wrong" not in caplog.text
    assert TOKEN not in caplog.text


def test_guessing_does_not_shut_out_who_is_in(locked: TestClient) -> None:
    log_in(locked)
    for _ in range(ATTEMPTS + 1):
        log_in(locked, "wrong")
    assert locked.get("/runs").status_code == 200


def test_behind_a_proxy_one_who_guesses_does_not_shut_out_scripts() -> None:
    with client(Access(TOKEN, behind_proxy=True)) as found:
        for _ in range(ATTEMPTS + 1):
            assert found.get("/", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert found.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


# --------------------------------------------------------------------------- parts


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_sessions_end_and_cannot_be_made_up() -> None:
    clock = Clock()
    sessions = Sessions(TOKEN, clock)
    value = sessions.issue()
    assert value != sessions.issue()
    assert sessions.valid(value)
    until, nonce, signature = value.split(".")
    for forged in (
        f"{int(until) + 9}.{nonce}.{signature}", f"{until}.{'0' * 32}.{signature}", f"{until}.{nonce}.", until, "", ".", "..",
        f"{value}0", f"é{value}", Sessions(TOKEN, clock).issue(),
    ):  # fmt: skip
        assert not sessions.valid(forged), forged
    clock.now += SESSION_SECONDS - 1
    assert sessions.valid(value)
    clock.now += 1
    assert not sessions.valid(value)


def test_attempts_pass_and_are_bounded() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for n in range(ATTEMPTS):
        assert attempts.wait("2001:db8::1") == 0
        attempts.failed(f"2001:db8::{n}")
    assert attempts.wait("2001:db8::ffff") == 60
    assert attempts.wait("2001:db8:0:1::1") == 0
    assert attempts.wait("10.0.0.1") == 0
    clock.now += 59.5
    assert attempts.wait("2001:db8::1") == 1
    clock.now += 0.5
    assert attempts.wait("2001:db8::1") == 0
    for n in range(Attempts.KEPT + 10):
        attempts.failed(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
    assert len(attempts._failed) == Attempts.KEPT


def test_a_token_is_not_in_its_representation() -> None:
    assert TOKEN not in repr(Access(TOKEN))


def test_tokens_in_files(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(f"  {TOKEN}  \nmore\n".encode())
    path.chmod(0o600)
    assert read_token(path) == TOKEN
    path.chmod(0o400)
    assert read_token(path) == TOKEN


@pytest.mark.parametrize(
    ("data", "mode", "words"),
    [
        (b"short\n", 0o600, "5 characters"),
        (b"\nlong-enough-but-below\n", 0o600, "0 characters"),
        (b"", 0o600, "0 characters"),
        ("lang-genug-aber-ß-drin\n".encode(), 0o600, "do not fit"),
        (b"long enough with spaces\n", 0o600, "do not fit"),
        (b"x" * 2000, 0o600, "characters"),
        (b"correct-horse-battery\n", 0o640, "open to other users"),
        (b"correct-horse-battery\n", 0o604, "open to other users"),
        (None, 0, "No such file"),
    ],
)
def test_files_that_hold_no_token(tmp_path: Path, data: bytes | None, mode: int, words: str) -> None:
    path = tmp_path / "token"
    if data is not None:
        path.write_bytes(data)
        path.chmod(mode)
    with pytest.raises(TilewrightError, match=words) as caught:
        read_token(path)
    assert caught.value.hint
    assert "battery" not in str(caught.value)
