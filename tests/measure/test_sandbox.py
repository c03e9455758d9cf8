"""Kernels that try what a kernel has no business with, in a real child with and without the sandbox."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gpu_handmade
import handmade
import pytest

import tilewright
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda import archs
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Device, Failure, Measurement, Outcome, Schedule, Target, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule
from tilewright.measure import sandbox
from tilewright.measure.runner import Item, LocalRunner
from tilewright.testing.runner import RunnerContract
from tilewright.verifying.references import LARGEST

Make = Callable[..., Item]
SOURCE = str(Path(tilewright.__file__).parents[1])
linux = pytest.mark.skipif(sys.platform != "linux", reason="these limits are Linux's")

CONNECT = """
    int open_socket(int, int, int) __asm__("socket");
    int connect_to(int, const void *, unsigned) __asm__("connect");
    const unsigned char address[16] = {%d, %d, %d, %d, 127, 0, 0, 1};
    const int s = open_socket(%d, 1, 0);
    mm(1);
    if (s >= 0 && connect_to(s, address, 16) == 0) return 7;
"""

WRITE = """
    int open_file(const char *, int, int) __asm__("open");
    long write_at(int, const void *, unsigned long, long) __asm__("pwrite");
    int close_file(int) __asm__("close");
    const int f = open_file("%s", %d, 0600);
    const long written = write_at(f, "x", 1, %dL);
    mm(1);
    close_file(f);
    if (f < 0) return 8;
    if (written == 1) return 7;
"""


@pytest.fixture(scope="module")
def runners(device: Device, target: Target) -> Iterator[Callable[[bool], LocalRunner]]:
    """One runner with the sandbox and one without."""
    with ExitStack() as stack:
        found: dict[bool, LocalRunner] = {}

        def runner(on: bool) -> LocalRunner:
            if on not in found:
                found[on] = stack.enter_context(LocalRunner(device, target, references="", sandbox=on))
            return found[on]

        yield runner


def outcome_of(runner: LocalRunner, item: Item) -> Outcome:
    return runner.run(item[0].task, [item])[0]


# ---------------------------------------------------------------- what it does not reach


@linux
def test_a_connection_from_a_kernel_fails(
    runners: Callable[[bool], LocalRunner], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        family = (int(socket.AF_INET) & 255, int(socket.AF_INET) >> 8)
        body = CONNECT % (*family, port >> 8, port & 255, int(socket.AF_INET))
        monkeypatch.setitem(handmade.BODIES, f"connect_{port}", body)
        item = make(f"connect_{port}")
        outside = outcome_of(runners(False), item)
        assert isinstance(outside, Failure)  # it got through, and said so
        assert "7" in outside.message
        limits = runners(True).limits()
        if limits["network"] is not True:
            pytest.skip(f"the network stays within reach: {limits['network']}")
        assert isinstance(outcome_of(runners(True), item), Measurement)


def test_a_vast_file_of_a_kernel_fails(
    runners: Callable[[bool], LocalRunner], make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "vast"
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    monkeypatch.setitem(handmade.BODIES, "vast", WRITE % (path, how, sandbox.FILE_BYTES))
    monkeypatch.setitem(handmade.BODIES, "just", WRITE % (path, how, sandbox.FILE_BYTES - 1))
    assert runners(True).limits()["file_size"] is True
    assert isinstance(outcome_of(runners(True), make("vast")), Measurement)
    assert path.stat().st_size == 0
    for runner, name in ((runners(True), "just"), (runners(False), "vast")):
        outcome = outcome_of(runner, make(name))
        assert isinstance(outcome, Failure)
        assert "7" in outcome.message
        path.unlink()


# ---------------------------------------------------------------- what it says


@linux
def test_the_child_says_what_holds(runners: Callable[[bool], LocalRunner]) -> None:
    on, off = runners(True), runners(False)
    limits = on.limits()
    assert set(limits) == set(off.limits()) == {*sandbox.STEPS, "core_files", "memory", "cores"}
    assert all(limits[name] is True for name in ("no_new_privs", "file_size", "core_files", "memory", "cores"))
    assert limits["network"] is True or str(limits["network"]).startswith("refused here: ")
    assert limits["capabilities"] is True or os.geteuid() == 0
    assert {off.limits()[name] for name in sandbox.STEPS} == {"not asked for"}
    status = dict(line.split(":\t") for line in Path(f"/proc/{on.child_pid}/status").read_text().splitlines())
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) & ~0b110 == 0
    ours, theirs = (os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", on.child_pid))
    assert (ours != theirs) == (limits["network"] is True)


IN_A_PROCESS = """
import ctypes, json, os, resource, sys, threading
from tilewright.measure import sandbox
from tilewright.measure.lifetime import die_with_parent
if "nobody" in sys.argv:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a process that started so: its own /proc is its own
die_with_parent(os.getppid())
if "threads" in sys.argv:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
limits = sandbox.apply(True, confinable="cuda" not in sys.argv)
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal), 0, 0, 0)
print(json.dumps([limits, signal.value, os.geteuid(), os.listdir("/proc/self/fd") != []]))
"""


def applied(*arguments: str) -> list[Any]:
    """Limits, the signal that comes when the parent dies, the user, whether its own files are open to it."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, *arguments], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": SOURCE, "PATH": os.defpath},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@linux
