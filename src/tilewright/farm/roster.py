"""The workers and clients of a farm by their last heartbeats, and the bytes of the status that each certificate
takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.farm.budgets import QUARANTINED, SESSIONS_EACH, STATUS, STATUS_EACH
from tilewright.farm.errors import Refused
from tilewright.farm.messages import pack

_CHANGING = 64  # bytes by which counts and times in an entry may grow until it is measured again
_SESSION = 256  # bytes that a client counts for beside its entry
_PLACE = 64  # bytes of a place's counts in the status, beside its name


@dataclass
class Member:
    """A connected runner or builder.

    ``said``: its last heartbeat. ``since``, ``heard``: when it connected and when it was last heard. ``active``:
    whether it finished a job between its last two heartbeats. ``version`` of Tilewright, empty if unknown. ``clock``:
    seconds by which its clock is ahead of the keeper's. ``size``: bytes of its entry in the status.
    """

    name: str
    role: str
    certificate: str
    expires: float | None
    said: Mapping[str, Any]
    since: float
    heard: float
    active: bool = False
    version: str = ""
    clock: float | None = None
    size: int = 0

    @property
    def owner(self) -> str:
        return f"{self.role} {self.certificate or 'local'}"

    @property
    def takes(self) -> bool:
        """Whether the worker takes jobs: it neither drains nor is in quarantine."""
        return not self.said["draining"] and not self.said["quarantine"]

    def entry(self, now: float, quiet: float) -> dict[str, Any]:
        """The worker's entry in the status. ``silent``: seconds since its last heartbeat, if more than ``quiet``."""
        silent = now - self.heard
        said, here = self.said, max(now - self.since, 1e-9)
        return {
            **{k: said[k] for k in _SAID}, "role": self.role, "connected": round(now - self.since, 1),
            "certificate": self.certificate, "expires": self.expires,
            "busy": round(min(1.0, float(said["busy"]) / here / said["lanes"]), 4), "active": self.active,
            "silent": round(silent, 1) if silent > quiet else 0.0, "version": self.version, "clock": self.clock,
        }  # fmt: skip


@dataclass
class Session:
    """A connected tuning client. ``places``: the counts of its jobs by place, as it reports them."""

    name: str
    certificate: str
    heard: float
    version: str = ""
    places: dict[str, Any] = field(default_factory=dict)
    size: int = 0

    @property
    def owner(self) -> str:
        return f"client {self.certificate or 'local'}"

    def entry(self, connected: bool) -> dict[str, Any]:
        """The client's entry in the status."""
        return {
            "name": self.name, "certificate": self.certificate, "connected": connected,
            "jobs": sum(p[0] for p in self.places.values()),
            "seconds": round(sum(p[3] for p in self.places.values()), 3), "version": self.version,
        }  # fmt: skip


_SAID = (
    "name", "places", "lanes", "running", "queued", "done", "draining", "quarantine", "strikes", "note", "device",
    "offers",
)  # fmt: skip


