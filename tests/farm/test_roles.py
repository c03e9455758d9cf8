"""What each role may do on the real server, tried with stolen certificates of every role and a plain NATS client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from harness.farm import CODE, SHA256, SimulatedFarm, SleepingMeasurer, simulated_device
from tilewright.core import Measurement, Task
from tilewright.farm import subjects
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.jobs import item_json, task_json
from tilewright.farm.link import Endpoint, Link
from tilewright.farm.messages import PROTOCOL, Seal
from tilewright.farm.pki import x509
from tilewright.farm.pki.certificates import USERS, create_authority, issue, read, revoke
from tilewright.farm.pki.identity import ROLES, Peer, identity
from tilewright.farm.pki.tls import find_credentials
from tilewright.farm.remote import FarmRunner
from tilewright.farm.server import NatsServer
from tilewright.farm.workers.runner import Runner
from tilewright.measure.runner import Item

CLASS = "cpu-simulated-1c"
NOBODY = "cpu-nobody-1c"  # a place without a worker
LIMIT = 60.0  # seconds, for what takes none on a machine that does nothing else
PEERS = ROLES[1:]
MakeItems = Callable[[int], list[Item]]


async def passed(link: Link) -> None:
    """Wait until the server has looked at what was sent. (``flush`` alone may overtake it.)"""
    while link.nats.pending_data_size:
        await asyncio.sleep(0)
    await link.nats.flush()


class Place(SimulatedFarm):
    """A farm with certificates, one runner and one builder, and a connection of every role."""

    links: dict[str, Link]

    def __enter__(self) -> Place:
        super().__enter__()
        self.links = {role: self.call(self.connect(role)) for role in ROLES}
        self.call(self._complete())
        return self

    def __exit__(self, *error: Any) -> None:
        for link in self.links.values():
            self.call(link.close())
        super().__exit__(*error)

    async def _complete(self) -> None:
        assert self.hub is not None
        builder = self.start_builder()
        await builder.connected.wait()
        self.building = builder.greeting()["places"][0]
        await self.make_queue(NOBODY)

    async def connect(self, role: str, certs: Path | None = None) -> Link:
        return await Endpoint(self.address, certs or self.certs, role).connect()

    @property
    def runner(self) -> Runner:
        return self.runners[0]

    def raw(self, action: str, role: str, subject: str, data: bytes = b"", reply: str = "") -> str:
        """Publish or subscribe; what the server says against it."""

        async def act() -> str:
            link = self.links[role]
            link.denied.clear()
            if action == "publish":
                await link.nats.publish(subject, data, reply)
                await passed(link)
            else:
                found = await link.nats.subscribe(subject)
                await passed(link)
                with contextlib.suppress(Exception):
                    await found.unsubscribe()
            return " ".join(link.denied)

        return str(self.call(act()))

    def publish(self, subject: str, data: bytes, reply: str = "") -> None:
        """As what a peer has the server publish for it: whatever, wherever."""
        assert not self.raw("publish", "server", subject, data, reply)

    def streams(self) -> dict[str, Any]:
        """Every stream and its consumers, with the number of the last message."""
        assert self.hub is not None
        with urllib.request.urlopen(f"{self.hub.server.monitor}/jsz?accounts=1&streams=1&consumers=1") as answer:
            accounts = json.loads(answer.read())["account_details"]
        return {
            s["name"]: (s["state"]["messages"], s["state"]["last_seq"], [c["name"] for c in s.get("consumer_detail", ())])
            for a in accounts for s in a.get("stream_detail", ())
        }  # fmt: skip

    def seal(self, name: str, role: str = "") -> Seal:
        return Seal(find_credentials((self.certs or Path()) / name, role or name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This module's own authority: certificates of it are revoked."""
    folder = tmp_path_factory.mktemp("roles") / "certs"
    create_authority(folder, ["localhost"], 30)
    for name, role in (("victim", "client"), ("second", "runner"), ("gone", "client"), ("unlisted", "client")):
        issue(folder, name, role, 30)
    return folder


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Place]:
    with Place(tmp_path_factory.mktemp("farm"), [SleepingMeasurer()], certs=folder) as f:
        yield f


@pytest.fixture
def victim(farm: Place) -> Iterator[Farm]:
    with Farm(farm.address, (farm.certs or Path()) / "victim") as c:
        yield c


# --------------------------------------------------------------------------- what the server lets through

