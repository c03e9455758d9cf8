"""Peers that hold certificates of the farm and send nonsense, or worse: others go on, and nothing that they send runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgpack
import pytest

from tilewright.core import Candidate, Failure, FailureKind, Measurement, Outcome, Task
from tilewright.farm import remote
from tilewright.farm.client import Farm
from tilewright.farm.connect import Door
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.protocol import Link, LinkClosed
from tilewright.farm.queue import Job, Queue
from tilewright.farm.remote import FarmRunner
from tilewright.farm.runner import item_json, task_json
from tilewright.measure.runner import Item
from tilewright.testing.farm import CODE, SHA256, SimulatedFarm, SleepingMeasurer, simulated_device, steady

CLASS = "cpu-simulated-1c"
LIMIT = 60.0  # seconds, for what takes none on a machine that does nothing else
GOOD = Measurement(1e-3, 0.0, 3, 1.0).to_json()
Answer = Callable[[Link, dict[str, Any]], None]
MakeItems = Callable[[int], list[Item]]


def nothing_to_restore(_sha256: str) -> None:
    raise AssertionError("the farm has the code")


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(tmp_path, []) as f:
        yield f


@pytest.fixture
def runner(farm: SimulatedFarm) -> Iterator[FarmRunner]:
    with Farm(farm.address) as client:
        client.put(CODE)
        with FarmRunner(client, CLASS, nothing_to_restore) as r:
            yield r


def greeting(name: str) -> dict[str, Any]:
    return {
        "name": name, "instance": name, "lanes": 1, "held": [], "places": [CLASS],
        "device": simulated_device(name, CLASS).to_json(),
    }  # fmt: skip


def answering(farm: SimulatedFarm, answer: Answer, name: str = "liar") -> None:
    """Connect a runner that answers every job by hand, until it is thrown out."""

    async def start() -> None:
        link, _ = await Door(farm.address, None, "runner").enter(greeting(name))

        async def go_on() -> None:
            try:
                while True:
                    message = await link.receive()
                    if message["op"] == "job":
                        answer(link, message)
            except LinkClosed:
                pass
            finally:
                link.abort()

        farm.follow(go_on())

    farm.call(start())


def saying(result: Any, **more: Any) -> Answer:
    return lambda link, job: link.post({"op": "result", "id": job["id"], "result": result, "seconds": 0.0, **more})


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
]


@pytest.mark.parametrize("result", NONSENSE, ids=lambda r: str(r)[:60])
def test_a_result_that_is_none_is_an_error_and_no_hang(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, result: Any
) -> None:
    answering(farm, saying(result))
    with pytest.raises(FarmError, match=r"sent|keeps losing"):
        runner.submit(task, make_items(1)).result(LIMIT)


@pytest.mark.parametrize("what", ["duel", "verify"])
def test_so_are_other_answers(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, what: str
) -> None:
    answering(farm, saying({"duel": {"ratio": "a"}, "failure": "x"}))
    one, two = make_items(2)
    ask = {"duel": lambda: runner.duel(task, one, two), "verify": lambda: runner.verify(task, one)}[what]
    with pytest.raises(FarmError, match="a worker sent"):
        ask()


@pytest.mark.parametrize(
    "answer",
    [
        saying([1, 2]),
        saying(None),
        saying({"outcomes": [GOOD]}, seconds=float("nan")),
        saying({"outcomes": [GOOD]}, seconds=-1e9),
        saying({"outcomes": [GOOD]}, seconds="long"),
        saying({"outcomes": [GOOD]}, data=["text"]),
        lambda link, job: link.post({"op": "result"}),
        lambda link, job: link.post({"op": "submit", "id": job["id"], "place": CLASS, "payload": {}}),
    ],
    ids=["list", "none", "nan", "negative", "text", "data", "empty", "client"],
)
def test_who_breaks_the_protocol_is_thrown_out_and_others_do_the_work(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, answer: Answer
) -> None:
    answering(farm, answer)
    future = runner.submit(task, make_items(1))
    farm.wait_for(lambda: any("refused" in line for line in farm.said))
    farm.call(_start(farm, "honest"))
    assert isinstance(future.result(LIMIT)[0], Measurement)


async def _start(farm: SimulatedFarm, name: str, measurer: SleepingMeasurer | None = None) -> None:
    await farm.start_runner(name, measurer or SleepingMeasurer()).connected.wait()


class _Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def raw(data: bytes) -> Answer:
    """Bytes as they are, with the header of a message."""

    def send(link: Link, _job: dict[str, Any]) -> None:
        link._writer.write(len(data).to_bytes(4, "big") + data)

    return send


def packed(job_result: Any) -> Answer:
    """A result as a decoder of msgpack may like it better than we do."""

    def send(link: Link, job: dict[str, Any]) -> None:
        message = {"op": "result", "id": job["id"], "result": job_result, "seconds": 0.0}
        raw(msgpack.packb(message, use_bin_type=True))(link, job)

    return send


@pytest.mark.parametrize(
    "answer",
    [
        packed({"outcomes": [msgpack.ExtType(5, b"\x80")]}),
        packed({"outcomes": [msgpack.Timestamp(1, 2)]}),
        packed({"outcomes": deep(100)}),
        packed({"outcomes": deep(400)}),
        raw(b"\x91" * 100_000 + b"\xc0"),
        raw(b"\xdf\xff\xff\xff\xff"),
        raw(b"\xc1"),
        raw(pickle.dumps({"op": "result"})),
    ],
    ids=["extension", "timestamp", "deep", "deeper", "deepest", "four billion entries", "reserved", "pickle"],
)
def test_what_is_no_plain_value_is_refused(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, answer: Answer
) -> None:
    answering(farm, answer)
    future = runner.submit(task, make_items(1))
    farm.wait_for(lambda: any("liar left" in line for line in farm.said))
    farm.call(_start(farm, "honest"))
    assert isinstance(future.result(LIMIT)[0], Measurement)


def test_a_pickle_in_a_result_stays_bytes(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, tmp_path: Path
) -> None:
    trap = tmp_path / "sprung"
    bomb = pickle.dumps(_Trap(trap))
    answering(farm, saying({"outcomes": [{"failure": "crash", "message": bomb}], "data": bomb, "more": [bomb]}))
    outcome = runner.submit(task, make_items(1)).result(LIMIT)[0]
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.CRASH
    assert not trap.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"lanes": None},
        {"lanes": "many"},
        {"held": None},
        {"held": 3},
        {"places": None},
        {"places": ["build:cpu:x86_64:1"]},
        {"device": None},
        {"device": {"device_class": CLASS}},
        {"device": [1, 2]},
        {"offers": "x"},
        {"name": None},
        {"instance": None, "name": ""},
    ],
    ids=str,
)
def test_half_a_greeting_leaves_no_half_member(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, change: dict[str, Any]
) -> None:
    hello = {k: v for k, v in {**greeting("odd"), **change}.items() if v is not None}
    if "held" not in hello or "instance" not in hello:
        hello |= {k: None for k, v in change.items() if v is None}

    async def enter() -> None:
        with pytest.raises(Refused):
            await Door(farm.address, None, "runner").enter(hello)

    farm.call(enter())
    assert runner.farm.status()["workers"] == []
    farm.call(_start(farm, "honest"))
    assert isinstance(runner.submit(task, make_items(1)).result(LIMIT)[0], Measurement)


@pytest.mark.parametrize(
    "message",
    [
        {"op": "submit"},
        {"op": "submit", "id": "1", "place": CLASS, "payload": 5},
        {"op": "submit", "id": "1", "place": CLASS, "payload": {}, "needs": 5},
        {"op": "cancel", "ids": 5},
        {"op": "ask"},
        {"op": "ask", "what": "stop", "n": 1},
        {"op": "ask", "what": ["get"], "n": 1},
        {"op": "ask", "what": "put", "n": 1, "data": "text", "sha256": SHA256},
        {"op": "ask", "what": "has", "n": 1},
        {"op": "result", "id": "1", "result": {}, "seconds": 0.0},
        {"op": "no such thing"},
    ],
    ids=str,
)
def test_a_client_that_sends_nonsense_disturbs_only_itself(
    farm: SimulatedFarm, runner: FarmRunner, task: Task, make_items: MakeItems, message: dict[str, Any]
) -> None:
    farm.call(_start(farm, "honest"))
    future = runner.submit(task, make_items(12))

    async def offend() -> str:
        link, _ = await Door(farm.address, None, "client").enter({"session": "f" * 32, "name": "odd"})
        await link.send(message)
        try:
            while (said := await link.receive())["op"] != "bye":
                pass
            return str(said["reason"])
        finally:
            await link.close()

    assert "malformed" in (said := farm.call(asyncio.wait_for(offend(), LIMIT))) or "may not ask" in said
    assert all(isinstance(o, Measurement) for o in future.result(LIMIT))
    assert runner.farm.cut_offs == 0


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
    monkeypatch.setattr(remote, "COUNT_SECONDS", 0.0)  # runners are counted anew for each batch
    honest, dying = [SleepingMeasurer(), SleepingMeasurer()], Dying()
    farm.call(_start(farm, "honest", honest[0]))
    incumbent, *items = make_items(13)
    assert isinstance(runner.run(task, [incumbent])[0], Measurement)
    farm.call(_start(farm, "dying", dying))
    farm.call(_start(farm, "honest-2", honest[1]))
    for h in honest:  # the others are slow enough for it to get a part
        h.on_item = lambda _candidate: dying.lost.wait(LIMIT) and None
    assert all(isinstance(o, Measurement) for o in runner.run(task, items, incumbent))
    workers = {w["name"]: w for w in runner.farm.status()["workers"]}
    assert workers["dying"]["strikes"] > 0 or workers["dying"]["quarantine"]


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
    """The first may bring twice the work: it is done at the pace of the others."""
    done: list[int] = []
    each = 60
    items = make_items(clients)
    owner = {c.key: n for n, (c, _) in enumerate(items)}
    with SimulatedFarm(tmp_path, []) as f, contextlib.ExitStack() as stack:
        farms = [stack.enter_context(Farm(f.address)) for _ in range(clients)]
        farms[0].put(CODE)
        futures: list[Future[dict[str, Any]]] = []
        for n, farm in enumerate(farms):
            payload = {"do": "measure", "task": task_json(task), "items": [item_json(items[n])], "pairs": None}
            futures += [farm.submit(CLASS, payload, [SHA256]) for _ in range(each * (2 if n == 0 else 1))]
        f.wait_for(lambda: sum(c["jobs"] for c in farms[0].status()["clients"]) == len(futures))
        ready = threading.Event()

        def note(candidate: Candidate) -> None:
            ready.wait(LIMIT)
            done.append(owner[candidate.key])

        for n in range(4):
            f.call(_start(f, f"sim-{n}", SleepingMeasurer(0.001, note)))
            steady(f.runners[n], 0.004)
        ready.set()
        for future in futures:
            future.result(LIMIT)
    # Until the first of the others has all of its own, every client waits for the farm.
    last = min(max(i for i, c in enumerate(done) if c == n) for n in range(1, clients))
    shares = [done[: last + 1].count(n) / (last + 1) for n in range(clients)]
    assert all(abs(share * clients - 1) < 0.2 for share in shares), shares


def test_a_newcomer_is_not_held_against_guesses() -> None:
    """Until a first job is done nobody knows what one takes, and a guess must not give those who are there a start."""
    queue = Queue()
    queue.join("w", [CLASS], 8, 0.0)
    for n in range(40):
        queue.submit(Job(f"a{n}", "a", CLASS, {}), 0.0)
    held = [j.id for _, j in queue.assign(0.0)]
    for n in range(40):
        queue.submit(Job(f"b{n}", "b", CLASS, {}), 0.0)
    order = []
    while held:
        queue.finish("w", held.pop(0), 0.001, 0.0)
        for _, job in queue.assign(0.0):
            held.append(job.id)
            order.append(job.client)
    assert 10 <= order[:30].count("b") <= 20
