"""The farm's JetStream streams: a queue for each place that workers name, results, artifacts, and marks of begun jobs.

Queues are created and dropped in tasks beside the keeper's handling of messages. A queue that no worker has named for a
while is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tilewright.farm import subjects
from tilewright.farm.budgets import JOB, JOBS, MARK, MARKS, QUEUED, QUEUES, QUEUES_EACH, RESULT, WRAPPING
from tilewright.farm.errors import FarmError, NotStored
from tilewright.farm.link import SILENT, Link, Say

_DAY = 86400.0
_HEADERS = 4 << 10  # bytes of a message's headers
_ROOM = 16  # most queues to drop before a queue is created


@dataclass
class Queue:
    """A place's queue. ``owner``: owner of the worker that caused it, empty if unknown. ``idle``: since when no worker
    names it. ``made``: whether the server has it with the right options."""

    owner: str = ""
    idle: float = math.inf
    made: bool = False


class Queues:
    """The streams of one farm, managed over the connection of :meth:`begin`.

    ``heartbeat``, ``patience``: seconds; an idle queue is dropped after ``patience``. ``replicas``: servers that hold
    each message. ``storage``: bytes of a server's disk.
    """

    def __init__(self, heartbeat: float, patience: float, replicas: int, storage: int, say: Say) -> None:
        self.heartbeat, self.patience, self.replicas, self.storage = heartbeat, patience, replicas, storage
        self.known: dict[str, Queue] = {}
        self._say = say
        self._link: Link
        self._began = time.monotonic()
        self._since = self._began
        self._changing: dict[str, Any] = {}  # stream whose options on the server differ -> wanted options
        self._making: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, None] = {}  # streams to drop, in order
        self._counted: dict[str, tuple[int, int]] = {}
        self._look_again = -math.inf
        self._one = asyncio.Lock()  # one change of streams at a time

    async def begin(self, link: Link) -> None:
        """Lists the server's queues, and creates the streams that every farm has. Raises ``FarmError``."""
        from nats.js.api import StorageType

        self._link, self._since = link, time.monotonic()
        for queue in self.known.values():
            queue.made = False
        for name in await self._names():
            place = subjects.place_of(name)
            if place is not None:
                self.known.setdefault(place, Queue(idle=-math.inf))
        await self._stream(
            subjects.RESULTS, "result.*.*.*", max_age=self.patience, max_msgs_per_subject=1,
            max_bytes=self.storage // 8, duplicate_window=min(120.0, self.patience), max_msg_size=_stored(RESULT.most),
        )  # fmt: skip
        await self._stream(subjects.ARTIFACTS, "art.*", max_msgs_per_subject=1, max_bytes=self.storage // 2)
        await self._stream(
            subjects.BEGUN, "begun.*.*.*.*", max_age=_DAY, max_msgs_per_subject=8, max_bytes=MARKS.most,
            max_msg_size=MARK.most, storage=StorageType.MEMORY,
        )  # fmt: skip
        await self.change()

    # ------------------------------------------------------------------ queues

    def claim(self, places: Collection[str], owner: str) -> bool:
        """Registers queues for a worker's places; returns whether the server has all queues already. Raises
        ``OverBudget`` for too many queues."""
        new = [p for p in places if p not in self.known]
        if new:
            QUEUES_EACH.check(sum(q.owner == owner for q in self.known.values()) + len(new))
            over = len(self.known) + len(new) - QUEUES.most
            if over > 0:
                silent = time.monotonic() - SILENT * self.heartbeat
                idle = sorted((q.idle, p) for p, q in self.known.items() if q.idle < silent and p not in places)
                QUEUES.check(QUEUES.most + over - len(idle[:over]))
                for _, place in idle[:over]:
                    self._give_up(place)
            self.known |= {p: Queue(owner) for p in new}
        for place in places:
            self.known[place].idle = math.inf
        return all(self.known[p].made for p in places)

    async def wait_made(self, places: Collection[str]) -> None:
        """Waits until the server has the queues of claimed places. Raises ``FarmError`` where it has no room."""
        await asyncio.gather(*(asyncio.shield(self._made(p)) for p in places if not self._is_made(p)))

    def _is_made(self, place: str) -> bool:
        return place in self.known and self.known[place].made

    def _made(self, place: str) -> asyncio.Task[None]:
        task = self._making.get(place)
        if task is None:
            task = self._making[place] = asyncio.get_running_loop().create_task(self._make_queue(place))
            task.add_done_callback(lambda t: (self._making.pop(place, None), t.cancelled() or t.exception()))
        return task

    async def _make_queue(self, place: str) -> None:
        """Creates the stream of a place's jobs and the consumer that its workers share."""
        from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy

        stream, consumer = subjects.queue_of(place)
        async with self._one:
            for name in list(self._leaving)[:_ROOM]:
                with contextlib.suppress(NotStored):
                    await self._drop(name)
            self._leaving.pop(stream, None)
            await self._stream(
                stream, f"jobs.{subjects.token(place)}.*.*.*", retention=RetentionPolicy.WORK_QUEUE, max_age=_DAY,
                max_msgs=JOBS.most, discard=DiscardPolicy.NEW, duplicate_window=120.0, max_msg_size=_stored(JOB.most),
            )  # fmt: skip
            wanted = ConsumerConfig(
                durable_name=consumer, ack_policy=AckPolicy.EXPLICIT, ack_wait=SILENT * self.heartbeat, max_deliver=-1,
                max_ack_pending=100_000, max_waiting=100_000,
            )  # fmt: skip
            found = await self._found("consumer_info", stream, consumer)
            if found is None or found.config.ack_wait != wanted.ack_wait:  # replacing a consumer drops pending pulls
                await self._link.manage("add_consumer", stream, wanted)
        if place in self.known:
            self.known[place].made = True

    async def tidy(self, used: Callable[[str], object]) -> None:
        """Drops queues that no worker has named for ``patience``, and queues over the limit. ``used``: truthy for a
        place that a worker names."""
        now = time.monotonic()
        for place, queue in self.known.items():
            queue.idle = math.inf if used(place) or place in self._making else min(queue.idle, now)
        over = len(self.known) - QUEUES.most if now - self._since > SILENT * self.heartbeat else 0
        for n, (since, place) in enumerate(sorted((q.idle, p) for p, q in self.known.items() if q.idle < now)):
            if n < over or now - max(since, self._since) > self.patience:
                self._give_up(place)
        while self._leaving:
            async with self._one:
                for name in list(self._leaving)[:1]:
                    await self._drop(name)

    async def relieve(self) -> None:
        """Drops and recreates the largest queue when jobs leave no room for results and artifacts.

        Only a client that ignores its window can send that many jobs. The place's other clients send their jobs again.
        """
        most = self.storage // 4  # bytes for jobs, beside the limits of results (1/8) and artifacts (1/2)
        if (await self._link.manage("account_info")).storage <= self.storage // 8 + self.storage // 2 + most:
            return
        sizes = {}
        for place in [p for p, q in self.known.items() if q.made]:
            found = await self._found("stream_info", subjects.queue_of(place)[0])
            sizes[place] = int(found.state.bytes) if found else 0
        if sum(sizes.values()) <= most:  # in a cluster, account_info counts every replica
            return
        place = max(sizes, key=sizes.__getitem__)
        stream = subjects.queue_of(place)[0]
        found = await self._link.manage("stream_info", stream, subjects_filter=f"jobs.{subjects.token(place)}.>")
        clients = Counter(s.split(".")[2] for s in found.state.subjects or ())
        client, jobs = max(clients.items(), key=lambda c: c[1], default=("nobody", 0))  # nobody: done meanwhile
        self._say(
            f"the queue of {place} is made again: {sizes[place]:,} bytes of jobs, of them {jobs:,} jobs of client "
            f"{client.replace('%', '.')}, leave no room for results and artifacts ({QUEUED.where})"
        )
        async with self._one:
            await self._drop(stream)
        if place in self.known:
            self.known[place].made = False
            await self.wait_made([place])

    def _give_up(self, place: str) -> None:
        del self.known[place]
        self._leaving[subjects.queue_of(place)[0]] = None

    async def _drop(self, stream: str) -> None:
        from nats.js.errors import NotFoundError

        try:
            await self._link.manage("delete_stream", stream)
        except NotStored as e:
            if not isinstance(e.__context__, NotFoundError):
                raise
        self._leaving.pop(stream, None)
        self._changing.pop(stream, None)

    async def purge(self, place: Any, client: str, session: str, ids: Collection[str] | None = None) -> None:
        """Removes jobs of a session from a queue: all jobs, or only the jobs with ``ids``.

        Jobs are deleted one by one, because nats-server 2.9 counts messages for ever that it purges by subject.
        """
        if not isinstance(place, str) or not self._is_made(place):
            return
        stream, start = subjects.queue_of(place)[0], f"jobs.{subjects.token(place)}.{client}.{session}."
        with contextlib.suppress(FarmError):
            only = next(iter(ids)) if ids is not None and len(ids) == 1 else "*"
            info = await self._link.manage("stream_info", stream, subjects_filter=f"{start}{only}")
            for subject in info.state.subjects or ():
                if ids is None or subject.removeprefix(start) in ids:
                    with contextlib.suppress(NotStored):  # done meanwhile, or removed by another keeper
                        found = await self._link.manage("get_last_msg", stream, subject)
                        await self._link.manage("delete_msg", stream, found.seq)

    async def counts(self) -> dict[str, tuple[int, int]]:
        """Number of jobs in each queue, and how many of the jobs workers hold. The counts are cached, so that counting
        takes at most a fifth of the time."""
        began = time.monotonic()
        if began >= self._look_again:
            made = [p for p, q in self.known.items() if q.made]
            self._counted = dict(zip(made, await asyncio.gather(*map(self._count, made)), strict=True))
            now = time.monotonic()
            self._look_again = now + 4 * (now - began)
        return self._counted

    async def _count(self, place: str) -> tuple[int, int]:
        try:
            info = await self._link.manage("consumer_info", *subjects.queue_of(place))
        except FarmError:
            return 0, 0
        return int(info.num_pending or 0) + int(info.num_ack_pending or 0), int(info.num_ack_pending or 0)

    # ------------------------------------------------------------------ streams

    async def _names(self) -> list[str]:
        """Names of all streams on the server."""
        found: list[str] = []
        while True:
            reply = await self._link.raw(f"{self._link.endpoint.orders}.STREAM.NAMES", _json({"offset": len(found)}))
            said = json.loads(reply.data)
            found += said.get("streams") or ()
            if not said.get("streams") or len(found) >= said["total"]:
                return found

    async def _stream(self, name: str, subject: str, **more: Any) -> None:
        from nats.js.api import StreamConfig

        config = StreamConfig(name=name, subjects=[subject], num_replicas=self.replicas, allow_direct=True, **more)
        found = await self._found("stream_info", name)
        if found is None:
            await self._make(config)
        elif any(getattr(found.config, k) != v for k, v in {**more, "num_replicas": self.replicas}.items()):
            self._changing[name] = config

    async def _make(self, config: Any) -> None:
        """Creates a stream. After a while it is created on one server only, if the cluster has fewer servers than
        replicas."""
        try:
            await self._link.manage("add_stream", config)
        except FarmError:
            if self.replicas == 1 or time.monotonic() - self._began < SILENT * self.heartbeat:
                raise
            await self._link.manage("add_stream", config.evolve(num_replicas=1))
            self._say(f"{config.name} is on one server alone until there are more")
            self._changing[config.name] = config

    async def change(self) -> None:
        """Updates streams whose options have changed, or that need more servers, once the servers are there."""
        for name, config in list(self._changing.items()):
            with contextlib.suppress(FarmError):
                await self._link.manage("update_stream", config)
                self._changing.pop(name, None)

    async def _found(self, what: str, *names_: str) -> Any:
        """Calls JetStream's look-up ``what``; ``None`` if the server has nothing of that name. Raises ``FarmError``."""
        from nats.js.errors import NotFoundError

        try:
            return await self._link.manage(what, *names_)
        except FarmError as e:
            if isinstance(e.__context__, NotFoundError):
                return None
            raise


def _stored(size: int) -> int:
    """Bytes that the server stores for a message of ``size`` bytes, with signature and headers."""
    return size + WRAPPING.most + _HEADERS


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