P, S = "publish", "subscribe"
API = "$JS.API"
ACTS: dict[str, tuple[str, str, set[str]]] = {
    # jobs
    "a job in its own name": (P, f"jobs.{CLASS}.OWN.s.j", {"client"}),
    "a job in another's name": (P, f"jobs.{CLASS}.victim.s.j", set()),
    "a cancellation of its own": (P, "cancel.OWN.s", {"client"}),
    "a cancellation of another's": (P, "cancel.victim.s", set()),
    "hear jobs": (S, "jobs.>", set()),
    "hear one class' jobs": (S, f"jobs.{CLASS}.*.*.*", set()),
    "hear a runner's jobs": (S, f"_INBOX.runner.runner.x.{CLASS}", {"runner"}),
    "pull a runner's job": (P, f"{API}.CONSUMER.MSG.NEXT.JOBS-{CLASS}.runners", {"runner"}),
    "pull a builder's job": (P, f"{API}.CONSUMER.MSG.NEXT.JOBS-x.builders", {"builder"}),
    "pull from a consumer of its own": (P, f"{API}.CONSUMER.MSG.NEXT.JOBS-{CLASS}.mine", set()),
    "acknowledge a runner's job": (P, f"$JS.ACK.JOBS-{CLASS}.runners.1.1.1.1.0", {"runner"}),
    "acknowledge a builder's job": (P, "$JS.ACK.JOBS-x.builders.1.1.1.1.0", {"builder"}),
    "look at its own job": (P, f"{API}.DIRECT.GET.JOBS-{CLASS}.jobs.{CLASS}.OWN.s.j", {"client"}),
    "look at another's job": (P, f"{API}.DIRECT.GET.JOBS-{CLASS}.jobs.{CLASS}.victim.s.j", set()),
    "look at any job": (P, f"{API}.DIRECT.GET.JOBS-{CLASS}", set()),
    # results
    "a result": (P, "result.victim.s.j", {"runner", "builder"}),
    "a mark that it began": (P, "begun.victim.s.j.w", {"runner", "builder"}),
    "count marks": (P, "count.begun", {"runner", "builder"}),
    "hear its own results": (S, "result.OWN.s.*", {"client"}),
    "hear another's results": (S, "result.victim.s.*", set()),
    "hear all results": (S, "result.>", set()),
    "hear marks": (S, "begun.>", set()),
    "look at its own result": (P, f"{API}.DIRECT.GET.RESULTS.result.OWN.s.j", {"client"}),
    "look at another's result": (P, f"{API}.DIRECT.GET.RESULTS.result.victim.s.j", set()),
    "look at any result": (P, f"{API}.DIRECT.GET.RESULTS", set()),
    "look at a result by number": (P, f"{API}.STREAM.MSG.GET.RESULTS", set()),
    "look at a mark": (P, f"{API}.DIRECT.GET.BEGUN.begun.victim.s.j.w", set()),
    # artifacts
    "an artifact": (P, "art.0", {"client", "builder"}),
    "look at an artifact": (P, f"{API}.DIRECT.GET.ARTIFACTS.art.0", {"client", "runner", "builder"}),
    "hear artifacts": (S, "art.>", set()),
    # keepers
    "ask": (P, "ask.ROLE.OWN", set(PEERS)),
    "ask as a runner": (P, "ask.runner.runner", {"runner"}),
    "ask as another of its role": (P, "ask.ROLE.other", set()),
    "hear questions": (S, "ask.>", set()),
    "tell": (P, "tell.ROLE.OWN", {"administrator"}),
    "tell as the administrator": (P, "tell.administrator.administrator", {"administrator"}),
    "hear commands to keepers": (S, "tell.>", set()),
    "command a runner": (P, "ctl.runner.runner.sim-0", set()),
    "hear a runner's commands": (S, "ctl.runner.runner.*", {"runner"}),
    "hear its own commands": (S, "ctl.ROLE.OWN.*", {"runner", "builder"}),
    "hear all commands": (S, "ctl.>", set()),
    "hear cancellations": (S, "cancel.*.*", {"runner", "builder"}),
    "hear who is revoked": (S, "revoked", set(PEERS)),
    "say who is revoked": (P, "revoked", set()),
    # others' answers
    "hear its own answers": (S, "_INBOX.ROLE.OWN.>", set(PEERS)),
    "hear another's answers": (S, "_INBOX.ROLE.other.>", set()),
    "hear a client's answers": (S, "_INBOX.client.client.>", {"client"}),
    "hear its role's answers": (S, "_INBOX.ROLE.>", set()),
    "hear all answers": (S, "_INBOX.>", set()),
    "hear services' answers": (S, "_R_.>", set()),
    "answer for the keeper": (P, "_INBOX.client.victim.x", set()),
    # the server
    "hear everything": (S, ">", set()),
    "hear JetStream": (S, "$JS.>", set()),
    "hear the system": (S, "$SYS.>", set()),
    "ask the system": (P, "$SYS.REQ.SERVER.PING", set()),
    **{
        f"order {what}": (P, f"{API}.{what}", set())
        for what in (
            "INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.CREATE.X", "STREAM.UPDATE.RESULTS", "STREAM.DELETE.RESULTS",
            "STREAM.PURGE.RESULTS", "STREAM.INFO.RESULTS", "STREAM.INFO.BEGUN", "STREAM.MSG.DELETE.RESULTS",
            "STREAM.SNAPSHOT.RESULTS", "STREAM.RESTORE.X", "STREAM.LEADER.STEPDOWN.RESULTS", "META.LEADER.STEPDOWN",
            f"CONSUMER.CREATE.JOBS-{CLASS}", f"CONSUMER.CREATE.JOBS-{CLASS}.x", f"CONSUMER.DURABLE.CREATE.JOBS-{CLASS}.x",
            f"CONSUMER.DELETE.JOBS-{CLASS}.runners", f"CONSUMER.INFO.JOBS-{CLASS}.runners", f"CONSUMER.NAMES.JOBS-{CLASS}",
        )
    },
    "an order by another name": (P, "orders-0.STREAM.DELETE.RESULTS", set()),
    "anything else": (P, "x", set()),
    "hear anything else": (S, "x", set()),
}  # fmt: skip