class Roster:
    """The members and sessions of a farm, and the workers that left in quarantine or fell silent."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.sessions: dict[str, Session] = {}
        self.quarantined: dict[str, tuple[str, str]] = {}  # worker that left in quarantine -> reason, owner
        self.lost: dict[str, tuple[float, str]] = {}  # worker that fell silent -> when last heard, owner
        self._taken: Counter[str] = Counter()  # bytes of the status, by owner
        self._clients: Counter[str] = Counter()  # number of sessions, by certificate
        self._by_place: dict[str, dict[str, Member]] = {}
        self._able: dict[str, tuple[int, int]] = {}

    # ------------------------------------------------------------------ workers

    def admit(self, member: Member, now: float) -> None:
        """Measures a worker's entry in the status. Raises ``OverBudget`` if the status has no room for it."""
        member.said = {k: member.said[k] for k in (*_SAID, "instance", "busy")}
        member.size = len(pack(member.entry(now, 0.0))) + _CHANGING
        self._check(member, self.members.get(member.name))

    def join(self, member: Member) -> bool:
        """Stores an admitted worker; returns whether its places, lanes or readiness have changed."""
        old = self.members.get(member.name)
        if old is not None:
            self._taken[old.owner] -= old.size
        self._taken[member.owner] += member.size
        self.members[member.name] = member
        self.quarantined.pop(member.name, None)
        self.lost.pop(member.name, None)
        changed = old is None or _capacity(old) != _capacity(member)
        if changed and old is not None:
            self._without(old)
        for place in member.said["places"]:
            self._by_place.setdefault(place, {})[member.name] = member
            if changed:
                self._able.pop(place, None)
        return changed

    def leave(self, name: str, lost: bool = False) -> Member:
        """Removes a worker. Remembers that it was in quarantine, or that it fell silent (``lost``)."""
        member = self.members.pop(name)
        self._taken[member.owner] -= member.size
        self._without(member)
        if member.said["quarantine"]:
            _remember(self.quarantined, name, (str(member.said["quarantine"]), member.owner))
        elif lost:
            _remember(self.lost, name, (member.heard, member.owner))
        return member

    def _without(self, member: Member) -> None:
        for place in member.said["places"]:
            there = self._by_place[place]
            there.pop(member.name, None)
            self._able.pop(place, None)
            if not there:
                del self._by_place[place]

    def places(self) -> Collection[str]:
        """The places that workers name."""
        return self._by_place.keys()

    def at(self, place: str) -> Collection[Member]:
        """The workers of a place."""
        return self._by_place.get(place, {}).values()

    def able(self, place: str) -> tuple[int, int]:
        """Returns the number of workers that take a place's jobs, and the number of jobs that they run at once."""
        if place not in self._by_place:
            return 0, 0
        if place not in self._able:
            lanes = [m.said["lanes"] for m in self.at(place) if m.takes]
            self._able[place] = len(lanes), sum(lanes)
        return self._able[place]

    # ------------------------------------------------------------------ clients

    def open(self, key: str, session: Session) -> Session | None:
        """Stores a client's session; returns the client's earlier session. Raises ``OverBudget`` if the status has no
        room for it, ``Refused`` for a session that another client has opened."""
        old = self.sessions.get(key)
        if old is not None and old.certificate != session.certificate:
            raise Refused("the session is another client's")
        if old is None:
            SESSIONS_EACH.check(self._clients[session.certificate] + 1)
        session.size = len(pack(session.entry(True))) + _CHANGING + _SESSION
        session.size += sum(len(p) + _PLACE for p in session.places)
        self._check(session, old)
        self._taken[session.owner] += session.size - (old.size if old else 0)
        self._clients[session.certificate] += old is None
        self.sessions[key] = session
        return old

    def shut(self, key: str) -> Session | None:
        """Removes a client's session and returns it."""
        session = self.sessions.pop(key, None)
        if session is not None:
            self._taken[session.owner] -= session.size
            self._clients[session.certificate] -= 1
        return session

    def _check(self, new: Member | Session, old: Member | Session | None) -> None:
        before = old.size if old is not None else 0
        STATUS_EACH.check(self._taken[new.owner] - (before if old and old.owner == new.owner else 0) + new.size)
        STATUS.check(self._taken.total() - before + new.size)


def _remember(among: dict[str, tuple[Any, str]], name: str, what: tuple[Any, str]) -> None:
    """Adds an entry to a bounded table; ``what`` ends in its owner. Over the budget, the owner with the most entries
    loses its oldest."""
    among[name] = what
    if len(among) > QUARANTINED.most:
        most = Counter(owner for _, owner in among.values()).most_common(1)[0][0]
        del among[next(n for n, (_, owner) in among.items() if owner == most)]


def _capacity(member: Member) -> tuple[Any, ...]:
    return member.said["places"], member.said["lanes"], member.takes
