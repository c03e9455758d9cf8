"""Server-sent events: what changes while a page is open.

However many browsers watch the same thing, the database is asked once a second for all of them. Events:
``state`` carries an object of texts for the page, ``refresh`` an object whose ``charts`` names those that have changed
and whose ``parts`` says whether the page's tables have, and ``end`` says that nothing more will. A comment line every
few seconds shows that the connection stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from tilewright.core import TilewrightError

PERIOD = 1.0
"""Seconds between two looks."""
SLOW_PERIOD = 10.0
"""Seconds between two ``refresh`` of tables, and of the charts that cost more to draw."""
KEEP_ALIVE = 15.0
WAITING = 16
"""The most events that wait for a slow reader. A reader with more is disconnected; its browser connects again."""


@dataclass(frozen=True)
class Look:
    """The state that a page shows now. ``mark`` changes when the state changes; ``ended``: it will not change again."""

    mark: object
    texts: Mapping[str, str]
    ended: bool = False


@dataclass(frozen=True)
class Feed:
    """``key`` is the same for those who watch the same. ``charts`` are refreshed at each change, ``slow`` ones now and
    then."""

    key: str
    look: Callable[[], Look]
    charts: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()


Event = tuple[str, Mapping[str, Any]]
_Queue = asyncio.Queue[bytes | None]


def encode(event: Event) -> bytes:
    name, data = event
    return f"event: {name}\ndata: {json.dumps(dict(data))}\n\n".encode()


class Watch:
    """One feed's readers, and the task that looks on their behalf."""

    def __init__(self, feed: Feed, done: Callable[[Watch], None]) -> None:
        self.feed = feed
        self.queues: set[_Queue] = set()
        self._last: Look | None = None
        self._done = done
        self._task = asyncio.create_task(self._run())

    def join(self) -> _Queue:
        queue: _Queue = asyncio.Queue(WAITING)
        if self._last is not None:
            queue.put_nowait(encode(("state", self._last.texts)))
        self.queues.add(queue)
        return queue

    def leave(self, queue: _Queue) -> None:
        self.queues.discard(queue)
        if not self.queues:
            self._task.cancel()
            self._done(self)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        slow_at = loop.time() + SLOW_PERIOD
        owed = False
        try:
            while True:
                look = await run_in_threadpool(self.feed.look)
                changed = self._last is not None and look.mark != self._last.mark
                if self._last is None or look != self._last:
                    self._send(("state", look.texts))
                self._last = look
                owed |= changed
                charts = self.feed.charts if changed else ()
                everything = owed and (look.ended or loop.time() >= slow_at)
                if everything:
                    charts += self.feed.slow
                    slow_at, owed = loop.time() + SLOW_PERIOD, False
                if charts or everything:
                    self._send(("refresh", {"charts": list(charts), "parts": everything}))
                if look.ended:
                    self._send(("end", {"text": "ended"}))
                    return
                await asyncio.sleep(PERIOD)
        except TilewrightError as e:
            # The database or the run is gone: the browser asks again later.
            self._send(("trouble", {"text": e.message}))
        finally:
            for queue in self.queues:
                _put(queue, None)
            self._done(self)

    def _send(self, event: Event) -> None:
        data = encode(event)
        for queue in list(self.queues):
            if not _put(queue, data):
                self.queues.discard(queue)


class Hub:
    """All watches of one site, by their feeds' keys."""

    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}

    async def stream(self, feed: Feed) -> AsyncIterator[bytes]:
        """A reader's events, until the feed ends or the reader goes away."""
        watch = self._watches.get(feed.key)
        if watch is None:
            watch = self._watches[feed.key] = Watch(feed, self._forget)
        queue = watch.join()
        try:
            yield b"retry: 3000\n\n"
            while True:
                try:
                    data = await asyncio.wait_for(queue.get(), KEEP_ALIVE)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if data is None:
                    return
                yield data
        finally:
            watch.leave(queue)

    def _forget(self, watch: Watch) -> None:
        if self._watches.get(watch.feed.key) is watch:
            del self._watches[watch.feed.key]


def _put(queue: _Queue, data: bytes | None) -> bool:
    """Whether the reader's queue had room. A reader without room is disconnected after the events that it has."""
    with contextlib.suppress(asyncio.QueueFull):
        queue.put_nowait(data)
        return True
    queue.get_nowait()
    queue.put_nowait(None)
    return False