@pytest.mark.parametrize("role", PEERS)
@pytest.mark.parametrize("act", ACTS)
def test_the_server_lets_a_role_do_its_own_part_only(farm: Place, role: str, act: str) -> None:
    action, subject, allowed = ACTS[act]
    said = farm.raw(action, role, subject.replace("OWN", role).replace("ROLE", role))
    if role in allowed:
        assert not said
    else:
        assert "permissions violation" in said


def test_nobody_has_changed_anything_by_that(farm: Place) -> None:
    streams = farm.streams()
    assert {"RESULTS", "ARTIFACTS", "BEGUN", f"JOBS-{CLASS}", f"JOBS-{NOBODY}"} <= set(streams)
    assert all(n in ("RESULTS", "ARTIFACTS", "BEGUN") or n.startswith("JOBS-") for n in streams)
    assert streams[f"JOBS-{CLASS}"][2] == ["runners"]


# --------------------------------------------------------------------------- what the keeper answers

ASKS = {
    "beat": {"runner", "builder"}, "bye": {"runner", "builder"}, "shares": {"client"},
    "status": {"reader", "client", "administrator"}, "revoked": set(PEERS), "drain": set(), "quarantine": set(), "release": set(),
    "run": set(), "__init__": set(),
}  # fmt: skip


@pytest.mark.parametrize("role", PEERS)
@pytest.mark.parametrize("what", ASKS)
def test_the_keeper_answers_a_role_its_own_questions_only(farm: Place, role: str, what: str) -> None:
    link = farm.links[role]
    try:
        said = str(farm.call(link.ask({"what": what, "name": "sim-0"})))
    except Refused as e:
        said = e.message
    assert ("may not ask" in said) == (role not in ASKS[what])
    assert farm.runner.record.quarantine == ""


@pytest.mark.parametrize("what", ["beat", "bye", "shares", "status", "run"])
def test_an_administrator_tells_no_more_than_commands(farm: Place, what: str) -> None:
    with pytest.raises(Refused, match="may not ask"):
        farm.call(farm.links["administrator"].ask({"what": what, "name": "sim-0"}, tell=True))


