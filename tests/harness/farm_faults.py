"""A tuning run on a simulated farm into which a test injects a fault, and the checks of its result.

Only the devices and the compiler are simulated. Their results depend only on the schedule, so that tests can compare a
run with a fault to a run without one. ``tests/harness/farm_fault_matrix.py`` has the faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.farm import SimulatedFarm, SleepingMeasurer
from harness.preloaded import Machine
from harness.relay import Relay
from tilewright.backends import NO_PEAKS
from tilewright.core import Candidate, Failure, FailureKind, Outcome
from tilewright.database import Database
from tilewright.farm.client import Farm
from tilewright.farm.errors import Refused
from tilewright.farm.link import Endpoint
from tilewright.tuner import Observer, TuneResult, tune

SIZES = {"m": 64, "n": 64, "k": 64}
TESTS = Path(__file__).parents[1]
RUNNERS = 4
HEARTBEAT = 0.25
WAIT = 30.0


class Device(SleepingMeasurer):
    """A simulated device that tells the scene of each kernel it begins.

    ``broken``: from now on the device is lost with every kernel.
    """

    def __init__(self, name: str, scene: Scene) -> None:
        super().__init__(scene.kernel_seconds)
        self.name = name
        self.broken = False
        self._scene = scene

    def _one(self, candidate: Candidate) -> Outcome:
        self._scene.begins(self, candidate)
        if self.broken:
            return Failure(FailureKind.DEVICE_LOST, "CUDA_ERROR_ILLEGAL_ADDRESS and every call after it")
        failure = self._scene.failing.get(candidate.schedule.key)
        return failure or super()._one(candidate)


@dataclass(frozen=True)
class Stored:
    """A run as its database stores it. ``times``: seconds by schedule, for trials that have a time."""

    run: str
    state: str
    numbers: tuple[int, ...]
    keys: tuple[str, ...]
    times: dict[str, float]
    failures: dict[str, str]
    best: str

    @classmethod
    def of(cls, location: str | Path, run: str = "last") -> Stored:
        with Database.open(os.fspath(location)) as database:
            stored = database.run(run)
            trials = database.trials(stored.id)
            best = database.best(stored.task, stored.device_model)
        return cls(
            stored.id, stored.state, tuple(t.number for t in trials), tuple(t.schedule.key for t in trials),
            {t.schedule.key: t.seconds for t in trials if t.seconds is not None},
            {t.schedule.key: t.outcome.kind.value for t in trials if isinstance(t.outcome, Failure)},
            best.schedule.key if best else "",
        )  # fmt: skip

    def middling(self, count: int = 1) -> list[str]:
        """The slowest schedules of the run's middle half: a fault that hits them does not change the winner."""
        middle = self.keys[len(self.keys) // 4 : 3 * len(self.keys) // 4]
        slow = sorted((k for k in middle if k in self.times), key=lambda k: -self.times[k])
        return slow[:count]

    def problems(self, undisturbed: Stored) -> list[str]:
        """Differences between this run and a run without the fault; empty if they are equal."""
        count = len(undisturbed.numbers)
        found = []
        if self.state != "done":
            found.append(f"the run is {self.state}")
        if self.numbers != tuple(range(count)):
            found.append(f"trials are numbered {self.numbers}, not 0 to {count - 1}")
        if len(set(self.keys)) != count:
            found.append(f"{count - len(set(self.keys))} trials are there twice")
        if self.best != undisturbed.best:
            found.append("another schedule won")
        return found


class Halfway(Observer):
    """Calls ``action`` once, at the first trial from number ``trials`` on at which ``when`` returns true."""

    def __init__(self, trials: int, action: Callable[[], None], when: Callable[[], bool] = lambda: True) -> None:
        self._left = trials
        self._action: Callable[[], None] | None = action
        self._when = when

    def trial(self, record: Any, best: Any) -> None:
        self._left -= 1
        if self._left <= 0 and self._action is not None and self._when():
            action, self._action = self._action, None
            action()


class Scene:
    """Four simulated runners, a builder, and a tuning run of ``trials`` trials. Use it as a context manager.

    ``undisturbed``: the stored run without a fault, for faults that need to know its schedules. ``location``: the
    database; by default a file in ``folder``.
    """

    kernel_seconds = 0.001

    def __init__(
        self, folder: Path, trials: int, *, strategy: str = "evolutionary", undisturbed: Stored | None = None,
        certs: Path | None = None, location: str = "", patience: float = 20.0, runners: int = RUNNERS, seed: int = 1,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.trials = trials
        self.strategy = strategy
        self.seed = seed
        self.undisturbed = undisturbed
        self.location = location or str(folder / "runs.db")
        self.farm = SimulatedFarm(folder, [], heartbeat=HEARTBEAT, patience=patience, grace=20.0, certs=certs)
        self.devices: dict[str, Device] = {}
        self.failing: dict[str, Failure] = {}
        self.begun = 0
        self.over = threading.Event()
        self._plans: dict[int, Callable[[Device], object]] = {}
        self._victims: dict[str, Callable[[Device], object]] = {}
        self._lock = threading.Lock()
        self._relays: list[Relay] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._count = runners

    def __enter__(self) -> Scene:
        self.farm.__enter__()
        self.farm.call(self._start())
        self.wait_for(lambda: len(self.members()) == self._count + 1)
        return self

    async def _start(self) -> None:
        self.farm.start_builder()
        for n in range(self._count):
            self._runner(f"sim-{n}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        for p in self._processes:
            p.kill()
            p.wait()
        self.farm.call(self._end())
        self.farm.__exit__(kind, error, trace)

    async def _end(self) -> None:
        for relay in self._relays:
            await relay.stop()

    # ------------------------------------------------------------------ the run

    def tune(self, *, resume: str | None = None, patience: float = 30.0, **more: Any) -> TuneResult:
        """Tune, or resume the run, with a new client in this thread."""
        settings: dict[str, Any] = (
            {} if resume else {"seed": self.seed, "strategy": self.strategy, "cost_model": "random"}
        )
        with contextlib.ExitStack() as stack:
            farm = more.pop("farm", None) or stack.enter_context(
                Farm(self.farm.address, more.pop("certs", self.farm.certs), patience=patience)
            )
            return tune(
                "matmul",
                trials=self.trials,
                db=self.location,
                farm=farm,
                resume=resume,
                params=SIZES,
                **settings,
                **more,
            )

    def stored(self) -> Stored:
        return Stored.of(self.location)

    # ------------------------------------------------------------------ when a fault strikes

    def at(self, share: float, action: Callable[[Device], object]) -> None:
        """Call ``action`` when ``share`` of the trials' kernels have begun, which is in the middle of a job."""
        self._plans[max(1, int(share * self.trials))] = action

    def on(self, key: str, action: Callable[[Device], object]) -> None:
        """Call ``action`` whenever a device begins the kernel of the schedule ``key``."""
        self._victims[key] = action

    def begins(self, device: Device, candidate: Candidate) -> None:
        with self._lock:
            self.begun += 1
            action = self._plans.pop(self.begun, None) or self._victims.get(candidate.schedule.key)
        if action is not None:
            action(device)

    # ------------------------------------------------------------------ what a fault does

    def kill(self, device: Device) -> None:
        """Stop a runner in the middle of its job: its connection breaks, and it sends no result."""
        service = next(s for s in reversed(self.farm.services) if s.name == device.name)
        self.farm.soon(service.stop)
        self.over.wait(WAIT)

    def start_runner(self, name: str, **more: Any) -> None:
        """Start a new runner, or restart a killed one."""
        self.farm.call(self._joined(name, **more))

    async def _joined(self, name: str, **more: Any) -> None:
        await asyncio.wait_for(self._runner(name, **more).connected.wait(), WAIT)

    def _runner(self, name: str, **more: Any) -> Any:
        device = self.devices[name] = Device(name, self)
        return self.farm.start_runner(name, device, **more)

    def let_in(self, certs: Path, role: str) -> None:
        """Wait until the server accepts a certificate that has just been issued."""

        async def enters() -> bool:
            try:
                await (await Endpoint(self.farm.address, certs, role).connect()).close()
            except Refused:
                return False
            return True

        self.wait_for(lambda: bool(self.farm.call(enters())))

    def drain(self, name: str) -> None:
        """Drain a runner by command."""
        with Farm(self.farm.address, self.farm.certs) as farm:
            farm.ask("drain", name=name)

    def start_process(self, name: str, *, skew: float = 0.0, full: bool = False) -> subprocess.Popen[str]:
        """Start a runner in a separate process; see :func:`serve`.

        ``skew``: seconds by which its machine's clock is ahead. ``full``: whether its disk is full.
        """
        code = "from harness.farm_faults import serve; " + (
            f"serve({self.farm.address!r}, {name!r}, {str(self.folder / name)!r}, {self.kernel_seconds})"
        )
        environment = {}
        if skew or full:
            machine = Machine(self.folder / f"{name}-machine", self.folder / name)
            machine.clock, machine.full = skew, full
            environment = machine.environment
            machine.close()
        p = subprocess.Popen(
            [sys.executable, "-c", code], cwd=TESTS, stdin=subprocess.DEVNULL, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip
        self._processes.append(p)
        self.wait_for(lambda: name in self.members())
        return p

    def start_client(self) -> subprocess.Popen[str]:
        """Start this scene's run in a client process."""
        code = (
            "from tilewright import tune\n"
            f"tune('matmul', trials={self.trials}, db={self.location!r}, farm={self.farm.address!r}, seed={self.seed}, "
            f"strategy={self.strategy!r}, cost_model='random', params={SIZES!r})"
        )
        p = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, text=True)
        self._processes.append(p)
        return p

    def relay(self) -> tuple[Relay, str]:
        """Start a relay to the server; returns it and its address."""
        assert self.farm.hub is not None
        relay = Relay(self.farm.hub.server.port)
        self._relays.append(relay)
        scheme = self.farm.address.partition("://")[0]
        return relay, f"{scheme}://127.0.0.1:{self.farm.call(relay.start())}"

    # ------------------------------------------------------------------ what there is to see

    def status(self) -> dict[str, Any]:
        with Farm(self.farm.address, self.farm.certs) as farm:
            return farm.status()

    def member(self, name: str) -> dict[str, Any]:
        """A worker's entry in the farm's status; empty when the worker is absent."""
        return next((w for w in self.status()["workers"] if w["name"] == name), {})

    def members(self) -> Collection[str]:
        hub = self.farm.hub
        return () if hub is None else tuple(hub.keeper.members)

    def said(self, text: str) -> str:
        """Returns the farm's log line that contains ``text``. Raises ``AssertionError`` if no line does."""
        for line in list(self.farm.said):
            if text in line:
                return line
        raise AssertionError(f"nobody said {text!r}:\n" + "\n".join(self.farm.said))

    def wait_for(self, condition: Callable[[], bool]) -> None:
        self.farm.wait_for(condition, WAIT)


def serve(address: str, name: str, folder: str, seconds: float) -> None:
    """Run a simulated runner until the process is killed."""
    from harness.farm import simulated_device
    from tilewright.backends.cache import ArtifactCache
    from tilewright.farm.workers.runner import Bench, Runner

    measurer = SleepingMeasurer(seconds)
    bench = Bench(simulated_device(name), lambda _target: measurer, contextlib.nullcontext, lambda _task: NO_PEAKS)

    async def work() -> None:
        runner = Runner(Endpoint(address, None, "runner"), name, bench, ArtifactCache(folder), lambda _line: None)
        await runner.run()

    asyncio.run(work())


def expect(condition: object, otherwise: str) -> None:
    """Raise ``AssertionError`` unless ``condition`` is true: the fault left no trace, or a wrong one."""
    if not condition:
        raise AssertionError(otherwise)
