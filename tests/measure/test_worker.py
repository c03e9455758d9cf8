"""The child by itself: what it survives, and that it never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright.measure.child import Child, ChildDied
from tilewright.measure.messages import At, Error, Measure, receive, send
from tilewright.measure.runner import Item, memory_limit
from tilewright.measure.worker import GUARDS

SETTINGS: dict[str, Any] = {
    "cores": [],
    "threads": 1,
    "cache_state": "warm",
    "last_level": 1 << 20,
    "references": "",
    "memory": 0,
    "backend": "cpu",
    "confinable": True,
}


def gone(pid: int, seconds: float = 60.0) -> bool:
    """Whether a process ends (or is a zombie nobody waits for) within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.01)
    return False


def test_a_worker_starts_in_its_own_group_and_ignores_interrupts() -> None:
    child = Child(SETTINGS)
    try:
        assert os.getpgid(child.pid) == child.pid
        os.kill(child.pid, signal.SIGINT)
        send(child.channel, Measure(program="nonsense", items=()))
        assert receive(child.channel, 60) == At()
        assert isinstance(receive(child.channel, 60), Error)
    finally:
        child.close()
    assert gone(child.pid)


def test_a_worker_ends_when_the_socket_closes() -> None:
    child = Child(SETTINGS)
    child.channel.close()
    assert child.process.wait(20) == 0
    child.close()


def test_a_workers_death_is_described() -> None:
    child = Child(SETTINGS)
    os.kill(child.pid, signal.SIGABRT)
    child.process.wait(20)
    died = child.bury()
    assert died.signal == "SIGABRT"
    assert "SIGABRT" in str(died)
    assert ChildDied(-250, "").signal == "signal 250"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_a_worker_pins_itself() -> None:
    core = min(os.sched_getaffinity(0))
    child = Child({**SETTINGS, "cores": [core]})
    try:
        assert os.sched_getaffinity(child.pid) == {core}
    finally:
        child.close()


@pytest.mark.skipif(sys.platform != "linux", reason="limits are read from /proc")
def test_a_workers_memory_is_limited() -> None:
    child = Child({**SETTINGS, "memory": 1 << 30})
    try:
        limits = Path(f"/proc/{child.pid}/limits").read_text()
    finally:
        child.close()
    lines = {line[:25].strip(): line[25:].split()[0] for line in limits.splitlines()}
    assert (1 << 30) < int(lines["Max data size"]) < (2 << 30)
    assert (1 << 30) + GUARDS < int(lines["Max address space"]) < (8 << 30) + GUARDS
    assert lines["Max core file size"] == "0"
    assert memory_limit() >= 2 << 30


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux")
def test_a_workers_limit_counts_arrays_and_not_their_guards() -> None:
    code = """
from tilewright.measure.worker import limit_resources
from tilewright.verifying.buffers import GUARD, GuardedArray
limit_resources(256 << 20)
kept = [GuardedArray((64 << 20,), "uint8") for _ in range(3)]
assert all(g.guard > GUARD for g in kept)
try:
    GuardedArray((128 << 20,), "uint8")
except MemoryError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"


PARENT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
sys.path.insert(0, {root!r})
import handmade
from harness.waiting import hang, until
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.targets import detect
from tilewright.core import Candidate, Device, Schedule, Task
from tilewright.kernels.operators import get_operator
from tilewright.building.builder import Builder
from tilewright.measure.runner import LocalRunner

target = detect()
task = Task(get_operator("matmul").workload(m=24, n=20, k=40), target)
candidate = Candidate(task, Schedule("handmade", 1, (("body", {body!r}),), (("reps", 1),)))
with Builder(target, cache=ArtifactCache({cache!r}), lower=handmade.lower) as builder:
    artifact = builder.build([candidate])[0]
runner = LocalRunner(Device("cpu:{core}", "test"), target, deadline=1000, references="")
future = runner.submit(task, [(candidate, artifact)])
until(lambda: runner.child_pid is not None)
if {body!r} == "good":
    future.result()
else:
    until(lambda: artifact.sha256[:12] in Path(f"/proc/{{runner.child_pid}}/maps").read_text())
print(runner.child_pid, flush=True)
hang()
"""


@pytest.mark.parametrize("body", ["good", "hang"])
def test_no_child_outlives_a_killed_parent(body: str, make: Callable[..., Item], tmp_path: Path, device: Any) -> None:
    artifact = make(body)[1]
    cache = Path(artifact.path).parents[3]
    code = textwrap.dedent(PARENT).format(
        tests=str(Path(__file__).parent),
        root=str(Path(__file__).parents[1]),
        body=body,
        cache=str(cache),
        core=device.name.partition(":")[2],
    )
    source = str(Path(tilewright.__file__).parents[1])
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid, 0.1)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    assert gone(pid)