@pytest.mark.parametrize("role", [r for r in PEERS if r != "administrator"])
def test_only_an_administrator_commands(farm: Place, role: str) -> None:
    """Even where the server had let it through."""
    subject = subjects.tell(role, role)
    body = {"protocol": PROTOCOL, "what": "quarantine", "name": "sim-0"}
    assert farm.hub is not None
    keeper = farm.hub.keeper
    refused = keeper.refused
    farm.publish(subject, farm.seal(role).seal(subject, body))
    farm.wait_for(lambda: keeper.refused > refused)
    assert any(f"refused {role}.{role}: a {role} may not ask for 'quarantine'" in line for line in farm.said)
    assert farm.runner.record.quarantine == ""


# --------------------------------------------------------------------------- what each role is for


def measure(farm: Place, client: Farm, task: Task, items: list[Item]) -> None:
    client.put(CODE)
    with FarmRunner(client, CLASS, lambda _sha256: None) as r:
        assert all(isinstance(o, Measurement) for o in r.run(task, items))


def test_each_role_does_its_part(farm: Place, victim: Farm, task: Task, make_items: MakeItems) -> None:
    measure(farm, victim, task, make_items(3))
    reply = victim.submit(farm.building, {}).result(LIMIT)
    assert reply["error"]["kind"] == "malformed"  # the builder has looked at it
    assert [w["name"] for w in victim.status()["workers"]] == ["builder", "sim-0"]
    certs = farm.certs or Path()
    with Farm(farm.address, certs / "reader", roles=("reader",)) as reader:
        assert {w["certificate"] for w in reader.status()["workers"]} == {"runner", "builder"}
    with Farm(farm.address, certs / "administrator", roles=("administrator",)) as administrator:
        administrator.ask("quarantine", name="sim-0", why="it rattles")
        assert farm.runner.record.quarantine == "it rattles"
        administrator.ask("release", name="sim-0")
        assert farm.runner.record.quarantine == ""


def test_what_a_role_may_not_is_said_so(farm: Place) -> None:
    with pytest.raises(Refused, match="a reader may not"):
        farm.call(farm.links["reader"].raw("art.0", b"", 0.5))
    with pytest.raises(Refused, match="a reader may not"):
        farm.call(farm.links["reader"].raw(f"{API}.DIRECT.GET.ARTIFACTS.art.0", b"", 0.5))


# --------------------------------------------------------------------------- having the server publish

ORDERS = [
    "STREAM.PURGE.RESULTS", "STREAM.DELETE.RESULTS", "STREAM.CREATE.EVIL", "STREAM.LEADER.STEPDOWN.RESULTS",
    f"CONSUMER.DELETE.JOBS-{CLASS}.runners", f"STREAM.PURGE.JOBS-{CLASS}",
]  # fmt: skip


@pytest.mark.parametrize("role", PEERS)
def test_an_answer_steered_into_the_servers_orders_does_nothing(farm: Place, role: str) -> None:
    """A request's reply subject is the peer's to choose, and the server publishes there with all rights."""
    seal = farm.links[role].seal
    ask = subjects.ask(role, role)
    artifacts = {"none": None, "empty": b"", "map": b"{}", "stream": b'{"name": "EVIL", "subjects": ["evil.>"]}'}
    for name, data in artifacts.items():
        if data is not None:
            farm.publish(f"art.{name}", data)
    farm.publish("result.victim.s.kept", b"x")
    before = farm.streams()
    for order in ORDERS:
        target = f"{API}.{order}"
        farm.raw(P, role, ask, seal.seal(ask, {"protocol": PROTOCOL, "what": "status"}), target)
        for subject in (f"{API}.DIRECT.GET.ARTIFACTS.art.{a}" for a in artifacts):
            farm.raw(P, role, subject, b"", target)
        for subject in (f"{API}.CONSUMER.MSG.NEXT.JOBS-x.{role}s", "count.begun", "result.victim.s.x", "art.x"):
            farm.raw(P, role, subject, b"", target)
    farm.raw(P, role, f"jobs.{NOBODY}.{role}.s.x", b"", f"{API}.STREAM.PURGE.RESULTS")  # its receipt has a "seq"
    with contextlib.suppress(FarmError):
        farm.call(farm.links[role].ask({"what": "status"}))  # all of it has passed the keeper
    after = farm.streams()
    assert set(after) == set(before)
    assert {n: c for n, (_, _, c) in after.items()} == {n: c for n, (_, _, c) in before.items()}
    assert after["RESULTS"][0] >= before["RESULTS"][0]
    assert farm.call(farm.links["server"].stored("RESULTS", "result.victim.s.kept")) == b"x"


