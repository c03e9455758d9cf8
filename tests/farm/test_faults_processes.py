"""Faults of real processes, real cores and real kernels: each farm here is what the command line starts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from harness.farm import FarmProcesses
from measure import handmade
from tilewright.backends import parse_target
from tilewright.backends.cpu.device import CpuDevice
from tilewright.backends.locks import DeviceLock
from tilewright.building.builder import Builder
from tilewright.core import Candidate, Failure, FailureKind, Measurement, Outcome, Schedule, Task
from tilewright.farm.client import Farm
from tilewright.farm.remote import FarmRunner
from tilewright.kernels.operators import get_operator
from tilewright.measure.runner import Item

CORES = sorted(os.sched_getaffinity(0))[:2]
LIMIT = 120.0  # seconds, for what takes a second or two on a machine that does nothing else
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="two runners need a core each")
BODIES = {
    "greedy": "for (long n = 0;; n++) { volatile char *p = (char *)__builtin_malloc(1 << 20); p[0] = 1; }",
    "fresh": "mm(2);",
}


@pytest.fixture(scope="module")
def task() -> Task:
    return Task(get_operator("matmul").workload(**handmade.SIZES), parse_target("cpu"))


class Kernels:
    """Makes kernels of the bodies in ``handmade``, each different even where the body is the same."""

    def __init__(self, task: Task, builder: Builder) -> None:
        self.task = task
        self.paths: dict[str, str] = {}
        self._builder = builder
        self._count = 0

    def __call__(self, *bodies: str) -> list[Item]:
        candidates = []
        for body in bodies:
            self._count += 1
            schedule = Schedule("handmade", 1, (("body", body), ("copy", self._count)), ())
            candidates.append(Candidate(self.task, schedule))
        built = [b for b in self._builder.build(candidates) if not isinstance(b, Failure)]
        self.paths |= {b.sha256: b.path for b in built}
        return list(zip(candidates, built, strict=True))

    def runner(self, client: Farm) -> FarmRunner:
        """The farm's runners, which ask this process for the code that the farm does not have."""

        def restore(name: str) -> None:
            client.put(Path(self.paths[name]).read_bytes())

        device_class = next(iter(client.devices()))
        return FarmRunner(client, device_class, restore)


@pytest.fixture(scope="module")
def kernels(task: Task) -> Iterator[Kernels]:
    with pytest.MonkeyPatch.context() as patch:
        for name, body in BODIES.items():
            patch.setitem(handmade.BODIES, name, body)
        with Builder(task.target, lower=handmade.lower) as builder:
            yield Kernels(task, builder)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, certs: Path) -> Iterator[FarmProcesses]:
    """A server and a runner a core, which the tests share: see ``processes``."""
    with FarmProcesses(tmp_path_factory.mktemp("processes"), certs, heartbeat=1.0) as farm:
        farm.server()
        for n, core in enumerate(CORES):
            farm.runner(f"core-{n}", f"cpu:{core}")
        yield farm


@pytest.fixture
def processes(started: FarmProcesses, certs: Path) -> FarmProcesses:
    """The shared farm, made whole again whatever the test before did to it, or left undone when it failed."""
    if not started.alive("server"):
        started.server(started.port)
    wanted = {f"core-{n}": f"cpu:{core}" for n, core in enumerate(CORES)}
    for name in set(started.processes) - {"server", *wanted}:
        started.end(name)
    with Farm(started.address, certs, roles=("administrator",)) as client:
        leaving = {w["name"] for w in client.status()["workers"] if w["draining"]}
        for name, device in wanted.items():
            if name in leaving or not started.alive(name):
                started.end(name)
                started.wait_for(lambda name=name: not member(client, name))  # type: ignore[misc]
                started.runner(name, device)
        started.wait_for(lambda: {w["name"] for w in client.status()["workers"]} == set(wanted))
        for w in client.status()["workers"]:
            if w["strikes"] or w["quarantine"]:
                client.ask("quarantine", name=w["name"], why="to be released")
                client.ask("release", name=w["name"])
    return started


@pytest.fixture
def client(processes: FarmProcesses, certs: Path) -> Iterator[Farm]:
    with Farm(processes.address, certs, patience=LIMIT) as c:
        yield c


@pytest.fixture
def boss(processes: FarmProcesses, certs: Path) -> Iterator[Farm]:
    """Who may take devices out and back in."""
    with Farm(processes.address, certs, roles=("administrator",)) as c:
        yield c


@pytest.fixture
def runner(client: Farm, kernels: Kernels) -> Iterator[FarmRunner]:
    with kernels.runner(client) as r:
        yield r


