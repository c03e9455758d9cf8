"""Farms for tests and benchmarks: a real server and real services over loopback, with devices that only sleep.

:class:`SimulatedFarm` runs server and services in a thread of this process. :class:`FarmProcesses` runs the command
line's processes, which tests can kill, pause and restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.waiting import until
from tilewright.backends import NO_PEAKS, parse_target
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.toolchain import Compiled
from tilewright.core import Candidate, Failure, Measurement, Outcome, Target, Task
from tilewright.farm.device import RunnerDevice
from tilewright.farm.hub import Hub
from tilewright.farm.link import Endpoint, end
from tilewright.farm.subjects import ARTIFACTS
from tilewright.farm.workers.builder import Builder
from tilewright.farm.workers.runner import Bench, Runner
from tilewright.farm.workers.service import Service
from tilewright.farm.workers.work import Held, Reply
from tilewright.measure.runner import Item
from tilewright.measure.timing import PairedComparison

START_SECONDS = 150.0
PAUSE = 0.02

CODE = b"code that simulated devices never load"
SHA256 = hashlib.sha256(CODE).hexdigest()
"""The artifact of candidates whose measurement is simulated."""


class SleepingMeasurer:
    """A device that takes ``seconds`` a kernel and derives the result from the schedule's hash, equal on all devices.

    ``on_item`` is called before each kernel, and may raise an error.
    """

    def __init__(self, seconds: float = 0.0, on_item: Callable[[Candidate], None] = lambda _candidate: None) -> None:
        self.seconds = seconds
        self.on_item = on_item
        self.measured = 0

    def run(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> list[Outcome]:
        return [self._one(candidate) for candidate, _ in items]

    def _one(self, candidate: Candidate) -> Outcome:
        self.on_item(candidate)
        if self.seconds:
            time.sleep(self.seconds)
        self.measured += 1
        return Measurement(pretended_seconds(candidate), 0.01, 15, 1.0)

    def verify(self, task: Task, item: Item) -> Failure | None:
        return None

    def compare(self, task: Task, challenger: Item, champion: Item, sessions: int) -> PairedComparison:
        a, b = pretended_seconds(challenger[0]), pretended_seconds(champion[0])
        return PairedComparison((a / b,) * sessions, (1.0,) * sessions, (a, b))

    def set_reference_time(self, candidate: Candidate, seconds: float) -> None:
        """Does nothing: results have no drift to correct."""

    def close(self) -> None:
        """Does nothing: there are no resources."""


def steady(service: Service, seconds: float) -> None:
    """Have a service report that every job took ``seconds``, independent of this machine's load."""
    report = service._report

    async def say(job: Held, reply: Reply, _seconds: float) -> None:
        await report(job, reply, seconds)

    service._report = say  # type: ignore[method-assign, assignment]


def pretended_seconds(candidate: Candidate) -> float:
    """A time between 0.1 and 1.1 ms that depends only on the schedule."""
    value = int.from_bytes(hashlib.sha256(candidate.schedule.key.encode()).digest()[:6], "big")
    return 1e-4 + 1e-3 * value / 2**48


def simulated_device(name: str, device_class: str = "cpu-simulated-1c", target: Target | None = None) -> RunnerDevice:
    """Returns a runner's description of a device that does not exist."""
    return RunnerDevice(
        device="cpu:0", model="simulated", device_class=device_class,
        uuid=hashlib.sha256(name.encode()).hexdigest()[:32], target=target or parse_target("cpu:portable"),
        cores=1, memory=1 << 30, host="simulated",
    )  # fmt: skip


class PretendedToolchain:
    """A compiler that takes no time. Its artifacts are named after the source, and cannot run."""

    emulated = False
    batch = 4
    flags = ("-pretended",)
    version = "pretended 1"

    def __init__(self, target: Target, cache: ArtifactCache, emulated: bool = False) -> None:
        self.cache = cache

    def key(self, unit: str) -> str:
        return hashlib.sha256(unit.encode()).hexdigest()

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        data = f"code of {self.key(unit)}".encode()
        named = hashlib.sha256(data).hexdigest()
        return Compiled(self.cache.put(named, data), named, False)