def test_threads_that_run_already_keep_their_network() -> None:
    assert applied("threads")[0]["network"] == "threads run already"


@linux
def test_a_cuda_child_is_left_alone() -> None:
    assert set(applied("cuda")[0].values()) == {"not with a GPU, whose kernels make no system calls"}


@linux
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes somebody else")
def test_an_ordinary_user_gets_the_same_limits() -> None:
    """By a user namespace; the child still dies with its parent and reads its own /proc."""
    limits, signal, user, readable = applied("nobody")
    assert limits.pop("network") in (True, "refused here: Operation not permitted")
    assert set(limits.values()) == {True}
    assert (signal, user, readable) == (9, 65534, True)


# ---------------------------------------------------------------- measuring goes on


def kinds(outcomes: list[Outcome]) -> list[str]:
    return [o.kind.value if isinstance(o, Failure) else "measured" for o in outcomes]


def test_outcomes_are_the_same(runners: Callable[[bool], LocalRunner], task: Task, make: Make) -> None:
    names = ("good", "wrong", "overrun", "nonzero", "segfault", "workspace", "slow")
    items = [make(name) for name in names]
    on, off = (kinds(runners(x).run(task, items)) for x in (True, False))
    assert on == off
    assert on[:2] == ["measured", "wrong_result"]


class TestSandboxedRunner(RunnerContract):
    @pytest.fixture
    def runner(self, runners: Callable[[bool], LocalRunner]) -> LocalRunner:
        return runners(True)

    @pytest.fixture
    def task(self, small_task: Task) -> Task:
        return small_task

    @pytest.fixture
    def good(self, make: Make) -> Item:
        return make("good")

    @pytest.fixture
    def bad(self, make: Make) -> Item:
        return make("segfault")


def test_references_are_still_written(device: Device, target: Target, builder: Builder, tmp_path: Path) -> None:
    assert sandbox.FILE_BYTES > 2 * LARGEST + 4096
    task = Task(get_operator("softmax").workload(shape=(512, 1024)), target)
    with Builder(target, cache=builder.cache) as own, LocalRunner(
        device, target, references=tmp_path, sandbox=True
    ) as runner:  # fmt: skip
        candidate = Candidate(task, default_schedule(task))
        (artifact,) = own.build([candidate])
        assert isinstance(artifact, Artifact)
        assert isinstance(outcome_of(runner, (candidate, artifact)), Measurement)
    assert list(tmp_path.iterdir())


def test_the_emulator_runs_in_it(cache: ArtifactCache) -> None:
    task = Task(get_operator("matmul").workload(**gpu_handmade.SIZES), archs.target("sm_90a"))
    with Builder(task.target, cache=cache, lower=gpu_handmade.lower, emulated=True) as builder:
        candidates = [
            Candidate(task, Schedule("handmade", 1, (("body", name),), (("reps", 1),))) for name in ("good", "wrong")
        ]
        items = [(c, a) for c, a in zip(candidates, builder.build(candidates), strict=True) if isinstance(a, Artifact)]
    device = Device("emulator:0", "emulator", "emulator")
    with LocalRunner(device, task.target, references="", sandbox=True) as runner:
        assert kinds(runner.run(task, items)) == ["measured", "wrong_result"]
        if sys.platform == "linux":
            assert runner.limits()["no_new_privs"] is True