def member(client: Farm, name: str) -> dict[str, object]:
    return next((w for w in client.status()["workers"] if w["name"] == name), {})


def cores_taken() -> DeviceLock:
    """While it is held nobody measures: a job that a runner has begun cannot end before this."""
    return DeviceLock(CpuDevice("cpu:" + ",".join(map(str, CORES)), "test"))


def begun(process: subprocess.Popen[str]) -> bool:
    """Whether a runner has begun a job, and waits for its core."""
    folder = f"/proc/{process.pid}/fd"
    for fd in os.listdir(folder):
        with contextlib.suppress(OSError):
            if re.fullmatch(r"core-\d+\.lock", Path(os.readlink(f"{folder}/{fd}")).name):
                return True
    return False


def six_at_once(runner: FarmRunner, task: Task, kernels: Kernels) -> Callable[[], Future[list[Outcome]]]:
    """A batch of which every runner gets a part: with a kernel to pair with, nothing has to be measured first."""
    incumbent, *items = kernels(*["good"] * 7)
    assert isinstance(runner.run(task, [incumbent])[0], Measurement)
    for _, artifact in items:  # a job whose artifacts the farm lacks is sent again in its turn only
        runner.farm.put(Path(artifact.path).read_bytes())
    return lambda: runner.submit(task, items, incumbent)


def all_measured(future: Future[list[Outcome]]) -> bool:
    outcomes = future.result(LIMIT)
    return len(outcomes) == 6 and all(isinstance(o, Measurement) for o in outcomes)


def test_a_kernels_own_fault_is_its_own(client: Farm, runner: FarmRunner, task: Task, kernels: Kernels) -> None:
    incumbent = kernels("good")[0]
    assert isinstance(runner.run(task, [incumbent])[0], Measurement)
    bad = {
        "segfault": FailureKind.CRASH, "greedy": FailureKind.CRASH, "wrong": FailureKind.WRONG_RESULT,
        "hang": FailureKind.TIMEOUT,
    }  # fmt: skip
    bodies = ["slow", *bad, "fresh"]
    outcomes = dict(zip(bodies, runner.run(task, kernels(*bodies), incumbent), strict=True))
    assert {b: o.kind for b, o in outcomes.items() if isinstance(o, Failure)} == bad
    assert all(w["strikes"] == 0 and not w["quarantine"] for w in client.status()["workers"])
    assert isinstance(runner.run(task, kernels("good"), incumbent)[0], Measurement)


def test_a_killed_runner_is_replaced_by_one_of_its_name(
    processes: FarmProcesses, client: Farm, runner: FarmRunner, task: Task, kernels: Kernels
) -> None:
    submit = six_at_once(runner, task, kernels)
    with cores_taken():
        future = submit()
        killed = processes.processes["core-0"]
        processes.wait_for(lambda: begun(killed))
        processes.end("core-0")
        processes.wait_for(lambda: not member(client, "core-0"))
        processes.runner("core-0", f"cpu:{CORES[0]}")
    assert all_measured(future)
    processes.wait_for(lambda: bool(member(client, "core-0")))


def test_a_killed_server_is_replaced_in_the_middle_of_a_batch(
    processes: FarmProcesses, client: Farm, runner: FarmRunner, task: Task, kernels: Kernels
) -> None:
    submit = six_at_once(runner, task, kernels)
    with cores_taken():
        future = submit()
        processes.wait_for(lambda: all(begun(processes.processes[f"core-{n}"]) for n in range(len(CORES))))
        processes.end("server")
        processes.server(processes.port)
    assert all_measured(future)
    assert client.cut_offs >= 1
    processes.wait_for(lambda: len(client.status()["workers"]) == len(CORES))


def test_a_runner_told_to_end_finishes_its_job(
    processes: FarmProcesses, client: Farm, runner: FarmRunner, task: Task, kernels: Kernels
) -> None:
    submit = six_at_once(runner, task, kernels)
    leaving = processes.processes["core-1"]
    with cores_taken():
        future = submit()
        processes.wait_for(lambda: begun(leaving))
        leaving.send_signal(signal.SIGTERM)
        processes.wait_for(lambda: bool(member(client, "core-1").get("draining")))
        assert leaving.poll() is None
    assert leaving.wait(LIMIT) == 0
    assert "draining" in processes.said("core-1")
    assert all_measured(future)
    processes.wait_for(lambda: not member(client, "core-1"))
    processes.runner("core-1", f"cpu:{CORES[1]}")
    processes.wait_for(lambda: bool(member(client, "core-1")))
    assert member(client, "core-1")["strikes"] == 0


