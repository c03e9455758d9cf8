"""Server-sent events that update an open page.

All browsers with one page share one query of the database a second. The event ``state`` carries an object of texts for
the page. ``refresh`` carries an object: ``charts`` names the changed charts, ``parts`` tells whether the page's tables
have changed. ``end`` tells that no event follows. A comment line every few seconds keeps the connection alive.
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
"""Seconds between two reads of a page's state."""
SLOW_PERIOD = 10.0
"""Seconds between two ``refresh`` events for tables and for the charts that cost more to draw."""
KEEP_ALIVE = 15.0


@dataclass(frozen=True)
class Look:
    """The current state of a page. ``mark`` changes when the state changes; ``ended``: it will not change again."""

    mark: object
    texts: Mapping[str, str]
    ended: bool = False


@dataclass(frozen=True)
class Feed:
    """The source of a page's events. Readers whose feeds have one ``key`` share its looks. ``charts`` are refreshed at
    each change, ``slow`` charts every ``SLOW_PERIOD`` seconds."""

    key: str
    look: Callable[[], Look]
    charts: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()


Event = tuple[str, Mapping[str, Any]]


def encode(event: Event) -> bytes:
    name, data = event
    return f"event: {name}\ndata: {json.dumps(dict(data))}\n\n".encode()


class Hub:
    """Shares the looks of a site's feeds: each feed is read once a period for all of its readers."""

    def __init__(self) -> None:
        self._looks: dict[str, tuple[float, asyncio.Task[Look]]] = {}

    async def stream(self, feed: Feed) -> AsyncIterator[bytes]:
        """Yields a reader's events until the feed ends or the reader disconnects.

        The next look waits until the reader has taken the events of the last look, so no events pile up for a slow
        reader.
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
                # The database or the run is gone: the browser reconnects later.
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
        """A look at a feed that is at most a period old."""
        now = asyncio.get_running_loop().time()
        self._looks = {k: (at, task) for k, (at, task) in self._looks.items() if now - at < PERIOD or not task.done()}
        if feed.key not in self._looks:
            self._looks[feed.key] = now, asyncio.create_task(run_in_threadpool(feed.look))
        return await asyncio.shield(self._looks[feed.key][1])
