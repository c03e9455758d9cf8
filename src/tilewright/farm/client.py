"""A tuning client's end of a farm: jobs in, futures out, from any thread.

The server may lose everything at any time, so a client keeps each job until it has the job's result. After every break
it asks for the result and looks whether the job still waits. If the server has neither, the client sends the job again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import platform
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilewright import __version__
from tilewright.closing import Closing
from tilewright.core import UsageError
from tilewright.farm import subjects
from tilewright.farm.device import RunnerDevice
from tilewright.farm.errors import NONSENSE, FarmError, LinkClosed, NotStored, Refused, Stale
from tilewright.farm.health import no_worker, takes_jobs
from tilewright.farm.link import IS_IT_THERE, SILENT, Endpoint, Link, end, waited, waits
from tilewright.farm.log import Log
from tilewright.units import duration

PATIENCE = 600.0  # seconds for which a client tries to reach a lost farm again
ASK_SECONDS = 60.0
LOOK_SECONDS = 30.0  # after which a client asks the server about a job without a result
COUNT_SECONDS = 1.0  # for which the number of workers is cached
SHARE_SECONDS = 0.5  # between a client's signs of life while it waits for jobs
REMIND_SECONDS = 60.0  # between messages that no worker takes this client's jobs
PRIORITIES: Mapping[str, float] = {"low": 0.25, "normal": 1.0, "high": 4.0}
"""Weight of a client by its priority. Clients share the seconds of a queue's workers in proportion to their weights."""

RESUME = "All measurements are stored; continue with tilewright tune --resume last"
_FIRST_WINDOW = 2  # jobs in the queue before a keeper has told the client its window


@dataclass
class Job:
    """A job that waits for its result. ``sent``: when it was last sent; ``times``: how often the server lost it."""

    id: str
    place: str
    payload: Mapping[str, Any]
    needs: tuple[str, ...]
    future: Future[dict[str, Any]]
    since: float = field(default_factory=time.monotonic)
    sent: float | None = None
    times: int = 0


@dataclass
class Queue:
    """This client's jobs in one of the farm's queues."""

    held: OrderedDict[str, Job] = field(default_factory=OrderedDict)  # not sent yet
    sent: dict[str, Job] = field(default_factory=dict)
    window: int = _FIRST_WINDOW
    used: float = 0.0
    done: int = 0
    workers: int = 0
    told: float = -math.inf  # when a keeper last reported window and workers
    alone: float = -math.inf  # when the user was told that no worker takes the queue's jobs; -inf: a worker does


