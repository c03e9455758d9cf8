"""ASGI middleware that controls access to the dashboard and adds security headers to every response.

``Guard`` is independent of pages. For every page it enforces three rules: requests only read (except notes on runs),
the host name is one of this server's, and if a token is set, only clients with the token see pages.
"""

from __future__ import annotations

import hmac
import math
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from tilewright.core import UsageError
from tilewright.dashboard.errors import Header, refuse
from tilewright.farm.addresses import ip_of, is_loopback
from tilewright.farm.pki.private_files import explained, require_private

SESSION_SECONDS = 12 * 3600
LEAST_TOKEN, MOST_TOKEN = 16, 1024  # characters
ATTEMPTS, ATTEMPTS_SECONDS = 10, 60.0
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
ISOLATION: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
"""Headers that keep other sites from reading or framing a response."""
_HEADERS: tuple[Header, ...] = ((b"content-security-policy", CSP.encode()), *ISOLATION)
Refusal = tuple[int, str, list[tuple[str, str]]]
"""Status, text and headers of the response to a refused request."""
MOST_ADDRESS = 8000  # bytes of a path and its query, as the client sent them
MOST_HEADERS = 16384  # bytes
# A day: browsers apply it to every port of the host, so a longer time would lock out other services there.
_HSTS: Header = (b"strict-transport-security", b"max-age=86400")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?)(?::([0-9]{1,5}))?")
_FORMS = ("/login", "/logout")
"""Paths that take forms to log in and out."""
_NOTE = re.compile(r"/runs/[^/]+/note")
"""Paths that take forms if the dashboard is writable."""


def headers_of_safety() -> list[tuple[str, str]]:
    """The security headers of every response, with ``no-store``: for responses that are sent before the application."""
    return [*((k.decode(), v.decode()) for k, v in _HEADERS), ("cache-control", "no-store")]


