"""Clients share a queue by seconds: windows, and what follows from them for a first-in-first-out queue of workers."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.farm.shares import DEPTH, GONE, Shares

SAYS = 0.5  # seconds between a client's reports
TRAVEL = 0.01  # seconds from a client to the queue


@dataclass
class Client:
    """Someone with endless jobs of ``seconds`` each, from ``begins`` to ``ends``."""

    name: str
    seconds: float
    weight: float = 1.0
    begins: float = 0.0
    ends: float = float("inf")
    window: int = 2
    sent: int = 0
    done: int = 0
    used: float = 0.0


class Queue:
    """Workers that take jobs first in, first out; clients that send up to their windows. Time passes by events."""

    def __init__(self, workers: int, clients: Iterable[Client]) -> None:
        self.shares = Shares()
        self.workers = self.idle = workers
        self.now = 0.0
        self.finished: list[tuple[float, str, float]] = []
        self._queue: deque[Client] = deque()
        self._events: list[tuple[float, int, Callable[..., None], Client]] = []
        self._count = itertools.count()
        for n, c in enumerate(clients):
            self._at(c.begins + 0.13 * n, self._report, c)
            self._at(c.begins, self._send, c)

    def run(self, until: float) -> Queue:
        while self._events and self._events[0][0] <= until:
            self.now, _, action, client = heapq.heappop(self._events)
            action(client)
        return self

    def parts(self, since: float, until: float) -> dict[str, float]:
        """Each client's part of the workers' seconds in a time. What is missing from 1 they were idle."""
        found: dict[str, float] = {}
        for when, name, seconds in self.finished:
            inside = min(when, until) - max(when - seconds, since)
            found[name] = found.get(name, 0.0) + max(0.0, inside) / (until - since) / self.workers
        return found

    def _at(self, when: float, action: Callable[..., None], client: Client) -> None:
        heapq.heappush(self._events, (when, next(self._count), action, client))

    def _report(self, c: Client) -> None:
        if self.now < c.ends:
            self.shares.report(c.name, c.weight, 1000, c.used, c.done, self.now)
            c.window = self.shares.window(c.name, self.workers, self.now)
            self._send(c)
            self._at(self.now + SAYS, self._report, c)
        else:
            self.shares.forget(c.name)

    def _send(self, c: Client) -> None:
        while c.sent < c.window and self.now < c.ends:
            c.sent += 1
            self._at(self.now + TRAVEL, self._arrive, c)

    def _arrive(self, c: Client) -> None:
        self._queue.append(c)
        self._take()

    def _take(self) -> None:
        while self.idle and self._queue:
            c = self._queue.popleft()
            self.idle -= 1
            self._at(self.now + c.seconds, self._finish, c)

    def _finish(self, c: Client) -> None:
        self.idle, c.sent, c.done, c.used = self.idle + 1, c.sent - 1, c.done + 1, c.used + c.seconds
        self.finished.append((self.now, c.name, c.seconds))
        self._send(c)
        self._take()


def named(*seconds: float, **more: Any) -> list[Client]:
    return [Client("abcdef"[n], s, **more) for n, s in enumerate(seconds)]


@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize(
    "seconds", [(1.0, 0.1), (1.0, 0.1, 0.3), (0.3, 0.3), (5.0, 0.1), (0.02, 2.0), (0.05, 0.1, 0.3, 1.0)], ids=str
)
def test_clients_get_the_same_seconds_and_no_worker_waits(workers: int, seconds: tuple[float, ...]) -> None:
    parts = Queue(workers, named(*seconds)).run(300.0).parts(50.0, 290.0)
    assert sum(parts.values()) >= 0.95
    assert max(parts.values()) < 1.1 * min(parts.values())


@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize("seconds", [(0.3, 0.3), (1.0, 0.1), (0.1, 1.0)], ids=str)
def test_weights_are_parts(workers: int, seconds: tuple[float, float]) -> None:
    high, normal = Client("high", seconds[0], 4.0), Client("normal", seconds[1])
    parts = Queue(workers, [high, normal]).run(300.0).parts(50.0, 290.0)
    assert sum(parts.values()) >= 0.95
    assert parts["high"] == pytest.approx(4 * parts["normal"], rel=0.1)


@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize("seconds", [(1.0, 0.1), (0.1, 1.0), (0.3, 0.3)], ids=str)
def test_a_newcomer_has_no_claim_on_the_past_and_is_not_starved(workers: int, seconds: tuple[float, float]) -> None:
    old, new = Client("old", seconds[0]), Client("new", seconds[1], begins=100.0)
    queue = Queue(workers, [old, new]).run(200.0)
    assert queue.parts(20.0, 100.0) == pytest.approx({"old": 1.0, "new": 0.0}, abs=0.05)
    assert queue.parts(105.0, 195.0) == pytest.approx({"old": 0.5, "new": 0.5}, abs=0.05)


def test_who_leaves_frees_its_part_and_who_comes_back_is_level() -> None:
    staying, leaving = Client("staying", 0.2), Client("leaving", 1.0, ends=100.0)
    back = Client("leaving", 1.0, begins=150.0)
    queue = Queue(4, [staying, leaving, back]).run(250.0)
    assert queue.parts(20.0, 100.0) == pytest.approx({"staying": 0.5, "leaving": 0.5}, abs=0.05)
    assert queue.parts(105.0, 150.0)["staying"] > 0.98
    assert queue.parts(155.0, 195.0) == pytest.approx({"staying": 0.5, "leaving": 0.5}, abs=0.05)


def test_who_falls_silent_frees_its_part_too() -> None:
    shares = Shares()
    for name in "ab":
        shares.report(name, 1.0, 100, 0.0, 0, 0.0)
    assert shares.window("a", 8, 0.0) == DEPTH * 4
    assert shares.window("b", 8, 0.0) == DEPTH * 4
    shares.report("a", 1.0, 100, 5.0, 5, GONE + 1)
    assert shares.window("a", 8, GONE + 1) == DEPTH * 8


def test_who_has_all_it_wants_frees_its_part() -> None:
    shares = Shares()
    shares.report("a", 1.0, 100, 0.0, 0, 0.0)
    shares.report("b", 1.0, 0, 0.0, 0, 0.0)
    assert shares.window("a", 2, 0.0) == DEPTH * 2


def test_a_queue_without_workers_takes_what_one_would() -> None:
    shares = Shares()
    assert shares.window("nobody", 0, 0.0) == DEPTH
    shares.report("a", 1.0, 5, 0.0, 0, 0.0)
    assert shares.window("a", 0, 0.0) == DEPTH


NUMBERS = st.sampled_from([0.0, 5e-324, 1e-9, 0.1, 1.0, 3600.0, 1e9]) | st.floats(0.0, 1e9)
REPORT = st.tuples(
    st.sampled_from("abcd"), st.sampled_from([0.01, 0.25, 1.0, 4.0, 100.0]), st.integers(0, 3), NUMBERS,
    st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 5.0, GONE + 1]),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(REPORT, min_size=1, max_size=30), st.integers(0, 64))
def test_whatever_clients_say_somebody_who_waits_may_send(reports: list[Any], lanes: int) -> None:
    shares, now = Shares(), 0.0
    for client, weight, waiting, used, done, later in reports:
        now += later
        shares.report(client, weight, waiting, used, done, now)
        windows = {c: shares.window(c, lanes, now) for c in shares.clients}
        assert all(type(w) is int and 0 <= w <= DEPTH * max(1, lanes) for w in windows.values())
        here = [c for c, s in shares.clients.items() if s.waiting and now - s.heard <= GONE]
        assert not here or any(windows[c] for c in here)
        if client in here and not windows[client]:  # it is held for the sake of one that had less
            assert min(shares.clients[c].served for c in here) < shares.clients[client].served