def test_a_runner_that_cannot_finish_in_time_leaves_its_job_to_others(
    processes: FarmProcesses, client: Farm, runner: FarmRunner, task: Task, kernels: Kernels
) -> None:
    leaving = processes.runner("brief", f"cpu:{CORES[1]}", "--drain-seconds", "0.1")
    processes.wait_for(lambda: bool(member(client, "brief")))
    submit = six_at_once(runner, task, kernels)
    with cores_taken():
        future = submit()
        processes.wait_for(lambda: begun(leaving))
        leaving.send_signal(signal.SIGTERM)
        assert leaving.wait(LIMIT) == 143  # though its core is still taken
        assert "stopped before the running work was done" in processes.said("brief")
    assert all_measured(future)


def test_a_clock_that_is_wrong_changes_no_time(
    processes: FarmProcesses, client: Farm, boss: Farm, task: Task, kernels: Kernels, tmp_path: Path
) -> None:
    """A runner whose clock is days ahead, and jumps back by an hour every second."""
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib, time\nnow = time.time\ntime.time = lambda: now() + 5 * 86400 - 3600 * int(now() % 60)\n"
        "if time.time() > now() + 86400: pathlib.Path(__file__).with_name('skewed').touch()\n"
    )
    for n in range(len(CORES)):
        boss.ask("quarantine", name=f"core-{n}", why="by hand")
    processes.runner("skewed", f"cpu:{CORES[0]}", PYTHONPATH=str(tmp_path))
    processes.wait_for(lambda: bool(member(client, "skewed")))
    with kernels.runner(client) as runner:
        outcomes = runner.run(task, kernels("good", "slow"))
    assert all(isinstance(o, Measurement) and 0 < o.seconds < 60 for o in outcomes), outcomes
    assert all(0 < o.verify_seconds + o.measure_seconds < 600 for o in outcomes if isinstance(o, Measurement))
    processes.wait_for(lambda: bool(member(client, "skewed")["done"]))
    assert (tmp_path / "skewed").exists()


def test_a_full_disk_is_the_runners_fault(
    processes: FarmProcesses, client: Farm, boss: Farm, runner: FarmRunner, task: Task, kernels: Kernels
) -> None:
    home = processes.folder / "full"
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(home)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a file system")
    try:
        # Alone, it gets every job until it is out of the way: two that wait together, so that neither fails so often
        # that it is given up.
        for n in range(len(CORES)):
            boss.ask("quarantine", name=f"core-{n}", why="by hand")
        processes.runner("full", f"cpu:{CORES[0]}")
        processes.wait_for(lambda: bool(member(client, "full")))
        with contextlib.suppress(OSError), open(home / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        items = kernels("good", "good")
        for _, artifact in items:
            client.put(Path(artifact.path).read_bytes())
        boss.ask("quarantine", name="full", why="until both wait")
        futures = [runner.submit(task, [item]) for item in items]
        processes.wait_for(lambda: sum(p["waiting"] for p in client.status()["places"].values()) == len(items))
        boss.ask("release", name="full")
        processes.wait_for(lambda: bool(member(client, "full")["quarantine"]))
        assert "No space left" in str(member(client, "full")["quarantine"])
        for n in range(len(CORES)):
            boss.ask("release", name=f"core-{n}")
        outcomes = [future.result(LIMIT)[0] for future in futures]
        assert all(isinstance(o, Measurement) for o in outcomes), outcomes
    finally:
        processes.end("full")
        subprocess.run(["umount", "-l", str(home)], check=True)


def test_only_the_server_listens_and_its_port_speaks_no_http(processes: FarmProcesses) -> None:
    listening = {}
    for name, p in processes.processes.items():
        if p.poll() is None:
            listening[name] = set().union(*(_ports(pid) for pid in _family(p.pid)))
    own = listening.pop("server")
    assert processes.port in own
    assert len(own) == 2  # and nats-server's monitoring, for this machine alone
    assert len(listening) >= 2
    assert not any(listening.values()), listening
    for request in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"OPTIONS * HTTP/1.0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", processes.port), timeout=20.0) as s:
            s.sendall(request)
            said = b""
            with contextlib.suppress(ConnectionResetError):
                while data := s.recv(4096):
                    said += data
        assert b"HTTP" not in said
        assert b"html" not in said.lower()


def _family(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for p in found:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{p}/task"):
                found += [int(n) for n in Path(f"/proc/{p}/task/{thread}/children").read_text().split()]
    return found


def _ports(pid: int) -> set[int]:
    """TCP ports on which a process listens."""
    inodes = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