class Puppet(Service):
    """A runner or builder that answers every job with the result of a function."""

    def __init__(
        self, endpoint: Endpoint, name: str, cache: ArtifactCache, answer: Callable[[Mapping[str, Any]], Reply],
        greeting: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.role = endpoint.role
        self._greeting = dict(greeting)
        self._answer = answer
        super().__init__(endpoint, name, cache)

    def greeting(self) -> dict[str, Any]:
        return self._greeting

    def execute(self, payload: Mapping[str, Any], paths: Mapping[str, str]) -> Reply:
        return self._answer(payload)


class SimulatedFarm:
    """A server and runners with simulated devices in one thread of this process. Use it as a context manager.

    ``measurers``: one for each runner. More ``lanes`` than a machine has cores cost nothing, since the devices only
    sleep.
    """

    def __init__(
        self,
        folder: Path,
        measurers: Sequence[Any],
        *,
        device_class: str = "cpu-simulated-1c",
        heartbeat: float = 5.0,
        patience: float = 60.0,
        grace: float = 60.0,
        certs: Path | None = None,
    ) -> None:
        self.folder = folder
        self.certs = certs
        self.measurers = list(measurers)
        self.device_class = device_class
        self.address = ""
        self.said: list[str] = []
        self.runners: list[Runner] = []
        self.services: list[Service] = []  # runners and builders
        self._timing = (heartbeat, patience, grace)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulated farm", daemon=True)
        self.hub: Hub | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._others: list[asyncio.Task[None]] = []

    def __enter__(self) -> SimulatedFarm:
        self._thread.start()
        self.call(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()

    def call(self, work: Any) -> Any:
        """Run a coroutine in the farm's thread and return its result. The time limit exceeds all limits in the farm."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * START_SECONDS)

    def soon(self, action: Callable[[], object]) -> None:
        """Call ``action`` in the farm's thread, without waiting for its end."""
        self._loop.call_soon_threadsafe(action)

    def follow(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine that runs until the farm ends. Call this in the farm's thread."""
        self._others.append(self._loop.create_task(work))

    def wait_for(self, condition: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Poll until the condition is true. Raises ``TimeoutError``.

        The farm's own thread counts the seconds in the pauses between its work, so they are longer on a busy machine.
        """
        for _ in range(int(seconds / PAUSE)):
            if condition():
                return
            self.call(asyncio.sleep(PAUSE))
        raise TimeoutError(f"it did not happen within {seconds:.0f} s of the farm's")

    async def _start(self) -> None:
        await self.start_server()
        for n, m in enumerate(self.measurers):
            self.start_runner(f"sim-{n}", m)
        await asyncio.wait_for(asyncio.gather(*(s.connected.wait() for s in self.services)), START_SECONDS)

    async def start_server(self, port: int = 0) -> None:
        heartbeat, patience, grace = self._timing
        self.hub = Hub(
            self.certs, "127.0.0.1", port, self.folder / "server", storage=256 << 20, heartbeat=heartbeat,
            patience=patience, grace=grace, say=self.said.append,
        )  # fmt: skip
        self.address = await self.hub.start()

    async def restart_server(self, wipe: bool = False) -> None:
        """Kill the server and start another at its address. ``wipe``: delete the server's files in between."""
        assert self.hub is not None
        port, process = self.hub.server.port, self.hub.server.process
        assert process is not None
        process.kill()
        await self.hub.stop()
        if wipe:
            shutil.rmtree(self.folder / "server")
        await self.start_server(port)

    async def make_queue(self, place: str) -> None:
        """Have the server queue jobs for a place that no worker serves."""
        assert self.hub is not None
        self.hub.keeper.queues.claim([place], "runner nobody")
        await self.hub.keeper.queues.wait_made([place])

    async def lose_artifacts(self) -> None:
        """Delete all artifacts on the server, as the server does when it runs out of space."""
        assert self.hub is not None
        await self.hub.keeper._link.manage("purge_stream", ARTIFACTS)

    def start_runner(
        self, name: str, measurer: Any, device_class: str | None = None, *, address: str = "", certs: Path | None = None
    ) -> Runner:
        """Add a runner. Call this in the farm's thread. ``address``: the address it connects to, if not the farm's."""
        bench = Bench(
            simulated_device(name, device_class or self.device_class), lambda _target: measurer,
            contextlib.nullcontext, lambda _task: NO_PEAKS,
        )  # fmt: skip
        endpoint = Endpoint(address or self.address, certs or self.certs, "runner")
        runner = Runner(endpoint, name, bench, ArtifactCache(self.folder / name), self.said.append)
        self.runners.append(runner)
        self._run(runner)
        return runner

    def start_puppet(self, name: str, answer: Callable[[Mapping[str, Any]], Reply]) -> Puppet:
        """Add a runner that answers with ``answer``. Call this in the farm's thread."""
        device = simulated_device(name, self.device_class)
        puppet = Puppet(
            Endpoint(self.address, self.certs, "runner"), name, ArtifactCache(self.folder / name), answer,
            {"places": [device.device_class], "device": device.to_json()},
        )  # fmt: skip
        self._run(puppet)
        return puppet

    def start_builder(self, name: str = "builder", lanes: int = 2) -> Builder:
        """Add a builder with a simulated compiler. Call this in the farm's thread."""
        endpoint = Endpoint(self.address, self.certs, "builder")
        builder = Builder(
            endpoint, name, ArtifactCache(self.folder / name), lanes, self.said.append, PretendedToolchain
        )
        self._run(builder)
        return builder

    def _run(self, service: Service) -> None:
        self.services.append(service)
        self._tasks.append(self._loop.create_task(service.run()))

    async def _stop(self) -> None:
        for s in self.services:
            s.stop()
        for task in self._others:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._others, return_exceptions=True)
        for s in self.services:
            await s.close()
        if self.hub is not None:
            await self.hub.stop()
        await end(*(asyncio.all_tasks() - {asyncio.current_task()}))  # tasks left by a test's own connections


class FarmProcesses:
    """A farm of command line processes, each with its own cache. Use it as a context manager.

    ``certs``: a folder that ``tilewright farm init`` wrote; without it the processes talk unencrypted over loopback.
    """

    program: Sequence[str] = ("-m", "tilewright")

    def __init__(self, folder: Path, certs: Path | None = None, heartbeat: float = 5.0) -> None:
        self.folder = folder
        self.certs = certs
        self.heartbeat = heartbeat
        self.address = ""
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> FarmProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self.processes:
            self.end(name)

    def server(self, port: int = 0, **environment: str) -> str:
        """Start the server and return its address."""
        p = self._start(
            "server", ["server", "--port", str(port), "--heartbeat", str(self.heartbeat), "--state",
            str(self.folder / "state")], environment,
        )  # fmt: skip
        assert p.stdout is not None
        self.address = p.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(f"the server did not start:\n{self.said('server')}")
        return self.address

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def runner(self, name: str, device: str, *extra: str, **environment: str) -> subprocess.Popen[str]:
        return self._start(
            name, ["runner", "--name", name, "--device", device, *extra, self.address_for(name)], environment
        )

    def builder(
        self, name: str = "builder", workers: int = 1, *extra: str, **environment: str
    ) -> subprocess.Popen[str]:
        arguments = ["builder", "--name", name, "--workers", str(workers), *extra, self.address_for(name)]
        return self._start(name, arguments, environment)

    def address_for(self, name: str) -> str:
        """The server's address for a runner or builder."""
        return self.address

    def alive(self, name: str) -> bool:
        """Whether a process of this name was started and has not ended."""
        return name in self.processes and self.processes[name].poll() is None

    def end(self, name: str) -> None:
        """Kill a process and its process group, unless it has ended."""
        process = self.processes[name]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        _over(process)

    def said(self, name: str) -> str:
        """A process's standard error output."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _start(self, name: str, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        if name in self.processes:
            _over(self.processes.pop(name))
        home = self.folder / name
        home.mkdir(exist_ok=True)
        certs = ["--certs", str(self.certs)] if self.certs else []
        with open(self.folder / f"{name}.log", "a", encoding="utf-8") as log:
            p = subprocess.Popen(
                [sys.executable, *self.program, "farm", arguments[0], *certs, *arguments[1:]],
                env={**os.environ, "TILEWRIGHT_CACHE": str(home), **environment}, stdout=subprocess.PIPE, stderr=log,
                stdin=subprocess.DEVNULL, text=True, start_new_session=True,
            )  # fmt: skip
        self.processes[name] = p
        return p

    def wait_for(self, condition: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Poll until the condition is true. Raises ``TimeoutError`` with the processes' output."""
        until(condition, seconds, 0.05, lambda: "\n".join(f"== {n}\n{self.said(n)[-2000:]}" for n in self.processes))


def _over(process: subprocess.Popen[str]) -> None:
    process.wait(START_SECONDS)
    if process.stdout is not None:
        process.stdout.close()
