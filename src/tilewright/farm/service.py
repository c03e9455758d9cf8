"""What runners and builders share: staying connected, taking jobs, keeping results until they have arrived."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.core import TilewrightError
from tilewright.farm.connect import Door, beating, refusal, waits
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.protocol import SILENT, Link, LinkClosed

DRAIN_SECONDS = 60.0
STUBBORN = 20  # refusals in a row after which a service that was accepted once gives up

Say = Callable[[str], None]


class Missing(FarmError):
    """The scheduler does not have an artifact that a job needs."""

    kind = "missing"


@dataclass
class Reply:
    """What came of a job: plain values, ``data`` for the scheduler's store, and what is the device's own fault.

    ``again``: another device should try.
    """

    result: Mapping[str, Any]
    data: tuple[bytes, ...] = ()
    strike: str = ""
    again: bool = False


@dataclass
class Held:
    """A job in this process' hands."""

    id: str
    payload: Mapping[str, Any]
    needs: tuple[str, ...]
    paths: dict[str, str] = field(default_factory=dict)
    begun: bool = False


class Service(ABC):
    """A process that works for a farm until it is drained or stopped.

    It connects again whenever it is cut off; what it was working on goes on meanwhile, and results that the
    scheduler has not acknowledged are sent again.
    """

    role = ""
    lanes = 1

    def __init__(self, door: Door, name: str, cache: ArtifactCache, say: Say = lambda _line: None) -> None:
        self.door = door
        self.name = name
        self.cache = cache
        self.instance = secrets.token_hex(8)
        self.connected = asyncio.Event()
        self._say = say
        self._link: Link | None = None
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._results: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._questions = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = asyncio.Event()
        self._pool = ThreadPoolExecutor(self.lanes, self.role)

    # ------------------------------------------------------------------ what a kind of service gives

    @abstractmethod
    def greeting(self) -> dict[str, Any]:
        """What it can do: ``places``, and more for people to read."""

    @abstractmethod
    def execute(self, payload: Mapping[str, Any], paths: Mapping[str, str]) -> Reply:
        """Do a job; called in a thread, at most ``lanes`` at once. ``paths``: its artifacts, by hash."""

    def note(self) -> str:
        """What it is at, in a few words."""
        return ""

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Work until drained or stopped. Raises ``Refused`` where the farm does not want this process at all."""
        pause, refused, ever = waits(), 0, False
        while not self._stopping.is_set():
            try:
                link, welcome = await self.door.enter({
                    "name": self.name, "instance": self.instance, "lanes": self.lanes, "held": list(self._held),
                    **self.greeting(),
                })  # fmt: skip
            except Refused as e:
                refused += 1
                if not ever or refused >= STUBBORN:
                    raise
                self._say(f"refused: {e.message}")
            except FarmError as e:
                self._say(e.message)
            else:
                pause, refused, ever = waits(), 0, True
                await self._serve(link, float(welcome.get("heartbeat", 5.0)))
            if not self._stopping.is_set():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), next(pause))

    async def drain(self, deadline: float = DRAIN_SECONDS) -> bool:
        """Take nothing more, finish what runs within ``deadline`` seconds, leave. ``False``: it did not finish."""
        self._draining = True
        self._send({"op": "draining"})
        waiting = [h.id for h in self._held.values() if not h.begun]
        for n in waiting:
            del self._held[n]
        self._send({"op": "return", "ids": waiting})
        try:
            await asyncio.wait_for(self._finished(), deadline)
            return True
        except TimeoutError:
            return False
        finally:
            self.stop()

    async def _finished(self) -> None:
        await self._idle.wait()
        while self._results and self._link is not None:
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """Leave at once; what runs is lost to this process and given to others."""
        self._stopping.set()
        if self._link is not None:
            self._link.abort()

    async def close(self) -> None:
        """After :meth:`run`: end what is left."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------ one connection

    async def _serve(self, link: Link, heartbeat: float) -> None:
        self._link = link
        self.connected.set()
        self._say(f"connected to {self.door.address} as {self.name}")
        for message in self._results.values():
            link.post(message)
        if self._draining:
            link.post({"op": "draining"})
        beat = asyncio.create_task(beating(link, heartbeat, SILENT * heartbeat, self.note))
        try:
            while True:
                self._heard(await link.receive())
        except (LinkClosed, KeyError, TypeError, ValueError) as e:
            if not self._stopping.is_set():
                self._say(f"cut off: {e}")
        except Refused as e:
            self._say(f"the scheduler ends the connection: {e}")
        finally:
            beat.cancel()
            self._link = None
            self.connected.clear()
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(LinkClosed("cut off"))
            self._answers.clear()
            await link.close()

    def _heard(self, message: dict[str, Any]) -> None:
        op = message["op"]
        if op == "job":
            self._take(Held(str(message["id"]), dict(message["payload"]), tuple(message["needs"])))
        elif op == "ack":
            self._results.pop(str(message["id"]), None)
        elif op == "answer":
            waiting = self._answers.pop(int(message["n"]), None)
            if waiting is not None and not waiting.done():
                if "error" in message:
                    waiting.set_exception(Missing(str(message["error"]["message"])))
                else:
                    waiting.set_result(message["value"])
        elif op == "recall":
            called = message["ids"]  # None: all that has not begun
            for n in [h.id for h in self._held.values() if not h.begun and (called is None or h.id in called)]:
                del self._held[n]
        elif op == "drain":
            self._say("told to drain")
            self._spawn(self._drained())
        elif op == "bye":
            raise refusal(message)

    async def _drained(self) -> None:
        await self.drain()

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._link is not None:
            self._link.post(message)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------ one job

    def _take(self, job: Held) -> None:
        if job.id in self._held or job.id in self._results:
            return
        if self._draining:
            self._send({"op": "return", "ids": [job.id]})
            return
        self._held[job.id] = job
        self._idle.clear()
        self._spawn(self._work(job))

    async def _work(self, job: Held) -> None:
        """Fetch what a job needs while others run, then run it in its turn."""
        began = time.monotonic()
        try:
            failed = await self._fetch(job)
            if job.id not in self._held:  # given back meanwhile
                return
            if failed is not None:
                reply = failed
            else:
                reply, began = await asyncio.get_running_loop().run_in_executor(self._pool, self._execute, job)
                if not job.begun:
                    return
            seconds = time.monotonic() - began
            message = {
                "op": "result", "id": job.id, "result": reply.result, "data": list(reply.data), "seconds": seconds,
                "strike": reply.strike, "again": reply.again,
            }  # fmt: skip
            self._results[job.id] = message
            self._send(message)
        except LinkClosed:
            pass  # cut off while fetching: the scheduler gives it to another
        finally:
            self._held.pop(job.id, None)
            if not self._held:
                self._idle.set()

    def _execute(self, job: Held) -> tuple[Reply, float]:
        began = time.monotonic()
        if job.id not in self._held:
            return Reply({}), began
        job.begun = True
        try:
            return self.execute(job.payload, job.paths), began
        except TilewrightError as e:
            # A lost device is the host's fault; anything else was asked for.
            lost = e.kind == "device_lost"
            return Reply({"error": error_of(e)}, strike=e.message if lost else "", again=lost), began
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
            said = f"this {self.role} does not understand the job ({type(e).__name__}: {e})"
            return Reply({"error": {"kind": "malformed", "message": said, "mend": ""}}), began
        except Exception as e:  # whatever it is, the job must have an answer
            said = getattr(e, "strerror", None) or str(e) or type(e).__name__
            error = {"kind": "host", "message": f"{self.name}: {said}", "mend": ""}
            return Reply({"error": error}, strike=said, again=True), began

    async def _fetch(self, job: Held) -> Reply | None:
        """Get the artifacts that are not here yet, each checked against its name. A reply when that fails."""
        found = await asyncio.gather(*map(self._have, job.needs), return_exceptions=True)
        for name, path in zip(job.needs, found, strict=True):
            if isinstance(path, Missing):
                return Reply({"missing": [name]})
            if isinstance(path, TilewrightError) and not isinstance(path, LinkClosed):  # a full disk, most likely
                return Reply({"error": error_of(path)}, strike=f"{path.kind}: {path.message}", again=True)
            if isinstance(path, BaseException):
                raise path
            job.paths[name] = path
        return None

    async def _have(self, name: str) -> str:
        """Where an artifact lies here, once it does."""
        path = self.cache.get(name)
        if path is None:
            data = await self._ask("get", sha256=name)
            if sha256(data).hexdigest() != name:
                raise FarmError(f"the artifact {name} does not hash to its name")
            path = self.cache.put(name, data)
        return path

    async def _ask(self, what: str, **more: Any) -> Any:
        if self._link is None:
            raise LinkClosed("cut off")
        self._questions += 1
        n = self._questions
        waiting = self._answers[n] = asyncio.get_running_loop().create_future()
        self._send({"op": "ask", "n": n, "what": what, **more})
        return await waiting


def error_of(error: TilewrightError) -> dict[str, str]:
    """A user's error as plain values."""
    return {"kind": error.kind, "message": error.message, "mend": error.mend}