@pytest.mark.parametrize("role", PEERS)
def test_the_keeper_answers_nobody_but_who_asked(farm: Place, role: str) -> None:
    heard: list[str] = []

    async def ask() -> None:
        async def hear(message: Any) -> None:
            heard.append(message.subject)

        server, link, subject = farm.links["server"], farm.links[role], subjects.ask(role, role)
        found = [await server.nats.subscribe(s, cb=hear) for s in ("begun.>", "_INBOX.client.victim.>", "x")]
        data = link.seal.seal(subject, {"protocol": PROTOCOL, "what": "status"})
        await passed(server)
        for reply in ("begun.victim.s.j.w", "_INBOX.client.victim.x", "x", "begun.a.s.j.w"):
            await link.nats.publish(subject, data, reply)
        with contextlib.suppress(Refused):  # a worker may not ask this, and is answered so
            await link.ask({"what": "status"})
        await passed(server)
        for s in found:
            await s.unsubscribe()

    farm.call(ask())
    assert heard == []


def test_a_job_cannot_be_acknowledged_by_a_steered_answer(farm: Place) -> None:
    target = f"$JS.ACK.JOBS-{CLASS}.runners.1.1.1.1.0"
    assert "violation" in farm.raw(P, "client", f"{API}.DIRECT.GET.ARTIFACTS.art.none", b"", target)


# --------------------------------------------------------------------------- forged and replayed messages


def job(task: Task, items: list[Item]) -> dict[str, Any]:
    work = {"do": "measure", "task": task_json(task), "items": [item_json(i) for i in items]}
    return {"payload": work, "needs": [SHA256]}


def stored(farm: Place, subject: str) -> bool:
    return farm.call(farm.links["server"].stored(f"JOBS-{NOBODY}", subject)) is not None


def refused_jobs(farm: Place) -> int:
    return farm.runner.refused


@pytest.mark.parametrize("how", ["client", "runner", "builder", "administrator", "unsigned", "elsewhere", "noise"])
def test_a_forged_job_is_never_executed(
    farm: Place, victim: Farm, task: Task, make_items: MakeItems, how: str
) -> None:  # fmt: skip
    body, measured, refused = job(task, make_items(1)), farm.measurers[0].measured, refused_jobs(farm)
    subject = subjects.job(CLASS, "victim", "s", f"forged-{how}")
    data = {
        "unsigned": lambda: Seal(None).seal(subject, body),
        "elsewhere": lambda: farm.seal("victim", "client").seal(subjects.job(CLASS, "victim", "s", "other"), body),
        "noise": lambda: b"\xc1",
    }.get(how, lambda: farm.seal(how).seal(subject, body))()
    farm.publish(subject, data)
    farm.wait_for(lambda: refused_jobs(farm) > refused)
    farm.wait_for(lambda: farm.streams()[f"JOBS-{CLASS}"][0] == 0)  # it is not given to another either
    assert farm.measurers[0].measured == measured
    measure(farm, victim, task, make_items(1))
    assert farm.measurers[0].measured == measured + 1


def test_a_job_by_a_steered_answer_is_refused(farm: Place, victim: Farm, task: Task, make_items: MakeItems) -> None:
    """A client stores a job as an artifact and has the server publish it in another's name."""
    measured, refused = farm.measurers[0].measured, refused_jobs(farm)
    subject = subjects.job(CLASS, "victim", "s", "steered")
    data = farm.links["client"].seal.seal(subject, job(task, make_items(1)))
    name = sha256(data).hexdigest()
    farm.call(farm.links["client"].store(f"art.{name}", data, name))
    assert not farm.raw(P, "client", f"{API}.DIRECT.GET.ARTIFACTS.art.{name}", b"", subject)
    farm.wait_for(lambda: refused_jobs(farm) > refused)  # so it did come
    assert farm.measurers[0].measured == measured
    measure(farm, victim, task, make_items(1))


def test_a_replayed_job_gives_no_second_result(farm: Place, victim: Farm, task: Task, make_items: MakeItems) -> None:
    caught: list[Any] = []
    subject = f"jobs.{CLASS}.victim.{victim._session}.*"

    async def spy(message: Any) -> None:
        if message.reply:  # not the copies of this test
            caught.append(message)

    found = farm.call(farm.links["server"].nats.subscribe(subject, cb=spy))
    measure(farm, victim, task, make_items(1))
    farm.wait_for(lambda: bool(caught))
    done = victim._queues[CLASS].done
    farm.publish(caught[0].subject, caught[0].data)
    farm.wait_for(lambda: farm.streams()[f"JOBS-{CLASS}"][0] == 0)
    measure(farm, victim, task, make_items(1))
    assert victim._queues[CLASS].done == done + 1
    assert victim.refused == 0
    farm.call(found.unsubscribe())


