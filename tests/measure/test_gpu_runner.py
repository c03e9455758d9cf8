"""The runner on a GPU device: what becomes of right, wrong, slow and deadly CUDA kernels, run by the emulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_handmade import SIZES, lower

from harness.caches import with_runtime
from tilewright.backends import get_backend
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda import archs
from tilewright.backends.driver import DeviceError
from tilewright.backends.launches import DeviceKernel
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
    Task,
    UsageError,
)
from tilewright.kernels.operators import get_operator
from tilewright.measure import check_kernels, gpu_session, gpu_timing
from tilewright.measure.gpu_session import GpuSession
from tilewright.measure.messages import KernelFile, Measure, Told
from tilewright.measure.runner import Item, LocalRunner
from tilewright.serialization import Json
from tilewright.testing.runner import RunnerContract
from tilewright.verifying.verify import ALL_SETS

DEVICE = Device("emulator:0", "emulator", "emulator")
Make = Callable[..., Item]


@pytest.fixture(scope="module")
def gpu_task() -> Task:
    return Task(get_operator("matmul").workload(**SIZES), archs.target("sm_90a"))


@pytest.fixture(scope="module")
def gpu_builder(gpu_task: Task, cache: ArtifactCache) -> Iterator[Builder]:
    with Builder(gpu_task.target, cache=cache, lower=lower, emulated=True) as b:
        yield b


def candidate(task: Task, name: str, reps: int = 1) -> Candidate:
    return Candidate(task, Schedule("handmade", 1, (("body", name),), (("reps", reps),)))


@pytest.fixture(scope="module")
def make(gpu_task: Task, gpu_builder: Builder) -> Make:
    def build(name: str, reps: int = 1) -> Item:
        c = candidate(gpu_task, name, reps)
        artifact = gpu_builder.build([c])[0]
        assert isinstance(artifact, Artifact), artifact
        return c, artifact

    return build


@pytest.fixture(scope="module")
def shared(gpu_task: Task) -> Iterator[LocalRunner]:
    with LocalRunner(DEVICE, gpu_task.target, deadline=60.0, references="") as r:
        yield r


class TestGpuRunner(RunnerContract):
    @pytest.fixture
    def runner(self, shared: LocalRunner) -> LocalRunner:  # type: ignore[override]
        return shared

    @pytest.fixture
    def task(self, gpu_task: Task) -> Task:
        return gpu_task

    @pytest.fixture
    def good(self, make: Make) -> Item:
        return make("good")

    @pytest.fixture
    def bad(self, make: Make) -> Item:
        return make("wrong")


FAILING = {
    "wrong": (FailureKind.WRONG_RESULT, "element (0, 5)"),
    "unwritten": (FailureKind.WRONG_RESULT, "is nan"),
    "overrun": (FailureKind.WRONG_RESULT, "writes outside the output"),
    "underrun": (FailureKind.WRONG_RESULT, "writes outside the output"),
    "overread": (FailureKind.WRONG_RESULT, "nan"),
    "inputs": (FailureKind.WRONG_RESULT, "changes its input number 1"),
    "workspace_overrun": (FailureKind.WRONG_RESULT, "writes outside its workspace"),
    "pack_overrun": (FailureKind.WRONG_RESULT, "writes outside its rearranged input number 1"),
    "workspace_dirty": (FailureKind.WRONG_RESULT, "is nan"),
    "segfault": (FailureKind.CRASH, "SIGSEGV"),
    "misaligned": (FailureKind.CRASH, "misaligned"),
    "divergence": (FailureKind.CRASH, ""),
    "huge": (FailureKind.RESOURCES, "memory"),
}


@pytest.mark.parametrize("name", FAILING)
def test_failures_have_their_kind(shared: LocalRunner, gpu_task: Task, make: Make, name: str) -> None:
    kind, text = FAILING[name]
    outcome, good = shared.run(gpu_task, [make(name), make("good")])
    assert isinstance(outcome, Failure), outcome
    assert (outcome.kind, text in outcome.message) == (kind, True), outcome
    assert isinstance(good, Measurement), good  # the run goes on


@pytest.mark.parametrize("name", ["good", "workspace", "zeroed", "two", "argument", "packed"])
def test_right_kernels_are_timed(shared: LocalRunner, gpu_task: Task, make: Make, name: str) -> None:
    (outcome,) = shared.run(gpu_task, [make(name)])
    assert isinstance(outcome, Measurement), outcome
    assert 0 < outcome.seconds < 1
    assert outcome.cache_state == "cold"
    facts = dict(outcome.environment)
    assert facts["device"] == "emulator"
    assert {"compiler", "numpy", "tilewright"} <= set(facts)
    assert int(facts["launches"]) >= outcome.samples * (2 if name == "two" else 1)


def test_a_zeroed_workspace_is_zero_on_every_call(shared: LocalRunner, gpu_task: Task, make: Make) -> None:
    """The kernel adds its workspace, so a dirty one would show; one that the program does not clear does."""
    assert shared.verify(gpu_task, make("zeroed")) is None
    c, artifact = make("zeroed")
    uncleared = replace(artifact, program=replace(artifact.program, zero_fill=0))
    problem = shared.verify(gpu_task, (c, uncleared))
    assert problem is not None
    assert problem.kind is FailureKind.WRONG_RESULT


def test_a_batch_goes_on_after_each_kind_of_death(shared: LocalRunner, gpu_task: Task, make: Make) -> None:
    names = ["good", "misaligned", "good", "segfault", "wrong", "divergence", "huge", "workspace"]
    outcomes = shared.run(gpu_task, [make(n) for n in names])
    kinds = [o.kind.value if isinstance(o, Failure) else "ok" for o in outcomes]
    assert kinds == ["ok", "crash", "ok", "crash", "wrong_result", "crash", "resources", "ok"]


def test_a_spoilt_device_ends_the_child(shared: LocalRunner, gpu_task: Task, make: Make) -> None:
    shared.run(gpu_task, [make("good")])
    before = shared.child_pid
    shared.run(gpu_task, [make("misaligned")])
    shared.run(gpu_task, [make("good")])
    assert shared.child_pid not in (None, before)


def test_many_deaths_in_a_row_are_each_the_kernels_own(shared: LocalRunner, gpu_task: Task, make: Make) -> None:
    outcomes = shared.run(gpu_task, [*[make("misaligned")] * 4, make("good")])
    assert [o.kind if isinstance(o, Failure) else None for o in outcomes] == [*[FailureKind.CRASH] * 4, None]


def asked(task: Task, *items: Item, pairs: int = 3) -> Measure:
    """The request to measure kernels."""
    files = tuple(enumerate(map(KernelFile.of, items)))
    return Measure(program=task.workload.program, items=files, pairs=pairs)


def outcomes(told: Sequence[Json]) -> list[Outcome]:
    """What a session told of kernels, in order."""
    return [m.outcome for m in told if isinstance(m, Told)]


def session_here() -> tuple[GpuSession, list[Json]]:
    """A session in this process, and what it tells."""
    told: list[Json] = []
    plain = {"backend": "emulator", "driver": None, "references": ""}
    return GpuSession({**get_backend("emulator").settings(DEVICE, 0), **plain}, told.append), told


@pytest.mark.parametrize("judged", ["device", "host"])
def test_what_stays_on_the_device_is_not_trusted_where_a_kernel_seems_wrong(
    gpu_task: Task, make: Make, monkeypatch: pytest.MonkeyPatch, judged: str
) -> None:
    if judged == "host":
        monkeypatch.setattr(gpu_session, "check_code", lambda *_: None)
    session, told = session_here()
    uploads: list[int] = []
    real = session.context.upload

    def counted(address: int, data: Any) -> None:
        uploads.append(len(data))
        real(address, data)

    monkeypatch.setattr(session.context, "upload", counted)

    def measure(name: str) -> tuple[str, int]:
        told.clear()
        uploads.clear()
        session.handle(asked(gpu_task, make(name)))
        [outcome] = outcomes(told)
        found = outcome.kind if isinstance(outcome, Failure) else dict(outcome.environment)["checked_on"]
        return str(found), len(uploads)

    first = measure("good")
    assert first[0] == judged
    assert first[1] > 2 * 3  # two inputs of three sets, and those of the timing
    assert measure("workspace") == (judged, 0)
    for kept in tuple(session.kept._kept.values()):
        session.context.fill(kept.base, 0xFF, 64)  # as a stray write would
    found, uploads_of_inputs = measure("zeroed")
    assert (found, uploads_of_inputs > 0) == ("host", True)
    assert measure("wrong")[0] == "wrong_result"
    assert measure("good")[0] == judged
    assert measure("good") == (judged, 0)


def test_inputs_are_rearranged_once_for_each_operand_set(
    gpu_task: Task, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, told = session_here()
    packed: list[int] = []
    pack = DeviceKernel.pack

    def counted(self: DeviceKernel, *given: Any) -> list[Any]:
        packed.extend(self.packed.values())
        return pack(self, *given)

    monkeypatch.setattr(DeviceKernel, "pack", counted)

    def measure(name: str) -> None:
        session.handle(asked(gpu_task, make(name)))

    measure("packed")
    before = len(session.context.memory_table())
    assert session.arena is not None
    assert set(packed) == {4 * (20 * 10 + 1)}
    assert len(ALL_SETS) < len(packed) <= len(ALL_SETS) + session.arena.sets  # checked, then timed on some sets
    measure("good")
    assert len(session.context.memory_table()) == before - 1  # the rearranged inputs of all sets
    assert [type(x) for x in outcomes(told)] == [Measurement, Measurement]


def test_the_incumbent_is_timed_again_from_time_to_time(
    gpu_task: Task, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_timing, "RETIME_EVERY", 3)
    session, told = session_here()

    def measure(count: int) -> list[float]:
        told.clear()
        request = asked(gpu_task, *(make("good") for _ in range(count)))
        if session.incumbent is not None:
            incumbent = replace(KernelFile.of(make("good")), key=session.incumbent.key)
            request = replace(request, incumbent=incumbent)
        session.handle(request)
        return [x.seconds for x in outcomes(told) if isinstance(x, Measurement)]

    first = measure(2)
    assert session.incumbent is not None
    # As if the device had slowed down when it was timed, and by more than a busy machine can.
    session.incumbent.own *= 1e9
    before, *_, after = measure(6)
    assert before < first[0] / 1e5
    assert after > first[0] / 1e4  # found out within three candidates
    assert session.incumbent.own < 1e4 * first[0]


class Timeless:
    """Has a session's device say that every launch takes ``seconds``. ``graphs``: what each graph holds, the address of
    its output for every launch; ``alone``: launches outside of graphs."""

    def __init__(self, session: GpuSession, seconds: float) -> None:
        self.graphs: list[list[int]] = []
        self.alone = self.launches = 0
        self._into: list[int] | None = None
        session.context.launch = self._launch  # type: ignore[attr-defined]
        session.context.capture = self._capture  # type: ignore[method-assign]
        session.context.event = lambda: Mark(self)  # type: ignore[method-assign]
        session.context.elapsed = lambda a, b: (b.at - a.at) * seconds  # type: ignore[method-assign]

    def _launch(self, module: Any, symbol: str, shape: Any, arguments: Any) -> None:
        if self._into is not None:
            self._into.append(arguments.values[2])
        elif symbol not in check_kernels.SYMBOLS:
            self.alone += 1
            self.launches += 1

    def _capture(self, work: Callable[[], None]) -> Any:
        held = self._into = []
        work()
        self._into = None
        self.graphs.append(held)
        return Replayed(self, len(held))


class Replayed:
    def __init__(self, device: Timeless, launches: int) -> None:
        self.device, self.launches = device, launches

    def launch(self) -> None:
        self.device.launches += self.launches


class Mark:
    def __init__(self, device: Timeless) -> None:
        self.device, self.at = device, 0

    def record(self) -> None:
        self.at = self.device.launches


def timed_on(
    seconds: float, gpu_task: Task, make: Make, monkeypatch: pytest.MonkeyPatch
) -> tuple[Timeless, Measurement]:
    monkeypatch.setattr(gpu_session.GpuSession, "_check", lambda *_: None)
    session, told = session_here()
    session.rotate_bytes = 1 << 12
    device = Timeless(session, seconds)
    session.handle(asked(gpu_task, make("good"), pairs=15))
    (found,) = outcomes(told)
    assert isinstance(found, Measurement)
    assert session.arena is not None
    assert session.arena.sets > 2
    for graph in device.graphs:
        places = list(dict.fromkeys(graph))
        assert len(places) == session.arena.sets
        assert graph == places * (len(graph) // len(places))  # each as far from its last use as it can be
    return device, found


def test_a_short_kernel_is_timed_by_a_graph_that_takes_all_operands_in_turn(
    gpu_task: Task, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, found = timed_on(3e-6, gpu_task, make, monkeypatch)
    assert found.seconds == pytest.approx(3e-6)
    assert len(device.graphs) == 1
    assert device.alone <= 2 * gpu_timing.HOST_TRIES  # to see that it is short
    facts = dict(found.environment)
    assert (facts["launches"], facts["captured"]) == (device.launches, len(device.graphs[0]))


def test_a_short_kernel_is_launched_by_itself_where_the_driver_refuses_to_capture(
    gpu_task: Task, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise DeviceError("operation not permitted when stream is capturing", False)

    monkeypatch.setattr(Timeless, "_capture", refused)
    device, found = timed_on(3e-6, gpu_task, make, monkeypatch)
    assert found.seconds == pytest.approx(3e-6)
    assert device.alone > 3 * gpu_timing.SAMPLES
    assert dict(found.environment)["captured"] == 0


def test_a_long_kernel_is_launched_by_itself(gpu_task: Task, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    device, found = timed_on(1e-3, gpu_task, make, monkeypatch)
    assert found.seconds == pytest.approx(1e-3)
    assert not device.graphs
    assert found.samples == gpu_timing.SURE  # they agree


def test_a_kernel_that_never_ends_is_killed(gpu_task: Task, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = iter((1.0, 60.0))  # seconds: the second are for what is left once the first kernel was killed
    monkeypatch.setattr(LocalRunner, "_limit", lambda *_: next(limits))
    with LocalRunner(DEVICE, gpu_task.target, references="") as runner:
        outcomes = runner.run(gpu_task, [make("hang"), make("good")])
    assert isinstance(outcomes[0], Failure)
    assert outcomes[0].kind is FailureKind.TIMEOUT
    assert isinstance(outcomes[1], Measurement)


@pytest.mark.parametrize("name", ["misaligned", "segfault"])
def test_an_incumbent_that_fails_costs_only_the_comparison(
    shared: LocalRunner, gpu_task: Task, make: Make, name: str
) -> None:
    outcomes = shared.run(gpu_task, [make("good"), make("workspace")], make(name))
    assert all(isinstance(o, Measurement) for o in outcomes)


def test_slower_kernels_are_told_apart_and_dropped(shared: LocalRunner, gpu_task: Task, make: Make) -> None:
    first, slow = shared.run(gpu_task, [make("good"), make("slow")])
    assert isinstance(first, Measurement)
    assert isinstance(slow, Measurement)
    assert first.ratio is None
    assert slow.ratio is not None
    assert slow.ratio > 2
    assert slow.dropped
    assert slow.seconds == pytest.approx(first.seconds * slow.ratio)


def test_launch_arguments_reach_the_kernel(shared: LocalRunner, gpu_task: Task, make: Make) -> None:
    few, many = shared.run(gpu_task, [make("argument", 1), make("argument", 400)])
    assert isinstance(few, Measurement)
    assert isinstance(many, Measurement)
    assert many.seconds > 2 * few.seconds


def test_a_paired_comparison_finds_the_faster_kernel(shared: LocalRunner, gpu_task: Task, make: Make) -> None:
    d = shared.compare(gpu_task, make("good"), make("slow"))
    assert d.challenger_wins
    assert len(d.ratios) == len(d.itself) == 8
    assert d.ratio < 0.5
    assert not shared.compare(gpu_task, make("slow"), make("good")).challenger_wins


def test_a_damaged_binary_is_refused(shared: LocalRunner, gpu_task: Task, make: Make, tmp_path: Path) -> None:
    c, artifact = make("good")
    path = tmp_path / "damaged"
    path.write_bytes(Path(artifact.path).read_bytes()[:-8])
    failure, good = shared.run(gpu_task, [(c, replace(artifact, path=str(path), sha256="0" * 64)), make("good")])
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.LAUNCH
    assert "damaged" in failure.message
    assert isinstance(good, Measurement)


def test_a_missing_kernel_is_a_launch_failure(shared: LocalRunner, gpu_task: Task, make: Make) -> None:
    c, artifact = make("good")
    (launch,) = artifact.program.launches
    program = replace(artifact.program, launches=(replace(launch, symbol="tw_not_there"),))
    (failure,) = shared.run(gpu_task, [(c, replace(artifact, program=program))])
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.LAUNCH
    assert "tw_not_there" in failure.message


def test_another_task_in_the_same_child(shared: LocalRunner, gpu_task: Task, gpu_builder: Builder, make: Make) -> None:
    other = Task(get_operator("matmul").workload(m=7, n=9, k=11), gpu_task.target)
    c = candidate(other, "good")
    (artifact,) = gpu_builder.build([c])
    assert isinstance(artifact, Artifact)
    for task, item in ((other, (c, artifact)), (gpu_task, make("good"))):
        (outcome,) = shared.run(task, [item])
        assert isinstance(outcome, Measurement), outcome


def test_operands_may_stay_in_the_cache(gpu_task: Task, make: Make) -> None:
    with LocalRunner(DEVICE, gpu_task.target, cache_state="warm", references="") as runner:
        (outcome,) = runner.run(gpu_task, [make("good")])
    assert isinstance(outcome, Measurement)
    assert outcome.cache_state == "warm"


def test_a_device_that_is_not_there(gpu_task: Task, make: Make) -> None:
    with LocalRunner(Device("emulator:7", "none"), gpu_task.target, references="") as runner:
        (outcome,) = runner.run(gpu_task, [make("good")])
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.DEVICE_LOST
    assert "there is no emulated device 7" in outcome.message


def test_names_of_devices() -> None:
    assert get_backend("cuda").settings(Device("cuda:3", "x"), 0)["device"] == 3
    with pytest.raises(UsageError, match="cuda:0"):
        get_backend("cuda").settings(Device("cuda:x", "x"), 0)


# --------------------------------------------------------------------------- building


@pytest.mark.parametrize(("name", "reason"), [("threads", "threads"), ("shared", "shared memory"), ("grid", "grid")])
def test_what_cannot_run_is_never_compiled(gpu_task: Task, cache: ArtifactCache, name: str, reason: str) -> None:
    with Builder(gpu_task.target, cache=cache, lower=lower, emulated=True) as b:
        (refused,) = b.build([candidate(gpu_task, name)])
        counts = b.gate_counts()
    assert isinstance(refused, Failure)
    assert refused.kind is FailureKind.RESOURCES
    assert (counts.seen, counts.compiled, counts.before, counts.after) == (1, 0, {reason: 1}, {})


def test_a_broken_kernel_fails_alone_and_kernels_share_a_unit(gpu_task: Task, tmp_path: Path) -> None:
    cache = with_runtime(tmp_path / "c", shared_library=True)
    names = ["good", "broken", "slow", "two"]
    with Builder(gpu_task.target, cache=cache, lower=lower, emulated=True) as b:
        built = b.build([candidate(gpu_task, n) for n in names])
    assert [isinstance(x, Failure) for x in built] == [False, True, False, False]
    assert isinstance(built[1], Failure)
    assert built[1].kind is FailureKind.COMPILE
    with Builder(gpu_task.target, cache=cache, lower=lower, emulated=True) as b:
        again = b.build([candidate(gpu_task, n) for n in ("two", "good")])
    assert all(isinstance(x, Artifact) and x.cached for x in again)
    assert [x.sha256 for x in again if isinstance(x, Artifact)] == [
        x.sha256 for x in (built[3], built[0]) if isinstance(x, Artifact)
    ]
