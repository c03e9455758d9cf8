"""The keeper: what it believes of workers and clients, what it tells, and whom it takes for gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.farm import SimulatedFarm, SleepingMeasurer, simulated_device
from tilewright.farm import subjects
from tilewright.farm.client import Farm
from tilewright.farm.device import RunnerDevice
from tilewright.farm.errors import FarmError, LinkClosed, Refused
from tilewright.farm.keeper import Keeper
from tilewright.farm.link import Endpoint, Link
from tilewright.farm.messages import PROTOCOL, pack

CLASS = "cpu-simulated-1c"
COMPILER = "build:cpu:x86_64:01234567"


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(tmp_path_factory.mktemp("farm"), []) as f:
        yield f


@pytest.fixture(scope="module")
def keeper(farm: SimulatedFarm) -> Keeper:
    assert farm.hub is not None
    return farm.hub.keeper


@pytest.fixture(scope="module")
def links(farm: SimulatedFarm) -> Iterator[dict[str, Link]]:
    found = {
        role: farm.call(Endpoint(farm.address, None, role).connect()) for role in subjects.WORKERS + subjects.LOOKERS
    }
    yield found
    for link in found.values():
        farm.call(link.close())


@pytest.fixture
def asking(farm: SimulatedFarm, links: dict[str, Link]) -> Callable[..., Any]:
    def ask(role: str, body: dict[str, Any], tell: bool = False) -> Any:
        return farm.call(links[role].ask(body, tell=tell))

    return ask


def beat(name: str, /, **changed: Any) -> dict[str, Any]:
    """What a runner says of itself; ``...`` leaves a field out."""
    said = {
        "what": "beat", "name": name, "instance": "1", "lanes": 1, "running": 0, "queued": 0, "done": 0, "busy": 0.0,
        "draining": False, "quarantine": "", "strikes": 0, "note": "", "places": [CLASS],
        "device": simulated_device(name, CLASS).to_json(), "offers": {}, **changed,
    }  # fmt: skip
    return {k: v for k, v in said.items() if v is not ...}


def building(name: str, /, **changed: Any) -> dict[str, Any]:
    return beat(name, **{"places": [COMPILER], "device": {}, "offers": {COMPILER: "gcc 12"}, **changed})


def leave(asking: Callable[..., Any], name: str) -> None:
    asking("runner", {"what": "bye", "name": name, "instance": "1"})


# --------------------------------------------------------------------------- signs of life


def test_a_worker_that_says_all_there_is_becomes_a_member(keeper: Keeper, asking: Callable[..., Any]) -> None:
    assert asking("runner", beat("good")) == {"heartbeat": 5.0, "workers": {CLASS: 1}}
    assert asking("builder", building("also-good")) == {"heartbeat": 5.0, "workers": {COMPILER: 1}}
    assert set(keeper.members) == {"good", "also-good"}
    asking("builder", {"what": "bye", "name": "also-good", "instance": "1"})
    leave(asking, "good")
    assert not keeper.members


FIELDS = (
    "name", "instance", "lanes", "running", "queued", "done", "busy", "draining", "quarantine", "strikes", "note",
    "places", "device", "offers",
)  # fmt: skip


def of_another_type(value: Any) -> Any:
    return {str: 5, int: "many", float: "much", bool: "yes", list: "text", dict: [1, 2]}[type(value)]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("how", ["missing", "of another type", "nothing", "list", "map"])
def test_half_a_greeting_leaves_no_half_member(
    keeper: Keeper, asking: Callable[..., Any], field: str, how: str
) -> None:
    whole = beat("odd")[field]
    value = {
        "missing": ...,
        "of another type": of_another_type(whole),
        "nothing": None,
        "list": [[]],
        "map": {"a": {}},
    }[how]
    queues = set(keeper.queues.known)
    with pytest.raises(FarmError):
        asking("runner", beat("odd", **{field: value}))
    assert not keeper.members
    assert set(keeper.queues.known) == queues
    assert json.dumps(asking("reader", {"what": "status"})["workers"]) == "[]"


@pytest.mark.parametrize(
    ("role", "changed", "said"),
    [
        ("runner", {"places": [COMPILER]}, "a runner cannot offer"),
        ("runner", {"places": [CLASS, COMPILER]}, "a runner cannot offer"),
        ("builder", {"places": [CLASS]}, "a builder cannot offer"),
        ("runner", {"places": []}, "malformed"),
        ("runner", {"places": ["Has Spaces"]}, "malformed"),
        ("runner", {"places": ["a/b"]}, "malformed"),
        ("runner", {"places": ["x" * 200]}, "malformed"),
        ("runner", {"places": ["*"]}, "malformed"),
        ("runner", {"places": [">"]}, "malformed"),
        ("runner", {"name": ""}, "is not a valid name"),
        ("runner", {"name": "a b"}, "is not a valid name"),
        ("runner", {"name": "../up"}, "is not a valid name"),
        ("runner", {"name": "[red]"}, "is not a valid name"),
        ("runner", {"name": "*"}, "is not a valid name"),
        ("runner", {"name": "x" * 200}, "is not a valid name"),
        ("runner", {"lanes": 0}, "malformed"),
        ("runner", {"lanes": -1}, "malformed"),
        ("runner", {"lanes": 10**6}, "malformed"),
        ("runner", {"busy": float("nan")}, "malformed"),
        ("runner", {"busy": float("inf")}, "malformed"),
        ("runner", {"busy": -1.0}, "malformed"),
        ("runner", {"device": {}}, "device"),
        ("runner", {"device": {"device_class": CLASS}}, "device"),
        ("runner", {"offers": {"more": 1}}, "malformed"),
        ("runner", {"offers": {"limits": {"memory": {"deep": 1}}}}, "malformed"),
        ("runner", {"offers": {"limits": [1]}}, "malformed"),
        ("builder", {"offers": {COMPILER: {"deep": 1}}}, "malformed"),
        ("builder", {"offers": {COMPILER: b"bytes"}}, "malformed"),
        ("builder", {"offers": {b"bytes": "text"}}, "not a message"),
        ("builder", {"device": {"deep": 1}}, "malformed"),
        ("runner", {"note": "x" * 100_000}, "over the limit"),
        ("runner", {"tilewright": "x" * 1000}, "over the limit"),
        ("runner", {"tilewright": 5}, "malformed"),
        ("runner", {"clock": "noon"}, "malformed"),
        ("runner", {"clock": float("nan")}, "malformed"),
        ("runner", {"clock": -1.0}, "malformed"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(
    keeper: Keeper, asking: Callable[..., Any], role: str, changed: dict[str, Any], said: str
) -> None:
    body = beat("odd", **changed) if role == "runner" else building("odd", **changed)
    with pytest.raises(FarmError, match=said):
        asking(role, body)
    assert not keeper.members


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"GET / HTTP/1.1\r\n\r\n", pack({}), pack({"body": 5}), pack({"body": pack({})})],
    ids=["empty", "reserved", "http", "no body", "number", "empty map"],
)  # fmt: skip
def test_what_is_no_message_is_answered_and_counted(
    farm: SimulatedFarm, keeper: Keeper, links: dict[str, Link], data: bytes
) -> None:
    before, link = keeper.refused, links["runner"]
    subject = subjects.ask("runner", "local")
    reply = farm.call(link.raw(subject, data))
    answer, _ = link.seal.open(subject, reply.data, ("server",))
    assert answer["error"]["kind"] in ("refused", "no_message")
    assert keeper.refused == before + 1


@pytest.mark.parametrize("protocol", [PROTOCOL - 1, PROTOCOL + 1, "x", None])
@pytest.mark.parametrize("role", ["runner", "client"])
def test_another_protocol_is_told_with_a_mend(asking: Callable[..., Any], role: str, protocol: Any) -> None:
    with pytest.raises(Refused) as e:
        asking(role, {**beat("new"), "protocol": protocol})
    assert e.value.message == f"the {role} has protocol {protocol}, the farm {PROTOCOL}"
    assert "same version" in e.value.hint


def test_a_name_is_taken_once(keeper: Keeper, asking: Callable[..., Any]) -> None:
    asking("runner", beat("same"))
    with pytest.raises(Refused, match="a runner named 'same' is connected already") as e:
        asking("runner", beat("same", instance="2"))
    assert "--name" in e.value.hint
    with pytest.raises(Refused, match="connected already"):
        asking("builder", building("same", instance="2"))
    asking("runner", beat("same", done=3))  # the same process, which may come again from another connection
    assert keeper.members["same"].said["done"] == 3
    asking("runner", {"what": "bye", "name": "same", "instance": "2"})  # another process' farewell
    assert "same" in keeper.members
    leave(asking, "same")
    asking("runner", beat("same", instance="2"))
    asking("runner", {"what": "bye", "name": "same", "instance": "2"})
    assert not keeper.members


# --------------------------------------------------------------------------- shares


def share(session: str = "s", /, **changed: Any) -> dict[str, Any]:
    said = {"what": "shares", "session": session, "name": "host:1", "weight": 1.0, "places": {CLASS: [3, 1, 0, 0.0]}}
    return {k: v for k, v in {**said, **changed}.items() if v is not ...}


def test_a_client_learns_its_windows(keeper: Keeper, asking: Callable[..., Any]) -> None:
    asking("runner", beat("one"))
    asking("runner", beat("two"))
    said = asking("client", share())
    assert said == {
        "heartbeat": 5.0, "patience": 60.0, "places": {CLASS: {"window": 6, "workers": 2, "empty": 0.0}},
    }  # fmt: skip
    assert asking("client", share("t"))["places"][CLASS]["window"] == 3
    leave(asking, "one")
    leave(asking, "two")
    nobody = asking("client", share())["places"][CLASS]
    assert nobody["workers"] == 0
    assert nobody["empty"] >= 0.0
    assert nobody["window"] >= 1


@pytest.mark.parametrize(
    "changed",
    [
        {"session": ...}, {"name": ...}, {"weight": ...}, {"places": ...}, {"weight": "high"}, {"weight": 0.0},
        {"weight": -1.0}, {"weight": 1e9}, {"weight": float("nan")}, {"weight": None}, {"places": 5}, {"places": [1]},
        {"places": {CLASS: 5}}, {"places": {CLASS: []}}, {"places": {CLASS: [1, 2, 3]}},
        {"places": {CLASS: ["a", 0, 0, 0.0]}}, {"places": {CLASS: [1, 0, 0, float("nan")]}},
        {"places": {CLASS: [1, 0, 0, float("inf")]}}, {"places": {CLASS: [1, 0, 0, -1.0]}},
        {"places": {CLASS: [1, 0, 0, 1e300]}}, {"places": {CLASS: [-1, 0, 0, 0.0]}}, {"places": {"no place": [1, 0, 0, 0.0]}},
        {"places": {">": [1, 0, 0, 0.0]}},
    ],
    ids=str,
)  # fmt: skip
def test_malformed_shares_are_refused_and_change_nothing(
    keeper: Keeper, asking: Callable[..., Any], changed: dict[str, Any]
) -> None:
    with pytest.raises(FarmError, match="malformed"):
        asking("client", share("odd", **changed))
    assert "odd" not in keeper.sessions
    assert all("odd" not in s.clients for s in keeper._shares.values())


@pytest.mark.parametrize("what", ["run", "__init__", "", None, 5, ["status"], {"a": 1}, "drain"])
def test_unknown_questions_are_refused(asking: Callable[..., Any], what: Any) -> None:
    for role in ("client", "runner"):
        with pytest.raises(Refused, match="may not ask"):
            asking(role, {"what": what})


# --------------------------------------------------------------------------- commands


def test_commands_need_somebody_who_is_there(asking: Callable[..., Any]) -> None:
    asking("runner", beat("here"))
    with pytest.raises(FarmError, match="no runner or builder named 'nobody'") as e:
        asking("administrator", {"what": "drain", "name": "nobody"}, tell=True)
    assert "here" in e.value.hint
    with pytest.raises(FarmError, match="not in quarantine"):
        asking("administrator", {"what": "release", "name": "here"}, tell=True)
    for body in ({"what": "drain"}, {"what": "drain", "name": ["here"]}):
        with pytest.raises(FarmError):
            asking("administrator", body, tell=True)
    leave(asking, "here")


def test_a_cancellation_that_makes_no_sense_does_no_harm(
    farm: SimulatedFarm, asking: Callable[..., Any], links: dict[str, Link]
) -> None:
    async def send() -> None:
        link, subject = links["client"], subjects.cancel("local", "s")
        bodies: list[dict[str, Any]] = [
            {"ids": 5}, {"ids": [1, None, "*", ">"], "place": CLASS}, {"ids": ["x"], "place": [1]},
            {"ids": ["x"], "place": "nowhere"}, {"ids": {"x": 1}}, {"ids": ["a.b.c"], "place": CLASS},
        ]  # fmt: skip
        for body in bodies:
            await link.publish(subject, link.seal.seal(subject, body))
        await link.publish(subject, b"\xc1")

    farm.call(send())
    assert asking("reader", {"what": "status"})["protocol"] == PROTOCOL
    asking("runner", beat("after"))
    leave(asking, "after")


# --------------------------------------------------------------------------- who is there


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedFarm]:
    """A farm that takes silence for absence soon."""
    with SimulatedFarm(tmp_path_factory.mktemp("quick"), [], heartbeat=0.1, grace=0.5) as f:
        yield f


def test_a_silent_worker_leaves_and_its_quarantine_is_remembered(quick: SimulatedFarm) -> None:
    assert quick.hub is not None
    keeper = quick.hub.keeper

    async def greet(**more: Any) -> None:
        link = await Endpoint(quick.address, None, "runner").connect()
        await link.ask(beat("silent", **more))
        await link.close()

    quick.call(greet(quarantine="it rattles"))
    quick.wait_for(lambda: "silent" not in keeper.members)
    assert "runner silent left: the connection was lost" in quick.said
    with Farm(quick.address, roles=("reader",)) as reader:
        status = reader.status()
        assert "silent" not in {w["name"] for w in status["workers"]}
        assert status["quarantined_away"] == {"silent": "it rattles"}
        assert status["lost"] == {}
        quick.call(greet())
        quick.wait_for(lambda: "silent" not in keeper.members)
        status = reader.status()
        assert status["quarantined_away"] == {}
        assert set(status["lost"]) == {"silent"}
        quick.call(greet())
        assert reader.status()["lost"] == {}


def test_a_worker_that_missed_two_signs_of_life_is_silent(farm: SimulatedFarm, asking: Callable[..., Any]) -> None:
    assert farm.hub is not None
    keeper = farm.hub.keeper
    asking("runner", beat("mute"))
    member = keeper.members["mute"]

    def entry() -> Any:
        return asking("reader", {"what": "status"})["workers"][0]

    assert (entry()["silent"], entry()["active"]) == (0.0, False)
    member.heard -= 2.5 * keeper.heartbeat
    assert 12.0 < entry()["silent"] < 20.0
    asking("runner", beat("mute", done=1))
    assert (entry()["silent"], entry()["active"]) == (0.0, True)
    asking("runner", beat("mute", done=1))
    assert not entry()["active"]
    leave(asking, "mute")


def test_a_clock_that_is_wrong_and_another_version_are_in_the_status(asking: Callable[..., Any]) -> None:
    asking("runner", beat("early", tilewright="0.0.1", clock=time.time() + 3600.0))
    (worker,) = asking("reader", {"what": "status"})["workers"]
    assert worker["version"] == "0.0.1"
    assert 3590.0 < worker["clock"] < 3605.0
    asking("runner", beat("early"))
    (worker,) = asking("reader", {"what": "status"})["workers"]
    assert (worker["version"], worker["clock"]) == ("", None)
    leave(asking, "early")


def test_a_silent_clients_jobs_are_dropped(quick: SimulatedFarm) -> None:
    assert quick.hub is not None
    keeper = quick.hub.keeper

    async def leave_a_job() -> None:
        await quick.make_queue(CLASS)
        link = await Endpoint(quick.address, None, "client").connect()
        await link.ask(share("silent"))
        await link.store(subjects.job(CLASS, "local", "silent", "1"), b"x", "1")
        await link.close()

    async def waits() -> bool:
        return await keeper._link.stored(f"JOBS-{CLASS}", subjects.job(CLASS, "local", "silent", "1")) is not None

    quick.call(leave_a_job())
    quick.wait_for(lambda: "silent" not in keeper.sessions and not quick.call(waits()))
    assert all("silent" not in s.clients for s in keeper._shares.values())


def test_a_keeper_that_was_stopped_blames_nobody(quick: SimulatedFarm) -> None:
    """It was away itself, or its machine stood still: nobody can have been heard meanwhile."""
    with contextlib.ExitStack() as stack:
        quick.soon(lambda: None)
        client = stack.enter_context(Farm(quick.address, roles=("reader",)))
        service = quick.call(_started(quick, "steady"))

        def there() -> bool:  # beside others, which earlier tests cut off
            return "steady" in {w["name"] for w in client.status()["workers"]}

        assert there()
        quick.call(quick.restart_server())
        quick.wait_for(there)
        quick.call(service.drain(5.0))
        quick.wait_for(lambda: not there())


def test_a_worker_that_is_cut_off_while_it_says_goodbye_leaves_all_the_same(
    quick: SimulatedFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = quick.call(_started(quick, "leaving"))
    link = service._link

    async def ask(body: dict[str, Any], *more: Any, **others: Any) -> Any:
        if body["what"] == "bye":
            link.closed.set()
            while service._link is link:
                await asyncio.sleep(0.01)
            raise LinkClosed("cut off")
        return await Link.ask(link, body, *more, **others)

    monkeypatch.setattr(link, "ask", ask)
    assert quick.call(service.drain(5.0))
    assert service._stopping.is_set()


def test_a_worker_that_is_told_to_leave_while_it_connects_leaves(
    quick: SimulatedFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leaves() -> None:
        runner = quick.start_runner("brief", SleepingMeasurer())
        connect = runner.endpoint.connect

        async def told_meanwhile() -> Link:
            assert await runner.drain(5.0)
            return await connect()

        monkeypatch.setattr(runner.endpoint, "connect", told_meanwhile)
        await asyncio.wait_for(asyncio.shield(quick._tasks[-1]), 10.0)

    quick.call(leaves())


async def _started(farm: SimulatedFarm, name: str) -> Any:
    runner = farm.start_runner(name, SleepingMeasurer())
    await runner.connected.wait()
    return runner


# --------------------------------------------------------------------------- the status

WORKER = {
    "name": str, "role": str, "places": list, "lanes": int, "running": int, "queued": int, "done": int, "busy": float,
    "connected": float, "draining": bool, "quarantine": str, "strikes": int, "note": str, "device": dict,
    "offers": dict, "certificate": str, "expires": (float, type(None)), "active": bool, "silent": float,
    "version": str, "clock": float,
}  # fmt: skip


def test_the_status_says_all_that_is_documented(tmp_path: Path, certs: Path) -> None:
    with (
        SimulatedFarm(tmp_path, [SleepingMeasurer()], certs=certs) as farm,
        Farm(farm.address, certs) as client,
        Farm(farm.address, certs, roles=("reader",)) as reader,
    ):
        future = client.submit("cpu-nobody-1c", {})
        farm.wait_for(lambda: bool(reader.status()["clients"]))
        status = reader.status()
        future.cancel()
    assert set(status) == {
        "protocol", "tilewright", "uptime", "workers", "places", "clients", "quarantined_away", "refused", "trouble",
        "server", "lost", "full",
    }  # fmt: skip
    (worker,) = status["workers"]
    assert set(worker) == set(WORKER)
    assert all(isinstance(worker[k], kind) for k, kind in WORKER.items())
    assert (worker["name"], worker["role"], worker["certificate"]) == ("sim-0", "runner", "runner")
    assert worker["expires"] > 0
    assert 0.0 <= worker["busy"] <= 1.0
    assert RunnerDevice.from_json(worker["device"]).device_class == CLASS
    assert status["places"][CLASS] == {"workers": 1, "waiting": 0, "in_hand": 0}
    assert set(status["places"]["cpu-nobody-1c"]) == {"workers", "waiting", "in_hand"}
    (who,) = status["clients"]
    assert set(who) == {"name", "certificate", "connected", "jobs", "seconds", "version"}
    assert worker["version"] == who["version"] == status["tilewright"]
    assert abs(worker["clock"]) < 5.0
    assert (who["certificate"], who["connected"], who["jobs"]) == ("client", True, 1)
    assert status["quarantined_away"] == {}
    assert (status["trouble"], status["refused"]) == ("", 0)
    assert status["server"]["engine"].startswith("nats-server 2.")
    assert status["server"]["connections"] >= 3
    assert status["server"]["limit"] == 256 << 20
    assert json.loads(json.dumps(status)) == status


def test_in_the_clear_nobody_has_a_certificate(farm: SimulatedFarm, asking: Callable[..., Any]) -> None:
    asking("runner", beat("plain"))
    (worker,) = asking("reader", {"what": "status"})["workers"]
    assert (worker["certificate"], worker["expires"]) == ("", None)
    leave(asking, "plain")


def test_jobs_are_counted_where_they_are(tmp_path: Path) -> None:
    with SimulatedFarm(tmp_path, []) as farm, Farm(farm.address) as client:

        def place() -> Any:
            return client.status()["places"].get(CLASS)

        futures = [client.submit(CLASS, {"n": n}) for n in range(9)]
        farm.wait_for(lambda: place() == {"workers": 0, "waiting": 9, "in_hand": 0})

        async def pull() -> str:
            link = await Endpoint(farm.address, None, "runner").connect()
            await link.ask(beat("puller"))
            inbox = f"{subjects.inbox('runner', 'local')}.x"
            found = await link.nats.subscribe(inbox)
            await link.nats.publish(f"$JS.API.CONSUMER.MSG.NEXT.JOBS-{CLASS}.runners", b'{"batch": 1}', inbox)
            job = await found.next_msg(30.0)
            await link.close()
            return str(job.subject)

        assert farm.call(asyncio.wait_for(pull(), 30.0)).startswith(f"jobs.{CLASS}.local.")
        farm.wait_for(lambda: place() == {"workers": 1, "waiting": 8, "in_hand": 1})
        for f in futures:
            f.cancel()
        farm.wait_for(lambda: place()["waiting"] == 0)