@pytest.fixture
def pending(farm: Place, victim: Farm) -> Iterator[tuple[str, Future[dict[str, Any]]]]:
    """A job that nobody does: the subject of its result, and its future."""
    future = victim.submit(NOBODY, {"do": "nothing"})
    job_id = next(iter(victim._jobs))
    farm.wait_for(lambda: stored(farm, subjects.job(NOBODY, "victim", victim._session, job_id)))
    yield subjects.result("victim", victim._session, job_id), future
    future.cancel()


RESULT = {"result": {"outcomes": []}, "seconds": 0.0, "worker": "sim-0"}


@pytest.mark.parametrize(
    "how", ["builder", "client", "administrator", "reader", "unsigned", "replayed", "noise", "nan", "text"]
)
def test_a_forged_or_replayed_result_does_not_count(
    farm: Place, victim: Farm, pending: tuple[str, Future[dict[str, Any]]], how: str
) -> None:
    subject, future = pending
    honest = farm.seal("runner")
    data = {
        "unsigned": lambda: Seal(None).seal(subject, RESULT),
        "replayed": lambda: honest.seal(subjects.result("victim", victim._session, "another"), RESULT),
        "noise": lambda: b"\xc1",
        "nan": lambda: honest.seal(subject, {**RESULT, "seconds": float("nan")}),
        "text": lambda: honest.seal(subject, {**RESULT, "seconds": "long"}),
    }.get(how, lambda: farm.seal(how).seal(subject, {**RESULT, "result": {"evil": True}}))()
    farm.publish(subject, data)
    farm.wait_for(lambda: victim.refused > 0)
    assert not future.done()
    farm.publish(subject, honest.seal(subject, RESULT))
    assert future.result(LIMIT) == RESULT["result"]
    farm.publish(subject, honest.seal(subject, {**RESULT, "result": {"later": True}}))  # a second one changes nothing
    assert future.result() == RESULT["result"]


def test_a_builder_answers_no_runners_job_with_its_own_certificate(
    farm: Place, victim: Farm, pending: tuple[str, Future[dict[str, Any]]]
) -> None:
    """The server lets it publish results, so the client tells."""
    subject, future = pending
    assert not farm.raw(P, "builder", subject, farm.links["builder"].seal.seal(subject, RESULT))
    farm.wait_for(lambda: victim.refused > 0)
    assert not future.done()


@pytest.mark.parametrize("how", ["client", "unsigned", "replayed"])
def test_a_forged_cancellation_takes_nothing_back(
    farm: Place, victim: Farm, pending: tuple[str, Future[dict[str, Any]]], how: str
) -> None:
    result, _ = pending
    job_id = result.rpartition(".")[2]
    subject = subjects.cancel("victim", victim._session)
    body = {"ids": [job_id], "place": NOBODY}
    elsewhere = subjects.cancel("victim", "another")
    data = {
        "client": lambda: farm.seal("client").seal(subject, body),
        "unsigned": lambda: Seal(None).seal(subject, body),
        "replayed": lambda: farm.seal("victim", "client").seal(elsewhere, body),
    }[how]()
    assert farm.hub is not None
    keeper = farm.hub.keeper
    refused = keeper.refused
    farm.publish(subject, data)
    farm.wait_for(lambda: keeper.refused > refused)
    assert stored(farm, subjects.job(NOBODY, "victim", victim._session, job_id))


def test_a_genuine_cancellation_does(farm: Place, victim: Farm) -> None:
    future = victim.submit(NOBODY, {"do": "nothing"})
    subject = subjects.job(NOBODY, "victim", victim._session, next(iter(victim._jobs)))
    farm.wait_for(lambda: stored(farm, subject))
    future.cancel()
    farm.wait_for(lambda: not stored(farm, subject))


