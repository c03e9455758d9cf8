"""Times taken while a GPU is throttled, loses memory or is shared are void: kernels run by the emulator, the device's
state told by an NVML, and an ``nvidia-smi`` where that fails, which go through a script."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_handmade import SIZES, lower

from scripted_smi import BUS, GPU, H200, ScriptedNvml, ScriptedSmi
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda import archs, nvml
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.cuda.health import Guard, Smi, guard_of, health_by_nvml
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Device, Failure, FailureKind, Measurement, Schedule, Task
from tilewright.kernels.operators import get_operator
from tilewright.measure.runner import DeviceLost, Item, LocalRunner

DEVICE = Device("emulator:0", "emulator", "emulator")
NAMES = ("good", "workspace", "wrong", "misaligned")
COUNTED = "clocks_event_reasons_counters.hw_thermal_slowdown"

# The child, with a guard whose NVML is the script: the emulator itself has none.
_WORKER = f"""
import sys
from pathlib import Path
sys.path.append(sys.argv.pop(1))
from scripted_smi import ScriptedNvml
from tilewright.backends.cuda import nvml
from tilewright.backends.cuda.health import GpuFacts, Guard, health_by_nvml
from tilewright.measure import worker
from tilewright.measure.gpu_session import GpuSession
scripted = ScriptedNvml(Path(sys.argv.pop(1)))
nvml._library = lambda: scripted
facts = GpuFacts({GPU!r}, {BUS!r}, "NVIDIA H200")
guard = Guard(lambda: health_by_nvml(facts, {BUS!r}), (0.0, 0.0))
worker._session = lambda settings, tell: GpuSession(settings, tell, guard)
sys.exit(worker.main(sys.argv))
"""

Make = Callable[[str], Item]


@pytest.fixture(scope="module")
def task() -> Task:
    return Task(get_operator("matmul").workload(**SIZES), archs.target("sm_90a"))


@pytest.fixture(scope="module")
def make(task: Task, cache: ArtifactCache) -> Make:
    candidates = [Candidate(task, Schedule("handmade", 1, (("body", n),), (("reps", 1),))) for n in NAMES]
    with Builder(task.target, cache=cache, lower=lower, emulated=True) as b:
        built = b.build(candidates)
    items = {}
    for n, c, a in zip(NAMES, candidates, built, strict=True):
        assert isinstance(a, Artifact), a
        items[n] = (c, a)
    return items.__getitem__


@pytest.fixture(scope="module")
def smi(tmp_path_factory: pytest.TempPathFactory) -> ScriptedSmi:
    s = ScriptedSmi(tmp_path_factory.mktemp("smi"))
    s.state("hot", {**H200, "clocks_event_reasons.active": "0x0000000000000044"})
    s.state("was_hot", {**H200, COUNTED: "90000"})
    for n in range(1, 8):
        s.state(f"ecc{n}", {**H200, "ecc.errors.uncorrected.volatile.total": str(n)})
    return s


@pytest.fixture(scope="module")
def shared(task: Task, smi: ScriptedSmi) -> Iterator[LocalRunner]:
    command = [sys.executable, "-c", _WORKER, str(Path(__file__).parents[1]), str(smi.folder)]
    with LocalRunner(DEVICE, task.target, deadline=60.0, references="", command=command) as r:
        yield r


@pytest.fixture
def runner(shared: LocalRunner, smi: ScriptedSmi, task: Task, make: Make) -> LocalRunner:
    """A child that exists already, on a device that is well."""
    smi.go("well")
    (outcome,) = shared.run(task, [make("good")])
    assert isinstance(outcome, Measurement), outcome
    return shared


def kinds(outcomes: list[Measurement | Failure]) -> list[str]:
    return [o.kind.value if isinstance(o, Failure) else "ok" for o in outcomes]


def test_what_was_seen_is_stored(runner: LocalRunner, smi: ScriptedSmi, task: Task, make: Make) -> None:
    before = len(smi.asked)
    outcomes = runner.run(task, [make("good"), make("workspace")])
    for o in outcomes:
        assert isinstance(o, Measurement), o
        facts = dict(o.environment)
        assert (facts["throttle"], facts["ecc_uncorrected"], facts["other_processes"]) == ("sw_power_cap", 0, 0)
        assert facts["device"] == "emulator"
    assert len(smi.asked) == before + 2  # around a batch, not around a kernel


@pytest.mark.parametrize(
    "looks",
    [
        ("hot", "well"),
        ("well", "hot", "well"),
        ("well", "was_hot"),
        ("well", "ecc1"),
        ("well", "hot", "well", "hot", "well"),
    ],
)
def test_a_passing_disturbance_costs_time_only(
    runner: LocalRunner, smi: ScriptedSmi, task: Task, make: Make, looks: tuple[str, ...]
) -> None:
    smi.go(*looks)
    outcomes = runner.run(task, [make("good"), make("wrong"), make("workspace")])
    assert kinds(outcomes) == ["ok", "wrong_result", "ok"]
    assert smi.left == [looks[-1]]
    first, _, last = outcomes
    assert isinstance(first, Measurement)
    assert isinstance(last, Measurement)
    assert first.ratio is None
    assert last.ratio is not None  # the void incumbent of the first try was forgotten, the second took its place
    assert dict(last.environment)["throttle"] == "sw_power_cap"


def test_a_disturbance_that_stays_is_the_devices_fault(
    runner: LocalRunner, smi: ScriptedSmi, task: Task, make: Make
) -> None:
    child = runner.child_pid
    before = len(smi.asked)
    smi.go("hot")
    outcomes = runner.run(task, [make("good"), make("wrong"), make("workspace")], make("good"))
    assert kinds(outcomes) == ["device_lost", "wrong_result", "device_lost"]
    assert "hw_thermal_slowdown" in str(outcomes[0])
    assert len(smi.asked) == before + 6  # three tries
    smi.go("well")
    assert kinds(runner.run(task, [make("good")], make("good"))) == ["ok"]
    assert runner.child_pid == child


def test_memory_that_goes_on_failing(runner: LocalRunner, smi: ScriptedSmi, task: Task, make: Make) -> None:
    smi.go("well", *(f"ecc{n}" for n in range(1, 6)))
    (outcome,) = runner.run(task, [make("good")])
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.message) == (FailureKind.DEVICE_LOST, "void: 1 uncorrected memory error (ECC)")
    (outcome,) = runner.run(task, [make("good")])
    assert isinstance(outcome, Measurement)
    assert dict(outcome.environment)["ecc_uncorrected"] == 5


def test_a_process_that_comes_to_compute(runner: LocalRunner, smi: ScriptedSmi, task: Task, make: Make) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        smi.state("shared", H200, [other.pid])
        smi.go("well", "shared", "well")
        assert kinds(runner.run(task, [make("good")])) == ["ok"]
        smi.go("shared")
        (outcome,) = runner.run(task, [make("good")])
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.DEVICE_LOST
        assert str(other.pid) in outcome.message
        other.kill()


def test_a_kernel_that_spoils_the_device(runner: LocalRunner, smi: ScriptedSmi, task: Task, make: Make) -> None:
    batch = [make("good"), make("misaligned"), make("workspace")]
    smi.go("well")
    assert kinds(runner.run(task, batch)) == ["ok", "crash", "ok"]
    smi.go("well", "hot", "well")  # what it was timed with is void: a fresh child does it again
    assert kinds(runner.run(task, batch)) == ["ok", "crash", "ok"]
    smi.go("well", "ecc1")  # the device's memory is to blame, not the kernel
    assert kinds(runner.run(task, batch)) == ["ok", "device_lost", "ok"]


def test_a_final_is_void_too(runner: LocalRunner, smi: ScriptedSmi, task: Task, make: Make) -> None:
    smi.go("well", "hot", "well")
    assert len(runner.compare(task, make("good"), make("workspace"), 3).ratios) == 3
    assert smi.left == ["well"]
    smi.go("hot")
    with pytest.raises(DeviceLost, match="hw_thermal_slowdown"):
        runner.compare(task, make("good"), make("workspace"))
    smi.go("well")
    assert len(runner.compare(task, make("good"), make("workspace"), 3).ratios) == 3


def test_a_device_that_cannot_be_looked_at_is_measured(
    runner: LocalRunner, smi: ScriptedSmi, task: Task, make: Make
) -> None:
    for looks in (("gone",), ("gone", "hot", "well"), ("hot", "gone", "well")):
        smi.go(*looks)
        (outcome,) = runner.run(task, [make("good")])
        assert isinstance(outcome, Measurement)
        assert "throttle" not in dict(outcome.environment)


# --------------------------------------------------------------------------- the guard itself


def guard(smi: ScriptedSmi) -> Guard:
    asking = Smi(str(smi.program))
    return Guard(lambda: asking.health(BUS))


def test_processes_that_were_there_before_are_told_of_only(tmp_path: Path) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    in_host_numbers = 4_190_000  # as in a container: no such process in here
    smi.state("shared", H200, [1, os.getpid(), in_host_numbers])
    smi.go("shared")
    g = guard(smi)
    g.begin()
    assert g.end() == ()
    assert dict(g.facts)["other_processes"] == 2
    smi.state("container", H200, [in_host_numbers])  # which is this process
    smi.go("container")
    g = guard(smi)
    g.begin()
    assert g.end() == ()
    assert dict(g.facts)["other_processes"] == 0


def test_a_process_that_came_after_the_run_began_is_no_part_of_the_device(tmp_path: Path) -> None:
    """A child that is started anew must not take it for one that was always there."""
    smi = ScriptedSmi(tmp_path / "bin")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        smi.state("shared", H200, [os.getpid(), other.pid])
        smi.go("shared")
        g = guard(smi)
        g.begin()
        (reason,) = g.end()
        assert str(other.pid) in reason
        other.kill()


def test_a_first_look_that_fails_is_made_up_for(tmp_path: Path) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    smi.state("shared", H200, [4_190_000])
    smi.go("gone", "shared")
    g = guard(smi)
    g.begin()
    assert g.end() == ()


def test_devices_without_a_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{smi.folder}:{os.environ['PATH']}")
    context = get_driver("emulator").open(0)
    assert guard_of(context) is None  # what holds for a GPU in the machine says nothing of the emulator
    context.facts = (*context.facts, ("pci", BUS))
    found = guard_of(context)
    assert found is not None
    found.begin()
    assert found.end() == ()
    assert dict(found.facts)["throttle"] == "sw_power_cap"
    assert GPU in (smi.folder / "list").read_text()
    smi.go("gone")
    assert guard_of(context) is None


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedNvml]:
    """An NVML for this process, whose script, and nvidia-smi's, is in ``tmp_path``."""
    smi = ScriptedSmi(tmp_path)
    monkeypatch.setenv("PATH", f"{smi.folder}:{os.environ['PATH']}")
    scripted = ScriptedNvml(smi.folder)
    monkeypatch.setattr(nvml, "_library", lambda: scripted)
    nvml._handle.cache_clear()
    yield scripted
    nvml._handle.cache_clear()


