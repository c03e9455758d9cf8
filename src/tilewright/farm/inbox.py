"""Fair queueing of messages for one handler: senders get equal shares of its time; a flood delays only its sender."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tilewright.farm.budgets import WAITING, WAITING_EACH, WRAPPING, OverBudget, of_subject
from tilewright.farm.link import spawn

_LOG = logging.getLogger(__name__)
Rest = Coroutine[Any, Any, Any]
_ALWAYS = 64 << 10  # bytes that every sender may have waiting, even when the budget of all senders is used up
_READS = 16  # most reads of the connection between two messages
_REMEMBERED = 1024  # senders whose handler seconds are kept while messages wait
_OBJECT = 1 << 10  # bytes that a message object takes beside its content


def sender(subject: str) -> str:
    """Role and name in a subject: the peer that may publish there."""
    what, *names = subject.split(".")
    return f"client.{names[0]}" if what == "cancel" else ".".join(names[:2])


class Inbox:
    """Hands messages to ``handle`` one after the other, each sender's messages in their order.

    The next message is from the sender that has used the least handler time. A new or returning sender starts with
    the least time of the waiting senders. A coroutine that ``handle`` returns runs beside later messages. ``over`` is
    called with messages over a budget. ``now``: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        handle: Callable[[Any], Awaitable[Rest | None]],
        over: Callable[[Any, OverBudget], Awaitable[None]],
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._handle, self._over, self._now = handle, over, now
        self._waiting: dict[str, deque[Any]] = {}
        self._served: dict[str, float] = {}  # handler seconds of each sender, counted from its starting level
        self._level = 0.0
        self._bytes: Counter[str] = Counter()
        self._total = self._came = 0
        self._some = asyncio.Event()
        self._going_on: set[asyncio.Task[Any]] = set()

    async def put(self, message: Any) -> None:
        """Queues a message; called with every message of a subscription."""
        self._came += 1
        who, size = sender(message.subject), len(message.data)
        try:
            of_subject(message.subject).check(size - WRAPPING.most)
            WAITING_EACH.check(self._bytes[who] + size + _OBJECT)
            if self._bytes[who] + size > _ALWAYS:
                WAITING.check(self._total + size + _OBJECT)
        except OverBudget as e:
            await self._over(message, e)
            return
        self._count(who, size + _OBJECT)
        if who not in self._waiting:
            self._waiting[who] = deque()
            self._served[who] = max(self._served.get(who, 0.0), self._level)
        self._waiting[who].append(message)
        self._some.set()

    async def run(self) -> None:
        """Handles messages until cancelled."""
        try:
            while True:
                await self._some.wait()
                self._some.clear()
                while self._waiting:
                    who = min(self._waiting, key=self._served.__getitem__)
                    self._level = self._served[who]
                    message = self._waiting[who].popleft()
                    if not self._waiting[who]:
                        del self._waiting[who]
                    began = self._now()
                    await self._one(who, message)
                    self._served[who] += self._now() - began
                    await self._read_on()
                    if len(self._served) > _REMEMBERED:
                        self._served = {w: self._served[w] for w in self._waiting}
                self._served.clear()
                self._level = 0.0
        finally:
            for task in self._going_on:
                task.cancel()

    async def _read_on(self) -> None:
        """Lets the connection read arrived messages: the server disconnects a peer that reads too slowly."""
        for _ in range(_READS):
            came = self._came
            await asyncio.sleep(0)
            if self._came == came:
                return

    async def _one(self, who: str, message: Any) -> None:
        size = len(message.data) + _OBJECT
        rest = None
        try:
            rest = await self._handle(message)
        except Exception:  # one message's failure must not stop the next message
            _LOG.exception("a message on %s", message.subject)
        finally:
            if rest is None:
                self._count(who, -size)
        if rest is not None:
            spawn(self._going_on, rest).add_done_callback(lambda _task: self._count(who, -size))

    def _count(self, who: str, size: int) -> None:
        self._total += size
        self._bytes[who] += size
        if not self._bytes[who]:
            del self._bytes[who]
