"""A farm behind the interfaces of a local runner and a local compiler."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from harness.farm import CODE, SHA256, SimulatedFarm, SleepingMeasurer, pretended_seconds, steady
from tilewright.backends import Peaks
from tilewright.core import Candidate, Failure, FailureKind, Measurement, Schedule, Task
from tilewright.farm import client as client_module
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.remote import FarmRunner
from tilewright.measure.runner import DeviceLost, Item
from tilewright.measure.timing import PairedComparison
from tilewright.testing.runner import RunnerContract

CLASS = "cpu-simulated-1c"
LIMIT = 60.0  # seconds, for what takes none on a machine that does nothing else


def nothing_to_restore(_sha256: str) -> None:
    raise AssertionError("the farm has the code")


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(tmp_path, [SleepingMeasurer() for _ in range(4)]) as f:
        yield f


@pytest.fixture
def client(farm: SimulatedFarm) -> Iterator[Farm]:
    with Farm(farm.address) as c:
        c.put(CODE)
        yield c


@pytest.fixture
def runner(client: Farm) -> Iterator[FarmRunner]:
    with FarmRunner(client, CLASS, nothing_to_restore) as r:
        yield r


class FailsOn(SleepingMeasurer):
    """A device on which one candidate is wrong."""

    bad = ""

    def _one(self, candidate: Candidate) -> Measurement | Failure:
        if candidate.key == self.bad:
            return Failure(FailureKind.WRONG_RESULT, "element (0, 0) is 1, expected 2")
        outcome = super()._one(candidate)
        assert isinstance(outcome, Measurement)
        return outcome


class TestFarmRunner(RunnerContract):
    @pytest.fixture
    def bad(self, make_items: Callable[[int], list[Item]]) -> Item:
        return make_items(2)[1]

    @pytest.fixture
    def good(self, make_items: Callable[[int], list[Item]]) -> Item:
        return make_items(1)[0]

    @pytest.fixture
    def runner(self, tmp_path: Path, bad: Item) -> Iterator[FarmRunner]:
        measurer = FailsOn()
        measurer.bad = bad[0].key
        with SimulatedFarm(tmp_path, [measurer]) as f, Farm(f.address) as c:
            c.put(CODE)
            with FarmRunner(c, CLASS, nothing_to_restore) as r:
                yield r


def test_outcomes_come_in_order_from_every_runner(
    runner: FarmRunner, farm: SimulatedFarm, task: Task, make_items: Callable[[int], list[Item]]
) -> None:
    first, *rest = items = make_items(60)
    outcomes = runner.run(task, [first])
    everyone = threading.Barrier(len(farm.measurers))  # each waits with its first kernel until all have one

    def meet(measurer: SleepingMeasurer) -> None:
        measurer.on_item = lambda _candidate: None
        everyone.wait(LIMIT)

    for m in farm.measurers:
        m.on_item = lambda _candidate, m=m: meet(m)
    outcomes += runner.run(task, rest, first)
    assert [o.seconds for o in outcomes if isinstance(o, Measurement)] == [pretended_seconds(c) for c, _ in items]
    assert sum(m.measured for m in farm.measurers) == 60
    assert all(m.measured for m in farm.measurers)


class LosesDuels(SleepingMeasurer):
    """A device that goes away in the first paired comparisons of all."""

    left = 2

    def compare(self, task: Task, challenger: Item, champion: Item, sessions: int) -> PairedComparison:
        if LosesDuels.left:
            LosesDuels.left -= 1
            raise DeviceLost("no result within 10 s")
        return super().compare(task, challenger, champion, sessions)


@pytest.mark.parametrize("devices", [1, 3])
def test_a_duel_on_a_device_that_goes_away_is_held_again(
    devices: int, tmp_path: Path, task: Task, make_items: Callable[[int], list[Item]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LosesDuels, "left", 2)
    one, two = make_items(2)
    with SimulatedFarm(tmp_path, [LosesDuels() for _ in range(devices)]) as f, Farm(f.address) as c:
        c.put(CODE)
        with FarmRunner(c, CLASS, nothing_to_restore) as r:
            assert len(r.compare(task, one, two, 5).ratios) == 5
            monkeypatch.setattr(LosesDuels, "left", 1000)
            with pytest.raises(DeviceLost, match="no result within 10 s"):
                r.compare(task, one, two)
    assert LosesDuels.left >= 997  # no more than three devices for one comparison


def test_a_duel_and_a_check(runner: FarmRunner, task: Task, make_items: Callable[[int], list[Item]]) -> None:
    one, two = make_items(2)
    d = runner.compare(task, one, two)
    assert d.ratio == pretended_seconds(one[0]) / pretended_seconds(two[0])
    assert runner.verify(task, one) is None
    assert runner.peaks(task) == Peaks()


def test_peaks_are_read_as_far_as_they_are_numbers(
    runner: FarmRunner, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_reply", lambda _job: {"peak": 1e11, "bandwidth": "?", "l1": 4e11, "l2": None, "x": 1})
    assert runner.peaks(task) == Peaks(1e11, None, {"l1": 4e11})


def test_code_that_the_farm_lost_is_brought_again(
    client: Farm, farm: SimulatedFarm, task: Task, make_items: Callable[[int], list[Item]]
) -> None:
    farm.call(farm.lose_artifacts())
    brought: list[str] = []

    def restore(name: str) -> None:
        brought.append(name)
        client.put(CODE)

    with FarmRunner(client, CLASS, restore) as r:
        assert all(isinstance(o, Measurement) for o in r.run(task, make_items(5)))
    assert brought == [SHA256]


def test_what_lacked_its_code_does_not_wait_for_other_jobs(
    client: Farm, farm: SimulatedFarm, task: Task, make_items: Callable[[int], list[Item]]
) -> None:
    lost = b"code that the farm does not have"
    incumbent, *items = make_items(9)
    items[-1] = items[-1][0], replace(items[-1][1], sha256=sha256(lost).hexdigest())
    brought, in_time = threading.Event(), []

    def restore(_name: str) -> None:
        client.put(lost)
        brought.set()

    def first_waits_for_last(c: Candidate) -> None:
        if c.key == items[0][0].key:
            in_time.append(brought.wait(LIMIT))

    for m in farm.measurers:
        m.on_item = first_waits_for_last
    with FarmRunner(client, CLASS, restore) as r:
        assert all(isinstance(o, Measurement) for o in r.run(task, items, incumbent))
    assert in_time == [True]


def test_code_that_nobody_has_is_an_error(tmp_path: Path, task: Task, make_items: Callable[[int], list[Item]]) -> None:
    with (
        SimulatedFarm(tmp_path, [SleepingMeasurer()]) as f,
        Farm(f.address) as c,
        FarmRunner(c, CLASS, lambda _s: None) as r,
        pytest.raises(FarmError, match="keeps losing"),
    ):
        r.run(task, make_items(1))


def test_a_server_that_comes_back_costs_nothing(
    runner: FarmRunner, farm: SimulatedFarm, task: Task, make_items: Callable[[int], list[Item]]
) -> None:
    for m in farm.measurers:
        m.seconds = 0.02
    items = make_items(60)
    future = runner.submit(task, items)
    farm.wait_for(lambda: sum(m.measured for m in farm.measurers) >= 15)
    farm.call(farm.restart_server())
    outcomes = future.result(LIMIT)
    assert [o.seconds for o in outcomes if isinstance(o, Measurement)] == [pretended_seconds(c) for c, _ in items]
    assert runner.farm.cut_offs == 1


def test_a_class_without_runners_is_told(tmp_path: Path, task: Task, make_items: Callable[[int], list[Item]]) -> None:
    with (
        SimulatedFarm(tmp_path, [], patience=0.2, heartbeat=0.1) as f,
        Farm(f.address) as c,
        FarmRunner(c, CLASS, nothing_to_restore) as r,
        pytest.raises(FarmError, match=f"no {CLASS} was there"),
    ):
        r.run(task, make_items(1))


def test_a_client_says_at_once_and_again_that_its_class_has_no_runner(
    tmp_path: Path, task: Task, make_items: Callable[[int], list[Item]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with (
        SimulatedFarm(tmp_path, [SleepingMeasurer()], patience=9030.0) as f,
        Farm(f.address, say=said.append) as c,
    ):
        f.wait_for(lambda: bool(c.devices()))
        monkeypatch.setattr(client_module, "REMIND_SECONDS", 0.6)
        other = "cpu-other-4c"
        with FarmRunner(c, other, nothing_to_restore) as r:
            outcomes = r.submit(task, make_items(1))
            f.wait_for(lambda: len(said) >= 2)
            line = (
                f"No runner of device class {other} takes jobs, and 1 job waits. Classes that have runners: {CLASS}. "
                f"Start one: tilewright farm runner --device cpu:0-3 {f.address}. Jobs wait up to 2 h 30 min"
            )
            assert said[:2] == [line, line]
            c.put(CODE)
            f.soon(lambda: f.start_runner("late", SleepingMeasurer(), other))
            (outcome,) = outcomes.result(LIMIT)
            assert isinstance(outcome, Measurement)
            f.wait_for(lambda: said[-1] == f"a worker takes the jobs of {other} again; going on")


def test_a_farm_that_is_gone_is_told(tmp_path: Path, task: Task, make_items: Callable[[int], list[Item]]) -> None:
    gate = threading.Event()
    measurer = SleepingMeasurer(on_item=lambda _c: gate.wait(LIMIT) and None)
    with SimulatedFarm(tmp_path, [measurer]) as f, Farm(f.address, patience=0.5) as c:
        c.put(CODE)
        with FarmRunner(c, CLASS, nothing_to_restore) as r:
            future = r.submit(task, make_items(4))
            assert f.hub is not None
            f.call(f.hub.stop())
            with pytest.raises(FarmError, match="the connection to the farm is lost"):
                future.result(LIMIT)
        with pytest.raises(FarmError, match="the connection to the farm is lost"):
            c.status()
        gate.set()


def test_closing_takes_back_what_has_not_begun(
    tmp_path: Path, task: Task, make_items: Callable[[int], list[Item]]
) -> None:
    begun, gate = threading.Event(), threading.Event()

    def wait(_candidate: Candidate) -> None:
        begun.set()
        gate.wait(LIMIT)

    measurer = SleepingMeasurer()
    with SimulatedFarm(tmp_path, [measurer]) as f, Farm(f.address) as c:
        c.put(CODE)
        with FarmRunner(c, CLASS, nothing_to_restore) as r:
            items = make_items(30)
            r.run(task, items[:1])
            measurer.on_item = wait
            futures = [r.submit(task, part, items[0]) for part in (items[:15], items[15:])]
            assert begun.wait(LIMIT)
            f.wait_for(lambda: len(f.runners[0]._held) == 2)
            closing = threading.Thread(target=r.close)
            closing.start()
            closing.join(LIMIT)
            for future in futures:
                with pytest.raises((CancelledError, FarmError)):
                    future.result(LIMIT)
            f.wait_for(lambda: len(f.runners[0]._held) == 1)
            gate.set()
        f.wait_for(lambda: not f.runners[0]._held)
        assert measurer.measured == 16  # one alone, and the job of 15 that had begun


def test_clients_share_a_farm_fairly(tmp_path: Path, task: Task, make_items: Callable[[int], list[Item]]) -> None:
    measured: list[int] = []
    items = make_items(160)
    owner = {c.key: n // 80 for n, (c, _) in enumerate(items)}
    together = threading.Event()

    def note(candidate: Candidate) -> None:
        together.wait(LIMIT)
        measured.append(owner[candidate.key])

    measurers = [SleepingMeasurer() for _ in range(2)]
    with SimulatedFarm(tmp_path, measurers) as f, Farm(f.address) as one, Farm(f.address) as two:
        one.put(CODE)
        for service in f.runners:
            steady(service, 0.1)
        with FarmRunner(one, CLASS, nothing_to_restore) as a, FarmRunner(two, CLASS, nothing_to_restore) as b:
            mine, theirs = items[0], items[80]
            a.run(task, [mine])
            b.run(task, [theirs])
            for m in measurers:
                m.on_item = note
            futures: list[Future[object]] = []
            for start in range(0, 80, 20):  # several batches each, as a run has
                futures.append(a.submit(task, items[start : start + 20], mine))  # type: ignore[arg-type]
                futures.append(b.submit(task, items[80 + start : 100 + start], theirs))  # type: ignore[arg-type]
            f.wait_for(lambda: all(c["jobs"] for c in one.status()["clients"]))
            together.set()
            for x in futures:
                x.result(LIMIT)
    half = measured[: len(measured) // 2]
    assert 0.3 < sum(half) / len(half) < 0.7


def test_a_candidate_travels_unchanged(task: Task, make_items: Callable[[int], list[Item]]) -> None:
    from tilewright.farm.jobs import item_json, item_of, task_json
    from tilewright.farm.messages import pack, unpack

    rng = random.Random(3)
    items = make_items(20)
    rng.shuffle(items)
    for candidate, artifact in items:
        message = unpack(pack({"task": task_json(task), "item": item_json((candidate, artifact))}))
        again = Task.from_json(message["task"])
        assert again.key == task.key
        assert again.workload.program == task.workload.program
        c, a = item_of(again, message["item"], {SHA256: "/there"})
        assert c.key == candidate.key
        assert c.binary_key == candidate.binary_key
        assert isinstance(c.schedule, Schedule)
        assert a.program == artifact.program
