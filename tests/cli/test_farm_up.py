"""A whole farm by one command: what it says, that it tunes, and that nothing of it is left whatever ends it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.caches import with_support
from harness.waiting import until
from tilewright.backends.cores import affinity, available_cores, format_cores
from tilewright.backends.cpu.targets import detect
from tilewright.cli.app import run
from tilewright.farm.pki.certificates import create_authority
from tilewright.farm.workers.slurm import visible_gpus
from tilewright.measure.devices import find_all
from tilewright.units import counted

LIMIT = 60.0  # seconds, for what takes one or two on a machine that does nothing else
TUNE = ("tune", "matmul", "m=64", "n=64", "k=64", "--cost-model", "random", "--trials", "2", "--json")
CORES = available_cores()
NODE = platform.node()
DEVICE = f"cpu:{format_cores(affinity()[:CORES])}"


class Up:
    """One ``farm up``. ``folder``: its temporary files and cache, by whose name its processes are known.

    ``log``: a descriptor for its log, in place of a file.
    """

    def __init__(self, folder: Path, *words: str, log: int | None = None, **environment: str) -> None:
        self.folder = folder
        (folder / "tmp").mkdir()
        own = {"TILEWRIGHT_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), "CUDA_VISIBLE_DEVICES": ""}
        self.environment = {**os.environ, **own, **environment}
        port = () if "--port" in words else ("--port", "0")
        with open(folder / "log", "w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tilewright", "farm", "up", *port, *words], env=self.environment, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file if log is None else log, start_new_session=True,
            )  # fmt: skip

    def first_line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, self.said()
        return line

    def said(self) -> str:
        return (self.folder / "log").read_text()

    def left(self) -> dict[int, str]:
        """Processes with our folder in their environment or in their arguments."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    words, around = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
                except OSError:
                    continue
                if str(self.folder).encode() in words + around and words:
                    found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")
        return found

    def pid_of(self, *words: str) -> int:
        return next(pid for pid, line in self.left().items() if all(w in line for w in words))

    def tune(self, *words: str) -> dict[str, object]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = run([*TUNE, "--db", str(self.folder / "t.db"), *words])
        assert code == 0, self.said()
        found: dict[str, object] = json.loads(out.getvalue())
        return found

    def ended(self) -> int:
        """How it ended, soon."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LIMIT)
        code = self.process.returncode
        assert code is not None, f"{self.left()}\n{self.said()}"
        return code

    def close(self) -> None:
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):  # it ended with the one before
                os.kill(pid, signal.SIGKILL)
        self.process.wait(LIMIT)
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., Up]


def nothing_left(farm: Up) -> None:
    """No process; compilers end by themselves, soon. No folder either, unless it was killed."""
    wait_for(lambda: not farm.left(), farm)
    if farm.process.returncode != -signal.SIGKILL:
        assert not list((farm.folder / "tmp").iterdir())


def wait_for(condition: Callable[[], bool], farm: Up) -> None:
    until(condition, LIMIT, 0.05, lambda: f"{farm.left()}\n{farm.said()}")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    farms: list[Up] = []

    def started(*words: str, log: int | None = None, **environment: str) -> Up:
        folder = tmp_path / f"farm-{len(farms)}"
        folder.mkdir()
        farms.append(Up(folder, *words, log=log, **environment))
        return farms[-1]

    yield started
    for farm in farms:
        farm.close()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cache for the farms that tune, who all compile the same."""
    cache = tmp_path_factory.mktemp("farms") / "cache"
    with_support(cache, detect())
    return str(cache)


def test_farm_up_says_its_address_tunes_and_drains(start: Start, compiled: str) -> None:
    farm = start(TILEWRIGHT_CACHE=compiled)
    address = farm.first_line()
    assert address.startswith("tcp://127.0.0.1:")
    assert farm.tune("--farm", address)["trials"] == 2
    wait_for(lambda: "next: " in farm.said(), farm)
    assert f"tune matmul m=512 n=512 k=512 --farm {address}\n" in farm.said()
    assert f"{NODE}-builder: " in farm.said()
    assert "runners that take work: 1" in farm.said()
    farm.process.send_signal(signal.SIGINT)
    assert farm.ended() == 0, farm.said()
    nothing_left(farm)
    assert farm.said().count("draining for at most") == 3  # farm up, the runner, the builder


