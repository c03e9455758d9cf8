"""A tuning client's end of a farm: jobs in, futures out, from any thread.

A connection that breaks is made anew, and what was under way is asked for again under the same names, so that
every job has one result whatever happened in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from tilewright.farm.connect import Door, beating, refusal, waits
from tilewright.farm.device import RunnerDevice
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.protocol import SILENT, Link, LinkClosed

PATIENCE = 600.0  # seconds for which a farm that went away is waited for
ASK_SECONDS = 60.0


class Farm:
    """A connection to a farm. Use it as a context manager.

    ``address``: ``tls://HOST:PORT``. ``certs``: the folder that ``tilewright farm init`` wrote, or its client's.
    ``patience``: seconds for which a farm that went away is waited for before futures fail. ``say`` is told, from
    another thread, when it is away and when it is back. Raises ``FarmError`` when it can't be reached at first,
    ``Refused`` when it turns this client down.
    """

    def __init__(
        self,
        address: str,
        certs: str | os.PathLike[str] | None = None,
        patience: float = PATIENCE,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._door = Door(address, None if certs is None else Path(certs).expanduser(), "client")
        self.patience = patience
        self.cut_offs = 0
        self._say = say
        self._session = secrets.token_hex(16)
        self._jobs: dict[str, tuple[dict[str, Any], Future[dict[str, Any]]]] = {}
        self._answers: dict[int, Future[Any]] = {}
        self._questions = 0
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._gone: FarmError | None = None
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="farm", daemon=True)
        self._thread.start()
        try:
            link, welcome = asyncio.run_coroutine_threadsafe(self._enter(), self._loop).result()
        except BaseException:
            self._end_loop()
            raise
        self._life = asyncio.run_coroutine_threadsafe(self._live(link, welcome), self._loop)
        self._life.add_done_callback(self._ended)

    @property
    def address(self) -> str:
        return self._door.address

    # ------------------------------------------------------------------ jobs

    def submit(self, place: str, payload: Mapping[str, Any], needs: Sequence[str] = ()) -> Future[dict[str, Any]]:
        """Have a job done by whoever serves ``place``; the future has its result, a map of plain values.

        ``needs``: hashes of artifacts that the farm must have (:meth:`put`). The future raises ``FarmError`` when
        the farm is gone for good. Cancelling it takes the job back if it has not begun.
        """
        job_id = secrets.token_hex(16)
        message = {"op": "submit", "id": job_id, "place": place, "payload": payload, "needs": list(needs)}
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            if self._gone is not None or self._closed:
                future.set_exception(self._gone or FarmError("the connection to the farm is closed"))
                return future
            self._jobs[job_id] = (message, future)
        future.add_done_callback(lambda f: self._cancelled(job_id) if f.cancelled() else None)
        self._loop.call_soon_threadsafe(self._post, message)
        return future

    def _cancelled(self, job_id: str) -> None:
        with self._lock:
            known = self._jobs.pop(job_id, None)
        if known is not None and not self._closed:
            self._loop.call_soon_threadsafe(self._post, {"op": "cancel", "ids": [job_id]})

    # ------------------------------------------------------------------ questions

    def ask(self, what: str, timeout: float = ASK_SECONDS, **more: Any) -> Any:
        """Ask the scheduler something. Asked again if the connection breaks. Raises ``FarmError``."""
        deadline = time.monotonic() + max(timeout, self.patience if self._jobs else timeout)
        while True:
            future: Future[Any] = Future()
            with self._lock:
                if self._gone is not None or self._closed:
                    raise self._gone or FarmError("the connection to the farm is closed")
                self._questions += 1
                n = self._questions
                self._answers[n] = future
            self._loop.call_soon_threadsafe(self._post, {"op": "ask", "n": n, "what": what, **more})
            try:
                return future.result(max(0.1, deadline - time.monotonic()))
            except LinkClosed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            except TimeoutError:
                raise FarmError(f"{self.address} does not answer", "See whether its scheduler still runs") from None

    def status(self) -> dict[str, Any]:
        """Everything that the scheduler knows, as plain values (docs/farm.md)."""
        found: dict[str, Any] = self.ask("status")
        return found

    def devices(self) -> dict[str, list[RunnerDevice]]:
        """The devices of the runners that are connected, by device class."""
        found: dict[str, list[RunnerDevice]] = {}
        for w in self.status()["workers"]:
            if w["role"] == "runner" and not w["draining"] and not w["quarantine"]:
                device = RunnerDevice.from_json(w["device"])
                found.setdefault(device.device_class, []).append(device)
        return found

    def put(self, data: bytes) -> str:
        """Bring an artifact, unless the farm has it; returns its hash."""
        name = sha256(data).hexdigest()
        if not self.ask("has", sha256s=[name]):
            self.ask("put", sha256=name, data=data)
        return name

    def get(self, name: str) -> bytes:
        """An artifact by its hash, checked against it. Raises ``FarmError`` when the farm no longer has it."""
        data = self.ask("get", sha256=name)
        if not isinstance(data, bytes) or sha256(data).hexdigest() != name:
            raise FarmError(f"the farm sent something else for the artifact {name}")
        return data

    def close(self) -> None:
        """Leave. Jobs that have not begun are taken back; open futures are cancelled."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            left = list(self._jobs.items())
            self._jobs.clear()
        for _, (_, future) in left:
            future.cancel()
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._leave([n for n, _ in left]), self._loop).result(3.0)
        self._life.cancel()
        self._end_loop()

    def __enter__(self) -> Farm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ in the loop's thread

    async def _enter(self) -> tuple[Link, dict[str, Any]]:
        return await self._door.enter({"session": self._session, "name": f"{platform.node()}:{os.getpid()}"})

    async def _live(self, link: Link, welcome: dict[str, Any]) -> None:
        while True:
            error = await self._serve(link, float(welcome.get("heartbeat", 5.0)))
            if self._closed:
                return
            if error is not None:
                self._give_up(error)
                return
            self.cut_offs += 1
            self._say(f"cut off from {self.address}; trying again for {self.patience:.0f} s")
            until = time.monotonic() + self.patience
            for pause in waits():
                try:
                    link, welcome = await self._enter()
                    self._say(f"connected to {self.address} again; nothing is lost")
                    break
                except Refused as e:
                    self._give_up(e)
                    return
                except FarmError as e:
                    if time.monotonic() > until:
                        self._give_up(FarmError(f"the farm is gone: {e.message}", RESUME))
                        return
                await asyncio.sleep(pause)

    async def _serve(self, link: Link, heartbeat: float) -> FarmError | None:
        """Follow one connection to its end; an error when there should be no other."""
        with self._lock:
            self._link = link
            again = [message for message, _ in self._jobs.values()]
        for message in again:
            link.post(message)
        beat = asyncio.create_task(beating(link, heartbeat, SILENT * heartbeat))
        try:
            while True:
                message = await link.receive()
                op = message["op"]
                if op == "result":
                    self._result(link, str(message["id"]), message["result"])
                elif op == "answer":
                    self._answer(message)
                elif op == "bye":
                    said = refusal(message)
                    return Refused(said.message, said.mend or RESUME)
        except (LinkClosed, KeyError, TypeError, ValueError):
            return None
        finally:
            beat.cancel()
            with self._lock:
                self._link = None
                lost, self._answers = list(self._answers.values()), {}
            for future in lost:
                future.set_exception(LinkClosed("the connection to the farm broke"))
            await link.close()

    def _ended(self, life: Future[None]) -> None:
        """Whatever ends the connection's task, nobody may wait for it any more."""
        error = None if life.cancelled() else life.exception()
        if error is not None:
            self._give_up(FarmError(f"the connection to the farm failed ({type(error).__name__}: {error})", RESUME))

    def _result(self, link: Link, job_id: str, result: Any) -> None:
        with self._lock:
            known = self._jobs.pop(job_id, None)
        link.post({"op": "ack", "id": job_id})
        if known is not None:
            with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
                if isinstance(result, dict):
                    known[1].set_result(result)
                else:
                    known[1].set_exception(FarmError("the farm sent a result that is no map"))

    def _answer(self, message: dict[str, Any]) -> None:
        with self._lock:
            future = self._answers.pop(int(message["n"]), None)
        if future is None:
            return
        if "error" in message:
            future.set_exception(FarmError(str(message["error"]["message"]), str(message["error"].get("mend", ""))))
        else:
            future.set_result(message["value"])

    def _post(self, message: Mapping[str, Any]) -> None:
        if self._link is not None:
            self._link.post(message)
        elif message["op"] == "ask":  # a job is sent when there is a connection again
            with self._lock:
                future = self._answers.pop(message["n"], None)
            if future is not None:
                future.set_exception(LinkClosed("the connection to the farm broke"))

    def _give_up(self, error: FarmError) -> None:
        with self._lock:
            self._gone = error
            futures: list[Future[Any]] = [f for _, f in self._jobs.values()]
            futures += self._answers.values()
            self._jobs, self._answers = {}, {}
        for f in futures:
            with contextlib.suppress(InvalidStateError):
                f.set_exception(error)

    async def _leave(self, jobs: list[str]) -> None:
        if self._link is not None:
            if jobs:
                await self._link.send({"op": "cancel", "ids": jobs})
            await self._link.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        if not self._loop.is_running():
            self._loop.run_until_complete(_wind_up(self._loop))
            self._loop.close()


RESUME = "What was measured is stored; go on with tilewright tune --resume last"


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    tasks = [t for t in asyncio.all_tasks(loop) if t is not asyncio.current_task()]
    for t in tasks:
        t.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
