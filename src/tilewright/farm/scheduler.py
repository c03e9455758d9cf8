"""The farm's hub: the one process that listens. It knows who is there, and passes jobs and results on.

It runs no code of others: payloads and results pass through as data. What a peer may ask for depends on the role in
its certificate, checked before anything that it sends is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.core import TilewrightError, UsageError
from tilewright.farm.device import RunnerDevice
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.identity import ROLES
from tilewright.farm.protocol import (
    HELLO_SECONDS,
    SILENT,
    Link,
    LinkClosed,
    check_versions,
    is_loopback,
    require_msgpack,
    versions,
)
from tilewright.farm.queue import Job, Queue
from tilewright.farm.tls import Credentials, Revocations, check_peer, peer_of, server_context

HEARTBEAT = 5.0  # seconds between signs of life
GRACE = 120.0  # seconds for which the jobs and results of a client that was cut off are kept
PATIENCE = 600.0  # seconds for which a job waits for a worker that could do it
KEPT_RESULTS = 10_000  # results that nobody has taken yet, the oldest out first
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:,-]{0,127}")
_HEX = re.compile(r"[0-9a-f]{64}")

Say = Callable[[str], None]


@dataclass
class Member:
    """A connected runner or builder."""

    link: Link
    name: str
    role: str
    instance: str  # differs between processes of one name
    device: Mapping[str, Any]
    offers: Mapping[str, Any]
    note: str = ""  # what it is at, in its own words


@dataclass
class Client:
    """A tuning client, connected or cut off a short while ago."""

    session: str
    name: str
    link: Link | None
    away_since: float = 0.0
    results: OrderedDict[str, Mapping[str, Any]] = field(default_factory=OrderedDict)  # until they are acknowledged


class Scheduler:
    """Serves one farm until :meth:`stop`.

    ``credentials``: of the role scheduler; without them it listens on a loopback address only, in the clear.
    ``state``: a folder for artifacts and for what must outlive a restart. ``heartbeat``, ``patience``: seconds.
    """

    def __init__(
        self,
        credentials: Credentials | None,
        host: str,
        port: int,
        state: Path,
        *,
        heartbeat: float = HEARTBEAT,
        patience: float = PATIENCE,
        grace: float = GRACE,
        say: Say = lambda _line: None,
    ) -> None:
        if credentials is None and not is_loopback(host):
            raise UsageError(
                f"without certificates a scheduler listens on this machine only, not on {host}",
                "Make certificates with tilewright farm init DIR and pass --certs DIR, or leave --host out",
            )
        require_msgpack()
        self.credentials = credentials
        self.host, self.port = host, port
        self.state = state
        self.heartbeat, self.patience, self.grace = heartbeat, patience, grace
        self.queue = Queue()
        self.members: dict[str, Member] = {}
        self.clients: dict[str, Client] = {}
        self.refused = 0
        self.stale = 0
        self._say = say
        self._links: set[Link] = set()
        self._orphans: OrderedDict[str, tuple[float, Mapping[str, Any]]] = OrderedDict()
        self._started = time.monotonic()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._store = ArtifactCache(state / "artifacts")
        self._revocations = Revocations(credentials.crl, credentials.ca) if credentials else None
        self._recall()

    # ------------------------------------------------------------------ life

    async def start(self) -> str:
        """Listen; returns the address. Raises ``FarmError`` when that can't be."""
        context = server_context(self.credentials) if self.credentials else None
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        try:
            self._server = await asyncio.start_server(
                self._accept, self.host, self.port, ssl=context, limit=1 << 20,
                **({"ssl_handshake_timeout": HELLO_SECONDS} if context else {}),
            )  # fmt: skip
        except OSError as e:
            raise FarmError(
                f"cannot listen on {self.host}:{self.port}: {e.strerror or e}", "Choose another --port or --host"
            ) from None
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._spawn(self._sweeping())
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if context else 'tcp'}://{host}:{self.port}"

    async def stop(self) -> None:
        """Close every connection. Peers connect again when another scheduler is there."""
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # Handshakes that fail end here: wrong certificates, plain text, port scans.
        error = context.get("exception")
        if isinstance(error, OSError | asyncio.TimeoutError):
            self.refused += 1
            return
        loop.default_exception_handler(context)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        link = Link(reader, writer, None)
        self._links.add(link)
        try:
            hello = await self._hello(link, writer)
            if hello["role"] == "client":
                await self._serve_client(link, hello)
            else:
                await self._serve_member(link, hello)
        except (TimeoutError, LinkClosed, asyncio.CancelledError):
            pass  # gone, silent, or told to stop by stop()
        except (TypeError, KeyError, ValueError, AttributeError) as e:  # a map, but not one of ours
            self._bye(link, Refused(f"a malformed message ({type(e).__name__})"))
        except TilewrightError as e:
            self._bye(link, e)
        finally:
            self._links.discard(link)
            await link.close()

    async def _hello(self, link: Link, writer: asyncio.StreamWriter) -> dict[str, Any]:
        """The peer's first message, once its certificate, role and versions are found right."""
        if self.credentials is not None:
            link.peer = peer_of(writer.get_extra_info("peercert") or {})
            check_peer(link.peer, ("runner", "builder", "client"), self._revocations, time.time())
        hello = await asyncio.wait_for(link.receive(), HELLO_SECONDS)
        role = hello.get("role")
        if hello["op"] != "hello" or role not in ROLES[1:]:
            raise Refused("the first message is no greeting of a runner, builder or client")
        if link.peer is not None and link.peer.role != role:
            raise Refused(
                f"the certificate of {link.peer.name!r} is a {link.peer.role}'s, not a {role}'s",
                f"Use a certificate with the role {role}",
            )
        check_versions(hello, role)
        link.trust()
        return hello

    def _bye(self, link: Link, error: TilewrightError) -> None:
        self.refused += 1
        who = link.peer.name if link.peer else link.address
        self._say(f"refused {who}: {error.message}")
        with contextlib.suppress(LinkClosed):
            link.post({"op": "bye", "reason": error.message, "mend": error.mend})

    # ------------------------------------------------------------------ runners and builders

    async def _serve_member(self, link: Link, hello: dict[str, Any]) -> None:
        member = self._join(link, hello)
        try:
            while True:
                message = await link.receive()
                self._from_member(member, message)
        finally:
            if self.members.get(member.name) is member:
                self._leave(member, "the connection was lost")

    def _join(self, link: Link, hello: dict[str, Any]) -> Member:
        name, instance, role = str(hello["name"]), str(hello["instance"]), str(hello["role"])
        if not _NAME.fullmatch(name):
            raise Refused(f"{name[:80]!r} is no name for a {role}", "Use letters, digits and . _ : , -")
        places = [str(p) for p in hello["places"]]
        if any(p.startswith("build:") != (role == "builder") for p in places):
            raise Refused(f"a {role} cannot offer {', '.join(places)}")
        # All of it is read before anything of it is kept: half a member would be given jobs, or break the status.
        lanes, held = max(1, min(256, int(hello["lanes"]))), [str(n) for n in hello.get("held", ())]
        device, offers = dict(hello.get("device") or {}), dict(hello.get("offers") or {})
        if role == "runner":
            RunnerDevice.from_json(device)
        old = self.members.get(name)
        now = time.monotonic()
        if old is not None:
            silent = asyncio.get_running_loop().time() - old.link.heard > 2 * self.heartbeat
            if old.instance != instance and not silent:
                raise Refused(f"a {old.role} named {name!r} is connected already", "Choose another --name")
            old.link.abort()
            self.queue.workers[name].draining = True  # it was cut off, which is not its device's fault
            self._leave(old, "connected anew")
        member = Member(link, name, role, instance, device, offers)
        self.members[name] = member
        self.queue.join(name, places, lanes, now)
        link.post({"op": "welcome", **versions(), "heartbeat": self.heartbeat})
        self.queue.adopt(name, held, now)
        self._say(f"{role} {name} joined: {', '.join(places)}")
        self._dispatch()
        return member

    def _leave(self, member: Member, why: str) -> None:
        del self.members[member.name]
        for job in self.queue.leave(member.name, time.monotonic(), why):
            said = f"{len(job.lost)} runners were lost while they worked on it: {', '.join(job.lost)}"
            self._deliver(job, {"error": {"kind": "lost", "message": said}})
        self._say(f"{member.role} {member.name} left: {why}")
        self._remember()
        self._dispatch()

    def _from_member(self, member: Member, message: dict[str, Any]) -> None:
        op = message["op"]
        if op == "beat":
            member.note = str(message.get("note", ""))[:200]
            member.link.post({"op": "beat"})
        elif op == "result":
            self._result(member, message)
        elif op == "return":
            self.queue.give_back(member.name, [str(n) for n in message["ids"]])
            self._dispatch()
        elif op == "draining":
            self.queue.workers[member.name].draining = True
            self._dispatch()
        elif op == "ask" and message["what"] == "get":
            self._answer(member.link, message, self._get)
        else:
            raise Refused(f"a {member.role} may not ask for {str(message.get('what', op))[:40]!r}")

    def _result(self, member: Member, message: dict[str, Any]) -> None:
        job_id, result, seconds = str(message["id"]), dict(message["result"]), float(message["seconds"])
        if not 0.0 <= seconds < math.inf:  # it would spoil the clients' shares for good
            raise ValueError("seconds")
        for data in message.get("data", ()):
            self._store.put(sha256(data).hexdigest(), data)
        strike = str(message.get("strike") or "")[:500]
        now = time.monotonic()
        if strike:
            self.queue.strike(member.name, strike, now)
        elif "missing" not in result and "error" not in result:  # then the device did nothing
            self.queue.cleared(member.name)
        known = job_id in self.queue.jobs
        job = self.queue.finish(member.name, job_id, seconds, now)
        member.link.post({"op": "ack", "id": job_id})
        if job is not None and strike and message.get("again") and len(job.lost) + 1 < STRIKE_TRIES:
            job.lost.append(member.name)
            self.queue.submit(job, now)
        elif job is not None:
            self._deliver(job, result)
        elif not known:  # of a time before this scheduler; its client may still send the job again
            self.stale += 1
            self._orphans[job_id] = (now, result)
            while len(self._orphans) > KEPT_RESULTS:
                self._orphans.popitem(last=False)
        if strike and self.queue.records[member.name].quarantine:
            self._say(f"{member.name} is in quarantine: {self.queue.records[member.name].quarantine}")
            member.link.post({"op": "recall", "ids": None})
            self._remember()
        self._dispatch()

    def _dispatch(self) -> None:
        for worker, job in self.queue.assign(time.monotonic()):
            self.members[worker.name].link.post(
                {"op": "job", "id": job.id, "payload": job.payload, "needs": list(job.needs)}
            )

    # ------------------------------------------------------------------ clients

    async def _serve_client(self, link: Link, hello: dict[str, Any]) -> None:
        session = str(hello["session"])
        if not re.fullmatch(r"[0-9a-f]{32}", session):
            raise Refused("a client's session is 32 hex digits")
        client = self.clients.get(session)
        if client is None:
            client = self.clients[session] = Client(session, str(hello.get("name", ""))[:80], link)
        elif client.link is not None:
            client.link.abort()
        client.link = link
        link.post({"op": "welcome", **versions(), "heartbeat": self.heartbeat})
        for job_id, result in client.results.items():
            link.post({"op": "result", "id": job_id, "result": result})
        try:
            while True:
                self._from_client(client, await link.receive())
        finally:
            if client.link is link:
                client.link = None
                client.away_since = time.monotonic()
                if not self._of(client) and not client.results:
                    self._drop(client)

    def _from_client(self, client: Client, message: dict[str, Any]) -> None:
        op, link = message["op"], client.link
        assert link is not None
        if op == "beat":
            link.post({"op": "beat"})
        elif op == "submit":
            self._submit(client, message)
        elif op == "ack":
            client.results.pop(str(message["id"]), None)
        elif op == "cancel":
            self._recall_jobs(self.queue.cancel([str(n) for n in message["ids"]], client.session))
        elif op == "ask" and message["what"] in _ANSWERS:
            self._answer(link, message, getattr(self, f"_{message['what']}"))
        else:
            raise Refused(f"a client may not ask for {str(message.get('what', op))[:40]!r}")

    def _recall_jobs(self, recall: Mapping[str, list[str]]) -> None:
        for name, ids in recall.items():
            self.members[name].link.post({"op": "recall", "ids": ids})
        self._dispatch()

    def _submit(self, client: Client, message: dict[str, Any]) -> None:
        job_id = str(message["id"])
        if job_id in client.results:
            return  # its result is on its way
        needs = tuple(str(n) for n in message.get("needs", ()))
        job = Job(job_id, client.session, str(message["place"]), dict(message["payload"]), needs)
        orphan = self._orphans.pop(job_id, None)
        if orphan is not None:
            self._deliver(job, orphan[1])
        elif self.queue.submit(job, time.monotonic()):
            self._dispatch()

    def _deliver(self, job: Job, result: Mapping[str, Any]) -> None:
        client = self.clients.get(job.client)
        if client is None:
            self.stale += 1
            return
        client.results[job.id] = result
        while len(client.results) > KEPT_RESULTS:
            client.results.popitem(last=False)
        if client.link is not None:
            client.link.post({"op": "result", "id": job.id, "result": result})

    def _of(self, client: Client) -> list[Job]:
        return [j for j in self.queue.jobs.values() if j.client == client.session]

    def _drop(self, client: Client) -> None:
        self._recall_jobs(self.queue.drop_client(client.session))
        self.clients.pop(client.session, None)

    # ------------------------------------------------------------------ questions

    def _answer(self, link: Link, message: dict[str, Any], answer: Callable[[dict[str, Any]], Any]) -> None:
        try:
            link.post({"op": "answer", "n": message["n"], "value": answer(message)})
        except TilewrightError as e:
            link.post({"op": "answer", "n": message["n"], "error": {"message": e.message, "mend": e.mend}})

    def _get(self, message: dict[str, Any]) -> bytes:
        path = self._store.get(str(message["sha256"]))
        if path is None:
            raise FarmError(f"the artifact {str(message['sha256'])[:64]} is not here")
        return Path(path).read_bytes()

    def _put(self, message: dict[str, Any]) -> bool:
        data = bytes(message["data"])
        if sha256(data).hexdigest() != message["sha256"]:
            raise FarmError("the artifact does not hash to its name", "Send it again")
        self._store.put(str(message["sha256"]), data)
        return True

    def _has(self, message: dict[str, Any]) -> list[str]:
        asked = [str(n) for n in message["sha256s"]]
        return [n for n in asked if _HEX.fullmatch(n) and self._store.get(n) is not None]

    def _drain(self, message: dict[str, Any]) -> bool:
        member = self._member(str(message["name"]))
        self.queue.workers[member.name].draining = True
        self.queue.give_back(member.name, self.queue.workers[member.name].jobs[self.queue.workers[member.name].lanes :])
        member.link.post({"op": "drain"})
        self._dispatch()
        return True

    def _quarantine(self, message: dict[str, Any]) -> bool:
        member = self._member(str(message["name"]))
        self.queue.quarantine(member.name, str(message.get("why") or "by command")[:500], time.monotonic())
        member.link.post({"op": "recall", "ids": None})
        self._remember()
        self._dispatch()
        return True

    def _release(self, message: dict[str, Any]) -> bool:
        name = str(message["name"])
        if not self.queue.release(name):
            raise FarmError(f"{name!r} is not in quarantine", "See tilewright farm status")
        self._remember()
        self._dispatch()
        return True

    def _member(self, name: str) -> Member:
        if name not in self.members:
            there = ", ".join(sorted(self.members)) or "none"
            raise FarmError(f"no runner or builder named {name!r} is connected", f"Connected: {there}")
        return self.members[name]

    def _status(self, _message: dict[str, Any]) -> dict[str, Any]:
        """All there is to know, as plain values."""
        now = time.monotonic()
        workers = []
        for name, member in sorted(self.members.items()):
            w, record = self.queue.workers[name], self.queue.records[name]
            running = sum(now - began for began in w.begun.values())
            workers.append({
                "name": name, "role": member.role, "places": sorted(w.places), "lanes": w.lanes,
                "running": len(w.jobs[: w.lanes]), "queued": len(w.jobs[w.lanes :]), "done": w.done,
                "busy": round(min(1.0, (w.busy + running) / max(now - w.since, 1e-9) / w.lanes), 4),
                "connected": round(now - w.since, 1), "draining": w.draining, "quarantine": record.quarantine,
                "strikes": record.strikes, "note": member.note, "device": member.device, "offers": member.offers,
                "certificate": member.link.peer.name if member.link.peer else "",
                "expires": member.link.peer.not_after if member.link.peer else None,
                "address": member.link.address,
            })  # fmt: skip
        places = {
            p: {
                "workers": sum(p in w.places for w in self.queue.workers.values()),
                "waiting": self.queue.waiting(p),
                "in_hand": sum(self.queue.jobs[j].place == p for w in self.queue.workers.values() for j in w.jobs),
            }
            for p in sorted(self.queue.places())
        }
        away = {
            n: r.quarantine for n, r in sorted(self.queue.records.items()) if r.quarantine and n not in self.members
        }
        clients = [
            {"name": c.name, "connected": c.link is not None, "jobs": len(self._of(c)), "results": len(c.results)}
            for c in self.clients.values()
        ]
        return {
            **versions(), "uptime": round(now - self._started, 1), "workers": workers, "places": places,
            "quarantined_away": away, "clients": clients, "stale_results": self.stale,
            "kept_results": len(self._orphans), "refused": self.refused,
        }  # fmt: skip

    # ------------------------------------------------------------------ upkeep

    async def _sweeping(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(min(1.0, self.heartbeat))
            if loop.time() - began > 2 * self.heartbeat:
                # This process was stopped or starved: what others said meanwhile has not been read yet.
                for link in self._links:
                    link.heard = loop.time()
            self._sweep()

    def _sweep(self) -> None:
        now, heard_now = time.monotonic(), asyncio.get_running_loop().time()
        for link in list(self._links):
            if heard_now - link.heard > SILENT * self.heartbeat:
                link.abort()
            elif link.peer is not None:
                try:
                    check_peer(link.peer, (link.peer.role,), self._revocations, time.time())
                except TilewrightError as e:  # expired or revoked since it connected
                    self._bye(link, e)
                    asyncio.get_running_loop().call_later(0.5, link.abort)
        for client in list(self.clients.values()):
            if client.link is None and now - client.away_since > self.grace:
                self._drop(client)
        for job in self.queue.hopeless(now, self.patience):
            said = f"no {job.place} was there for {self.patience:.0f} s"
            self._deliver(job, {"error": {"kind": "no_worker", "message": said}})
        while self._orphans and now - next(iter(self._orphans.values()))[0] > self.grace:
            self._orphans.popitem(last=False)

    def _remember(self) -> None:
        """Write down who is in quarantine: a restart must not release a flaky device."""
        kept = {n: r.quarantine for n, r in self.queue.records.items() if r.quarantine}
        path = self.state / "quarantine.json"
        with contextlib.suppress(OSError):  # a full disk costs only this memory
            temporary = path.with_suffix(".new")
            temporary.write_text(json.dumps(kept), encoding="utf-8")
            os.replace(temporary, path)

    def _recall(self) -> None:
        try:
            kept = json.loads((self.state / "quarantine.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        for name, why in kept.items() if isinstance(kept, dict) else ():
            self.queue.quarantine(str(name), str(why), 0.0)


STRIKE_TRIES = 3
"""Devices on which a job is tried whose failure was the device's, not the kernel's."""

_ANSWERS = frozenset({"status", "put", "get", "has", "drain", "release", "quarantine"})
"""What a client may ask for: ``_NAME`` answers."""
