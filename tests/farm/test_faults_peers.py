"""Peers that answer nonsense, fail in new ways or die: the others go on, and whoever tunes is told or not disturbed."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from harness.farm import CODE, SHA256, SimulatedFarm, SleepingMeasurer, steady
from tilewright.core import Candidate, Failure, FailureKind, Measurement, Outcome, Task
from tilewright.farm import client
from tilewright.farm.client import SHARE_SECONDS, Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.jobs import item_json, task_json
from tilewright.farm.remote import FarmRunner
from tilewright.farm.workers.work import Reply
from tilewright.measure.runner import Item

CLASS = "cpu-simulated-1c"
LIMIT = 60.0  # seconds, for what takes none on a machine that does nothing else
GOOD = Measurement(1e-3, 0.0, 3, 1.0).to_json()
MakeItems = Callable[[int], list[Item]]


def nothing_to_restore(_sha256: str) -> None:
    raise AssertionError("the farm has the code")


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(tmp_path, [], heartbeat=0.3) as f:
        yield f


@pytest.fixture
def runner(farm: SimulatedFarm) -> Iterator[FarmRunner]:
    with Farm(farm.address) as client:
        client.put(CODE)
        with FarmRunner(client, CLASS, nothing_to_restore) as r:
            yield r


def answering(farm: SimulatedFarm, result: Any) -> None:
    """Connect a runner that gives every job the same answer."""

    async def start() -> None:
        await farm.start_puppet("liar", lambda _payload: Reply(result)).connected.wait()

    farm.call(start())


async def _start(farm: SimulatedFarm, name: str, measurer: SleepingMeasurer | None = None) -> None:
    await farm.start_runner(name, measurer or SleepingMeasurer()).connected.wait()


NONSENSE: list[Any] = [
    {},
    {"outcomes": 5},
    {"outcomes": []},
    {"outcomes": [GOOD] * 9},
    {"outcomes": ["fast"]},
    {"outcomes": [{"failure": "no such kind", "message": ""}]},
    {"outcomes": [{"failure": "crash"}]},
    {"outcomes": [{**GOOD, "seconds": "fast"}]},
    {"outcomes": [{**GOOD, "seconds": float("nan")}]},
    {"outcomes": [{**GOOD, "seconds": -1.0}]},
    {"outcomes": [{**GOOD, "ratio": []}]},
    {"outcomes": [{**GOOD, "environment": 3}]},
    {"outcomes": [{**GOOD, "more": 3}]},
    {"missing": 7},
    {"error": "no map"},
    {"error": [1]},
    {"missing": ["0" * 64]},
    [1, 2],
    None,
]


@pytest.mark.parametrize("result", NONSENSE, ids=lambda r: str(r)[:60])
def test_a_result_that_is_none_is_an_error_and_no_hang(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, result: Any
) -> None:
    answering(farm, result)
    with pytest.raises(FarmError, match=r"sent|keeps losing"):
        runner.submit(task, make_items(1)).result(LIMIT)


@pytest.mark.parametrize("what", ["duel", "verify"])
def test_malformed_answers_are_refused(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, what: str
) -> None:
    answering(farm, {"duel": {"ratio": "a"}, "failure": "x"})
    one, two = make_items(2)
    ask = {"duel": lambda: runner.compare(task, one, two), "verify": lambda: runner.verify(task, one)}[what]
    with pytest.raises(FarmError, match="a worker sent"):
        ask()


class _Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_a_pickle_in_a_result_stays_bytes(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, tmp_path: Path
) -> None:
    trap = tmp_path / "sprung"
    bomb = pickle.dumps(_Trap(trap))
    answering(farm, {"outcomes": [{"failure": "crash", "message": bomb}], "data": bomb, "more": [bomb]})
    outcome = runner.submit(task, make_items(1)).result(LIMIT)[0]
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.CRASH
    assert not trap.exists()


@pytest.mark.parametrize("payload", [{}, {"do": "dance"}, {"do": "measure", "items": 5}, {"do": "measure", "task": []}])
def test_a_job_that_makes_no_sense_comes_back_as_malformed(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, payload: dict[str, Any]
) -> None:
    farm.call(_start(farm, "honest"))
    reply = runner.farm.submit(CLASS, {"task": task_json(task), "items": [], **payload}).result(LIMIT)
    assert reply["error"]["kind"] == "malformed"
    assert runner.farm.status()["workers"][0]["strikes"] == 0
    assert isinstance(runner.submit(task, make_items(1)).result(LIMIT)[0], Measurement)


def test_a_measurer_that_fails_in_a_new_way_still_answers(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems
) -> None:
    def fail(_candidate: Any) -> None:
        raise ZeroDivisionError("a bug")

    farm.call(_start(farm, "buggy", SleepingMeasurer(0.0, fail)))
    outcome = runner.submit(task, make_items(1)).result(LIMIT)[0]
    assert outcome == Failure(FailureKind.DEVICE_LOST, "buggy: a bug")


class Dying(SleepingMeasurer):
    """A device that is lost after its first kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = threading.Event()

    def _one(self, candidate: Candidate) -> Outcome:
        if self.measured:
            self.lost.set()
            return Failure(FailureKind.DEVICE_LOST, "fallen off the bus")
        return super()._one(candidate)


