"""The farm's coordinator beside its server: it tracks workers and clients, creates queues, and assigns queue windows.

A keeper's state is soft: peers report it again with every heartbeat. Each server of a cluster may have a keeper, and
keepers need not agree. Payloads and results do not pass through a keeper.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright import __version__
from tilewright.core import TilewrightError
from tilewright.farm import subjects
from tilewright.farm.budgets import AHEAD, CANCELLED, JOBS, MESSAGE, PLACES, STORAGE, TEXT, OverBudget, cut
from tilewright.farm.decoding import NoMessage
from tilewright.farm.device import RunnerDevice
from tilewright.farm.errors import NONSENSE, FarmError, Refused, Taken
from tilewright.farm.health import NEARLY_FULL
from tilewright.farm.inbox import Inbox, Rest, sender
from tilewright.farm.link import ANSWER_SECONDS, SILENT, Endpoint, Link, Say, end, spawn, waited, waits
from tilewright.farm.log import Log
from tilewright.farm.messages import PROTOCOL
from tilewright.farm.pki.identity import ROLES, Peer
from tilewright.farm.pki.revocations import SIGN_LIST, WARNING_DAYS
from tilewright.farm.queues import Queues
from tilewright.farm.roster import Member, Roster, Session
from tilewright.farm.shares import Shares

HEARTBEAT = 5.0  # seconds between heartbeats
PATIENCE = 600.0  # seconds for which a job waits for a worker of its place
GRACE = 120.0  # seconds after which the jobs of a silent client are dropped

QUIET = 2.0  # heartbeat intervals without a heartbeat after which a worker counts as silent
REMEMBERED = 3600.0  # seconds for which the status names a worker that fell silent

_LONGEST_USE = 1e9  # largest accepted use of a queue, in seconds
_LAST_SECOND = 1e11  # largest accepted clock, in seconds since the epoch
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HINT = "Install the same version of Tilewright on both"

Answer = Callable[[str, Peer | None, Mapping[str, Any]], Awaitable[Any]]
Answers = Mapping[str, tuple[Answer, tuple[str, ...]]]


class Keeper:
    """Keeps one farm until it is cancelled.

    ``endpoint``: with a server's certificate. ``heartbeat``, ``patience``, ``grace``: seconds. ``replicas``: servers
    that hold each message. ``storage``: bytes that the farm may take of a server's disk. ``facts`` returns the server's
    part of the status. ``users``: a ``users.json`` whose list of revoked certificates the keeper hands out, where
    ``endpoint`` does not get that list from elsewhere.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        heartbeat: float = HEARTBEAT,
        patience: float = PATIENCE,
        grace: float = GRACE,
        replicas: int = 1,
        storage: int = STORAGE.most,
        facts: Callable[[], Awaitable[Mapping[str, Any]]] | None = None,
        users: Path | None = None,
        say: Say = lambda _line: None,
    ) -> None:
        self.endpoint = endpoint
        self.heartbeat, self.patience, self.grace = heartbeat, patience, grace
        self.replicas = replicas
        self.roster = Roster()
        self.members, self.sessions = self.roster.members, self.roster.sessions
        self.log = Log(say)
        self.queues = Queues(heartbeat, patience, replicas, storage, self.log)
        self.refused = 0
        self.ready = asyncio.Event()
        self.trouble = ""  # why the server stores nothing at the moment
        self._answers: Mapping[str, Answers] = {
            "ask": {
                "beat": (self._beat, subjects.WORKERS), "bye": (self._bye, subjects.WORKERS),
                "shares": (self._share, ("client",)), "status": (self._status, subjects.LOOKERS),
                subjects.REVOKED: (self._revoked, ROLES),
            },
            "tell": dict.fromkeys(("drain", "quarantine", "release"), (self._command, ("administrator",))),
        }  # fmt: skip
        self._shares: dict[str, Shares] = {}
        self._empty: dict[str, float] = {}  # place without a worker that takes jobs -> since when
        self._facts = facts
        self._users = users
        self._handed_out = 0  # number of the revocation list that was last published
        self._link: Link
        self._began = self._since = time.monotonic()
        self._tasks: set[asyncio.Task[Any]] = set()  # background work, while a connection lasts
        self._tidying: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serves the farm until cancelled, and reconnects whenever the server comes back."""
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
        try:
            await self._hand_out()
            await self.queues.begin(link)
            for what, handler, group in (
                ("ask.*.*", self._asked, ""), ("tell.*.*", self._asked, "keepers"), ("cancel.*.*", self._cancelled, ""),
            ):  # fmt: skip
                inbox = Inbox(handler, self._over)
                await link.subscribe(what, inbox.put, group)
                spawn(self._tasks, inbox.run())
            await link.subscribe(subjects.REVOKED, link.hear_revocations)  # from another keeper of the cluster
            await link.settle()
            self._since = time.monotonic()
            self.trouble = ""
            self.ready.set()
            while not link.closed.is_set():
                await waited(link.closed, min(1.0, self.heartbeat))
                await self._hand_out()
                await self._sweep()
                await self.queues.change()
        finally:
            try:
                await end(*self._tasks)
            finally:
                await link.close()

    def _tell_trouble(self, said: str) -> None:
        if said != self.trouble:
            self.log(said)
        self.trouble = said

    # ------------------------------------------------------------------ who is revoked

    async def _hand_out(self) -> None:
        """Publishes the list of revoked certificates to all peers if it is newer than the last published list."""
        revocations = self.endpoint.seal.revocations
        if revocations is None:
            return
        if self._users is not None:
            try:
                revocations.take_file(self._users)
            except FarmError as e:  # the last good list stays in force, as the server keeps its last good users
                if e.message != revocations.trouble:
                    self.log(f"{e.message}. {e.hint}")
                revocations.trouble = e.message
        newest = revocations.newest
        if newest is not None:
            revocations.confirm(time.monotonic())
            if newest.number != self._handed_out:
                self._handed_out = newest.number
                await self._link.publish(subjects.REVOKED, newest.der)
                if newest.days_left() < WARNING_DAYS:
                    self.log(f"the list of revoked certificates ends in {newest.days_left()} days. {SIGN_LIST}")

    async def _revoked(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        """Answers with the number of the newest list of revoked certificates, and with the list if the peer lacks it.

        The answer repeats the question's mark, so that nobody can pass off an earlier answer as this one.
        """
        revocations = self.endpoint.seal.revocations
        if revocations is None:
            raise FarmError(
                "a farm without certificates cannot revoke any", "Make certificates: tilewright farm init DIR"
            )
        if body.get("list"):
            revocations.take(body["list"])
            await self._hand_out()
        answer = {"mark": str(body["mark"])[:64], "number": revocations.number}
        if revocations.newest is not None and revocations.number > int(body["number"]):
            answer["list"] = revocations.newest.der
        return answer

    # ------------------------------------------------------------------ questions

    async def _asked(self, message: Any) -> Rest | None:
        return await self._replied(message, self._considered(message))

    async def _considered(self, message: Any) -> Any:
        body, peer = self._link.seal.open(message.subject, message.data, ROLES)
        verb, role, name = message.subject.split(".")[:3]
        if peer is not None and (peer.role, subjects.token(peer.name)) != (role, name):
            raise Refused(f"{peer} spoke on the subject of another")
        if body.get("protocol") != PROTOCOL:
            raise Refused(f"the {role} has protocol {_short(body.get('protocol'))}, the farm {PROTOCOL}", _HINT)
        answer, roles = self._answers[verb].get(str(body.get("what")), (None, ()))
        if answer is None or (peer is not None and role not in roles):
            raise Refused(f"a {role} may not ask for {_short(body.get('what'))!r}")
        return await answer(role, peer, body)

    async def _replied(self, message: Any, work: Awaitable[Any]) -> Rest | None:
        """Sends the answer to a question. A coroutine is returned where the answer takes longer: the inbox runs it
        beside other messages."""
        try:
            value = await work
        except NONSENSE as e:  # a well-formed map, but not a message of this protocol
            error: TilewrightError = Refused(f"a malformed message ({type(e).__name__})")
        except TilewrightError as e:
            error = e
        else:
            if isinstance(value, Coroutine):
                return self._replied(message, value)
            await self._send(message, {"value": value})
            return None
        if isinstance(error, Refused | NoMessage):
            self._refuse(message, error)
        await self._send(message, {"error": error.to_json()})
        return None

    def _refuse(self, message: Any, error: FarmError) -> bool:
        """Counts and logs a refusal; returns whether it was logged. A refusal over a budget is logged once an hour."""
        self.refused += 1
        who = sender(message.subject)
        once = error.budget.name if isinstance(error, OverBudget) else ""
        return self.log.about(who, f"refused {who}: {error.message}", once)

    async def _over(self, message: Any, error: OverBudget) -> None:
        """Refuses a message over a budget. The sender gets one answer only, so that a flood causes no flood of
        answers."""
        if self._refuse(message, error):
            await self._send(message, {"error": error.to_json()})

    async def _send(self, message: Any, reply: Mapping[str, Any]) -> None:
        # A reply goes to the peer's own inbox only: a peer must not make the keeper publish where the peer may not.
        if not message.reply.startswith(f"{subjects.inbox(*message.subject.split('.')[1:3])}."):
            return
        try:
            sealed = self._link.seal.seal(message.subject, reply, MESSAGE)
        except OverBudget as e:
            sealed = self._link.seal.seal(message.subject, {"error": e.to_json()}, MESSAGE)
        await self._link.publish(message.reply, sealed)

    async def _beat(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        """Takes a worker's heartbeat: checks all that it reports before storing any of it."""
        old = self.members.get(str(body["name"]))
        places = _places(role, body, old.said if old else {})
        member = self._admitted(role, peer, body)
        ready = self.queues.claim(places, member.owner)
        return self._join(member) if ready else self._join_later(role, peer, body, places)

    async def _join_later(self, role: str, peer: Peer | None, body: Mapping[str, Any], places: list[str]) -> Any:
        await self.queues.wait_made(places)
        return self._join(self._admitted(role, peer, body))

    def _admitted(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Member:
        now, name = time.monotonic(), str(body["name"])
        old = self.members.get(name)
        since, active = now, False
        if old is not None and old.said["instance"] == body["instance"]:
            since, active = old.since, body["done"] > old.said["done"]
        elif old is not None and now - old.heard < 2 * self.heartbeat:
            raise Taken(f"a {old.role} named {name!r} is connected already", "Choose another --name")
        certificate, expires = (peer.name, peer.not_after) if peer else ("", None)
        version, clock = str(body.get("tilewright", "")), body.get("clock")
        ahead = None if clock is None else round(clock - time.time(), 1)
        member = Member(name, role, certificate, expires, body, since, now, active, version, ahead)
        self.roster.admit(member, now)
        return member

    def _join(self, member: Member) -> dict[str, Any]:
        name, old, said = member.name, self.members.get(member.name), member.said
        if old is not None and old.said["instance"] != said["instance"]:
            self._leave(old, "another process has its name now")
            old = None
        if old is None:
            self.log.again(member.owner, f"{member.role} {name} joined: {', '.join(said['places'])}")
        if self.roster.join(member):
            self._count({*said["places"], *(old.said["places"] if old else ())})
        if said["quarantine"] and (old is None or not old.said["quarantine"]):
            self.log.again(member.owner, f"{name} is in quarantine: {said['quarantine']}")
        workers = {p: self.roster.able(p)[0] for p in said["places"]}
        return {"heartbeat": self.heartbeat, "workers": workers}

    async def _bye(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        member = self.members.get(str(body["name"]))
        if member is not None and member.said["instance"] == body["instance"]:
            self._leave(member, cut(str(body.get("why") or "it was told to")))
        return True

    async def _share(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        """Takes a client's counts of jobs by place; answers with the client's window in each queue."""
        now, client = time.monotonic(), body["session"]
        weight = float(body["weight"])
        if not 0.01 <= weight <= 100.0:
            raise ValueError("weight")
        if not isinstance(client, str) or not _SESSION.fullmatch(client):
            raise ValueError("session")
        places: dict[str, Any] = {}
        PLACES.check(len(body["places"]))
        for place, counts in dict(body["places"]).items():
            waiting, held, done, used = *map(int, counts[:3]), float(counts[3])
            if not 0.0 <= used < _LONGEST_USE or min(waiting, held, done) < 0 or not subjects.PLACE.fullmatch(place):
                raise ValueError("counts")
            places[place] = (waiting, held, done, used)
        version = cut(str(body.get("tilewright", "")))
        session = Session(str(body["name"])[:80], peer.name if peer else "local", now, version, places)
        before = self.roster.open(client, session)
        self._forget(client, (before.places if before else {}).keys() - places.keys())
        answer = {}
        for place, (waiting, _, done, used) in places.items():
            shares = self._shares.setdefault(place, Shares())
            shares.report(client, weight, waiting, used, done, now)
            workers, lanes = self.roster.able(place)
            if not workers:
                self._empty.setdefault(place, now)
            empty = now - self._empty[place] if place in self._empty else 0.0
            answer[place] = {"window": shares.window(client, lanes, now), "workers": workers, "empty": empty}
        return {"heartbeat": self.heartbeat, "patience": self.patience, "places": answer}

    def _forget(self, client: str, places: Collection[str]) -> None:
        """Removes a client that no longer waits for jobs of ``places``."""
        for place in places:
            shares = self._shares.get(place)
            if shares is not None:
                shares.forget(client)
                if not shares.clients:
                    del self._shares[place]

    async def _command(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> Any:
        """Passes a command on to a worker; returns when the worker's heartbeat confirms it."""
        what, name = str(body["what"]), str(body["name"])
        member = self.members.get(name)
        if member is None:
            there = ", ".join(sorted(self.members)) or "none"
            raise FarmError(f"no runner or builder named {name!r} is connected", f"Connected: {there}")
        if what == "release" and not member.said["quarantine"]:
            raise FarmError(f"{name!r} is not in quarantine", "See tilewright farm status")
        subject = subjects.control(member.role, member.certificate or "local", name)
        command = {
            "do": what, "why": cut(str(body.get("why") or "by command")), "id": secrets.token_hex(16),
            "instance": member.said["instance"],
        }  # fmt: skip
        await self._link.publish(subject, self._link.seal.seal(subject, command))
        until = time.monotonic() + ANSWER_SECONDS - 1.0
        while self.members.get(name) is member or not _obeyed(what, self.members.get(name)):
            if time.monotonic() > until:
                raise FarmError(
                    f"{name} does not answer", "Check whether it is still connected: tilewright farm status"
                )
            await asyncio.sleep(0.02)
        return True

    async def _cancelled(self, message: Any) -> Rest | None:
        """Removes cancelled jobs from the queues. Workers hear the cancellation themselves."""
        _, client, session = message.subject.split(".")
        try:
            body, peer = self._link.seal.open(message.subject, message.data, ("client",))
            if peer is not None and subjects.token(peer.name) != client:
                raise Refused(f"{peer} spoke on the subject of another")
            ids = body.get("ids")
            if ids is None:
                return self._drop(session, client)
            ids = {str(i)[:64] for i in ids} if isinstance(ids, list) else set()
            CANCELLED.check(len(ids))
        except (Refused, NoMessage) as e:
            self._refuse(message, e)
            return None
        if ids:
            await self.queues.purge(body.get("place"), client, session, ids)
        return None

    async def _drop(self, session: str, client: str) -> None:
        if session in self.sessions and subjects.token(self.sessions[session].certificate) != client:
            return
        gone = self.roster.shut(session)
        places = tuple(gone.places) if gone else ()
        self._forget(session, places)
        for place in places:
            await self.queues.purge(place, client, session)

    # ------------------------------------------------------------------ who is there

    async def _sweep(self) -> None:
        """Checks that the server still stores messages, and removes workers and clients that have fallen silent."""
        now = time.monotonic()
        try:
            await self._link.store(subjects.result("keeper", "probe", "probe"), b"")
            self.trouble = ""
        except FarmError as e:
            self._tell_trouble(e.message)
        for member in list(self.members.values()):
            if now - member.heard > SILENT * self.heartbeat:
                self._leave(member, "the connection was lost", lost=True)
        for n, session in list(self.sessions.items()):
            if now - session.heard > self.grace:
                spawn(self._tasks, self._drop(n, subjects.token(session.certificate)))
        self._empty = {p: t for p, t in self._empty.items() if p in self.queues.known or p in self._shares}
        if self._tidying is None or self._tidying.done():
            self._tidying = spawn(self._tasks, self._tidy())

    async def _tidy(self) -> None:
        with contextlib.suppress(FarmError):
            await self.queues.tidy(self.roster.at)
            await self.queues.relieve()

    def _leave(self, member: Member, why: str, lost: bool = False) -> None:
        self.roster.leave(member.name, lost)
        self.log.again(member.owner, f"{member.role} {member.name} left: {why}")
        self._count(member.said["places"])

    def _count(self, places: Iterable[str]) -> None:
        """Updates since when places have no worker, after workers came, left or changed the jobs that they take."""
        now = time.monotonic()
        for place in places:
            if self.roster.able(place)[0]:
                self._empty.pop(place, None)
            else:
                self._empty.setdefault(place, now)

    async def _status(self, role: str, peer: Peer | None, body: Mapping[str, Any]) -> dict[str, Any]:
        """The farm's status as plain values. It fits into one message, because the roster bounds its entries' size."""
        if self.replicas > 1 and time.monotonic() - self._since < 2 * self.heartbeat:
            await asyncio.sleep(0.3)  # a keeper that has not heard all peers yet lets another keeper answer first
        now = time.monotonic()
        counts: dict[str, list[Any]] = {p: [] for p in self.roster.places()}
        for session in self.sessions.values():
            for place, count in session.places.items():
                if count[0] or place in counts:
                    counts.setdefault(place, []).append(count)
        facts = dict(await self._facts()) if self._facts else {}
        queued = await self.queues.counts()
        return {
            "protocol": PROTOCOL, "tilewright": __version__, "uptime": round(now - self._began, 1),
            "workers": [m.entry(now, QUIET * self.heartbeat) for _, m in sorted(self.members.items())],
            "places": {p: self._place(p, counts[p], queued.get(p)) for p in sorted(counts)},
            "clients": [s.entry(now - s.heard < SILENT * self.heartbeat) for s in self.sessions.values()],
            "quarantined_away": {n: why for n, (why, _) in sorted(self.roster.quarantined.items())},
            "lost": {n: round(now - t, 1) for n, (t, _) in sorted(self.roster.lost.items()) if now - t < REMEMBERED},
            "full": {p: n for p, (n, _) in sorted(queued.items()) if n > NEARLY_FULL * JOBS.most},
            "refused": self.refused + int(facts.pop("refused", 0)), "trouble": self.trouble, "server": facts,
        }  # fmt: skip

    def _place(self, place: str, counts: Sequence[Any], queued: tuple[int, int] | None) -> dict[str, int]:
        """The status of a place. ``counts``: of each client that waits there. ``queued``: jobs in the place's queue,
        and how many of its jobs workers hold."""
        workers = self.roster.at(place)
        if queued is None:  # no worker has ever served the place, so it has no queue
            return {"workers": len(workers), "waiting": sum(c[0] for c in counts), "in_hand": 0}
        jobs, in_hand = queued
        # JetStream counts jobs as delivered that were given back. Workers hold no more jobs than they have room for.
        in_hand = min(in_hand, sum(w.said["lanes"] + AHEAD.most if w.takes else w.said["running"] for w in workers))
        return {"workers": len(workers), "waiting": jobs - in_hand + sum(c[1] for c in counts), "in_hand": in_hand}


def _short(value: Any) -> str:
    return str(value)[:40]


def _obeyed(what: str, member: Member | None) -> bool:
    """Whether a worker's last heartbeat confirms a command. After a release, any heartbeat confirms: a device that is
    still broken may be in quarantine again by then."""
    if member is None or what == "release":
        return True
    return bool(member.said["draining" if what == "drain" else "quarantine"])


def _places(role: str, body: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Checks a worker's heartbeat and returns its places. Fields that equal those of ``before`` are not checked again.

    Raises ``Refused``, ``OverBudget``, and the errors that :meth:`Keeper._replied` reports as a malformed message.
    """
    name, places = body["name"], body["places"]
    if not isinstance(name, str) or not subjects.WORKER_NAME.fullmatch(name):
        raise Refused(f"{str(name)[:80]!r} is not a valid name of a {role}", "Use letters, digits and . _ : , -")
    if not isinstance(places, list) or not places:
        raise ValueError("places")
    PLACES.check(len(places))
    if not all(subjects.PLACE.fullmatch(p) for p in places) or len(set(places)) < len(places):
        raise ValueError("places")
    if any(subjects.role_for(p) != role for p in places):
        raise Refused(f"a {role} cannot offer {', '.join(places)}")
    for field_name, kind in _KINDS.items():
        if not isinstance(body[field_name], kind):
            raise TypeError(field_name)
    clock = body.get("clock", 0.0)
    if not isinstance(body.get("tilewright", ""), str) or not isinstance(clock, float) or not 0 <= clock < _LAST_SECOND:
        raise TypeError("tilewright or clock")
    for text in ("instance", "quarantine", "note", "tilewright"):
        TEXT.check(len(body.get(text, "").encode()))
    if not 1 <= body["lanes"] <= 256 or not 0.0 <= body["busy"] < math.inf:
        raise ValueError("lanes")
    if min(body[n] for n in ("running", "queued", "done", "strikes")) < 0:
        raise ValueError("counts")
    if all(before.get(k) == body[k] for k in ("name", "places", "offers", "device")):
        return list(places)
    shown, more = body["offers"], body["device"]
    if role == "runner":
        RunnerDevice.from_json(body["device"])
        shown, more = body["offers"].get("limits", {}), set(body["offers"]) - {"limits"}
    if more or not all(type(k) is str and isinstance(v, str | bool) for k, v in shown.items()):
        raise TypeError("offers")
    PLACES.check(len(shown))
    TEXT.check(max((len(str(x).encode()) for pair in shown.items() for x in pair), default=0))
    return places


_KINDS: Mapping[str, Any] = {
    "instance": str, "lanes": int, "running": int, "queued": int, "done": int, "draining": bool, "quarantine": str,
    "strikes": int, "note": str, "device": dict, "offers": dict, "busy": float,
}  # fmt: skip
