"""Kernels that misbehave, through the real child."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import SIZES

from harness.waiting import until
from tilewright.backends import get_backend
from tilewright.building.builder import Builder
from tilewright.core import (
    Artifact,
    Candidate,
    Device,
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    Schedule,
    Target,
    Task,
    TilewrightError,
    UsageError,
)
from tilewright.kernels.operators import get_operator
from tilewright.measure.runner import DeviceLost, Item, KernelLost, LocalRunner
from tilewright.testing.imports import imported
from tilewright.testing.runner import RunnerContract

Make = Callable[..., Item]


class TestLocalRunner(RunnerContract):
    @pytest.fixture
    def good(self, make: Make) -> Item:
        return make("good")

    @pytest.fixture
    def bad(self, make: Make) -> Item:
        return make("skip_k")

    # The fixtures of conftest.py, seen through the contract.
    @pytest.fixture
    def runner(self, shared: LocalRunner) -> LocalRunner:  # type: ignore[override]
        return shared

    @pytest.fixture
    def task(self, small_task: Task) -> Task:
        return small_task


@pytest.fixture(scope="module")
def shared(device: Device, target: Target) -> Iterator[LocalRunner]:
    with LocalRunner(device, target, deadline=60.0, references="") as r:
        yield r


def one(runner: LocalRunner, item: Item) -> Outcome:
    return runner.run(item[0].task, [item])[0]


FAILING = {
    "segfault": (FailureKind.CRASH, "SIGSEGV"),
    "exit": (FailureKind.CRASH, "exited with status 3"),
    "nonzero": (FailureKind.LAUNCH, "code 7"),
    "wrong": (FailureKind.WRONG_RESULT, "element (0, 5)"),
    "skip_k": (FailureKind.WRONG_RESULT, "expected"),
    "tail": (FailureKind.WRONG_RESULT, "element (23, 19)"),
    "unwritten": (FailureKind.WRONG_RESULT, "is nan"),
    "overrun": (FailureKind.CRASH, "SIGSEGV (accesses byte 1 past the end of the output)"),
    "underrun": (FailureKind.WRONG_RESULT, "writes outside the output"),
    "far_overrun": (FailureKind.CRASH, f"SIGSEGV (accesses byte {(40 << 20) + 1} past the end of the output)"),
    "far_underrun": (FailureKind.CRASH, f"SIGSEGV (accesses byte {40 << 20} before the start of the output)"),
    "overread": (FailureKind.CRASH, "SIGSEGV (accesses byte 1 past the end of input number 0)"),
    "far_read": (FailureKind.CRASH, "SIGSEGV (accesses byte 20001 past the end of input number 1)"),
    "workspace_far": (FailureKind.CRASH, f"SIGSEGV (accesses byte {(40 << 20) - 4095} past the end of its workspace)"),
    "pack_overrun": (FailureKind.WRONG_RESULT, "writes outside its rearranged input number 1"),
    "inputs": (FailureKind.WRONG_RESULT, "changes its input number 1"),
    "workspace_overrun": (FailureKind.WRONG_RESULT, "outside its workspace"),
    "workspace_dirty": (FailureKind.WRONG_RESULT, "is nan"),
    "huge": (FailureKind.RESOURCES, "memory"),
}


@pytest.mark.parametrize("name", FAILING)
def test_failures_have_their_kind(shared: LocalRunner, make: Make, name: str) -> None:
    kind, text = FAILING[name]
    outcome = one(shared, make(name))
    assert isinstance(outcome, Failure)
    assert outcome.kind is kind
    assert text in outcome.message


@pytest.mark.parametrize("name", ["good", "workspace", "argument"])
def test_right_kernels_are_timed(shared: LocalRunner, make: Make, name: str) -> None:
    outcome = one(shared, make(name))
    assert isinstance(outcome, Measurement)
    assert 0 < outcome.seconds < 1
    assert outcome.ratio is None
    facts = dict(outcome.environment)
    assert facts["device"] == "test"
    assert facts["numpy"]
    assert facts["compiler"]


def test_kernels_whose_weights_others_push_out_of_the_caches_are_right_and_timed(
    device: Device, target: Target, builder: Builder
) -> None:
    params = {**SIZES, "constant": "b"}
    task = Task(get_operator("matmul").workload(**params), target, constants_passed=1 << 20)
    items = []
    for name in ("pack", "good"):
        candidate = Candidate(task, Schedule("handmade", 1, (("body", name),), (("reps", 1),)))
        artifact = builder.build([candidate])[0]
        assert isinstance(artifact, Artifact)
        items.append((candidate, artifact))
    with LocalRunner(device, target, deadline=60.0, references="") as runner:
        outcomes = runner.run(task, items)
        found = runner.compare(task, items[0], items[1], 2)
    assert all(isinstance(o, Measurement) and o.cache_state == "network" for o in outcomes)
    assert len(found.ratios) == 2


def test_a_batch_goes_on_after_each_kind_of_death(shared: LocalRunner, task: Task, make: Make) -> None:
    names = ["good", "segfault", "good", "exit", "wrong", "overread", "good"]
    outcomes = shared.run(task, [make(n) for n in names])
    kinds = [o.kind.value if isinstance(o, Failure) else "ok" for o in outcomes]
    assert kinds == ["ok", "crash", "ok", "crash", "wrong_result", "crash", "ok"]


def test_a_kernel_that_never_ends_is_killed(
    device: Device, target: Target, task: Task, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = iter((1.0, 60.0))  # seconds: the second are for what is left once the first kernel was killed
    monkeypatch.setattr(LocalRunner, "_limit", lambda *_: next(limits))
    with LocalRunner(device, target, references="") as runner:
        outcomes = runner.run(task, [make("hang"), make("good")])
        pid = runner.child_pid
    assert isinstance(outcomes[0], Failure)
    assert outcomes[0].kind is FailureKind.TIMEOUT
    assert isinstance(outcomes[1], Measurement)
    assert pid is not None
    assert not alive(pid)


def test_later_kernels_are_timed_against_the_first(shared: LocalRunner, task: Task, make: Make) -> None:
    first, slow = shared.run(task, [make("good"), make("slow")])
    assert isinstance(first, Measurement)
    assert isinstance(slow, Measurement)
    assert first.ratio is None
    assert slow.ratio is not None
    assert slow.ratio > 3
    assert slow.dropped
    assert slow.seconds == pytest.approx(first.seconds * slow.ratio)


def test_an_incumbent_that_crashes_costs_only_the_pairing(shared: LocalRunner, task: Task, make: Make) -> None:
    outcomes = shared.run(task, [make("good"), make("workspace")], make("segfault"))
    assert all(isinstance(o, Measurement) for o in outcomes)


def test_launch_arguments_reach_the_kernel(shared: LocalRunner, task: Task, make: Make) -> None:
    once, often = shared.run(task, [make("argument", 1), make("argument", 25)])
    assert isinstance(once, Measurement)
    assert isinstance(often, Measurement)
    assert often.ratio is not None
    assert often.ratio > 3
    # Passed once by another schedule of this binary, it is checked on fewer sets, never on none.
    broken = one(shared, make("argument", 0))
    assert isinstance(broken, Failure)
    assert broken.kind is FailureKind.WRONG_RESULT


def test_a_damaged_library_is_refused(shared: LocalRunner, task: Task, make: Make, tmp_path: Path) -> None:
    candidate, artifact = make("slow")
    data = Path(artifact.path).read_bytes()
    cut = tmp_path / "cut.so"
    cut.write_bytes(data[: len(data) // 2])
    flipped = tmp_path / "flipped.so"
    flipped.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    items = [(candidate, replace(artifact, path=str(p))) for p in (cut, flipped, tmp_path / "none.so")]
    # Libraries are kept loaded by their hash: another task's child has not seen this one.
    for o in shared_fresh(shared, task, items):
        assert isinstance(o, Failure)
        assert o.kind is FailureKind.LAUNCH


def shared_fresh(runner: LocalRunner, task: Task, items: list[Item]) -> list[Outcome]:
    with LocalRunner(runner.device, runner.target, references="") as fresh:
        return fresh.run(task, items)


def test_a_truncated_library_under_its_own_hash(shared: LocalRunner, task: Task, make: Make, tmp_path: Path) -> None:
    import hashlib

    candidate, artifact = make("good")
    data = Path(artifact.path).read_bytes()[:2000]
    cut = tmp_path / "cut.so"
    cut.write_bytes(data)
    item = candidate, replace(artifact, path=str(cut), sha256=hashlib.sha256(data).hexdigest())
    (outcome,) = shared.run(task, [item])
    assert isinstance(outcome, Failure)
    assert outcome.kind in (FailureKind.LAUNCH, FailureKind.CRASH)


def test_a_missing_symbol_is_a_launch_failure(shared: LocalRunner, task: Task, make: Make) -> None:
    candidate, artifact = make("good")
    launches = (replace(artifact.program.launches[0], symbol="tw_absent"),)
    item = candidate, replace(artifact, program=replace(artifact.program, launches=launches))
    (outcome,) = shared.run(task, [item])
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.LAUNCH
    assert "tw_absent" in outcome.message


def test_a_stored_kernel_is_verified_again(shared: LocalRunner, task: Task, make: Make) -> None:
    assert shared.verify(task, make("good")) is None
    wrong = shared.verify(task, make("wrong"))
    assert wrong is not None
    assert wrong.kind is FailureKind.WRONG_RESULT
    crash = shared.verify(task, make("segfault"))
    assert crash is not None
    assert crash.kind is FailureKind.CRASH


def test_a_paired_comparison_finds_the_faster_kernel(shared: LocalRunner, task: Task, make: Make) -> None:
    won = shared.compare(task, make("good"), make("slow"))
    assert won.challenger_wins
    assert won.high < 0.5
    assert won.seconds[0] < won.seconds[1]
    lost = shared.compare(task, make("slow"), make("good"))
    assert lost.decided
    assert not lost.challenger_wins
    with pytest.raises(KernelLost, match="SIGSEGV"):
        shared.compare(task, make("segfault"), make("good"))


def test_another_task_in_the_same_child(shared: LocalRunner, target: Target, task: Task, make: Make) -> None:
    other = Task(get_operator("matmul").workload(m=5, n=6, k=7), target)
    pid = shared.child_pid
    for _ in range(2):
        assert isinstance(one(shared, make("good", of=other)), Measurement)
        assert isinstance(one(shared, make("good")), Measurement)
    assert pid is None or shared.child_pid == pid


def test_operands_of_cold_calls_lie_in_memory(device: Device, target: Target, task: Task, make: Make) -> None:
    small = replace(target, l3_bytes=1 << 20)
    with LocalRunner(device, small, cache_state="cold", references="") as runner:
        (outcome,) = runner.run(task, [make("good")])
    assert isinstance(outcome, Measurement)
    assert outcome.cache_state == "cold"
    with pytest.raises(UsageError):
        LocalRunner(device, target, cache_state="lukewarm")


def test_two_threads_use_elapsed_time(device: Device, make: Make) -> None:
    from tilewright.backends.cpu.targets import detect

    with LocalRunner(device, detect(threads=2), references="") as runner:
        (outcome,) = runner.run(make("good")[0].task, [make("good")])
    assert isinstance(outcome, Measurement)


def test_a_reference_that_cannot_be_computed_is_an_error_not_a_blame(
    shared: LocalRunner, task: Task, make: Make
) -> None:
    candidate, artifact = make("good")
    workload = replace(task.workload, program=task.workload.program.replace('"add"', '"nonsense"'))
    with pytest.raises(TilewrightError, match="cannot be checked"):
        shared.run(Task(workload, task.target), [(candidate, artifact)])
    assert isinstance(one(shared, make("good")), Measurement)


# --------------------------------------------------------------------------- deaths from outside


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_child_killed_in_mid_batch_costs_nothing(device: Device, target: Target, task: Task, make: Make) -> None:
    with LocalRunner(device, target, deadline=60.0, references="") as runner:
        assert isinstance(one(runner, make("good")), Measurement)
        pid = runner.child_pid
        assert pid is not None
        # Stopped, it cannot finish before it is killed.
        os.kill(pid, signal.SIGSTOP)
        future = runner.submit(task, [make("good"), make("wrong"), make("workspace")])
        time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        outcomes = future.result(timeout=60)
        assert runner.child_pid != pid
    assert [isinstance(o, Failure) for o in outcomes] == [False, True, False]


def has_loaded(pid: int, artifact: Artifact) -> bool:
    """Whether a child has loaded an artifact: it is about to run, or runs, its kernel."""
    return artifact.sha256[:12] in Path(f"/proc/{pid}/maps").read_text()


def test_closing_ends_a_hanging_batch(device: Device, target: Target, task: Task, make: Make) -> None:
    runner = LocalRunner(device, target, deadline=100.0, references="")
    hanging = make("hang")
    future = runner.submit(task, [hanging, make("good")])
    until(lambda: runner.child_pid is not None)
    pid = runner.child_pid
    assert pid is not None
    until(lambda: has_loaded(pid, hanging[1]))
    runner.close()
    outcomes = future.result(timeout=60)
    assert all(isinstance(o, Failure) and o.kind is FailureKind.DEVICE_LOST for o in outcomes)
    assert not alive(pid)


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (["/bin/sh", "-c", "echo no licence >&2; exit 9"], "exited with status 9 (no licence)"),
        (["/bin/sh", "-c", "kill -KILL $$"], "SIGKILL"),
        (["/nonexistent/python"], "does not start"),
    ],
)
def test_a_child_that_does_not_start(
    device: Device, target: Target, task: Task, make: Make, command: list[str], cause: str
) -> None:
    with LocalRunner(device, target, command=command) as runner:
        outcomes = runner.run(task, [make("good"), make("wrong")])
        with pytest.raises(DeviceLost):
            runner.compare(task, make("good"), make("slow"))
    for o in outcomes:
        assert isinstance(o, Failure)
        assert o.kind is FailureKind.DEVICE_LOST
        assert cause in o.message
        assert re.search(r"does not start within its memory limit of [\d,]+ bytes: ", o.message)


def test_the_child_imports_little(device: Device, target: Target, task: Task, make: Make, tmp_path: Path) -> None:
    said = tmp_path / "imported"
    script = f'exec {sys.executable} -X importtime -m tilewright.measure.worker "$@" 2> {said}'
    with LocalRunner(device, target, references="", command=["/bin/sh", "-c", script, "sh"]) as runner:
        assert isinstance(one(runner, make("good")), Measurement)
    assert not {"scipy", "xgboost", "sqlalchemy", "click", "rich", "asyncio"} & imported(said.read_text())
    ours = {"tuner", "database", "cost_model", "runtime", "farm", "cli", "kernels.templates", "kernels.operators"}
    assert not {f"tilewright.{name}" for name in ours} & imported(said.read_text())


def test_no_builds_while_measuring(device: Device, target: Target, task: Task, make: Make) -> None:
    from tilewright.building.lock import BuildLock

    lock = BuildLock()
    with LocalRunner(device, target, references="", exclusive=lock.measuring) as runner:
        with lock.wanted(), lock.building():
            future = runner.submit(task, [make("good")])
            with pytest.raises(TimeoutError):
                future.result(timeout=0.2)
        assert isinstance(future.result(timeout=60)[0], Measurement)


@pytest.mark.parametrize(("name", "cores"), [("cpu:0", [0]), ("cpu:0-2,5", [0, 1, 2, 5])])
def test_cores_of_a_device(name: str, cores: list[int]) -> None:
    assert get_backend("cpu").settings(Device(name, "x"), 0)["cores"] == cores


@pytest.mark.parametrize("name", ["cpu", "cpu:", "gpu:0", "cpu:a"])
def test_devices_without_cores(name: str) -> None:
    with pytest.raises(UsageError):
        get_backend("cpu").settings(Device(name, "x"), 0)


def test_gate_lets_a_measurement_go_first() -> None:
    from tilewright.building.lock import BuildLock

    lock, order = BuildLock(), []
    holding, release = threading.Event(), threading.Event()

    def build(name: str, wait: bool = False) -> None:
        with lock.building():
            order.append(name)
            if wait:
                holding.set()
                release.wait(10)

    def measure() -> None:
        with lock.measuring():
            order.append("measure")

    threads: list[Any] = [threading.Thread(target=build, args=("first", True))]
    with lock.wanted():
        threads[0].start()
        holding.wait(10)
    threads.append(threading.Thread(target=measure))
    threads[-1].start()
    until(lambda: lock._waiting, pause=0.001)
    threads.append(threading.Thread(target=build, args=("second",)))
    threads[-1].start()
    release.set()
    with lock.wanted():
        for t in threads:
            t.join(10)
    assert order == ["first", "measure", "second"]
