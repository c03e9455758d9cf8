"""Connecting to a farm's scheduler: TLS, greeting, refusals in words."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright.core import UsageError
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.protocol import (
    HELLO_SECONDS,
    Link,
    LinkClosed,
    is_loopback,
    parse_address,
    require_msgpack,
    versions,
)
from tilewright.farm.tls import Credentials, Revocations, check_peer, client_context, find_credentials, peer_of

FIRST_WAIT, LONGEST_WAIT = 0.2, 15.0  # seconds between attempts, doubling


class Unreachable(FarmError):
    """Nobody answers at the farm's address. It may be there later."""

    kind = "unreachable"


class Door:
    """The way to one farm for one role. ``certs``: a folder of certificates; ``None`` on a loopback address only."""

    def __init__(self, address: str, certs: Path | None, role: str) -> None:
        require_msgpack()
        self.scheme, self.host, self.port = parse_address(address)
        self.role = role
        self.credentials: Credentials | None = None
        if certs is not None and self.scheme == "tls":
            self.credentials = find_credentials(certs, role)
        elif self.scheme == "tls":
            raise UsageError(
                "a farm is reached with certificates", "Pass --certs DIR, the folder that tilewright farm init wrote"
            )
        elif not is_loopback(self.host):
            raise UsageError(
                f"{address} is in the clear, which is for this machine only",
                "Write tls://HOST:PORT and pass --certs DIR",
            )
        self._revocations = Revocations(self.credentials.crl, self.credentials.ca) if self.credentials else None

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    async def enter(self, hello: Mapping[str, Any]) -> tuple[Link, dict[str, Any]]:
        """Connect and greet: the link, and the scheduler's welcome. Raises ``Unreachable``, ``Refused``."""
        context = client_context(self.credentials) if self.credentials else None
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                reader, writer = await asyncio.open_connection(
                    self.host, self.port, ssl=context, server_hostname=self.host if context else None, limit=1 << 20
                )
        except TimeoutError:
            raise Unreachable(f"{self.address} does not answer", "Is the scheduler running there?") from None
        except OSError as e:
            raise self._explained(e) from None
        link = Link(reader, writer, None)
        try:
            if context is not None:
                link.peer = peer_of(writer.get_extra_info("peercert") or {})
                check_peer(link.peer, ("scheduler",), self._revocations, time.time())
            link.trust()
            async with asyncio.timeout(HELLO_SECONDS):
                await link.send({"op": "hello", "role": self.role, **versions(), **hello})
                welcome = await link.receive()
        except TimeoutError:
            link.abort()
            raise Unreachable(f"{self.address} does not answer the greeting") from None
        except LinkClosed as e:
            link.abort()
            # With TLS 1.3 the other end's verdict on this certificate comes after the handshake.
            if "TLS" in e.message:
                raise Refused(f"{self.address} refused this certificate ({e.message})", CERTIFICATE_MEND) from None
            raise Unreachable(f"{self.address} closed the connection: {e.message}") from None
        except BaseException:
            link.abort()
            raise
        if welcome["op"] == "bye":
            link.abort()
            raise refusal(welcome)
        if welcome["op"] != "welcome":
            link.abort()
            raise Refused(f"{self.address} is no Tilewright scheduler")
        return link, welcome

    def _explained(self, error: OSError) -> FarmError:
        import ssl

        if isinstance(error, ssl.SSLCertVerificationError):
            return Refused(
                f"the certificate of {self.address} is not to be trusted: {error.verify_message}", CERTIFICATE_MEND
            )
        if isinstance(error, ssl.SSLError):
            return Refused(f"no TLS connection with {self.address}: {error.reason or error}", CERTIFICATE_MEND)
        return Unreachable(f"cannot reach {self.address}: {error.strerror or error}", "Is the scheduler running there?")


CERTIFICATE_MEND = (
    "Use certificates of this farm's own authority, and an address that its scheduler's certificate names"
)


def refusal(message: Mapping[str, Any]) -> Refused:
    """What a scheduler's last message says."""
    return Refused(str(message.get("reason", "refused"))[:1000], str(message.get("mend", ""))[:1000])


def waits() -> Iterator[float]:
    """Seconds to wait before each further attempt, spread so that a farm does not come back all at once."""
    wait = FIRST_WAIT
    while True:
        yield wait * random.uniform(0.5, 1.0)
        wait = min(LONGEST_WAIT, 2 * wait)


async def beating(link: Link, seconds: float, silent: float, note: Any = lambda: "") -> None:
    """Say every so often that this end lives, and drop a connection whose other end is silent."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(LinkClosed):
        while True:
            began = loop.time()
            await asyncio.sleep(seconds)
            if loop.time() - began > 2 * seconds:  # this process was stopped or starved: it has not listened either
                link.heard = loop.time()
            if loop.time() - link.heard > silent:
                link.abort()
                return
            link.post({"op": "beat", "note": note()})