@dataclass(frozen=True)
class Access:
    """The access rules of a server. Without a ``token`` every client that reaches the server may see everything.

    ``hosts``: names and addresses, as ``NAME`` or ``NAME:PORT``, that a browser's ``Host`` header may have, beside this
    machine's loopback names. ``port``: the port of the server, which browsers must name; ``None`` for any. ``tls``:
    this server speaks HTTPS. ``behind_proxy``: a proxy in front of this server speaks HTTPS; its headers are not
    trusted. ``writable``: clients that have the token may write notes on runs.
    """

    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    tls: bool = False
    behind_proxy: bool = False
    port: int | None = None
    writable: bool = False
    sessions: Sessions = field(init=False, repr=False, compare=False)
    attempts: Attempts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sessions", Sessions(self.token or ""))
        object.__setattr__(self, "attempts", Attempts())
        for host in self.hosts:
            split_host(host)
        require_token(self.writable, self.token is not None)

    @property
    def secure(self) -> bool:
        """Whether browsers reach the server by HTTPS."""
        return self.tls or self.behind_proxy

    @property
    def cookie(self) -> str:
        """The name of the session cookie. Cookies do not tell ports apart, so the name holds the port."""
        port = "" if self.port is None else f"-{self.port}"
        return f"{'__Host-' if self.secure else ''}tilewright{port}"

    def accepts_host(self, given: str, local: str | None = None) -> bool:
        """Whether a ``Host`` header names this server. ``local``: the address at which the client reached the server.

        That address is accepted too: unlike a name, DNS rebinding cannot forge it.
        """
        try:
            name, port = split_host(given)
        except UsageError:
            return False
        port = port or (443 if self.tls else 80)
        free = self.behind_proxy or self.port is None
        for known, only in map(split_host, self.hosts):
            if known == name and (port == only if only else free or port == self.port):
                return True
        here = is_loopback(name) or (local is not None and ip_of(name) is not None and name == _plain(local))
        return here and (free or port == self.port)

    def has_token(self, given: str) -> bool:
        """Whether ``given`` is the token, compared in constant time."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())


def require_token(writable: bool, token: bool) -> None:
    """Raises ``UsageError`` if the dashboard is ``writable`` without a token: every client could write."""
    if writable and not token:
        raise UsageError("writing notes needs a token, and no token is set", "Add --token-file FILE")


def split_host(text: str) -> tuple[str, int | None]:
    """Parses ``NAME``, ``NAME:PORT``, an address or ``[ADDRESS6]:PORT`` into host and port (``None`` if absent).

    The host is in lower case, an address in its shortest spelling. Raises ``UsageError`` for another text.
    """
    lower = text.lower()
    if ip_of(lower) is not None:
        return _plain(lower), None
    found = _HOST.fullmatch(lower)
    port = int(found[3]) if found and found[3] else None
    if found is None or not (port is None or 0 < port < 65536):
        raise UsageError(f"{text[:100]!r} is not a host", "Write NAME, NAME:PORT, an address or [ADDRESS]:PORT")
    name = found[1].strip("[]")
    if found[1].startswith("[") and ip_of(name) is None:
        raise UsageError(f"{text[:100]!r} is not an address", "Write [ADDRESS]:PORT")
    return _plain(name), port


def _plain(name: str) -> str:
    """A host in canonical spelling; an IPv4-mapped IPv6 address becomes its IPv4 address."""
    address = ip_of(name)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return name if address is None else str(address)


def read_token(path: Path) -> str:
    """Reads the token in the first line of a file that only its owner may read.

    Raises ``UsageError`` for a line that is not a token, and ``FarmError`` for a file that other users may read or that
    cannot be read.
    """
    path = path.expanduser()
    require_private(path)
    with explained(path), path.open("rb") as file:
        line = file.readline(MOST_TOKEN + 2).strip()
    hint = f"Write {LEAST_TOKEN} to {MOST_TOKEN} letters, digits or signs into it, without spaces: {MAKE_TOKEN}"
    if not all(0x21 <= b <= 0x7E for b in line):
        raise UsageError(f"the token in {path} has characters that do not fit into a header", hint)
    if not LEAST_TOKEN <= len(line) <= MOST_TOKEN:
        raise UsageError(f"the token in {path} has {len(line)} characters", hint)
    return line.decode("ascii")


MAKE_TOKEN = "(umask 077; python3 -c 'import secrets; print(secrets.token_urlsafe(32))' > FILE)"


# --------------------------------------------------------------------------- sessions and attempts


class Sessions:
    """Session cookies of logins: an expiry time and a random part, signed with a key of this process."""

    def __init__(self, token: str, clock: Callable[[], float] = time.time) -> None:
        self._key = hmac.digest(secrets.token_bytes(32), token.encode(), "sha256")
        self._clock = clock
        self._ended: dict[str, float] = {}

    def issue(self) -> str:
        """A new cookie, valid for ``SESSION_SECONDS``."""
        text = f"{int(self._clock()) + SESSION_SECONDS}.{secrets.token_hex(16)}"
        return f"{text}.{self._sign(text)}"

    def valid(self, value: str) -> bool:
        """Whether a cookie has a valid signature, and has neither expired nor been revoked."""
        text, _, signature = value.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(text).encode()) or value in self._ended:
            return False
        return int(text.partition(".")[0]) > self._clock()

    def mark(self, value: str) -> str:
        """The CSRF token of a session, which the forms of its pages carry. Other sites cannot know it."""
        return self._sign(f"form {value}")

    def end(self, value: str) -> None:
        """Revokes a valid cookie and all copies of it."""
        if self.valid(value):
            now = self._clock()
            self._ended = {v: until for v, until in self._ended.items() if until > now}
            self._ended[value] = int(value.partition(".")[0])

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), sha256).hexdigest()


class Attempts:
    """Wrong tokens of the last minute, by client address. An IPv6 client counts by its network of 64 bits."""

    KEPT = 4096

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[str, deque[float]] = {}

    def wait(self, address: str) -> int:
        """Seconds until a client may send a token again; 0 if the client may do so now."""
        failed = self._failed.get(network_of(address), ())
        recent = [t for t in failed if t > self._clock() - ATTEMPTS_SECONDS]
        return 0 if len(recent) < ATTEMPTS else max(1, math.ceil(recent[0] + ATTEMPTS_SECONDS - self._clock()))

    def failed(self, address: str) -> None:
        """Counts a wrong token of a client."""
        now = self._clock()
        name = network_of(address)
        times = self._failed.pop(name, deque(maxlen=ATTEMPTS))
        times.append(now)
        self._failed[name] = times  # the dict is ordered by the latest failure
        for old in list(self._failed):
            if self._failed[old][-1] > now - ATTEMPTS_SECONDS and len(self._failed) <= self.KEPT:
                break
            del self._failed[old]


def network_of(address: str) -> str:
    """The address by which a client is counted: an IPv4 address, or an IPv6 network of 64 bits."""
    plain = _plain(address)
    return str(IPv6Address(int(IPv6Address(plain)) >> 64 << 64)) if ":" in plain and ip_of(plain) is not None else plain


# --------------------------------------------------------------------------- requests


def headers_of(scope: Mapping[str, Any], name: bytes) -> list[str]:
    """The values of all headers called ``name`` (in lower case) in a request."""
    return [v.decode("latin-1") for k, v in scope["headers"] if k == name]


def client_of(scope: Mapping[str, Any]) -> str:
    """The address of the connected peer: a client, or a proxy in front of this server."""
    return str(scope["client"][0]) if scope.get("client") else ""


def session_of(scope: Mapping[str, Any], access: Access) -> str:
    """The value of a request's session cookie; empty without a cookie."""
    from starlette.requests import HTTPConnection  # Optuna's dashboard needs no Starlette

    return HTTPConnection({**scope}).cookies.get(access.cookie, "")