@pytest.fixture
def commands(farm: Place) -> Iterator[Callable[[str, str], list[Any]]]:
    """Commands as the keeper gives them, by its administrator; what it sent until then."""
    caught: list[Any] = []

    async def spy(message: Any) -> None:
        caught.append(message)

    found = farm.call(farm.links["server"].nats.subscribe("ctl.>", cb=spy))

    def command(what: str, why: str = "") -> list[Any]:
        farm.call(farm.links["administrator"].ask({"what": what, "name": "sim-0", "why": why}, tell=True))
        farm.wait_for(lambda: bool(caught))
        return caught

    yield command
    farm.call(found.unsubscribe())


@pytest.mark.parametrize("how", ["administrator", "client", "runner", "unsigned", "another's", "earlier instance"])
def test_a_forged_command_is_not_obeyed(
    farm: Place, commands: Callable[[str, str], list[Any]], how: str
) -> None:  # fmt: skip
    subject = subjects.control("runner", "runner", "sim-0")
    body = {"do": "drain", "why": "", "id": f"forged {how}", "instance": farm.runner.instance}
    server = farm.seal("server")
    data = {
        "unsigned": lambda: Seal(None).seal(subject, body),
        "another's": lambda: server.seal(subjects.control("runner", "runner", "sim-1"), body),
        "earlier instance": lambda: server.seal(subject, {**body, "instance": "0" * 16}),
    }.get(how, lambda: farm.seal(how).seal(subject, body))()
    farm.publish(subject, data)
    commands("quarantine", "genuine")  # after which what came before has been looked at
    assert farm.runner.record.quarantine == "genuine"
    assert not farm.runner._draining
    commands("release", "")


def test_a_replayed_command_is_not_obeyed(farm: Place, commands: Callable[[str, str], list[Any]]) -> None:
    genuine = commands("quarantine", "once")[0]
    commands("release", "")
    farm.publish(genuine.subject, genuine.data)
    subject = subjects.control("runner", "runner", "sim-0")
    body = {"do": "release", "id": "the last", "instance": farm.runner.instance}
    farm.publish(subject, farm.seal("server").seal(subject, body))
    farm.wait_for(lambda: "the last" in farm.runner._seen)
    assert farm.runner.record.quarantine == ""


@pytest.mark.parametrize("how", ["on another's subject", "for another's subject", "replayed to another subject"])
def test_a_beat_in_the_name_of_another_is_refused(farm: Place, how: str) -> None:
    device = simulated_device("odd")
    body = {
        "protocol": PROTOCOL, "what": "beat", "name": "odd", "instance": "1", "lanes": 1, "running": 0, "queued": 0,
        "done": 0, "busy": 0.0, "draining": False, "quarantine": "", "strikes": 0, "note": "", "offers": {},
        "places": [device.device_class], "device": device.to_json(),
    }  # fmt: skip
    own, others = subjects.ask("runner", "second"), subjects.ask("runner", "runner")
    second = farm.seal("second", "runner")
    subject, data = {
        "on another's subject": (others, second.seal(others, body)),
        "for another's subject": (own, second.seal(others, body)),
        "replayed to another subject": (others, second.seal(own, body)),
    }[how]
    assert farm.hub is not None
    keeper = farm.hub.keeper
    refused = keeper.refused
    farm.publish(subject, data)
    farm.wait_for(lambda: keeper.refused > refused)
    assert "odd" not in keeper.members


# --------------------------------------------------------------------------- certificates


def closed(farm: Place, link: Link) -> None:
    farm.call(asyncio.wait_for(link.closed.wait(), LIMIT))


def test_who_is_revoked_is_cut_off_and_stays_out(farm: Place, folder: Path) -> None:
    link = farm.call(farm.connect("client", folder / "gone"))
    other = farm.links["client"]
    said: list[str] = []
    with Farm(farm.address, folder / "gone", say=said.append) as client:
        future = client.submit(NOBODY, {})
        revoke(folder, "gone")
        closed(farm, link)
        with pytest.raises(Refused, match="refuses client gone"):
            future.result(LIMIT)
        with pytest.raises(Refused, match="refuses client gone"):
            client.status()
    with pytest.raises(Refused, match=r"revoked, expired") as e:
        farm.call(link.endpoint.connect())
    assert e.value.hint
    assert not other.closed.is_set()  # nobody else noticed
    assert farm.call(other.ask({"what": "status"}))