class Farm(Closing):
    """A connection to a farm. Use it as a context manager.

    ``address``: ``tls://HOST:PORT``, servers of a cluster with commas between. ``certs``: the folder that
    ``tilewright farm init`` wrote, or the folder of one role. ``patience``: seconds for which the client tries to reach
    a lost farm before futures fail. ``say`` is called, from another thread, when the farm is lost and when it is back.
    ``priority`` of this client's jobs: ``low``, ``normal`` or ``high``. ``roles``: the first role that has a
    certificate in ``certs`` is used.
    Raises ``FarmError`` when the farm can't be reached at first, ``Refused`` when the farm refuses this client.
    """

    def __init__(
        self,
        address: str,
        certs: str | os.PathLike[str] | None = None,
        patience: float = PATIENCE,
        say: Callable[[str], None] = lambda _line: None,
        *,
        priority: str = "normal",
        roles: Sequence[str] = ("client",),
    ) -> None:
        if priority not in PRIORITIES:
            raise UsageError(f"{priority!r} is not a priority", f"Use {', '.join(PRIORITIES)}")
        self._endpoint = Endpoint(address, None if certs is None else Path(certs).expanduser(), *roles)
        self.patience = patience
        self.cut_offs = 0
        self.refused = 0  # messages that were not a result from a worker of this farm
        self._weight = PRIORITIES[priority]
        self._say, self._log = say, Log(say)
        self._session = secrets.token_hex(16)
        self._jobs: dict[str, Job] = {}
        self._queues: dict[str, Queue] = {}
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._online, self._hurry = asyncio.Event(), asyncio.Event()
        self._gone: FarmError | None = None
        self._closed = False
        self._full = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="farm", daemon=True)
        self._thread.start()
        try:
            link = self._call(self._enter()).result()
        except BaseException:
            self._end_loop()
            raise
        self._life = self._call(self._live(link))
        self._life.add_done_callback(self._ended)

    @property
    def address(self) -> str:
        return self._endpoint.address

    # ------------------------------------------------------------------ jobs

    def submit(self, place: str, payload: Mapping[str, Any], needs: Sequence[str] = ()) -> Future[dict[str, Any]]:
        """Submits a job to the workers that serve ``place``; the future has its result, a map of plain values.

        ``needs``: hashes of artifacts that the farm must have (:meth:`put`). The future raises ``FarmError`` when
        the farm is lost for good. Cancelling the future withdraws the job if no worker has begun it.
        """
        job = Job(secrets.token_hex(16), place, payload, tuple(needs), Future())
        with self._lock:
            if self._gone is not None or self._closed:
                job.future.set_exception(self._gone or FarmError("the connection to the farm is closed"))
                return job.future
            self._jobs[job.id] = job
        job.future.add_done_callback(lambda f: self._cancelled(job) if f.cancelled() else None)
        self._loop.call_soon_threadsafe(self._queue_up, job)
        return job.future

    def _cancelled(self, job: Job) -> None:
        job.future.set_running_or_notify_cancel()  # as_completed() and wait() notice a cancelled future only then
        if self._forget(job) and not self._closed:
            self._call(self._take_back([job]))

    def _forget(self, job: Job) -> bool:
        with self._lock:
            return self._jobs.pop(job.id, None) is not None

    # ------------------------------------------------------------------ questions

    def ask(self, what: str, timeout: float = ASK_SECONDS, **more: Any) -> Any:
        """Asks the farm's keeper a question, again if the connection breaks. Raises ``FarmError``."""
        command = what in ("drain", "quarantine", "release")
        return self._patiently(lambda link: link.ask({"what": what, **more}, tell=command), timeout)

    def _patiently(self, work: Callable[[Link], Coroutine[Any, Any, Any]], timeout: float) -> Any:
        """Runs ``work`` on the connection, and again on the next connection if it breaks."""
        deadline = time.monotonic() + max(timeout, self.patience if self._jobs else timeout)
        while True:
            if self._gone is not None or self._closed:
                raise self._gone or FarmError("the connection to the farm is closed")
            try:
                return self._call(self._on_line(work)).result(max(0.1, deadline - time.monotonic()))
            except (LinkClosed, NotStored):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            except TimeoutError:
                raise FarmError(f"{self.address} does not answer", "Check that its server runs") from None

    async def _on_line(self, work: Callable[[Link], Coroutine[Any, Any, Any]]) -> Any:
        await self._online.wait()
        if self._link is None:
            raise LinkClosed("the connection to the farm broke", IS_IT_THERE)
        return await work(self._link)

    def status(self) -> dict[str, Any]:
        """The farm's status as its keeper knows it, as plain values (docs/farm.md)."""
        found: dict[str, Any] = self.ask("status")
        return found

    def devices(self) -> dict[str, list[RunnerDevice]]:
        """The devices of the connected runners that take jobs, by device class."""
        found: dict[str, list[RunnerDevice]] = {}
        for w in self.status()["workers"]:
            if w["role"] == "runner" and takes_jobs(w):
                device = RunnerDevice.from_json(w["device"])
                found.setdefault(device.device_class, []).append(device)
        return found

    def workers(self, place: str) -> int:
        """Number of workers that take a place's jobs, at most a second old."""
        queue = self._queues.setdefault(place, Queue())
        if time.monotonic() - queue.told > COUNT_SECONDS:
            queue.workers = len(self.devices().get(place, ()))
            queue.told = time.monotonic()
        return queue.workers

    def put(self, data: bytes) -> str:
        """Stores an artifact in the farm; returns its SHA-256."""
        name = sha256(data).hexdigest()
        self._patiently(lambda link: link.store(f"art.{name}", data), ASK_SECONDS)
        return name

    def get(self, name: str) -> bytes:
        """Returns an artifact, checked against its SHA-256. Raises ``FarmError`` when the farm no longer has it."""
        data = self._patiently(lambda link: link.stored(subjects.ARTIFACTS, f"art.{name}"), ASK_SECONDS)
        if data is None:
            raise FarmError(f"the farm does not have the artifact {name[:64]}")
        if sha256(data).hexdigest() != name:
            raise FarmError(f"the farm sent other bytes for the artifact {name}")
        return bytes(data)

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """Leaves the farm, withdraws unfinished jobs and cancels their futures."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            left = list(self._jobs.values())
            self._jobs.clear()
        for job in left:
            job.future.cancel()
        with contextlib.suppress(Exception):
            self._call(self._leave()).result(3.0)
        self._life.cancel()
        self._end_loop()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # ------------------------------------------------------------------ in the loop's thread

    async def _enter(self) -> Link:
        link = await self._endpoint.connect()
        try:
            if self._endpoint.role == "client":
                await link.subscribe(f"result.{subjects.token(self._endpoint.name)}.{self._session}.*", self._heard)
        except BaseException:
            await link.close()
            raise
        return link

    async def _live(self, link: Link) -> None:
        while True:
            await self._serve(link)
            if self._closed:
                return
            self.cut_offs += 1
            self._say(f"cut off from {self.address}; trying again for {self.patience:.0f} s")
            until = time.monotonic() + self.patience
            for pause in waits():
                try:
                    link = await self._enter()
                    self._say(f"connected to {self.address} again; nothing is lost")
                    break
                except Refused as e:
                    self._give_up(Refused(e.message, e.hint or RESUME))
                    return
                except FarmError as e:
                    if time.monotonic() > until:
                        self._give_up(FarmError(f"the connection to the farm is lost: {e.message}", RESUME))
                        return
                await asyncio.sleep(pause)

    async def _serve(self, link: Link) -> None:
        """Follow one connection to its end."""
        self._link = link
        self._online.set()
        ended = asyncio.create_task(link.closed.wait())
        sharing = asyncio.create_task(self._sharing(link))
        again = asyncio.create_task(self._look_after(link, every=True))
        try:
            await ended
        finally:
            await end(ended, sharing, again)
            self._link = None
            self._online.clear()
            await link.close()

    async def _sharing(self, link: Link) -> None:
        """Reports the waiting jobs, learns the window of each queue, and asks about jobs that take long."""
        missed, said = 0, False
        while not link.closed.is_set():
            if self._jobs or said:
                said = bool(self._jobs)  # one more report when no jobs are left
                try:
                    await self._share(link)
                    await self._look_after(link)
                    missed = 0
                except LinkClosed:
                    missed += 1
                    if missed >= SILENT - 1:
                        link.closed.set()  # the connection is open, but nothing passes through it
                except FarmError as e:  # the keeper is away, or refuses: its last answer still holds
                    self._tell_trouble(e)
            self._hurry.clear()
            await waited(self._hurry, SHARE_SECONDS)

    async def _share(self, link: Link) -> None:
        places = {p: [len(q.held) + len(q.sent), len(q.held), q.done, q.used] for p, q in self._queues.items()}
        who = f"{platform.node()}:{os.getpid()}"
        answer = await link.ask(
            {
                "what": "shares", "session": self._session, "name": who, "weight": self._weight, "places": places,
                "tilewright": __version__,
            }
        )  # fmt: skip
        now, patience = time.monotonic(), float(answer["patience"])
        for place, said in answer["places"].items():
            queue = self._queues[place]
            queue.window, queue.workers, queue.told = int(said["window"]), int(said["workers"]), now
            if not said["workers"] and said["empty"] > patience:
                for job in [*queue.held.values(), *queue.sent.values()]:
                    if now - job.since > patience:
                        await self._take_back([job])
                        message = f"no {place} was there for {patience:.0f} s"
                        self._finish(job, {"error": {"kind": "no_worker", "message": message}})
            self._send_more(queue)
        for place, said in answer["places"].items():
            await self._tell_alone(link, place, patience - said["empty"])

    async def _tell_alone(self, link: Link, place: str, left: float) -> None:
        """Says at once and every minute that no worker takes the jobs of a place, and when a worker takes them again.

        ``left``: seconds for which jobs still wait for a worker.
        """
        queue, now = self._queues[place], time.monotonic()
        waiting = len(queue.held) + len(queue.sent)
        if queue.workers or not waiting:
            if queue.workers and queue.alone > -math.inf:
                self._say(f"a worker takes the jobs of {place} again; going on")
            queue.alone = -math.inf
        elif now - queue.alone >= REMIND_SECONDS:
            status = await link.ask({"what": "status"})
            self._say(f"{no_worker(status, place, waiting, self.address)}. Jobs wait up to {duration(max(0.0, left))}")
            queue.alone = now

    async def _look_after(self, link: Link, every: bool = False) -> None:
        """Takes the results of jobs that were sent long ago; sends a job again that the server has lost. ``every``:
        look at all sent jobs, as after a break."""
        now = time.monotonic()
        late = now if every else now - LOOK_SECONDS
        jobs = [j for q in self._queues.values() for j in q.sent.values() if (j.sent or 0.0) < late]
        for job in jobs:
            job.sent = now
            with contextlib.suppress(LinkClosed, NotStored):
                subject = subjects.result(self._endpoint.name, self._session, job.id)
                found = await link.stored(subjects.RESULTS, subject)
                if found is not None:
                    self._result(link, subject, found)
            if job.id in self._jobs:
                with contextlib.suppress(LinkClosed, NotStored):
                    if await link.stored(subjects.queue_of(job.place)[0], self._subject(job)) is not None:
                        continue  # it still waits, or a worker has it
                job.times += 1  # part of the message id: the server may still know the old id, but not the job
                await self._send(job)

    def _queue_up(self, job: Job) -> None:
        queue = self._queues.setdefault(job.place, Queue())
        if not queue.held and not queue.sent:
            self._hurry.set()
        queue.held[job.id] = job
        self._send_more(queue)

    def _send_more(self, queue: Queue) -> None:
        while queue.held and len(queue.sent) < queue.window and self._link is not None:
            job_id, job = queue.held.popitem(last=False)
            if job_id in self._jobs:
                queue.sent[job_id] = job
                job.sent = time.monotonic()
                self._loop.create_task(self._send(job))

    async def _send(self, job: Job) -> None:
        """Has the server queue a job. If the server cannot, the client looks at the job again soon."""
        link = self._link
        if link is None:
            return
        try:
            message = link.seal.seal(self._subject(job), {"payload": job.payload, "needs": list(job.needs)})
            await link.store(self._subject(job), message, f"{job.id}-{job.times}")
            self._full = False
        except (LinkClosed, NotStored) as e:
            job.sent = time.monotonic() - LOOK_SECONDS + 2 * SHARE_SECONDS
            if not link.closed.is_set():  # newer nats-servers do not answer at all while their disk is full
                self._tell_trouble(e)
        except FarmError as e:
            if self._forget(job):
                self._over(job)
                job.future.set_exception(e)

    def _tell_trouble(self, error: FarmError) -> None:
        if not self._full and (isinstance(error, LinkClosed | Stale) or (isinstance(error, NotStored) and error.hint)):
            self._full = True
            self._say(f"{error.message}; waiting")

    def _subject(self, job: Job) -> str:
        return subjects.job(job.place, self._endpoint.name, self._session, job.id)

    async def _heard(self, message: Any) -> None:
        if self._link is not None:
            self._result(self._link, message.subject, message.data)

    def _result(self, link: Link, subject: str, data: bytes) -> None:
        with self._lock:
            job = self._jobs.get(subject.rpartition(".")[2])
        if job is None:
            return  # a second result, or the result of a cancelled job
        try:
            said, _ = link.seal.open(subject, data, (subjects.role_for(job.place),))
            seconds = float(said["seconds"])
            if not 0.0 <= seconds < math.inf:
                raise ValueError("seconds")
        except Stale as e:  # _look_after asks for the result again
            self._tell_trouble(e)
            return
        except (FarmError, *NONSENSE) as e:
            self.refused += 1
            self._log.about("workers", f"a result was refused: {e}")
            return
        queue = self._queues[job.place]
        queue.used, queue.done = queue.used + seconds, queue.done + 1
        self._finish(job, said.get("result"))

    def _finish(self, job: Job, result: Any) -> None:
        if self._forget(job):
            self._over(job)
            with contextlib.suppress(InvalidStateError):  # the job was cancelled meanwhile
                if isinstance(result, dict):
                    job.future.set_result(result)
                else:
                    job.future.set_exception(FarmError("a worker sent a malformed result"))

    def _over(self, job: Job) -> None:
        queue = self._queues[job.place]
        queue.held.pop(job.id, None)
        queue.sent.pop(job.id, None)
        self._send_more(queue)

    async def _take_back(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            sent = job.id in self._queues[job.place].sent
            self._over(job)
            if sent and self._link is not None:
                await self._cancel(self._link, {"ids": [job.id], "place": job.place})

    async def _cancel(self, link: Link, what: Mapping[str, Any]) -> None:
        subject = subjects.cancel(self._endpoint.name, self._session)
        await link.publish(subject, link.seal.seal(subject, what))

    def _ended(self, life: Future[None]) -> None:
        """Called when the connection's task ends, also by an error: futures that wait for it must fail, not hang."""
        error = None if life.cancelled() else life.exception()
        if error is not None:
            self._give_up(FarmError(f"the connection to the farm failed ({type(error).__name__}: {error})", RESUME))

    def _give_up(self, error: FarmError) -> None:
        with self._lock:
            self._gone = error
            jobs, self._jobs = list(self._jobs.values()), {}
        self._online.set()  # wakes the callers that wait for a connection
        for job in jobs:
            with contextlib.suppress(InvalidStateError):
                job.future.set_exception(error)

    async def _leave(self) -> None:
        if self._link is not None:
            if self._endpoint.role == "client":
                await self._cancel(self._link, {"ids": None})
            await self._link.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)

    def _work(self) -> None:
        """The thread's function: runs the event loop until it is stopped, then ends the tasks that are left."""
        self._loop.run_forever()
        self._loop.run_until_complete(end(*asyncio.all_tasks(self._loop)))
        self._loop.close()