def same_site(scope: Mapping[str, Any]) -> bool:
    """Whether a form came from a page of this site, by the browser's headers.

    Programs send neither header and may post forms.
    """
    site = headers_of(scope, b"sec-fetch-site")
    origin = headers_of(scope, b"origin")
    if site and site != ["same-origin"]:
        return False
    # A page without referrer sends its own forms with the origin "null"; then Sec-Fetch-Site, checked above, counts.
    if not origin or (site and origin == ["null"]):
        return True
    return len(origin) == 1 and urlsplit(origin[0]).netloc.lower() == headers_of(scope, b"host")[0].lower()


def local_path(text: str) -> str:
    """``text`` if it is a path of this site, else ``/``: the page that follows a login."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    plain = text.startswith("/") and not text.startswith("//") and text.isascii() and text.isprintable()
    if not plain or "\\" in text or " " in text or parts.scheme or parts.netloc or len(text) > 2000:
        return "/"
    # Browsers leave an encoded slash or backslash at the start encoded, but proxies may decode it.
    if re.match(r"[/\\]{2}", unquote(text[:20])) or parts.path in _FORMS:
        return "/"
    return text


class Guard:
    """ASGI middleware that admits reading requests to known hosts, with a login where a token is set.

    Every response gets the security headers.
    """

    def __init__(self, app: Any, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            if self._access.secure:
                scope["scheme"] = "https"  # as browsers see it: a redirect to plain HTTP would leak requests
            answer = _Answer(scope, send, self._access)
            refusal = self._refusal(scope)
            if refusal is not None:
                await refuse(answer.send, *refusal)
            else:
                await self._pass(scope, receive, answer)
        else:
            await send({"type": "websocket.close"})

    async def _pass(self, scope: Any, receive: Any, answer: _Answer) -> None:
        try:
            await self._app(scope, receive, answer.send)
        except Exception:
            if not answer.started:
                text = "Something went wrong here. What it was is in the dashboard's log"
                await refuse(answer.send, 500, text, [("Connection", "close")])
            raise

    def _refusal(self, scope: Any) -> Refusal | None:
        """The response to a request that is refused; ``None`` for a request that may go on."""
        access, path, method = self._access, scope["path"], scope["method"]
        posts = path == "/logout" or (access.writable and _NOTE.fullmatch(path) is not None)
        allowed = ("POST",) if posts else ("GET", "HEAD", "POST") if path == "/login" else ("GET", "HEAD")
        if method not in allowed:
            return 405, f"{method[:20]} is not for this address", [("Allow", ", ".join(allowed))]
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_ADDRESS:
            return 414, f"An address has at most {MOST_ADDRESS} bytes", []
        if sum(len(k) + len(v) for k, v in scope["headers"]) > MOST_HEADERS:
            return 431, f"The headers of a request have at most {MOST_HEADERS} bytes", []
        hosts = headers_of(scope, b"host")
        if len(hosts) != 1 or not path.startswith("/"):
            return 400, "A request names one host, and a path on it", []
        if not access.accepts_host(hosts[0], scope["server"][0] if scope.get("server") else None):
            hint = "If it should be, start the dashboard with --allow-host and this name"
            return 421, f"{hosts[0][:100]} is not a name of this dashboard. {hint}", []
        if access.token is None or path == "/static" or path.startswith("/static/"):
            return None
        query = scope["query_string"].decode("latin-1")
        if any(name.lower() == "token" for name, _ in parse_qsl(query, keep_blank_values=True)):
            return 400, "A token never goes into an address. Send it as Authorization: Bearer TOKEN", []
        return None if path in _FORMS else self._stranger(scope, query)

    def _stranger(self, scope: Any, query: str) -> Refusal | None:
        """The response to a client that has neither a session nor the token; ``None`` for an authenticated client."""
        access = self._access
        if access.sessions.valid(session_of(scope, access)):
            return None
        given = headers_of(scope, b"authorization")
        if given:
            # Behind a proxy all clients have its address: a client that guesses must not lock out all clients.
            wait = 0 if access.behind_proxy else access.attempts.wait(client_of(scope))
            if wait:
                return 429, f"Too many wrong tokens. Wait {wait} s", [("Retry-After", str(wait))]
            scheme, _, token = given[0].partition(" ")
            if len(given) == 1 and scheme.lower() == "bearer" and access.has_token(token.strip()):
                return None
            if not access.behind_proxy:
                access.attempts.failed(client_of(scope))
        elif _navigates(scope):
            at = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
            login = f"/login?next={quote(local_path(f'{at}?{query}' if query else at), safe='/')}"
            return 303, "Log in first", [("Location", login)]
        hint = "Log in at /login, or send Authorization: Bearer TOKEN"
        return 401, f"This is for those who have the token. {hint}", [("WWW-Authenticate", "Bearer")]


def _navigates(scope: Mapping[str, Any]) -> bool:
    """Whether a browser navigates to a page, so that it can show the login form."""
    html = any("text/html" in v for v in headers_of(scope, b"accept"))
    return html and headers_of(scope, b"sec-fetch-mode") in ([], ["navigate"])


def _is_local(host: str) -> bool:
    try:
        return is_loopback(split_host(host)[0])
    except UsageError:
        return True


class _Answer:
    """Sends a response with the security headers; a response to HEAD ends after the headers."""

    def __init__(self, scope: Mapping[str, Any], send: Any, access: Access) -> None:
        self.started = False
        self._send = send
        self._head = scope["method"] == "HEAD"
        self._static = scope["path"].startswith("/static/")
        self._access = access
        self._local = _is_local("".join(headers_of(scope, b"host")))

    async def send(self, message: Any) -> None:
        """Passes on an ASGI message of the response."""
        if message["type"] == "http.response.start":
            self.started = True
            await self._send({**message, "headers": self._headers(list(message.get("headers", ())))})
            if self._head:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not self._head:
            await self._send(message)

    def _headers(self, own: list[Header]) -> list[Header]:
        fixed = list(_HEADERS)
        if self._access.secure and not self._local:
            fixed.append(_HSTS)
        if self._access.token is not None and not self._static:
            fixed.append((b"cache-control", b"no-store"))
        elif not any(k.lower() == b"cache-control" for k, _ in own):
            fixed.append((b"cache-control", b"no-cache"))
        names = {k for k, _ in fixed}
        return [(k, v) for k, v in own if k.lower() not in names] + fixed
