"""The base of runners and builders: stays connected, takes jobs, keeps results until the server has stored them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

from tilewright import __version__
from tilewright.backends.cache import ArtifactCache
from tilewright.core import TilewrightError
from tilewright.farm import subjects
from tilewright.farm.budgets import AHEAD, NEEDS, UNSTORED, OverBudget, cut
from tilewright.farm.errors import NONSENSE, FarmError, LinkClosed, NotStored, Refused, Taken, Unreachable
from tilewright.farm.link import ANSWER_SECONDS, SILENT, Endpoint, Link, Say, end, spawn, waited, waits
from tilewright.farm.log import Log
from tilewright.farm.workers.work import Held, Missing, Record, Reply

DRAIN_SECONDS = 60.0
PERSISTENT = 8  # attempts to get a name that another process has; the farm notices a dead process meanwhile
STUBBORN = 20  # refusals in a row after which a service gives up that the farm had accepted before
ATTEMPTS = 3  # begun attempts of a job after which it is given up
STORE_TRIES = 20  # attempts to store a result on a server that has no room


class Service(ABC):
    """A process that works for a farm until it is drained or stopped.

    It reconnects whenever it is cut off. Its jobs go on meanwhile, and it sends results until the server has stored
    them.
    """

    role = ""
    lanes = 1

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        cache: ArtifactCache,
        say: Say = lambda _line: None,
    ) -> None:
        self.endpoint = endpoint
        self.name = name
        self.cache = cache
        self.instance = secrets.token_hex(8)
        self.connected = asyncio.Event()
        self.record = Record(cache.root / "farm" / f"{name.replace('/', '-')}.json")
        self.refused = 0  # jobs that were malformed, or not signed by their client
        self._say = Log(say)
        self._link: Link | None = None
        self._heartbeat = 5.0
        self._able: Mapping[str, Any] = {}  # the result of greeting()
        self._peers: Mapping[str, int] = {}  # place -> number of workers, this worker included
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._pulls: dict[str, float] = {}  # place -> until when a request for a job is pending
        self._seen: deque[str] = deque(maxlen=4096)  # ids of commands that were carried out
        self._loop: asyncio.AbstractEventLoop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._done, self._busy, self._running = 0, 0.0, 0
        self._draining = False
        self._stopping = asyncio.Event()
        self._pool = ThreadPoolExecutor(self.lanes, self.role)

    # ------------------------------------------------------------------ to be implemented

    @abstractmethod
    def greeting(self) -> dict[str, Any]:
        """The service's offer in its first message: ``places``, and ``device`` and ``offers`` for people to read."""

    @abstractmethod
    def execute(self, payload: Mapping[str, Any], paths: Mapping[str, str]) -> Reply:
        """Runs a job; called in a thread, at most ``lanes`` at once. ``paths``: files of its artifacts, by hash."""

    def note(self) -> str:
        """The current activity, in a few words."""
        return ""

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Works until drained or stopped. Raises ``Refused`` if the farm refuses this process for good."""
        self._loop = asyncio.get_running_loop()
        self._able = self.greeting()
        pause, refused, ever = waits(), 0, False
        while not self._stopping.is_set():
            try:
                link = await self.endpoint.connect()
                try:
                    await self._greet(link)
                    pause, refused, ever = waits(), 0, True
                    await self._serve(link)
                finally:
                    self._link = None
                    self.connected.clear()
                    await link.close()
                if not self._stopping.is_set():
                    self._say("cut off")
            except Refused as e:
                refused += 1
                if refused >= STUBBORN or (not ever and (not isinstance(e, Taken) or refused >= PERSISTENT)):
                    raise
                self._say(f"refused: {e.message}")
            except FarmError as e:
                self._say(e.message)
            if not self._stopping.is_set():
                await waited(self._stopping, next(pause))

    async def _greet(self, link: Link) -> None:
        self._link = link
        self._pulls.clear()
        where = subjects.control(self.role, self.endpoint.name, self.name)
        await link.subscribe(where, self._commanded)
        await link.subscribe("cancel.*.*", self._cancelled)
        await link.subscribe(f"{self._inbox}.*", self._delivered)
        await self._beat(link)
        self.connected.set()
        self._say(f"connected to {self.endpoint.address} as {self.name}")

    async def _serve(self, link: Link) -> None:
        """Serves one connection until it ends or the service stops; it may have been stopped before it connected."""
        await self._pull()
        beats = asyncio.create_task(self._beating(link))
        ended = [asyncio.create_task(event.wait()) for event in (link.closed, self._stopping)]
        try:
            await asyncio.wait({beats, *ended}, return_when=asyncio.FIRST_COMPLETED)
            if beats.done():
                await beats  # raises the error that ended it
        finally:
            await end(*ended, beats)

    async def _beating(self, link: Link) -> None:
        """Sends heartbeats to the keeper, and reports to the server that held jobs are in progress."""
        missed = 0
        while True:
            await asyncio.sleep(self._heartbeat)
            for job in list(self._held.values()):
                await link.publish(job.ticket, b"+WPI")
            try:
                await self._beat(link)
                missed = 0
            except LinkClosed:
                missed += 1
                if missed >= SILENT - 1:
                    raise
            except Unreachable:  # without a keeper the server still hands out jobs
                missed = 0
            await self._pull()

    async def _beat(self, link: Link) -> None:
        welcome = await link.ask({"what": "beat", **self._state()})
        self._heartbeat, self._peers = float(welcome["heartbeat"]), dict(welcome["workers"])

    def _state(self) -> dict[str, Any]:
        return {
            "name": self.name, "instance": self.instance, "lanes": self.lanes, "running": self._running,
            "queued": len(self._held) - self._running, "done": self._done, "busy": self._busy,
            "draining": self._draining, "quarantine": cut(self.record.quarantine), "strikes": self.record.strikes,
            "note": cut(self.note()[:200]), "device": {}, "offers": {}, "tilewright": __version__,
            "clock": time.time(), **self._able,
        }  # fmt: skip

    async def drain(self, deadline: float = DRAIN_SECONDS) -> bool:
        """Takes no more jobs, finishes running jobs within ``deadline`` seconds, and leaves. Returns ``False`` if jobs
        did not finish."""
        self._draining = True
        link = self._link
        if link is not None:
            with contextlib.suppress(FarmError):
                await self._beat(link)
        await self._give_back(lambda job: not job.begun)
        until = time.monotonic() + deadline
        while self._held and time.monotonic() < until and not self._stopping.is_set():
            await asyncio.sleep(0.01)
        finished = not self._held
        await self._give_back(lambda _job: True)
        link = self._link  # read again: the service may have reconnected
        if link is not None:
            with contextlib.suppress(FarmError):
                await link.ask({"what": "bye", "name": self.name, "instance": self.instance, "why": "drained"})
            await link.close()  # sends pending messages first
        self.stop()
        return finished

    def stop(self) -> None:
        """Leaves at once. The server gives running jobs to other workers."""
        self._stopping.set()

    async def close(self) -> None:
        """Ends background tasks and threads, after :meth:`run`."""
        await end(*self._tasks)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.record.close()

    # ------------------------------------------------------------------ commands

    async def _commanded(self, message: Any) -> None:
        """Carries out a keeper's command. A replayed command, or a command to an earlier process, is ignored."""
        link = self._link
        opened = link.open(message, ("server",)) if link else None
        if link is None or opened is None:
            return
        command = opened[0]
        number = str(command.get("id"))
        if command.get("instance") != self.instance or number in self._seen:
            return
        self._seen.append(number)
        what = command.get("do")
        if what == "drain":
            self._say("told to drain")
            self._draining = True
            spawn(self._tasks, self.drain())
        elif what == "quarantine":
            self.record.save(quarantine=cut(str(command["why"])))
            await self._give_back(lambda job: not job.begun)
        elif what == "release":
            self.record.save(quarantine="", strikes=0)
            spawn(self._tasks, self._pull())
        spawn(self._tasks, self._show())

    async def _cancelled(self, message: Any) -> None:
        """Drops jobs that a client has cancelled and that have not begun."""
        opened = self._link.open(message, ("client",)) if self._link else None
        if opened is None:
            return
        client, session = message.subject.split(".")[1:]
        if opened[1] is not None and subjects.token(opened[1].name) != client:
            return
        ids = opened[0].get("ids")  # None: all jobs of the session
        for job in list(self._held.values()):
            if (job.client, job.session) == (client, session) and (ids is None or job.id in ids) and not job.begun:
                self._forget(job)
                await self._say_of(job, b"+ACK")

    async def _give_back(self, which: Callable[[Held], bool]) -> None:
        for job in [j for j in self._held.values() if which(j) and not j.done]:
            self._forget(job)
            await self._say_of(job, b"-NAK")

    def _forget(self, job: Held) -> None:
        job.dropped = True
        self._held.pop(job.id, None)

    async def _say_of(self, job: Held, what: bytes) -> None:
        """Acknowledges a delivery to the server: done (``+ACK``), or to be delivered again (``-NAK``)."""
        if self._link is not None:
            await self._link.publish(job.ticket, what)

    # ------------------------------------------------------------------ taking jobs

    async def _pull(self) -> None:
        """Requests a job from each place without a pending request, while this worker has room."""
        link, now = self._link, time.monotonic()
        if link is None or self._draining or self.record.quarantine or link.seal.stale:
            return
        done = sum(job.done for job in self._held.values())
        room = self.lanes + AHEAD.most - (len(self._held) - done) if done < UNSTORED.most else 0
        for place in self._able["places"] if room > 0 else ():
            if self._pulls.get(place, 0.0) <= now:
                # Short requests: a cluster's server that leads the queue loses pending requests when it fails.
                self._pulls[place] = now + self._heartbeat
                stream, consumer = subjects.queue_of(place)
                body = json.dumps({"batch": 1, "expires": int(0.9 * self._heartbeat * 1e9)}).encode()
                reply = f"{self._inbox}.{subjects.token(place)}"
                await link.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, reply)

    @property
    def _most(self) -> int:
        """Largest number of jobs held at once, even if a forged request had more jobs delivered."""
        return self.lanes + AHEAD.most * len(self._able["places"]) + UNSTORED.most

    @property
    def _inbox(self) -> str:
        return f"{subjects.inbox(self.role, self.endpoint.name)}.{self.instance}"

    async def _delivered(self, message: Any) -> None:
        """Takes the answer to a request for a job: a job under its own subject, or a status."""
        status = (message.headers or {}).get("Status")
        place = message.subject.split(".")[-1 if status else 1].replace("%", ".")
        self._pulls.pop(place, None)
        if status is None:
            await self._take(place, message)
        elif status not in ("404", "408"):  # no queue, or too many requests: the next request waits a little
            self._pulls[place] = time.monotonic() + self._heartbeat / 2
        await self._pull()

    async def _take(self, place: str, message: Any) -> None:
        link = self._link
        if link is None:
            return
        if link.seal.stale:  # another worker may have a current list of revoked certificates
            await link.publish(message.reply, b"-NAK")
            return
        opened = link.open(message, ("client",))
        try:
            _, _, client, session, job_id = message.subject.split(".")
            if opened is None or (opened[1] is not None and subjects.token(opened[1].name) != client):
                raise ValueError("sender")
            body = opened[0]
            delivered = int(message.reply.split(".")[4])  # $JS.ACK.STREAM.CONSUMER.DELIVERED...
            NEEDS.check(len(body["needs"]))
            needs = tuple(map(str, body["needs"]))
            if not all(map(subjects.SHA256.fullmatch, needs)):
                raise ValueError("needs")
            job = Held(job_id, client, session, dict(body["payload"]), needs, message.reply, delivered, opened[1])
        except (*NONSENSE, OverBudget) as e:
            self.refused += 1
            unheard = link.denied[-1] if opened is None and link.denied else "it is malformed"
            why = str(e) if isinstance(e, OverBudget) else unheard
            self._say.about(".".join(message.subject.split(".")[2:3]), f"refused a job: {why}")
            await link.publish(message.reply, b"+TERM")
            return
        known = self._held.get(job.id)
        if known is not None:  # the server delivered it again while this process was cut off
            known.ticket = job.ticket
        elif self._draining or self.record.quarantine or len(self._held) >= self._most:
            await self._say_of(job, b"-NAK")
        else:
            self._held[job.id] = job
            spawn(self._tasks, self._work(job, place))

    # ------------------------------------------------------------------ one job

    async def _work(self, job: Held, place: str) -> None:
        """Fetches a job's artifacts while other jobs run, then runs the job in its turn."""
        try:
            reply = await self._blamed(job, place) if job.delivered > 1 else None
            if reply is None and not job.dropped:
                reply = await self._fetch(job)
            if reply is None and not job.dropped:
                reply = await asyncio.get_running_loop().run_in_executor(self._pool, self._execute, job)
            if reply is None or job.dropped:  # cancelled, or given back
                return
            if reply.strike:
                self.record.strike(reply.strike)
                if self.record.quarantine:
                    self._say(f"in quarantine: {self.record.quarantine}")
                    await self._give_back(lambda other: not other.begun)
                spawn(self._tasks, self._show())
            elif self.record.strikes and not {"missing", "error"} & set(reply.result):  # the device did work
                self.record.save(strikes=0)
            if reply.again and sum((await self._cost(job)).values()) < ATTEMPTS:
                self._forget(job)
                await self._say_of(job, b"-NAK")
            else:
                self._done, self._busy = self._done + 1, self._busy + job.seconds
                await self._report(job, reply, job.seconds)
        finally:
            self._held.pop(job.id, None)
            await self._pull()

    async def _show(self) -> None:
        """Sends a heartbeat at once after a change of state."""
        with contextlib.suppress(FarmError):
            if self._link is not None:
                await self._beat(self._link)

    def _execute(self, job: Held) -> Reply:
        began = time.monotonic()
        if job.dropped or self._stopping.is_set():
            job.dropped = True
            return Reply({})
        job.begun = True
        self._running += 1
        marked = asyncio.run_coroutine_threadsafe(self._mark(job), self._loop)
        if job.delivered > 1:  # it may have killed a worker: its mark must be stored before it runs
            with contextlib.suppress(TimeoutError):
                marked.result(ANSWER_SECONDS)
        if self.lanes == 1:
            self.record.at(f"job {job.id}")
        try:
            self.endpoint.seal.require_listed_nowhere(job.sender)  # the sender may be revoked since the job came
            return self.execute(job.payload, job.paths)
        except TilewrightError as e:
            # A lost device is this host's fault, any other error the job's. A lost kernel may run on another device.
            lost = e.kind == "device_lost"
            again = lost or e.kind == "kernel_lost"
            return Reply({"error": e.to_json()}, strike=e.message if lost else "", again=again)
        except NONSENSE as e:
            said = f"this {self.role} does not understand the job ({type(e).__name__}: {e})"
            return Reply({"error": {"kind": "malformed", "message": said, "mend": ""}})
        except Exception as e:  # every job must have an answer
            said = getattr(e, "strerror", None) or str(e) or type(e).__name__
            error = {"kind": "host", "message": f"{self.name}: {said}", "mend": ""}
            return Reply({"error": error}, strike=said, again=True)
        finally:
            job.seconds = time.monotonic() - began
            self._running -= 1
            if self.lanes == 1:
                self.record.at("")

    async def _mark(self, job: Held) -> None:
        """Publishes the mark that this worker began a job: if the worker is lost, the attempt counts."""
        if self._link is not None:
            await self._link.publish(subjects.begun(job.client, job.session, job.id, self.name))
            if job.delivered > 1:
                await self._cost(job)  # the server answers after it has stored the mark

    async def _cost(self, job: Held) -> dict[str, int]:
        """Number of times that each worker began a job; empty if the server cannot tell."""
        asked = {"subjects_filter": subjects.begun(job.client, job.session, job.id, "*")}
        try:
            link = await self._online()
            reply = await link.raw(subjects.COUNT, json.dumps(asked).encode())
            found = json.loads(reply.data)["state"].get("subjects") or {}
            return {s.rpartition(".")[2].replace("%", "."): int(n) for s, n in found.items()}
        except (FarmError, ValueError, KeyError):
            return {}

    async def _blamed(self, job: Held, place: str) -> Reply | None:
        """Decides on a job that was delivered before: returns an error reply if it was begun ``ATTEMPTS`` times
        already."""
        cost = await self._cost(job)
        if sum(cost.values()) >= ATTEMPTS:
            said = f"{sum(cost.values())} workers were lost while they worked on it: {', '.join(sorted(cost))}"
            return Reply({"error": {"kind": "lost", "message": said}})
        if self.name in cost and self._peers.get(place, 1) > 1 and job.delivered <= 3 * ATTEMPTS:
            self._forget(job)  # another worker should try it, if there is one
            await self._say_of(job, b'-NAK {"delay": 300000000}')
        return None

    async def _report(self, job: Held, reply: Reply, seconds: float) -> None:
        """Has the server store a result, with retries, and only then acknowledges the delivery."""
        job.done = True
        await self._pull()  # a finished job leaves room for another
        subject = subjects.result(job.client, job.session, job.id)
        said = {"result": reply.result, "seconds": seconds, "worker": self.name}
        try:
            message = self.endpoint.seal.seal(subject, said)
        except OverBudget as e:
            message = self.endpoint.seal.seal(subject, {**said, "result": {"error": e.to_json()}})
        for n in range(STORE_TRIES):
            try:
                link = await self._online()
                for data in reply.data:
                    await link.store(f"art.{sha256(data).hexdigest()}", data)
                await link.store(subject, message, f"result-{job.id}")
                break
            except NotStored as e:  # a connected client has received the result all the same
                self._say(e.message)
                await asyncio.sleep(min(2.0, 0.1 * 2**n))
            except LinkClosed:
                await asyncio.sleep(0.1)
        await self._say_of(job, b"+ACK")

    async def _online(self) -> Link:
        """The connection, as soon as there is one."""
        while True:
            await self.connected.wait()
            if self._link is not None:
                return self._link

    async def _fetch(self, job: Held) -> Reply | None:
        """Fetches a job's missing artifacts and checks each against its name. Returns a reply if that fails."""
        for name in job.needs:
            try:
                job.paths[name] = await self._have(name)
            except Missing:
                return Reply({"missing": [name]})
            except FarmError as e:  # the server denies this process the artifact
                return Reply({"error": e.to_json()})
            except TilewrightError as e:  # a full disk, most likely
                return Reply({"error": e.to_json()}, strike=f"{e.kind}: {e.message}", again=True)
        return None

    async def _have(self, name: str) -> str:
        """Path of an artifact in the cache, fetched if necessary. Raises ``Missing``."""
        path = self.cache.get(name)
        while path is None:
            try:
                data = await (await self._online()).stored(subjects.ARTIFACTS, f"art.{name}")
            except (LinkClosed, NotStored):
                await asyncio.sleep(0.1)
                continue
            if data is None or sha256(data).hexdigest() != name:
                raise Missing(f"the artifact {name} is not here")
            path = self.cache.put(name, data)
        return path
