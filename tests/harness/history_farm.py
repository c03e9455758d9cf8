"""A farm and its clients under random faults, and the history of their events.

Nothing is simulated: the processes of the command line, kernels, devices and databases are real. :class:`World` runs
them, and :class:`Faults` injects faults. A seed decides each fault, its victim, its duration and the pause before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.farm import FarmProcesses
from harness.history import Row, contents
from harness.preloaded import Machine, library
from harness.recorded import Recorder, Settings, read
from harness.relay import Relay
from harness.waiting import until
from tilewright.core import TilewrightError
from tilewright.database import Database
from tilewright.farm.client import Farm
from tilewright.farm.pki import certificates

TESTS = Path(__file__).parents[1]
HEARTBEAT = 1.0
CLIENTS = (("client-0", "alice", "main.db", 0), ("client-1", "bob", "main.db", 1), ("client-2", "alice", "other.db", 0))
"""Each client's name, certificate, database and index of its device class."""
TRIALS = 16
LOOK = 5.0  # seconds between checks for quarantined workers
END = 300.0  # seconds within which clients end their runs after the last fault


class Processes(FarmProcesses):
    """The farm's processes, each on its own machine and behind its own relay, which record their events."""

    def __init__(self, world: World, certs: Path) -> None:
        super().__init__(world.folder, certs, HEARTBEAT)
        self.program = ("-m", "harness.recorded", str(world.events))
        self._world = world

    def address_for(self, name: str) -> str:
        return self._world.route(name)

    def _start(self, name: str, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        if name == "server":
            arguments = [*arguments, "--storage", str(256 << 20)]
        machine = self._world.machine(name, self.folder / name)
        own = {**environment, **machine.environment, "PYTHONPATH": str(TESTS)}
        return super()._start(name, arguments, own)


class World:
    """A server, runners of two device classes, a builder and clients. Use it as a context manager."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.events, self.data = folder / "events", folder / "databases"
        self.data.mkdir(parents=True)
        self.certs = folder / "certs"
        self.record = Recorder(self.events, "world")
        self.machines: dict[str, Machine] = {}
        self.relays: dict[str, tuple[Relay, int]] = {}
        self.roles: dict[str, str] = {}  # roles of the runners and builders that should run
        self.devices: dict[str, str] = {}
        self.down: set[str] = set()  # names of processes that a fault has killed or paused at the moment
        self.stopping = folder / "stop"
        self.farm = Processes(self, self.certs)
        self._library = library(folder)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: dict[str, subprocess.Popen[bytes]] = {}
        self._classes: list[str] = []
        self._looked = 0.0

    # ------------------------------------------------------------------ life

    def __enter__(self) -> World:
        self._thread.start()
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self) -> None:
        certificates.create_authority(self.certs, ["localhost"], 30)
        for user in dict.fromkeys(c[1] for c in CLIENTS):
            certificates.issue(self.certs, user, "client")
        self.farm.server()
        cores = sorted(os.sched_getaffinity(0))
        self.add_runner("runner-0", f"cpu:{cores[0]}")
        self.add_runner("runner-1", f"cpu:{cores[-1]}")
        if len(cores) > 1:
            self.add_runner("runner-2", f"cpu:{cores[0]},{cores[1]}")
        self.add_builder("builder-0")
        self.farm.wait_for(lambda: len(self.status()["workers"]) == len(self.roles))
        self._classes = sorted({w["places"][0] for w in self.status()["workers"] if w["role"] == "runner"})
        for name in dict.fromkeys(c[2] for c in CLIENTS):
            Database.open(self.data / name).close()
        self.host_of_clients().remember(self.data)
        for name, *_ in CLIENTS:
            self.start_client(name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.kill()
            client.wait()
        self.farm.__exit__(None, None, None)
        for relay, _ in self.relays.values():
            self.call(relay.stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()
        for machine in self.machines.values():
            machine.close()

    def call(self, work: Callable[[], Any]) -> Any:
        """Call ``work`` in the relays' thread and return its result."""

        async def run() -> Any:
            found = work()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30.0)

    def machine(self, name: str, under: Path, synced: Path | None = None) -> Machine:
        if name not in self.machines:
            under.mkdir(exist_ok=True)
            self.machines[name] = Machine(
                self.folder / "machines" / name, under, built=self._library, synced=synced
            )  # fmt: skip
        return self.machines[name]

    def host_of_clients(self) -> Machine:
        """The machine of the first client; all clients' machines share a disk."""
        return self.machine(CLIENTS[0][0], self.data, self.folder / "synced")

    def route(self, name: str) -> str:
        """The address at which a peer reaches the server, through the peer's relay."""
        if name not in self.relays:
            relay = Relay(self.farm.port)
            self.relays[name] = (relay, self.call(relay.start))
        return f"tls://127.0.0.1:{self.relays[name][1]}"

    def status(self) -> dict[str, Any]:
        with Farm(self.farm.address, self.certs, patience=5.0, roles=("reader",)) as farm:
            return farm.status()

    # ------------------------------------------------------------------ processes

    def add_runner(self, name: str, device: str) -> None:
        self.roles[name], self.devices[name] = "runner", device
        self.farm.runner(name, device)

    def add_builder(self, name: str) -> None:
        self.roles[name] = "builder"
        self.farm.builder(name)

    def start_client(self, name: str) -> None:
        """Start a client process, which resumes the unfinished run of the previous process."""
        _, user, database, number = next(c for c in CLIENTS if c[0] == name)
        address, machine = self.route(name), self.machine(name, self.data, self.folder / "synced")
        settings = Settings(
            name, address, str(self.certs / user), str(self.data / database), self._classes[number % len(self._classes)],
            self.seed, TRIALS, str(self.stopping), self._unfinished(name),
        )  # fmt: skip
        home = self.folder / name
        home.mkdir(exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._clients[name] = subprocess.Popen(
                [sys.executable, "-m", "harness.recorded", str(self.events), "client", json.dumps(vars(settings))],
                env={**os.environ, **machine.environment, "PYTHONPATH": str(TESTS), "TILEWRIGHT_CACHE": str(home)},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _unfinished(self, name: str) -> str | None:
        run = None
        for e in read(self.events):
            if e["who"] == name and e["event"] in ("run", "ended"):
                run = e["run"] if e["event"] == "run" else None
        return run

    def pid(self, name: str) -> int | None:
        """The process id of ``name`` while the process runs, else ``None``."""
        if name == "nats-server":
            return self._nats()
        process = self._clients.get(name) or self.farm.processes.get(name)
        return process.pid if process is not None and process.poll() is None else None

    def _nats(self) -> int | None:
        server = self.pid("server")
        with contextlib.suppress(OSError, ValueError):
            for task in Path(f"/proc/{server}/task").iterdir():
                for child in map(int, (task / "children").read_text().split()):
                    if Path(f"/proc/{child}/comm").read_text().startswith("nats-server"):
                        return child
        return None

    def signal(self, name: str, number: int) -> None:
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, number)

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process, also to a paused one, and wait until it is dead."""
        nats = self._nats() if name == "server" else None
        self.signal(name, signal.SIGKILL)
        process = self._clients.get(name) or self.farm.processes.get(name)
        if process is not None:
            process.wait()
        if nats is not None:
            until(lambda: not _alive(nats))  # nats-server dies with the server process, and holds the port until then

    def start(self, name: str) -> None:
        """Restart a process, as a supervisor does, unless it runs."""
        if self.pid(name) is not None:
            return
        if name == "server":
            self._start_server()
        elif name in self._clients:
            self.start_client(name)
        elif self.roles.get(name) == "builder":
            self.farm.builder(name)
        elif name in self.roles:
            self.farm.runner(name, self.devices[name])

    def _start_server(self) -> None:
        for _ in range(5):
            with contextlib.suppress(RuntimeError):
                self.farm.server(self.farm.port)
                return
            self.record("said", line=f"the server does not start: {self.farm.said('server')[-300:]}")
            time.sleep(1.0)
        self.record("died", whom="server", error="it does not start: " + self.farm.said("server")[-300:])

    def leave(self, name: str) -> None:
        """Drain a runner or builder, which does not return."""
        del self.roles[name]
        self.signal(name, signal.SIGTERM)

    def tend(self) -> None:
        """Restart ended processes, as a supervisor does, and release workers from quarantine, as an operator does."""
        for name in [*self.roles, "server", *self._clients]:
            if name in self.down or self.pid(name) is not None:
                continue
            if name in self._clients:
                if self._clients[name].returncode == 0:
                    continue
                tail = (self.folder / f"{name}.log").read_text(errors="replace")[-300:]
                self.record("died", whom=name, error=f"code {self._clients[name].returncode}: {tail}")
            else:
                tail = self.farm.said(name)[-300:]
                event = "died" if name == "server" or "Traceback" in tail else "left"
                self.record(event, whom=name, error=f"code {self.farm.processes[name].returncode}: {tail}")
            self.start(name)
        if time.monotonic() - self._looked > LOOK and not {"server", "nats-server"} & self.down:
            self._looked = time.monotonic()
            with contextlib.suppress(TilewrightError):
                self._release()

    def _release(self) -> None:
        with Farm(self.farm.address, self.certs, patience=5.0, roles=("administrator",)) as farm:
            for w in farm.status()["workers"]:
                if w["quarantine"]:
                    self.record("released", whom=w["name"], why=w["quarantine"])
                    farm.ask("release", timeout=5.0, name=w["name"])

    # ------------------------------------------------------------------ the end

    def finish(self) -> None:
        """Have clients end their runs. Raises ``TimeoutError`` with the clients that did not end."""
        self.stopping.touch()
        until = time.monotonic() + END
        while any(c.poll() != 0 for c in self._clients.values()):
            self.tend()
            if time.monotonic() > until:
                left = [n for n, c in self._clients.items() if c.poll() != 0]
                raise TimeoutError(f"{', '.join(left)} did not end within {END:.0f} s")
            time.sleep(0.2)

    def rows(self) -> list[Row]:
        """The rows of all databases."""
        return [row for path in sorted(self.data.glob("*.db")) for row in contents(path)]


class Faults:
    """Injects faults into a world, in an order that its seed decides. Faults on a process that is down are skipped."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(world.seed)
        self.counts: dict[str, int] = {}
        self._ends: list[tuple[float, str, str, Callable[[], object]]] = []
        self._joined = 0

    def run(self, minutes: float) -> None:
        """Inject faults for ``minutes``, then end all of them."""
        until = time.monotonic() + 60 * minutes
        upcoming = time.monotonic() + 5.0
        while time.monotonic() < until:
            self._settle()
            self.world.tend()
            if time.monotonic() >= upcoming:
                self._one()
                upcoming = time.monotonic() + self.rng.uniform(0.5, 5.0)
            time.sleep(0.1)
        while self._ends:
            self._settle()
            time.sleep(0.1)

    def _settle(self) -> None:
        now = time.monotonic()
        for entry in [e for e in self._ends if e[0] <= now]:
            self._ends.remove(entry)
            _, what, whom, end = entry
            end()
            self.world.record("fault", what=what, whom=whom, phase="end")

    def _one(self) -> None:
        kinds = (
            self._kill, self._kill, self._stop, self._stop, self._network, self._network, self._clock, self._full,
            self._power, self._server_disk, self._member,
        )  # fmt: skip
        self.rng.choice(kinds)()

    def _begin(
        self, what: str, whom: str, seconds: float, begin: Callable[[], object], end: Callable[[], object]
    ) -> None:
        if any((w, o) == (what, whom) for _, w, o, _ in self._ends):
            return
        self.world.record("fault", what=what, whom=whom, phase="begin", seconds=seconds)
        self.counts[what] = self.counts.get(what, 0) + 1
        begin()
        self._ends.append((time.monotonic() + seconds, what, whom, end))

    def _processes(self, *others: str) -> list[str]:
        return sorted([*self.world.roles, *(c[0] for c in CLIENTS), *others])

    def _down(
        self, what: str, name: str, seconds: float, begin: Callable[[], object], end: Callable[[], object]
    ) -> None:
        down = self.world.down
        if name in down:
            return

        def back() -> None:
            end()
            down.discard(name)

        down.add(name)
        self._begin(what, name, seconds, begin, back)

    def _kill(self) -> None:
        name = self.rng.choice(self._processes("server", "server", "nats-server"))
        seconds = self.rng.choice((0.0, 1.0, 3.0, 8.0))
        if name == "nats-server":
            self._begin("kill nats-server", name, 0.0, lambda: self.world.signal(name, signal.SIGKILL), lambda: None)
        else:
            kind = name.split("-")[0]
            self._down(f"kill {kind}", name, seconds, lambda: self.world.kill(name), lambda: self.world.start(name))

    def _stop(self) -> None:
        name = self.rng.choice(self._processes("server", "nats-server"))
        seconds = self.rng.choice((0.5, 2.0, 6.0, 12.0))
        kind = name if name == "nats-server" else name.split("-")[0]
        self._down(
            f"stop {kind}", name, seconds, lambda: self.world.signal(name, signal.SIGSTOP),
            lambda: self.world.signal(name, signal.SIGCONT),
        )  # fmt: skip

    def _network(self) -> None:
        name = self.rng.choice(sorted(self.world.relays))
        relay, _ = self.world.relays[name]
        seconds = self.rng.choice((1.0, 3.0, 7.0, 15.0))
        what = self.rng.choice(("cut", "half open there", "half open back", "slow", "reset"))

        def begin() -> None:
            if what == "reset":
                relay.drop()
            elif what == "slow":
                relay.delay = 0.3
            else:
                relay.cut(there=what != "half open back", back=what != "half open there")

        def end() -> None:
            if seconds > 5.0:
                relay.drop()
            relay.heal()

        self._begin(f"network {what}", name, seconds, lambda: self.world.call(begin), lambda: self.world.call(end))

    def _clock(self) -> None:
        name = self.rng.choice(sorted(self.world.machines))
        machine = self.world.machines[name]
        skew = self.rng.choice((-3600.0, -300.0, -61.0, 61.0, 300.0, 3600.0))
        self._begin("clock", name, self.rng.uniform(2.0, 20.0), lambda: setattr(machine, "clock", skew),
                    lambda: setattr(machine, "clock", 0.0))  # fmt: skip

    def _full(self) -> None:
        name = self.rng.choice(sorted(n for n in self.world.machines if n != "server"))
        machine = self.world.machines[name]
        self._begin("full disk", name, self.rng.uniform(0.5, 5.0), lambda: setattr(machine, "full", True),
                    lambda: setattr(machine, "full", False))  # fmt: skip

    def _power(self) -> None:
        """Cut the clients' power: their databases lose writes that were not synced."""
        names = [c[0] for c in CLIENTS]
        if set(names) & self.world.down:
            return
        self.world.down |= set(names)

        def end() -> None:
            for name in names:
                self.world.start(name)
            self.world.down -= set(names)

        self._begin("power cut", "clients", 1.0, self._cut_power, end)

    def _cut_power(self) -> None:
        world = self.world
        for name, *_ in CLIENTS:
            world.kill(name)
        world.host_of_clients().cut_power(world.data, random.Random(self.counts["power cut"]))
        for path in sorted(world.data.glob("*.db")):
            contents(path)  # raises if it is damaged
        world.host_of_clients().remember(world.data)

    def _server_disk(self) -> None:
        """The server's disk is lost, or restored from an old copy."""
        if {"server", "nats-server"} & self.world.down:
            return
        state, copy = self.world.folder / "state", self.world.folder / "state-before"
        back, seconds = self.rng.random() < 0.6, self.rng.uniform(1.0, 10.0)
        if any(what.startswith("server's disk") for _, what, _, _ in self._ends):
            return
        shutil.rmtree(copy, ignore_errors=True)
        if back:
            subprocess.run(["cp", "-r", str(state), str(copy)], check=False, stderr=subprocess.DEVNULL)

        def replaced() -> None:
            self.world.down.add("server")
            self.world.kill("server")
            shutil.rmtree(state)
            if back:
                copy.rename(state)
            self.world.start("server")
            self.world.down.discard("server")

        what = "server's disk as before" if back else "server's disk lost"
        self._begin(what, "server", seconds, lambda: None, replaced)

    def _member(self) -> None:
        """Replace a worker by a new one with another name."""
        name = self.rng.choice(sorted(self.world.roles))
        if name in self.world.down:
            return
        role, device = self.world.roles[name], self.world.devices.get(name, "")
        self._joined += 1
        newcomer = f"{role}-{self._joined + 9}"

        def join() -> None:
            if role == "runner":
                self.world.add_runner(newcomer, device)
            else:
                self.world.add_builder(newcomer)

        self._begin(f"{role} leaves", name, self.rng.choice((0.0, 4.0)), lambda: self.world.leave(name), join)


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