def test_with_certificates_and_json(start: Start, compiled: str, tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    create_authority(certs, ["localhost"], 30)
    farm = start("--json", "--certs", str(certs), TILEWRIGHT_CACHE=compiled)
    found = json.loads(farm.first_line())
    assert set(found) == {"schema", "address"}
    assert found["address"].startswith("tls://localhost:")
    assert farm.tune("--farm", found["address"], "--certs", str(certs))["trials"] == 2
    assert f"--certs {certs}\n" in farm.said()
    farm.process.send_signal(signal.SIGTERM)
    assert farm.ended() == 0, farm.said()
    nothing_left(farm)
    assert farm.said().count("draining for at most") == 3  # the builder got in too


def test_a_farm_that_is_killed_leaves_nothing(start: Start) -> None:
    farm = start()
    farm.first_line()
    assert len(farm.left()) >= 5  # itself, nats-server, a runner and its child, a builder
    farm.process.kill()
    farm.ended()
    nothing_left(farm)


def test_a_second_ctrl_c_ends_at_once(start: Start) -> None:
    farm = start()
    farm.first_line()
    os.kill(farm.pid_of("farm runner"), signal.SIGSTOP)  # it will not drain
    farm.process.send_signal(signal.SIGINT)
    wait_for(lambda: "draining" in farm.said(), farm)
    with pytest.raises(subprocess.TimeoutExpired):
        farm.process.wait(1.0)
    farm.process.send_signal(signal.SIGINT)
    assert farm.ended() == 143
    nothing_left(farm)


def test_farm_up_drains_though_nobody_reads_its_log(start: Start) -> None:
    reader, writer = os.pipe()
    farm = start(log=writer)
    os.close(writer)
    farm.first_line()
    os.close(reader)
    farm.process.send_signal(signal.SIGTERM)
    assert farm.ended() == 0
    nothing_left(farm)


def test_a_runner_that_dies_is_started_again(start: Start) -> None:
    farm = start()
    address = farm.first_line()
    first = farm.pid_of("farm runner")
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: "was killed by signal 9; starting it again in 10 s" in farm.said(), farm)
    wait_for(lambda: farm.said().count(f"connected to {address} as {NODE}-cpu") == 2, farm)
    assert farm.pid_of("farm runner") != first
    assert "connected already" not in farm.said()


def test_farm_up_ends_with_its_last_runner(start: Start) -> None:
    farm = start()
    assert run(["farm", "drain", "--farm", farm.first_line(), f"{NODE}-{DEVICE}"]) == 0
    assert farm.ended() == 0
    assert "no runner is left" in farm.said()
    nothing_left(farm)


