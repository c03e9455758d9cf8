"""The farm's upkeep beside its server: it makes the queues, knows who is there, and shares the queues out.

A keeper runs nothing and stores nothing that counts: what it knows, others tell it again with every sign of life. Each
server of a cluster may have one; they need not agree. Payloads and results pass it by.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright import __version__
from tilewright.core import TilewrightError
from tilewright.farm import subjects
from tilewright.farm.device import RunnerDevice
from tilewright.farm.errors import FarmError, NotStored, Refused, Taken
from tilewright.farm.link import ANSWER_SECONDS, SILENT, Endpoint, Link, Say, names, waited, waits
from tilewright.farm.messages import PROTOCOL, NoMessage
from tilewright.farm.pki.identity import ROLES, Peer
from tilewright.farm.pki.revocations import SIGN_ANEW, WARNING_DAYS
from tilewright.farm.shares import Shares
from tilewright.farm.subjects import AHEAD

HEARTBEAT = 5.0  # seconds between signs of life
PATIENCE = 600.0  # seconds for which a job waits for a worker that could do it
GRACE = 120.0  # seconds after which the jobs of a silent client are dropped
STORAGE = 4 << 30  # bytes on the server's disk

_LONGEST = 64 << 10  # bytes in a question
_LONGEST_USE = 1e9  # seconds of a queue
_HINT = "Install the same version of Tilewright on both"


@dataclass
class Member:
    """A runner or builder that has said so lately. ``said``: its last sign of life, whole."""

    name: str
    role: str
    certificate: str
    expires: float | None
    said: Mapping[str, Any]
    since: float
    heard: float


@dataclass
class Session:
    """A tuning client that has said so lately. ``places``: its jobs by queue, as it counts them."""

    name: str
    certificate: str
    heard: float
    places: dict[str, Any] = field(default_factory=dict)


class Keeper:
    """Keeps one farm until it is cancelled.

    ``endpoint``: with a server's certificate. ``heartbeat``, ``patience``, ``grace``: seconds. ``replicas``: servers
    that hold each message. ``storage``: bytes that the farm may take of a server's disk. ``facts``: what is known
    of the server, for the status. ``users``: a ``users.json`` whose list of revoked certificates it hands out, where
    ``endpoint`` does not get that list otherwise.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        heartbeat: float = HEARTBEAT,
        patience: float = PATIENCE,
        grace: float = GRACE,
        replicas: int = 1,
        storage: int = STORAGE,
        facts: Callable[[], Awaitable[Mapping[str, Any]]] | None = None,
        users: Path | None = None,
        say: Say = lambda _line: None,
    ) -> None:
        self.endpoint = endpoint
        self.heartbeat, self.patience, self.grace = heartbeat, patience, grace
        self.replicas, self.storage = replicas, storage
        self.members: dict[str, Member] = {}
        self.sessions: dict[str, Session] = {}
        self.refused = 0
        self.ready = asyncio.Event()
        self.trouble = ""  # why the server keeps nothing at the moment
        self._quarantined: dict[str, str] = {}  # names that were in quarantine when they were heard last
        self._shares: dict[str, Shares] = {}
        self._capacities: dict[str, tuple[int, int]] = {}  # of places, since workers changed last
        self._empty: dict[str, float] = {}  # places without a worker that takes jobs, and since when
        self._queues: set[str] = set()
        self._facts = facts
        self._users = users
        self._handed_out = 0  # number of the list
        self._say = say
        self._link: Link
        self._began = self._since = time.monotonic()
        self._changing: dict[str, Any] = {}  # streams that are not as they should be, and how that is

    async def run(self) -> None:
        """Keep the farm, connecting again whenever the server comes back."""
        pause = waits()
        while True:
            try:
                self._link = await self.endpoint.connect(keeps=True)
                await self._serve(self._link)
                pause = waits()
            except FarmError as e:
                self._tell_trouble(e.message)
            self.ready.clear()
            await asyncio.sleep(min(2.0, next(pause)))

    async def _serve(self, link: Link) -> None:
        self._queues.clear()
        try:
            await self._hand_out()
            await self._make_streams()
            await self._change()
            for what, handler, queue in (("ask", self._asked, ""), ("tell", self._told, "keepers")):
                await link.subscribe(f"{what}.*.*", handler, queue)
            await link.subscribe("cancel.*.*", self._cancelled)
            await link.subscribe(subjects.REVOKED, link.hear_revocations)  # from another keeper of the cluster
            await link.settle()
            self._since = time.monotonic()
            self.trouble = ""
            self.ready.set()
            while not link.closed.is_set():
                await waited(link.closed, min(1.0, self.heartbeat))
                await self._hand_out()
                await self._sweep()
                await self._change()
        finally:
            await link.close()

    # ------------------------------------------------------------------ streams

    async def _make_streams(self) -> None:
        from nats.js.api import StorageType

        day = 86400.0
        await self._stream(
            subjects.RESULTS, "result.*.*.*", max_age=self.patience, max_msgs_per_subject=1,
            max_bytes=self.storage // 8, duplicate_window=min(120.0, self.patience),
        )  # fmt: skip
        await self._stream(subjects.ARTIFACTS, "art.*", max_msgs_per_subject=1, max_bytes=self.storage // 2)
        await self._stream(
            subjects.BEGUN, "begun.*.*.*.*", max_age=day, max_msgs_per_subject=8, max_bytes=32 << 20,
            storage=StorageType.MEMORY,
        )  # fmt: skip

    async def _queue(self, place: str) -> None:
        """The stream of a place's jobs, and the consumer of its workers."""
        from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy

        if place in self._queues:
            return
        stream, consumer = subjects.queue_of(place)
        await self._stream(
            stream, f"jobs.{subjects.token(place)}.*.*.*", retention=RetentionPolicy.WORK_QUEUE, max_age=86400.0,
            max_msgs=100_000, discard=DiscardPolicy.NEW, duplicate_window=120.0,
        )  # fmt: skip
        wanted = ConsumerConfig(
            durable_name=consumer, ack_policy=AckPolicy.EXPLICIT, ack_wait=SILENT * self.heartbeat, max_deliver=-1,
            max_ack_pending=100_000, max_waiting=100_000,
        )  # fmt: skip
        found = await self._found("consumer_info", stream, consumer)
        if found is None or found.config.ack_wait != wanted.ack_wait:  # to make it again drops the requests for jobs
            await self._link.manage("add_consumer", stream, wanted)
        self._queues.add(place)

    async def _stream(self, name: str, subject: str, **more: Any) -> None:
        from nats.js.api import StreamConfig

        config = StreamConfig(name=name, subjects=[subject], num_replicas=self.replicas, allow_direct=True, **more)
        found = await self._found("stream_info", name)
        if found is None:
            await self._make(config)
        elif any(getattr(found.config, k) != v for k, v in {**more, "num_replicas": self.replicas}.items()):
            self._changing[name] = config

    async def _make(self, config: Any) -> None:
        """Make a stream: after a while on one server alone, where there are fewer than it should be on."""
        try:
            await self._link.manage("add_stream", config)
        except FarmError:
            if self.replicas == 1 or time.monotonic() - self._began < SILENT * self.heartbeat:
                raise
            await self._link.manage("add_stream", config.evolve(num_replicas=1))
            self._say(f"{config.name} is on one server alone until there are more")
            self._changing[config.name] = config

    async def _change(self) -> None:
        """Make streams what they should be: of other options than before, or on more servers once these are there."""
        for name, config in list(self._changing.items()):
            with contextlib.suppress(FarmError):
                await self._link.manage("update_stream", config)
                del self._changing[name]

    async def _found(self, what: str, *names_: str) -> Any:
        """What the server knows under a name, ``None`` for nothing. Raises ``FarmError``."""
        from nats.js.errors import NotFoundError

        try:
            return await self._link.manage(what, *names_)
        except FarmError as e:
            if isinstance(e.__context__, NotFoundError):
                return None
            raise

    def _tell_trouble(self, said: str) -> None:
        if said != self.trouble:
            self._say(said)
        self.trouble = said

    # ------------------------------------------------------------------ who is revoked

    async def _hand_out(self) -> None:
        """Let everybody have a list of revoked certificates at once that is newer here than the last."""
        revocations = self.endpoint.seal.revocations
        if revocations is None:
            return
        if self._users is not None:
            try:
                revocations.take_file(self._users)
            except FarmError as e:  # what is known holds, as whom the server lets in
                if e.message != revocations.trouble:
                    self._say(f"{e.message}. {e.hint}")
                revocations.trouble = e.message
        newest = revocations.newest
        if newest is not None:
            revocations.confirm(time.monotonic())
            if newest.number != self._handed_out:
                self._handed_out = newest.number
                await self._link.publish(subjects.REVOKED, newest.der)
                if newest.days_left() < WARNING_DAYS:
                    self._say(f"the list of revoked certificates ends in {newest.days_left()} days. {SIGN_ANEW}")

    async def _revoked(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        """The newest list, where the peer does not have it, and its number; with the question's own mark, so that no
        earlier answer passes for this one."""
        revocations = self.endpoint.seal.revocations
        if revocations is None:
            raise FarmError("a farm without certificates revokes none", "Make some: tilewright farm init")
        if body.get("list"):
            revocations.take(bytes(body["list"]))
            await self._hand_out()
        answer = {"mark": str(body["mark"])[:64], "number": revocations.number}
        if revocations.newest is not None and revocations.number > int(body["number"]):
            answer["list"] = revocations.newest.der
        return answer

    # ------------------------------------------------------------------ questions

    async def _asked(self, message: Any) -> None:
        await self._answer(message, {
            "beat": (self._beat, subjects.WORKERS), "bye": (self._bye, subjects.WORKERS),
            "shares": (self._share, ("client",)), "status": (self._status, subjects.LOOKERS),
            subjects.REVOKED: (self._revoked, ROLES),
        })  # fmt: skip

    async def _told(self, message: Any) -> None:
        commands = ("drain", "quarantine", "release")
        await self._answer(message, dict.fromkeys(commands, (self._command, ("administrator",))))

    async def _answer(self, message: Any, answers: Mapping[str, tuple[Any, tuple[str, ...]]]) -> None:
        try:
            if len(message.data) > _LONGEST:
                raise Refused(f"a message of {len(message.data)} bytes is too long")
            body, peer = self._link.seal.open(message.subject, message.data, ROLES)
            role, name = message.subject.split(".")[1:3]
            if peer is not None and (peer.role, subjects.token(peer.name)) != (role, name):
                raise Refused(f"{peer} spoke on the subject of another")
            if body.get("protocol") != PROTOCOL:
                raise Refused(f"the {role} has protocol {body.get('protocol')}, the farm {PROTOCOL}", _HINT)
            answer, roles = answers.get(str(body.get("what")), (None, ()))
            if answer is None or (peer is not None and role not in roles):
                raise Refused(f"a {role} may not ask for {str(body.get('what'))[:40]!r}")
            reply: dict[str, Any] = {"value": await answer(role, peer, body)}
        except (TypeError, LookupError, ValueError, AttributeError) as e:  # a map, but not one of ours
            reply = {"error": Refused(f"a malformed message ({type(e).__name__})").to_json()}
        except TilewrightError as e:
            reply = {"error": e.to_json()}
        if reply.get("error", {}).get("kind") in (Refused.kind, NoMessage.kind):
            self.refused += 1
            self._say(f"refused {message.subject.partition('.')[2]}: {reply['error']['message']}")
        # Nowhere else: what a peer may not publish, it may not have published here.
        if message.reply.startswith(f"{subjects.inbox(*message.subject.split('.')[1:3])}."):
            try:
                sealed = self._link.seal.seal(message.subject, reply)
            except NoMessage as e:  # it is too long
                sealed = self._link.seal.seal(message.subject, {"error": e.to_json()})
            await self._link.publish(message.reply, sealed)

    async def _beat(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        """A worker lives: everything that it says of itself, checked before anything of it is kept."""
        now, name, old = time.monotonic(), str(body["name"]), self.members.get(str(body["name"]))
        places = _places(role, body, old.said if old else {})
        if old is not None and old.said["instance"] != body["instance"] and now - old.heard < 2 * self.heartbeat:
            raise Taken(f"a {old.role} named {name!r} is connected already", "Choose another --name")
        for place in places:
            await self._queue(place)
        if old is not None and old.said["instance"] != body["instance"]:
            self._leave(old, "another process has its name now")
            old = None
        if old is None:
            self._say(f"{role} {name} joined: {', '.join(places)}")
        since = now if old is None else old.since
        certificate, expires = (peer.name, peer.not_after) if peer else ("", None)
        self.members[name] = Member(name, role, certificate, expires, body, since, now)
        self._quarantined.pop(name, None)
        if body["quarantine"] and (old is None or not old.said["quarantine"]):
            self._say(f"{name} is in quarantine: {body['quarantine']}")
        if old is None or _capacity(old.said) != _capacity(body):
            self._count(now)
        return {"heartbeat": self.heartbeat, "workers": {p: self._able(p)[0] for p in places}}

    async def _bye(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        member = self.members.get(str(body["name"]))
        if member is not None and member.said["instance"] == body["instance"]:
            self._leave(member, str(body.get("why") or "it was told to"))
        return True

    async def _share(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        """A client says what it waits for, and learns how much of it may be in the queues."""
        now, client = time.monotonic(), str(body["session"])
        weight = float(body["weight"])
        if not 0.01 <= weight <= 100.0:
            raise ValueError("weight")
        places: dict[str, Any] = {}
        for place, counts in dict(body["places"]).items():
            waiting, held, done, used = *map(int, counts[:3]), float(counts[3])
            if not 0.0 <= used < _LONGEST_USE or min(waiting, held, done) < 0 or not subjects.PLACE.fullmatch(place):
                raise ValueError("counts")
            places[place] = (waiting, held, done, used)
        self.sessions[client] = Session(str(body["name"])[:80], peer.name if peer else "local", now, places)
        answer = {}
        for place, (waiting, _, done, used) in places.items():
            shares = self._shares.setdefault(place, Shares())
            shares.report(client, weight, waiting, used, done, now)
            workers, lanes = self._able(place)
            if not workers:
                self._empty.setdefault(place, now)
            empty = now - self._empty[place] if place in self._empty else 0.0
            answer[place] = {"window": shares.window(client, lanes, now), "workers": workers, "empty": empty}
        return {"heartbeat": self.heartbeat, "patience": self.patience, "places": answer}

    async def _command(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        """Pass a command on to a worker; done when it says so."""
        what, name = str(body["what"]), str(body["name"])
        member = self.members.get(name)
        if member is None:
            raise FarmError(
                f"no runner or builder named {name!r} is connected", f"Connected: {names(list(self.members))}"
            )
        if what == "release" and not member.said["quarantine"]:
            raise FarmError(f"{name!r} is not in quarantine", "See tilewright farm status")
        subject = subjects.control(member.role, member.certificate or "local", name)
        command = {
            "do": what, "why": str(body.get("why") or "by command")[:500], "id": secrets.token_hex(16),
            "instance": member.said["instance"],
        }  # fmt: skip
        await self._link.publish(subject, self._link.seal.seal(subject, command))
        until = time.monotonic() + ANSWER_SECONDS - 1.0
        while self.members.get(name) is member or not _obeyed(what, self.members.get(name)):
            if time.monotonic() > until:
                raise FarmError(f"{name} does not answer", "See tilewright farm status whether it is still there")
            await asyncio.sleep(0.02)
        return True

    async def _cancelled(self, message: Any) -> None:
        """Take jobs out of the queues that nobody waits for; the workers hear it themselves."""
        opened = self._link.open(message, ("client",))
        _, client, session = message.subject.split(".")
        if opened is None or (opened[1] is not None and subjects.token(opened[1].name) != client):
            self.refused += 1
            return
        ids = opened[0].get("ids")
        if ids is None:
            await self._drop(session, client)
            return
        for job_id in ids if isinstance(ids, list) else ():
            await self._purge(f"{client}.{session}.{str(job_id)[:64]}", opened[0].get("place"))

    async def _drop(self, session: str, client: str) -> None:
        gone = self.sessions.pop(session, None)
        for place in gone.places if gone else ():
            if place in self._shares:
                self._shares[place].forget(session)
            await self._purge(f"{client}.{session}.*", place)

    async def _purge(self, what: str, place: Any) -> None:
        """Take jobs away one by one: what nats-server 2.9 purges by its subject, it counts as stored for ever."""
        if place not in self._queues:
            return
        stream, wanted = subjects.queue_of(place)[0], f"jobs.{subjects.token(place)}.{what}"
        with contextlib.suppress(FarmError):
            info = await self._link.manage("stream_info", stream, subjects_filter=wanted)
            for subject in info.state.subjects or ():
                with contextlib.suppress(NotStored):  # done meanwhile, or taken away by another keeper
                    found = await self._link.manage("get_last_msg", stream, subject)
                    await self._link.manage("delete_msg", stream, found.seq)

    # ------------------------------------------------------------------ who is there

    async def _sweep(self) -> None:
        """Whether the server still stores, and who has fallen silent."""
        now = time.monotonic()
        try:
            await self._link.store(subjects.result("keeper", "probe", "probe"), b"")
            self.trouble = ""
        except FarmError as e:
            self._tell_trouble(e.message)
        for member in list(self.members.values()):
            if now - member.heard > SILENT * self.heartbeat:
                self._leave(member, "the connection was lost")
        for n, session in list(self.sessions.items()):
            if now - session.heard > self.grace:
                await self._drop(n, subjects.token(session.certificate))

    def _leave(self, member: Member, why: str) -> None:
        del self.members[member.name]
        if member.said["quarantine"]:
            self._quarantined[member.name] = str(member.said["quarantine"])
        self._say(f"{member.role} {member.name} left: {why}")
        self._count(time.monotonic())

    def _able(self, place: str) -> tuple[int, int]:
        """Workers that take a place's jobs, and how many jobs they do at once."""
        if place not in self._capacities:
            able = [m.said["lanes"] for m in self.members.values() if place in m.said["places"] and _takes(m.said)]
            self._capacities[place] = len(able), sum(able)
        return self._capacities[place]

    def _count(self, now: float) -> None:
        """Workers have come, gone, or changed what they take."""
        self._capacities.clear()
        for place in {*self._queues, *self._empty}:
            if self._able(place)[0]:
                self._empty.pop(place, None)
            else:
                self._empty.setdefault(place, now)

    async def _status(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> dict[str, Any]:
        """All there is to know, as plain values."""
        if self.replicas > 1 and time.monotonic() - self._since < 2 * self.heartbeat:
            await asyncio.sleep(0.3)  # who has not heard everyone yet lets another keeper of the cluster answer first
        now = time.monotonic()
        workers = [
            {
                **{k: m.said[k] for k in _SAID}, "role": m.role, "connected": round(now - m.since, 1),
                "certificate": m.certificate, "expires": m.expires,
                "busy": round(min(1.0, float(m.said["busy"]) / max(now - m.since, 1e-9) / m.said["lanes"]), 4),
            }
            for _, m in sorted(self.members.items())
        ]  # fmt: skip
        clients = [
            {
                "name": s.name, "certificate": s.certificate, "connected": now - s.heard < SILENT * self.heartbeat,
                "jobs": sum(p[0] for p in s.places.values()), "seconds": round(sum(p[3] for p in s.places.values()), 3),
            }
            for s in self.sessions.values()
        ]  # fmt: skip
        known = {p for m in self.members.values() for p in m.said["places"]}
        known |= {p for s in self.sessions.values() for p, counts in s.places.items() if counts[0]}
        facts = dict(await self._facts()) if self._facts else {}
        return {
            "protocol": PROTOCOL, "tilewright": __version__, "uptime": round(now - self._began, 1), "workers": workers,
            "places": {p: await self._place(p) for p in sorted(known)}, "clients": clients,
            "quarantined_away": dict(sorted(self._quarantined.items())),
            "refused": self.refused + int(facts.pop("refused", 0)), "trouble": self.trouble, "server": facts,
        }  # fmt: skip

    async def _place(self, place: str) -> dict[str, int]:
        counts = [s.places[place] for s in self.sessions.values() if place in s.places]
        workers = [m.said for m in self.members.values() if place in m.said["places"]]
        if place not in self._queues:  # nobody has ever served it: nothing could be sent
            return {"workers": len(workers), "waiting": sum(c[0] for c in counts), "in_hand": 0}
        jobs = in_hand = 0
        with contextlib.suppress(FarmError):
            info = await self._link.manage("consumer_info", *subjects.queue_of(place))
            jobs, in_hand = int(info.num_pending or 0) + int(info.num_ack_pending or 0), int(info.num_ack_pending or 0)
        # What was given back counts as delivered too: there is no more in hand than hands.
        in_hand = min(in_hand, sum(w["lanes"] + AHEAD if _takes(w) else w["running"] for w in workers))
        return {"workers": len(workers), "waiting": jobs - in_hand + sum(c[1] for c in counts), "in_hand": in_hand}


_SAID = (
    "name", "places", "lanes", "running", "queued", "done", "draining", "quarantine", "strikes", "note", "device",
    "offers",
)  # fmt: skip


def _takes(said: Mapping[str, Any]) -> bool:
    """Whether a worker takes jobs."""
    return not said["draining"] and not said["quarantine"]


def _capacity(said: Mapping[str, Any]) -> tuple[Any, ...]:
    return said["places"], said["lanes"], _takes(said)


def _obeyed(what: str, member: Member | None) -> bool:
    """Whether a worker's last sign of life says that it has done as it was told. Of a release any will do: a device
    that is still broken may be in quarantine again by then."""
    if member is None or what == "release":
        return True
    return bool(member.said["draining" if what == "drain" else "quarantine"])


def _places(role: str, body: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """The places in a worker's sign of life; what it says as ``before`` is not looked at again.

    Raises ``Refused`` and what :meth:`Keeper._answer` takes for malformed.
    """
    name, places = body["name"], body["places"]
    if not isinstance(name, str) or not subjects.WORKER_NAME.fullmatch(name):
        raise Refused(f"{str(name)[:80]!r} is no name for a {role}", "Use letters, digits and . _ : , -")
    if not isinstance(places, list) or not all(subjects.PLACE.fullmatch(p) for p in places) or not places:
        raise ValueError("places")
    if any(subjects.role_for(p) != role for p in places):
        raise Refused(f"a {role} cannot offer {', '.join(places)}")
    for field_name, kind in _KINDS.items():
        if not isinstance(body[field_name], kind):
            raise TypeError(field_name)
    if not 1 <= body["lanes"] <= 256 or not 0.0 <= body["busy"] < math.inf:
        raise ValueError("lanes")
    if all(before.get(k) == body[k] for k in ("name", "places", "offers", "device")):
        return list(places)
    shown, more = body["offers"], body["device"]
    if role == "runner":
        RunnerDevice.from_json(body["device"])
        shown, more = body["offers"].get("limits", {}), set(body["offers"]) - {"limits"}
    if more or not all(type(k) is str and isinstance(v, str | bool) for k, v in shown.items()):
        raise TypeError("offers")
    return places


_KINDS: Mapping[str, Any] = {
    "instance": str, "lanes": int, "running": int, "queued": int, "done": int, "draining": bool, "quarantine": str,
    "strikes": int, "note": str, "device": dict, "offers": dict, "busy": float,
}  # fmt: skip
