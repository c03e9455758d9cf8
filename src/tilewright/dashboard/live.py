"""Server-sent events: what changes while a page is open.

However many browsers watch the same thing, the database is asked once a second for all of them. Events:
``state`` carries an object of texts for the page, ``refresh`` an object whose ``charts`` names those that have changed
and whose ``parts`` says whether the page's tables have, and ``end`` says that nothing more will. A comment line every
few seconds shows that the connection stands.
"""

from __future__ import annotations

import asyncio
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


def encode(event: Event) -> bytes:
    name, data = event
    return f"event: {name}\ndata: {json.dumps(dict(data))}\n\n".encode()


class Hub:
    """The looks of one site, by their feeds' keys: each is taken once, for all who ask for it within a period."""

    def __init__(self) -> None:
        self._looks: dict[str, tuple[float, asyncio.Task[Look]]] = {}

    async def stream(self, feed: Feed) -> AsyncIterator[bytes]:
        """A reader's events, until the feed ends or the reader goes away.

        The next look waits until the reader has taken the events of the last one: nothing piles up for a slow reader.
        """
        loop = asyncio.get_running_loop()
        last: Look | None = None
        owed = False
        told, slow_at = loop.time(), loop.time() + SLOW_PERIOD
        yield b"retry: 3000\n\n"
        while last is None or not last.ended:
            if last is not None:
                await asyncio.sleep(PERIOD)
            try:
                look = await self._look(feed)
            except TilewrightError as e:
                # The database or the run is gone: the browser asks again later.
                self._looks.pop(feed.key, None)
                yield encode(("trouble", {"text": e.message}))
                return
            changed = last is not None and look.mark != last.mark
            owed |= changed
            everything = owed and (look.ended or loop.time() >= slow_at)
            charts = (feed.charts if changed else ()) + (feed.slow if everything else ())
            events: list[Event] = [] if look == last else [("state", look.texts)]
            if everything:
                slow_at, owed = loop.time() + SLOW_PERIOD, False
            if charts or everything:
                events.append(("refresh", {"charts": list(charts), "parts": everything}))
            if look.ended:
                events.append(("end", {"text": "ended"}))
            if not events and loop.time() - told >= KEEP_ALIVE:
                yield b": still here\n\n"
                told = loop.time()
            for event in events:
                yield encode(event)
                told = loop.time()
            last = look

    async def _look(self, feed: Feed) -> Look:
        """A look that is a period old at most."""
        now = asyncio.get_running_loop().time()
        self._looks = {k: (at, task) for k, (at, task) in self._looks.items() if now - at < PERIOD or not task.done()}
        if feed.key not in self._looks:
            self._looks[feed.key] = now, asyncio.create_task(run_in_threadpool(feed.look))
        return await asyncio.shield(self._looks[feed.key][1])