def test_a_crew_that_joins_a_farm_leaves_with_its_holder(start: Start, tmp_path: Path) -> None:
    """As on a node of a Slurm job: told by its input, with runners of its own alone."""
    if CORES < 2:
        pytest.skip("needs two cores")
    farm = start("--runners", "1")
    address = farm.first_line()
    environment = {**farm.environment, "TILEWRIGHT_CACHE": str(tmp_path / "elsewhere")}
    with subprocess.Popen(
        [sys.executable, "-m", "tilewright", "farm", "up", "--join", address, "--leash", "--runners", "2"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True,
    ) as crew:  # fmt: skip
        assert crew.stdin is not None
        assert crew.stderr is not None
        assert any("runners that take work: 2" in line for line in crew.stderr)
        crew.stdin.close()
        assert "draining" in crew.stderr.read()
        assert crew.wait(LIMIT) == 0
    assert farm.process.poll() is None


@pytest.mark.parametrize(
    ("words", "environment", "code", "said"),
    [
        (("--runners", str(CORES + 1)), {}, 2, f"but this machine has {counted(CORES, 'core')}"),
        (("--runners", "0"), {}, 2, "--runners"),
        (("--host", "0.0.0.0"), {}, 2, "without certificates"),
        (("--certs", "/nonexistent"), {}, 1, "/nonexistent"),
        (("--state", "/proc/nowhere"), {}, 1, "/proc/nowhere"),
        (("--join", "tcp://127.0.0.1:1", "--port", "2"), {}, 2, "--join starts no server"),
        (("--slurm",), {}, 2, "inside a Slurm allocation"),
        (("--slurm",), {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}, 2, "a farm on 2 nodes needs certificates"),
        (("--slurm",), {"SLURM_JOB_ID": "7", "PATH": "/nonexistent"}, 1, "srun is not on the path"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_before_anything_starts(
    cli: Any, words: tuple[str, ...], environment: Mapping[str, str], code: int, said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name in [n for n in os.environ if n.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    reply = cli("farm", "up", *(() if "--join" in words else ("--port", "0")), *words)
    assert reply.code == code, reply.err
    assert said in reply.err
    assert "Traceback" not in reply.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"TILEWRIGHT_NATS_SERVER": "/nonexistent"}, "/nonexistent does not start"),
        ({"TILEWRIGHT_TARGET": "cpu:sve"}, "no runner is left"),
    ],
)
def test_what_does_not_start(environment: Mapping[str, str], said: str, start: Start) -> None:
    farm = start(**environment)
    assert farm.ended() == 1, farm.said()
    assert said in farm.said()
    assert "Traceback" not in farm.said()
    nothing_left(farm)


def test_a_port_that_is_taken(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        farm = start("--port", str(port))
        assert farm.ended() == 1
    assert f"another process has port {port}" in farm.said()
    nothing_left(farm)


def test_cores_are_shared_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tilewright.measure.devices", "tilewright.backends.cpu.backend"):
        monkeypatch.setattr(f"{module}.affinity", lambda: (0, 1, 2, 5))
        monkeypatch.setattr(f"{module}.available_cores", lambda: 3)
    monkeypatch.setattr("tilewright.backends.cuda.backend.CudaBackend.devices", lambda _: ())
    assert find_all() == ["cpu:0-2"]
    assert find_all(2) == ["cpu:0", "cpu:1-2"]
    assert find_all(3) == ["cpu:0", "cpu:1", "cpu:2"]
    monkeypatch.setattr("tilewright.backends.cuda.backend.CudaBackend.devices", lambda _: ("cuda:0", "cuda:1"))
    assert find_all() == ["cuda:0", "cuda:1"]
    assert find_all(1) == ["cuda:0"]


SRUN = """#!/bin/sh
# Stands in for srun: the options up to the command are written down, which runs once on "each node".
printf '%s\\n' "$@" > "$FOLDER/srun"
while [ "${1#--}" != "$1" ]; do shift; done
SLURM_NODEID=0 exec "$@"
"""


def test_farm_up_runs_in_a_slurm_allocation(start: Start, compiled: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "srun").write_text(SRUN)
    (tools / "srun").chmod((tools / "srun").stat().st_mode | stat.S_IXUSR)
    farm = start(
        "--slurm", "--runners", "1", SLURM_JOB_ID="7", SLURM_JOB_NUM_NODES="1", FOLDER=str(tmp_path),
        PATH=f"{tools}{os.pathsep}{os.environ['PATH']}", TILEWRIGHT_CACHE=compiled,
    )  # fmt: skip
    address = farm.first_line()
    options = (tmp_path / "srun").read_text().split("\n")
    assert {"--overlap", "--nodes=1", "--ntasks-per-node=1"} <= set(options)
    assert f"srun: {NODE}-{DEVICE}: " in farm.said()
    assert "nodes that take work: 1" in farm.said()
    assert farm.tune("--farm", address)["trials"] == 2
    farm.process.send_signal(signal.SIGTERM)
    assert farm.ended() == 0, farm.said()
    nothing_left(farm)


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "4,5", "SLURM_JOB_GPUS": "6"}, "0,1"),
        ({"SLURM_STEP_GPUS": "4,5", "SLURM_JOB_GPUS": "6"}, "4,5"),
        ({"SLURM_JOB_GPUS": "6"}, "6"),
        ({}, ""),
    ],
)
def test_gpus_of_the_job_alone(environment: Mapping[str, str], gpus: str) -> None:
    assert visible_gpus(environment) == gpus
