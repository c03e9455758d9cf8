"""A farm in a Slurm job: a real controller and two nodes on this machine, the script that people submit, a real tune."""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deploy_files import DEPLOY, refused

from harness.waiting import until
from tilewright.farm.pki.certificates import create_authority
from tilewright.measure.lifetime import tied_to

SCRIPT = DEPLOY / "slurm" / "tilewright-farm.sbatch"
NODES = ("n1", "n2")
LIMIT = 90.0  # seconds, for what takes five on a machine that does nothing else
KILL_WAIT = 20

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait={kill_wait}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=1
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=1
PartitionName=main Nodes=ALL Default=YES State=UP
"""


class Cluster:
    """Two nodes of one machine. ``folder``: by whose name its processes are known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{n: v for n, v in os.environ.items() if not n.startswith("SLURM_")},
            "SLURM_CONF": str(folder / "slurm.conf"), "TILEWRIGHT": str(folder / "tilewright"),
            "TILEWRIGHT_CACHE": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(folder / "tmp"),
        }  # fmt: skip
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        munge = self.folder / "munge"
        for path in (munge, self.folder / "state", self.folder / "tmp"):
            path.mkdir(mode=0o700)
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o400)
        program = self.folder / "tilewright"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tilewright "$@"\n')
        program.chmod(0o700)
        ports = dict(zip(("controller", *NODES), free_ports(3), strict=True))
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(host=host, folder=self.folder, kill_wait=KILL_WAIT, **ports)
        (self.folder / "slurm.conf").write_text(text)
        self._daemon(
            "munged", "-F", "--force", "--key-file", munge / "key", "--socket", munge / "socket", "--pid-file",
            munge / "pid", "--log-file", munge / "log", "--seed-file", munge / "seed",
        )  # fmt: skip
        self.wait_for((munge / "socket").exists)
        self._daemon("slurmctld", "-D", "-c")
        for name in NODES:
            self._daemon("slurmd", "-D", "-N", name)
        self.wait_for(lambda: self.command("sinfo", "-h", "-o", "%T %D") == "idle 2")

    def _daemon(self, *words: object) -> None:
        with open(self.folder / "daemons", "ab") as log:
            daemon = subprocess.Popen(
                [str(w) for w in words], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=tied_to(os.getpid()),  # noqa: PLW1509 - one system call
            )  # fmt: skip
        self._daemons.append(daemon)

    def command(self, *words: str) -> str:
        done = subprocess.run(
            words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else f"{words[0]} failed: {done.stderr}"

    def wait_for(self, condition: Callable[[], bool], seconds: float = LIMIT) -> None:
        def said() -> str:
            logs = [p for p in self.folder.iterdir() if p.suffix in (".log", ".out", ".err") or p.name == "daemons"]
            return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')[-3000:]}" for p in logs)

        until(condition, seconds, 0.1, said)

    def processes(self) -> list[str]:
        """What jobs started and has not ended: Slurm's job number, and our folder, are in their environments."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    around, words = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if words and b"SLURM_JOB_ID=" in around and str(self.folder).encode() in around:
                    found.append(words.replace(b"\0", b" ").decode(errors="replace"))
        return found

    def close(self) -> None:
        if len(self._daemons) > 1:
            self.command("scancel", "--user", getpass.getuser())
            self.wait_for(lambda: not self.processes(), KILL_WAIT + LIMIT)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(10.0)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(10.0)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


SLURM = pytest.mark.needs("munged", "slurmctld", "slurmd", "srun")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons start jobs as root alone")
    found = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        found.start()
        create_authority(found.folder / "certs", ["localhost"], 30)
        yield found
    finally:
        found.close()


def submit(cluster: Cluster, *words: str, options: tuple[str, ...] = ()) -> tuple[str, str]:
    """Number and address of a farm."""
    number = cluster.command("sbatch", "--parsable", "--time=10", *options, str(SCRIPT), *words)
    assert number.isdigit(), number
    out = cluster.folder / f"tilewright-farm-{number}.out"
    cluster.wait_for(lambda: out.exists() and "\n" in out.read_text())
    return number, out.read_text().split("\n")[0]


def said(cluster: Cluster, number: str) -> str:
    return (cluster.folder / f"tilewright-farm-{number}.err").read_text()


def end(cluster: Cluster, number: str) -> str:
    """How a job ended, once all of it has."""
    words = ("squeue", "-h", "-j", number, "-t", "all", "-o", "%T")
    over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
    cluster.wait_for(lambda: cluster.command(*words) in over, KILL_WAIT + LIMIT)
    return cluster.command(*words)


def test_the_script_starts_what_exists() -> None:
    program, *words = shlex.split(SCRIPT.read_text().splitlines()[-1].removeprefix("exec "))
    assert (program, words.pop()) == ("${TILEWRIGHT:-tilewright}", "$@")
    assert not refused(words, {"TILEWRIGHT_CERTS": "/certs"})


@SLURM
def test_a_farm_on_two_nodes_tunes_and_is_cancelled(cluster: Cluster) -> None:
    certs = str(cluster.folder / "certs")
    number, address = submit(
        cluster, "--host", "localhost", options=("--nodes=2", f"--export=ALL,TILEWRIGHT_CERTS={certs}")
    )
    assert address.startswith("tls://localhost:")
    assert "nodes that take work: 2" in said(cluster, number)
    done = cluster.command(
        cluster.environment["TILEWRIGHT"], "tune", "matmul", "m=64", "n=64", "k=64", "--cost-model", "random",
        "--trials", "4", "--farm", address, "--certs", certs, "--db", str(cluster.folder / "t.db"), "--json",
    )  # fmt: skip
    assert json.loads(done)["trials"] == 4
    status = cluster.command(cluster.environment["TILEWRIGHT"], "farm", "status", "--certs", certs, "--json", address)
    assert {w["name"].partition("-")[0] for w in json.loads(status)["workers"] if w["role"] == "runner"} == set(NODES)
    assert cluster.processes()
    cluster.command("scancel", number)
    assert end(cluster, number) == "CANCELLED"
    cluster.wait_for(lambda: not cluster.processes())


@SLURM
def test_a_farm_on_one_node_drains(cluster: Cluster) -> None:
    number, address = submit(cluster, "--runners", "1", options=("--nodes=1",))
    assert address.startswith("tcp://127.0.0.1:")
    cluster.command("scancel", "--batch", "--signal=TERM", number)
    assert end(cluster, number) == "COMPLETED"
    assert re.search(r"runner n\d-cpu:\S+ left: drained", said(cluster, number))
    assert not cluster.processes()
    assert not list((cluster.folder / "tmp").iterdir())


@SLURM
def test_a_farm_on_two_nodes_wants_certificates(cluster: Cluster) -> None:
    number = cluster.command("sbatch", "--parsable", "--nodes=2", str(SCRIPT))
    assert end(cluster, number) == "FAILED"
    assert "a farm on 2 nodes needs certificates" in said(cluster, number)