def looked_at_once(tmp_path: Path) -> Guard:
    """The guard of a device after one batch; ``asked`` has what that asked."""
    context = get_driver("emulator").open(0)
    context.facts = (*context.facts, ("pci", BUS))
    found = guard_of(context)
    assert found is not None
    (tmp_path / "asked").write_text("")
    found.begin()
    assert found.end() == ()
    return found


def test_a_batch_starts_no_process_to_look_at_its_device(library: ScriptedNvml, tmp_path: Path) -> None:
    found = looked_at_once(tmp_path)
    assert (tmp_path / "asked").read_text().split() == ["nvml", "nvml"]
    assert dict(found.facts)["throttle"] == "sw_power_cap"


@pytest.mark.parametrize(
    "missing", ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses_v3"]
)  # fmt: skip
def test_what_nvml_lacks_is_asked_of_nvidia_smi(
    library: ScriptedNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.delattr(ScriptedNvml, missing)
    looked_at_once(tmp_path)
    assert (tmp_path / "asked").read_text().count("--query-gpu") == 2


def test_nvml_alone_is_enough(library: ScriptedNvml, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").unlink()
    context = get_driver("emulator").open(0)
    context.facts = (*context.facts, ("pci", BUS))
    assert guard_of(context) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"clocks_event_reasons.active": "0x0000000000000044", COUNTED: "90000"},
        {"ecc.errors.uncorrected.volatile.total": "3"},
        {"ecc.errors.uncorrected.volatile.total": "[N/A]", COUNTED: "[N/A]"},
    ],
)
def test_nvml_tells_of_a_device_what_nvidia_smi_does(
    library: ScriptedNvml, tmp_path: Path, fields: dict[str, str]
) -> None:
    smi = ScriptedSmi(tmp_path)
    smi.state("now", {**H200, **fields}, [1, os.getpid()])
    smi.go("now")
    asking = Smi(str(smi.program))
    (facts,) = asking.gpus(BUS)
    by_program = asking.health(BUS)
    assert by_program is not None
    assert health_by_nvml(facts, BUS) == by_program
    assert health_by_nvml(replace(facts, reasons=None, slowed=()), BUS) == by_program
