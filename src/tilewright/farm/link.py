"""One connection to a farm's server: TLS, requests, storing and fetching, and errors as messages.

A broken connection is not restored here: its owner opens another connection (:func:`waits`) and repeats what the server
may have forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import secrets
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright.core import UsageError
from tilewright.errors import needed
from tilewright.farm import subjects
from tilewright.farm.addresses import is_loopback, joined, parse_address
from tilewright.farm.budgets import MESSAGE, PENDING
from tilewright.farm.decoding import NoMessage, require_msgpack
from tilewright.farm.errors import FarmError, LinkClosed, NotStored, Refused, Stale, Taken, Unreachable
from tilewright.farm.messages import PROTOCOL, Seal
from tilewright.farm.pki.identity import Peer
from tilewright.farm.pki.revocations import Revocations
from tilewright.farm.pki.tls import Credentials, client_context, find_credentials
from tilewright.paths import cache_root

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 5.0  # timeout of a question to a server or keeper
FIRST_WAIT, LONGEST_WAIT = 0.2, 15.0  # seconds between attempts: exponential backoff
REVOKED_SECONDS = 10.0  # between questions for the revocation list; a keeper also publishes a new list at once
_LONGEST_LIST = 48 << 10  # bytes of a revocation list that fit into a question
SILENT = 4  # missed heartbeats after which a peer counts as gone

Say = Callable[[str], None]
Handler = Callable[[Any], Awaitable[None]]


def waits() -> Iterator[float]:
    """Seconds to wait before each further attempt: exponential backoff with jitter, so that peers do not reconnect at
    once."""
    wait = FIRST_WAIT
    while True:
        yield wait * random.uniform(0.5, 1.0)
        wait = min(LONGEST_WAIT, 2 * wait)


class Endpoint:
    """A farm's address and the certificate to connect with.

    ``certs``: a folder of certificates; ``None`` on a loopback address only. ``roles``: the first role that has a
    certificate in ``certs`` is used. ``revocations``: a list of revoked certificates that the caller keeps up to date.
    Raises ``UsageError`` and ``FarmError`` for settings that cannot work.
    """

    def __init__(self, address: str, certs: Path | None, *roles: str, revocations: Revocations | None = None) -> None:
        needed("nats", "the farm needs the package nats-py", "farm", FarmError)
        require_msgpack()
        self.scheme, self.servers = parse_address(address)
        self.credentials: Credentials | None = None
        if certs is not None and self.scheme == "tls":
            self.credentials = find_credentials(certs, *roles)
        elif self.scheme == "tls":
            raise UsageError(
                "a farm needs certificates", "Pass --certs DIR, the folder that tilewright farm init wrote"
            )
        elif not all(is_loopback(host) for host, _ in self.servers):
            raise UsageError(
                f"{address} is unencrypted, which is allowed on this machine only",
                "Write tls://HOST:PORT and pass --certs DIR",
            )
        self.role = self.credentials.owner.role if self.credentials else roles[0]
        self.name = self.credentials.owner.name if self.credentials else "local"
        self.seal = Seal(self.credentials, revocations)
        if self.seal.revocations is not None and revocations is None:
            self.seal.revocations.remember(cache_root() / "farm")
        self.orders = "$JS.API"  # subject prefix of JetStream's administration, where this endpoint may use it

    @property
    def address(self) -> str:
        return f"{self.scheme}://" + ",".join(joined(host, port) for host, port in self.servers)

    async def connect(self, *, keeps: bool = False) -> Link:
        """Connects to one of the servers and gets the list of revoked certificates first. ``keeps``: a keeper connects,
        which has the list itself.

        Raises ``Unreachable``, ``Refused``, ``LinkClosed``.
        """
        servers = random.sample(self.servers, len(self.servers))
        for n, (host, port) in enumerate(servers):
            try:
                link = await self._connect(host, port)
                if not keeps:
                    await link.follow_revocations()
                return link
            except Unreachable:
                if n == len(servers) - 1:
                    raise
        raise AssertionError

    async def _connect(self, host: str, port: int, again: bool = True) -> Link:
        from nats.aio.client import Client
        from nats.errors import Error

        where = joined(host, port)
        link = Link(self)
        link.nats = Client()
        context = None if self.credentials is None else client_context(self.credentials)
        tls: dict[str, Any] = {} if context is None else {"tls": context, "tls_hostname": host}
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await link.nats.connect(
                    f"{'tls' if tls else 'nats'}://{where}", **tls, allow_reconnect=False, max_reconnect_attempts=1,
                    reconnect_time_wait=0.01, inbox_prefix=subjects.inbox(self.role, self.name).encode(),
                    error_cb=link.failed, closed_cb=link.ended, connect_timeout=CONNECT_SECONDS,
                    flush_timeout=ANSWER_SECONDS, ping_interval=15, pending_size=PENDING.most,
                    name=f"{self.role} {self.name}",
                )  # fmt: skip
        except BaseException as e:
            _hang_up(link.nats)
            if isinstance(e, TimeoutError):
                raise Unreachable(f"{self.scheme}://{where} does not answer", IS_IT_THERE) from None
            if isinstance(e, Error | OSError):
                error = link.error or e
                if again and isinstance(error, BrokenPipeError | ConnectionResetError):
                    return await self._connect(host, port, again=False)  # the server hung up without a reason
                raise self._explained(where, error) from None
            raise
        if context is not None:
            if not context.shown:  # nats-py goes on without TLS
                await link.close()
                raise Refused(
                    f"{self.scheme}://{where} does not speak TLS: it is not a farm's server, or one without encryption",
                    "Write tcp://HOST:PORT for a farm of this machine alone",
                )
            link.shown = context.shown
        link.nats._reading_task.add_done_callback(link.cut)
        return link

    def _explained(self, where: str, error: Exception) -> FarmError:
        farm = f"{self.scheme}://{where}"
        who = self.credentials.owner if self.credentials else "whoever has no certificate"
        if self.credentials is not None and self.credentials.owner.not_after < time.time():
            return Refused(f"{farm} refuses {who}: its certificate has expired", _renew(self.credentials))
        if "secure connection" in str(error).lower() or (isinstance(error, ssl.SSLError) and not self.credentials):
            return Refused(f"{farm} takes TLS connections only", "Write tls://HOST:PORT and pass --certs DIR")
        if isinstance(error, ssl.SSLCertVerificationError):
            return Refused(f"the certificate of {farm} cannot be trusted: {error.verify_message}", CERTIFICATE_HINT)
        if isinstance(error, ssl.SSLError) and "alert" in str(error).lower():
            return Refused(f"{farm} refuses {who}: its certificate is not of that farm's", CERTIFICATE_HINT)
        if isinstance(error, ssl.SSLError):
            return Unreachable(f"no TLS connection with {farm}: {error.reason or error}", CERTIFICATE_HINT)
        if "authorization violation" in str(error).lower():
            return Refused(
                f"{farm} refuses {who}: revoked, expired, or issued since its users.json was copied there",
                _renew(self.credentials),
            )
        if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
            return Unreachable(f"cannot reach {farm}: nobody listens there", IS_IT_THERE)
        if isinstance(error, OSError) and error.strerror:
            return Unreachable(f"cannot reach {farm}: {error.strerror}", IS_IT_THERE)
        return Unreachable(f"no farm's server answers at {farm}: {error}", IS_IT_THERE)


def _renew(credentials: Credentials | None) -> str:
    name = credentials.owner.name if credentials else "NAME"
    return f"Copy DIR/server/users.json to the server's machine, or issue another: tilewright farm issue {name} --renew"


IS_IT_THERE = "Check that the farm's server runs there"
STORAGE_HINT = "Check the free space on the server's disk: tilewright farm doctor ADDRESS"
COPY_USERS = "Copy DIR/server/users.json to every server's machine again"
CERTIFICATE_HINT = "Use certificates of this farm's own authority, and an address that its server's certificate names"


class Link:
    """A connection while it lasts. :attr:`closed` is set when it ends, for any reason."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.nats: Any = None
        self.endpoint = endpoint
        self.seal = endpoint.seal
        self.closed = asyncio.Event()
        self.error: Exception | None = None
        self.denied: deque[str] = deque(maxlen=64)  # the server's messages about denied permissions
        self.shown = b""  # the certificate of the server at the other end, DER
        self._following: asyncio.Task[None] | None = None

    async def failed(self, error: Exception) -> None:
        """Called with every error of the connection."""
        if "permissions violation" in str(error).lower():
            self.denied.append(str(error))
        elif not isinstance(self.error, ssl.SSLError):  # a TLS error is the cause of the errors after it
            self.error = error

    async def ended(self) -> None:
        """Called when the connection is over."""
        self.closed.set()

    def cut(self, reading: asyncio.Task[None]) -> None:
        """Called when nats-py's reading task ends: after a connection reset nats-py may end without calling
        ``closed_cb``."""
        if not reading.cancelled():
            reading.exception()
        for subscription in self.nats._subs.values():
            if subscription._wait_for_msgs_task is not None:
                subscription._wait_for_msgs_task.cancel()
        self.closed.set()

    async def subscribe(self, subject: str, handler: Handler, queue: str = "") -> None:
        """Calls ``handler`` with every message of a subject, one after the other."""
        await self.nats.subscribe(subject, queue, cb=handler, pending_msgs_limit=-1, pending_bytes_limit=PENDING.most)

    async def settle(self) -> None:
        """Waits until the server has processed all sent messages and subscriptions. Raises ``LinkClosed``."""
        from nats.errors import Error

        try:
            await self.nats.flush(int(ANSWER_SECONDS))
        except (Error, TimeoutError):
            raise LinkClosed(f"{self.endpoint.address} does not answer", IS_IT_THERE) from None

    async def publish(self, subject: str, data: bytes = b"", reply: str = "") -> None:
        """Sends a message without an answer. It is lost if the connection breaks."""
        from nats.errors import Error

        with contextlib.suppress(Error):
            await self.nats.publish(subject, data, reply)

    async def raw(
        self, subject: str, data: bytes, timeout: float = ANSWER_SECONDS, headers: dict[str, str] | None = None
    ) -> Any:
        """Sends a message and waits for its answer. Raises ``LinkClosed``, and ``NotStored`` if the subject has no
        subscriber."""
        return await self._answered(self.nats.request(subject, data, timeout=timeout, headers=headers), subject)

    async def manage(self, what: str, *arguments: Any, **more: Any) -> Any:
        """Calls a method of JetStream's administration. Raises ``LinkClosed``, ``NotStored`` with the server's
        reason."""
        stream = self.nats.jetstream(prefix=self.endpoint.orders, timeout=ANSWER_SECONDS)
        return await self._answered(getattr(stream, what)(*arguments, **more), what.replace("_", " "))

    async def _answered(self, work: Awaitable[Any], what: str) -> Any:
        from nats.errors import Error, NoRespondersError

        try:
            return await work
        except NoRespondersError:
            raise NotStored(f"nobody serves {what.partition('.')[0]} at {self.endpoint.address}") from None
        except (Error, TimeoutError, asyncio.CancelledError) as e:
            task = asyncio.current_task()
            if isinstance(e, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # this task itself was cancelled; otherwise nats-py cancelled the request with the connection
            if getattr(e, "description", None):
                raise NotStored(f"the farm's server refuses {what}: {e.description}", STORAGE_HINT) from None  # type: ignore[union-attr]
            if any(f'"{what}"'.lower() in line.lower() for line in self.denied):
                raise Refused(f"a {self.endpoint.role} may not do this: the server denies {what}") from None
            raise LinkClosed(f"{self.endpoint.address} does not answer", IS_IT_THERE) from None

    async def follow_revocations(self) -> None:
        """Gets the list of revoked certificates now and follows its changes. Closes the link and raises ``FarmError``
        if no keeper answers."""
        if self.seal.revocations is None:
            return
        try:
            await self.subscribe(subjects.REVOKED, self.hear_revocations)
            await self._ask_revocations()
            self._following = asyncio.create_task(self._keep_asking())
        except BaseException:
            await self.close()
            raise

    async def hear_revocations(self, message: Any) -> None:
        """Takes a list of revoked certificates that a keeper published."""
        try:
            assert self.seal.revocations is not None
            self.seal.revocations.take(message.data)
        except (Refused, Stale) as e:
            self.denied.append(e.message)

    async def _ask_revocations(self, told: bytes = b"") -> None:
        """Asks a keeper for the newest list of revoked certificates. The mark rules out a replayed answer.

        ``told``: a newer list that the keeper lacked at the first question; it is sent along.
        """
        revocations = self.seal.revocations
        assert revocations is not None
        asked, mark, known = time.monotonic(), secrets.token_hex(16), revocations.number
        question = {"what": subjects.REVOKED, "number": known, "mark": mark, "list": told}
        answer, peer = await self._ask(question, revocable=False)
        if not isinstance(answer, dict) or answer.get("mark") != mark or type(answer.get("number")) is not int:
            raise Refused("a keeper repeated an earlier answer, which may lack newer revocations", IS_IT_THERE)
        if answer["number"] > revocations.number:
            revocations.take(answer.get("list"))
        if answer["number"] != revocations.number:
            newest = revocations.newest
            if newest is not None and not told and len(newest.der) < _LONGEST_LIST:
                await self._ask_revocations(newest.der)
                return
            raise Stale(
                f"a keeper has list {answer['number']} of revoked certificates, and list {revocations.number} is known",
                COPY_USERS,
            )
        for server in (peer, self.seal.holder(self.shown)):
            self.seal.require_listed_nowhere(server)
        revocations.confirm(asked)

    async def _keep_asking(self) -> None:
        revocations = self.seal.revocations
        assert revocations is not None
        while not self.closed.is_set():
            await waited(self.closed, REVOKED_SECONDS)
            try:
                await self._ask_revocations()
            except FarmError as e:  # the known list still counts, until it is no longer fresh
                revocations.trouble = e.message

    async def ask(self, body: Mapping[str, Any], timeout: float = ANSWER_SECONDS, tell: bool = False) -> Any:
        """Asks a keeper; returns its answer. Raises ``FarmError`` with the keeper's message where it refuses."""
        return (await self._ask(body, timeout, tell))[0]

    async def _ask(
        self, body: Mapping[str, Any], timeout: float = ANSWER_SECONDS, tell: bool = False, *, revocable: bool = True
    ) -> tuple[Any, Peer | None]:
        subject = (subjects.tell if tell else subjects.ask)(self.endpoint.role, self.endpoint.name)
        message = {"protocol": PROTOCOL, **body}
        try:
            reply = await self.raw(subject, self.seal.seal(subject, message), timeout)
        except NotStored:
            raise Unreachable(
                f"{self.endpoint.address} has a server but no keeper", "Start it with tilewright farm server"
            ) from None
        answer, peer = self.seal.open(subject, reply.data, ("server",), MESSAGE, revocable=revocable)
        if "error" in answer:
            kind = {k.kind: k for k in (Refused, Stale, Taken)}.get(answer["error"].get("kind"), FarmError)
            raise kind(str(answer["error"]["message"]), str(answer["error"].get("mend", "")))
        return answer.get("value"), peer

    async def store(self, subject: str, data: bytes, message_id: str = "") -> None:
        """Has the server store a message; a repeated ``message_id`` is stored once. Raises ``LinkClosed``,
        ``NotStored``."""
        reply = await self.raw(subject, data, headers={"Nats-Msg-Id": message_id} if message_id else None)
        error = json.loads(reply.data).get("error")
        if error:
            said = str(error.get("description", error))
            raise NotStored(f"the farm's server keeps nothing: {said}", STORAGE_HINT)

    async def stored(self, stream: str, subject: str) -> bytes | None:
        """Returns a stream's last message of a subject, ``None`` without one. Raises ``LinkClosed``, ``NotStored``."""
        reply = await self.raw(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"")
        return None if (reply.headers or {}).get("Status") else bytes(reply.data)

    def open(self, message: Any, roles: Collection[str]) -> tuple[dict[str, Any], Any] | None:
        """Opens a received message; ``None`` if it is malformed, or its sender has none of ``roles``."""
        try:
            return self.seal.open(message.subject, message.data, roles)
        except (Refused, Stale, NoMessage) as e:
            self.denied.append(e.message)
            return None

    async def close(self) -> None:
        """Sends pending messages, then closes the connection."""
        if self._following is not None:
            self._following.cancel()
        closing = asyncio.create_task(self.nats.close())
        try:
            await asyncio.wait({closing}, timeout=2.0)  # a server that does not read would delay it for ever
        finally:
            if not closing.cancel():
                closing.exception()
            _hang_up(self.nats)
            self.closed.set()


def _hang_up(client: Any) -> None:
    """Closes the socket itself: nats-py leaves it open after a disconnect, and TLS waits for the other end's closing
    message."""
    writer = getattr(client._transport, "_bare_io_writer", None)
    if writer is not None:
        writer.transport.abort()


async def waited(event: asyncio.Event, seconds: float) -> None:
    """Waits for an event, at most ``seconds``."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def spawn(tasks: set[asyncio.Task[Any]], work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Starts a background task, which is in ``tasks`` until it ends."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks until they have ended: nats-py swallows a cancellation while it sends."""
    while pending := {t for t in tasks if not t.done()}:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.1)


# asyncio warns so when the other end closes a connection that was upgraded to TLS.
logging.getLogger("asyncio").addFilter(lambda record: "eof_received() has no effect" not in record.getMessage())
