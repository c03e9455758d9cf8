"""Messages that wait for one handler, taken in turn from each sender: a flood makes its own sender wait."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tilewright.farm.budgets import WAITING, WAITING_EACH, WRAPPING, OverBudget, of_subject

_LOG = logging.getLogger(__name__)
Rest = Coroutine[Any, Any, Any]
_ALWAYS = 64 << 10  # bytes that every sender may have here, however much others have
_READS = 16  # times that the connection is read between two messages, where there is so much
_OBJECT = 1 << 10  # bytes that a message takes beside its content


def sender(subject: str) -> str:
    """Role and name in a subject: who may publish there."""
    what, *names = subject.split(".")
    return f"client.{names[0]}" if what == "cancel" else ".".join(names[:2])


class Inbox:
    """Hands messages to ``handle`` one after the other, each sender's in their order, senders in turn.

    What ``handle`` returns goes on while others are heard. ``over`` is told of messages that no budget has room for.
    """

    def __init__(
        self,
        handle: Callable[[Any], Awaitable[Rest | None]],
        over: Callable[[Any, OverBudget], Awaitable[None]],
    ) -> None:
        self._handle, self._over = handle, over
        self._waiting: OrderedDict[str, deque[Any]] = OrderedDict()
        self._bytes: Counter[str] = Counter()
        self._total = self._came = 0
        self._some = asyncio.Event()
        self._going_on: set[asyncio.Task[Any]] = set()

    async def put(self, message: Any) -> None:
        """Take a message in; called with every one of a subscription."""
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
        self._waiting.setdefault(who, deque()).append(message)
        self._some.set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await self._some.wait()
                self._some.clear()
                while self._waiting:
                    who, queue = self._waiting.popitem(last=False)
                    message = queue.popleft()
                    if queue:
                        self._waiting[who] = queue
                    await self._one(who, message)
                    await self._read_on()
        finally:
            for task in self._going_on:
                task.cancel()

    async def _read_on(self) -> None:
        """Take in what has come: the server cuts off who reads too slowly."""
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
        except Exception:  # whatever it is, the next one is to be heard
            _LOG.exception("a message on %s", message.subject)
        finally:
            if rest is None:
                self._count(who, -size)
        if rest is not None:
            task = asyncio.get_running_loop().create_task(rest)
            self._going_on.add(task)
            task.add_done_callback(self._going_on.discard)
            task.add_done_callback(lambda _task: self._count(who, -size))

    def _count(self, who: str, size: int) -> None:
        self._total += size
        self._bytes[who] += size
        if not self._bytes[who]:
            del self._bytes[who]