def test_whose_time_is_over_is_cut_off_and_stays_out(farm: Place, folder: Path) -> None:
    issue(folder, "short", "client", 1, now=time.time() - 86400 + 4)
    endpoint = Endpoint(farm.address, folder / "short", "client")

    async def connect() -> Link:
        while True:  # until the server has heard of it
            with contextlib.suppress(Refused):
                return await endpoint.connect()
            await asyncio.sleep(0.05)

    link = farm.call(connect())
    closed(farm, link)
    with pytest.raises(FarmError):
        farm.call(endpoint.connect())
    with pytest.raises(FarmError, match="expired on"):
        Endpoint(farm.address, folder / "short", "client")


def test_who_is_not_listed_is_not_let_in(farm: Place, folder: Path) -> None:
    """As where ``users.json`` was not copied to the server after it was issued."""
    path = folder / "server" / USERS
    listed = path.read_text()
    data = json.loads(listed)
    data["users"] = [u for u in data["users"] if u["name"] != "unlisted"]
    endpoint = Endpoint(farm.address, folder / "unlisted", "client")
    farm.call(farm.call(endpoint.connect()).close())
    path.write_text(json.dumps(data))

    async def refused() -> str:
        while True:
            try:
                await (await endpoint.connect()).close()
            except Refused as e:
                return e.message
            except FarmError:  # cut off by the change itself, in the middle of being let in
                pass
            await asyncio.sleep(0.05)

    try:
        assert "issued since its users.json was copied there" in farm.call(refused())
    finally:
        path.write_text(listed)


def test_another_farms_certificates_open_nothing(farm: Place, tmp_path: Path) -> None:
    create_authority(tmp_path / "foreign", ["localhost"], 30)
    endpoint = Endpoint(farm.address, tmp_path / "foreign", "client")
    with pytest.raises(Refused, match="cannot be trusted"):
        farm.call(endpoint.connect())
    assert endpoint.credentials is not None
    ours = (farm.certs or Path()) / "client" / "ca.pem"
    endpoint.credentials = replace(endpoint.credentials, ca=ours)  # it would trust us; the server does not trust it
    with pytest.raises(FarmError):
        farm.call(endpoint.connect())
    assert len(farm.call(farm.links["reader"].ask({"what": "status"}))["workers"]) == 2


def test_a_certificate_of_0_1_is_let_in_by_its_name(farm: Place, folder: Path) -> None:
    """Those had no serial number in their name; the list of users says so."""
    home, now = folder / "old", time.time()
    shutil.copytree(folder / "client", home)
    says = Peer(identity("client", "old"), "client", "old", x509.new_serial(), int(now) + 3600, now - 3600)
    ca = folder / "ca"
    authority = x509.load_certificate((ca / "ca.pem").read_bytes())
    certificate, key = x509.make_certificate(says, (authority, x509.load_key((ca / "ca.key").read_bytes())))
    (home / "key.pem").write_bytes(key)
    (home / "cert.pem").write_bytes(certificate)
    own = read(home / "cert.pem")
    path = folder / "server" / USERS
    listed = path.read_text()
    endpoint = Endpoint(farm.address, home, "client")
    with pytest.raises(Refused, match="refuses client old"):
        farm.call(endpoint.connect())
    data = json.loads(listed)
    user = {"user": own.user, "role": "client", "name": "old", "serial": f"{own.serial:x}", "not_after": own.not_after}
    path.write_text(json.dumps({**data, "users": [*data["users"], user]}))

    async def connect() -> None:
        while True:
            with contextlib.suppress(Refused):
                await (await endpoint.connect()).close()
                return
            await asyncio.sleep(0.05)

    try:
        farm.call(connect())
        with Farm(farm.address, home) as client:
            assert client.get(client.put(b"of old")) == b"of old"
    finally:
        path.write_text(listed)


def test_a_peers_certificate_is_no_servers(folder: Path, tmp_path: Path) -> None:
    """Whoever stole a client's certificate and the farm's address cannot play its server."""
    home = tmp_path / "client"
    shutil.copytree(folder / "client", home)
    shutil.copy(folder / "server" / USERS, home / USERS)

    async def work() -> None:
        server = NatsServer(find_credentials(home, "client"), "127.0.0.1", 0, tmp_path / "state")
        address = await server.start()
        try:
            for host in ("127.0.0.1", "localhost"):
                with pytest.raises(Refused, match="cannot be trusted"):
                    await Endpoint(address.replace("127.0.0.1", host), folder, "runner").connect()
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(work(), LIMIT))