def test_what_a_dying_device_leaves_of_a_job_is_measured_elsewhere(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "COUNT_SECONDS", 0.0)  # runners are counted anew for each batch
    honest, dying = [SleepingMeasurer(), SleepingMeasurer()], Dying()
    farm.call(_start(farm, "honest", honest[0]))
    incumbent, *items = make_items(13)
    assert isinstance(runner.run(task, [incumbent])[0], Measurement)
    farm.call(_start(farm, "dying", dying))
    farm.call(_start(farm, "honest-2", honest[1]))
    for h in honest:  # the others are slow enough for it to get a part
        h.on_item = lambda _candidate: dying.lost.wait(LIMIT) and None
    assert all(isinstance(o, Measurement) for o in runner.run(task, items, incumbent))

    def blamed() -> bool:
        dead = next(w for w in runner.farm.status()["workers"] if w["name"] == "dying")
        return bool(dead["strikes"] or dead["quarantine"])

    farm.wait_for(blamed)


def test_a_class_whose_every_runner_is_in_quarantine_is_told(tmp_path: Path, task: Task, make_items: MakeItems) -> None:
    with (
        SimulatedFarm(tmp_path, [SleepingMeasurer()], heartbeat=0.3, patience=0.3) as farm,
        Farm(farm.address) as client,
    ):
        client.put(CODE)
        client.ask("quarantine", name="sim-0", why="by hand")
        with FarmRunner(client, CLASS, nothing_to_restore) as runner:
            with pytest.raises(FarmError, match=f"no {CLASS} was there"):
                runner.submit(task, make_items(2)).result(LIMIT)
            client.ask("release", name="sim-0")
            assert isinstance(runner.submit(task, make_items(1)).result(LIMIT)[0], Measurement)


@pytest.mark.parametrize("clients", [2, 3])
def test_clients_get_equal_shares(tmp_path: Path, task: Task, make_items: MakeItems, clients: int) -> None:
    """The first may bring twice the work: it is done at the pace of the others.

    A client that this machine lets wait is waited for: no job begins while one of them has not been heard of lately,
    has yet to be told of more results than runners are at, or has not queued all that it may.
    """
    done: list[int] = []
    each, seconds = 48, 0.05
    items = make_items(clients)
    owner = {c.key: n for n, (c, _) in enumerate(items)}
    ready = threading.Event()

    def note(candidate: Candidate) -> None:
        ready.wait(LIMIT)
        until = time.monotonic() + LIMIT
        while not (heard(f, within=2 * SHARE_SECONDS) and abreast()) and time.monotonic() < until:
            time.sleep(seconds / 5)
        done.append(owner[candidate.key])

    def abreast() -> bool:
        queues = [farm._queues[CLASS] for farm in farms]
        told = all(done.count(n) - queue.done <= len(f.runners) for n, queue in enumerate(queues))
        return told and all(not queue.held or len(queue.sent) >= queue.window for queue in queues)

    with SimulatedFarm(tmp_path, [SleepingMeasurer(seconds, note)] * 4) as f, contextlib.ExitStack() as stack:
        for r in f.runners:
            steady(r, seconds)
        farms = [stack.enter_context(Farm(f.address)) for _ in range(clients)]
        farms[0].put(CODE)
        futures: list[Future[dict[str, Any]]] = []
        for n, farm in enumerate(farms):
            payload = {"do": "measure", "task": task_json(task), "items": [item_json(items[n])], "pairs": None}
            futures += [farm.submit(CLASS, payload, [SHA256]) for _ in range(each * (2 if n == 0 else 1))]
        f.wait_for(lambda: sum(c["jobs"] for c in farms[0].status()["clients"]) == len(futures))
        ready.set()
        for future in futures:
            assert "outcomes" in future.result(LIMIT)
    # Until the first of the others has all of its own, every client waits for the farm.
    last = min(max(i for i, c in enumerate(done) if c == n) for n in range(1, clients))
    shares = [done[: last + 1].count(n) / (last + 1) for n in range(clients)]
    assert all(abs(share * clients - 1) < 0.2 for share in shares), shares


def heard(farm: SimulatedFarm, within: float) -> bool:
    """Whether every client that waits has said so in the last seconds."""
    assert farm.hub is not None
    shares = farm.hub.keeper._shares[CLASS].clients.values()
    return all(time.monotonic() - s.heard < within for s in list(shares) if s.waiting)
