"""Budgets: what peers that are let in can make a farm hold, and what they are told when it is too much."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.farm import SimulatedFarm, SleepingMeasurer, simulated_device
from tilewright.core import Failure, FailureKind
from tilewright.farm import budgets, subjects
from tilewright.farm.budgets import BUDGETS, OverBudget
from tilewright.farm.client import Farm
from tilewright.farm.errors import Refused
from tilewright.farm.hub import Hub
from tilewright.farm.jobs import LONGEST, outcome_json, outcome_of
from tilewright.farm.keeper import Keeper
from tilewright.farm.link import Endpoint, Link
from tilewright.farm.messages import PROTOCOL, pack
from tilewright.farm.pki.certificates import create_authority, issue
from tilewright.farm.server import find_server, free_port
from tilewright.farm.subjects import WORKERS
from tilewright.farm.workers.work import Reply

SECOND = ("client", "runner", "builder")
ROLES = ("administrator", "client", "runner", "builder", "reader")


def beat(name: str, places: Sequence[str], **changed: Any) -> dict[str, Any]:
    """A builder's sign of life, or a runner's, of the device class that it names."""
    runner = not places[0].startswith("build:")
    said = {
        "what": "beat", "name": name, "instance": "1", "lanes": 1, "running": 0, "queued": 0, "done": 0, "busy": 0.0,
        "draining": False, "quarantine": "", "strikes": 0, "note": "", "places": list(places),
        "device": simulated_device(name, places[0]).to_json() if runner else {}, "offers": {},
    }  # fmt: skip
    return {**said, **changed}


def compilers(count: int, start: int = 0) -> list[str]:
    return [f"build:x:y:{n:08x}" for n in range(start, start + count)]


# --------------------------------------------------------------------------- the table


def test_the_table_has_every_budget_under_its_own_name() -> None:
    assert {b.name: b for b in BUDGETS} == {n: b for n, b in vars(budgets).items() if isinstance(b, budgets.Budget)}
    assert all(b.most > 0 and b.of and b.then for b in BUDGETS)


def test_who_is_over_a_budget_is_told_the_limit_and_where_it_is_set() -> None:
    with pytest.raises(OverBudget) as e:
        budgets.PLACES.check(65)
    assert e.value.message == (
        "65 places of a worker or a client are over the limit of 64 (PLACES in tilewright/farm/budgets.py)"
    )
    assert e.value.kind == Refused.kind
    assert "\n" not in str(e.value)
    budgets.PLACES.check(64)


def test_a_text_is_cut_to_its_budget_between_characters() -> None:
    assert budgets.cut("é" * 400) == "é" * 250
    assert budgets.cut("\udcff" + "x" * 600) == "?" + "x" * 499


# --------------------------------------------------------------------------- a farm


class Peers(SimulatedFarm):
    """A farm with certificates, and a connection of each role; ``second-ROLE`` are other certificates of it."""

    def __enter__(self) -> Peers:
        super().__enter__()
        self.links: dict[str, Link] = {}
        for name in (*ROLES, *(f"second-{r}" for r in SECOND)):
            assert self.certs is not None
            endpoint = Endpoint(self.address, self.certs / name, name.removeprefix("second-"))
            self.links[name] = self.call(endpoint.connect())
        return self

    def __exit__(self, *error: Any) -> None:
        for link in self.links.values():
            self.call(link.close())
        super().__exit__(*error)

    @property
    def keeper(self) -> Keeper:
        assert self.hub is not None
        return self.hub.keeper

    def ask(self, name: str, body: dict[str, Any]) -> Any:
        return self.call(self.links[name].ask(body))

    def leave(self, name: str, *workers: str) -> None:
        for worker in workers:
            self.ask(name, {"what": "bye", "name": worker, "instance": "1"})

    def streams(self) -> set[str]:
        return set(self.call(self.keeper.queues._names()))

    def forget_queues(self) -> None:
        """As if nobody had named any for a long time."""

        async def forget() -> None:
            for queue in self.keeper.queues.known.values():
                queue.idle = 0.0
            self.keeper.queues._since = -1e9
            await self.keeper._tidy()

        self.call(forget())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    certs = tmp_path_factory.mktemp("certs") / "farm"
    create_authority(certs, ["localhost"], 30)
    for role in SECOND:
        issue(certs, f"second-{role}", role)
    return certs


@pytest.fixture(scope="module")
def peers(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    with Peers(tmp_path_factory.mktemp("farm"), [], certs=folder, patience=600.0) as farm:
        yield farm


@pytest.fixture
def farm(peers: Peers) -> Iterator[Peers]:
    """Without workers, clients and queues of the tests before."""
    peers.said.clear()
    peers.keeper.log._peers.clear()
    yield peers
    for member in list(peers.keeper.members.values()):
        peers.soon(lambda m=member: peers.keeper._leave(m, "the test is over"))
    for key in list(peers.keeper.sessions):
        peers.call(peers.keeper._drop(key, "client"))
    peers.forget_queues()
    assert not peers.keeper.roster._taken.total()
    assert not peers.keeper.queues.known


def test_places_of_a_sign_of_life_are_limited_and_make_no_stream(farm: Peers) -> None:
    before = farm.streams()
    for n in range(3):
        with pytest.raises(Refused, match=r"1,500 places of a worker .* the limit of 64 \(PLACES in "):
            farm.ask("builder", beat(f"evil-{n}", compilers(1500)))
    with pytest.raises(Refused, match="PLACES in"):
        farm.ask("client", {
            "what": "shares", "session": "s", "name": "x", "weight": 1.0, "places": {p: [0, 0, 0, 0.0] for p in compilers(65)},
        })  # fmt: skip
    with pytest.raises(Refused, match="PLACES in"):
        farm.ask("builder", beat("evil", compilers(1), offers=dict.fromkeys(compilers(65), "1")))
    assert farm.streams() == before
    assert not farm.keeper.members
    assert not farm.keeper.sessions
    assert [line for line in farm.said if "PLACES" in line] == [
        f"refused {who}: {n:,} places of a worker or a client are over the limit of 64 (PLACES in tilewright/farm/budgets.py)"
        for who, n in (("builder.builder", 1500), ("client.client", 65))
    ]  # fmt: skip


def test_queues_of_a_certificate_are_limited_however_many_workers_it_has(farm: Peers) -> None:
    for n in range(4):
        farm.ask("builder", beat(f"b{n}", compilers(16, 16 * n)))
    with pytest.raises(Refused, match=r"65 queues that workers of one certificate .* limit of 64 \(QUEUES_EACH in"):
        farm.ask("builder", beat("b4", compilers(1, 64)))
    farm.ask("builder", beat("b5", compilers(64)))  # of those that are there
    farm.leave("builder", "b0")
    with pytest.raises(Refused, match="QUEUES_EACH"):  # theirs are not gone yet
        farm.ask("builder", beat("b4", compilers(1, 64)))
    farm.ask("second-builder", beat("c0", compilers(1, 64)))
    farm.ask("builder", beat("b4", compilers(1, 64)))
    assert len(farm.keeper.queues.known) == 65


def test_an_idle_queue_of_the_farm_gives_way_to_a_new_one(farm: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.farm.queues.QUEUES", budgets.Budget("QUEUES", 6, "queues of the farm", ""))
    farm.ask("builder", beat("b0", compilers(4)))
    farm.ask("second-builder", beat("c0", compilers(2, 4)))
    with pytest.raises(Refused, match=r"7 queues of the farm are over the limit of 6 \(QUEUES in"):
        farm.ask("second-builder", beat("c1", compilers(1, 9)))
    farm.leave("builder", "b0")
    with pytest.raises(Refused, match="QUEUES in"):  # nobody knows yet that its worker does not come back
        farm.ask("second-builder", beat("c1", compilers(1, 9)))
    for place in compilers(4):  # silent, and not for so long that the keeper drops all of them meanwhile
        farm.keeper.queues.known[place].idle = time.monotonic() - farm.keeper.queues.patience / 2
    farm.ask("second-builder", beat("c1", compilers(2, 9)))
    assert farm.keeper.queues.known.keys() == {*compilers(4, 2), *compilers(2, 9)}
    assert len([n for n in farm.streams() if n.startswith("JOBS-")]) == 6


def test_the_keeper_hears_others_while_it_makes_queues(farm: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it makes none until somebody else has been answered."""
    answered, make = asyncio.Event(), farm.keeper.queues._stream

    async def slow(*arguments: Any, **more: Any) -> None:
        await answered.wait()
        await make(*arguments, **more)

    monkeypatch.setattr(farm.keeper.queues, "_stream", slow)

    async def both() -> Any:
        joining = asyncio.create_task(farm.links["builder"].ask(beat("b0", compilers(3))))
        while not farm.keeper.queues._making:
            await asyncio.sleep(0)
        status = await farm.links["reader"].ask({"what": "status"})
        assert not joining.done()
        answered.set()
        assert await joining == {"heartbeat": 5.0, "workers": dict.fromkeys(compilers(3), 1)}
        return status

    assert farm.call(both())["workers"] == []
    assert set(farm.keeper.members) == {"b0"}


def test_a_client_that_fills_the_disk_with_jobs_costs_its_place_a_queue_and_others_nothing(
    farm: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "cpu-idle"
    farm.call(farm.make_queue(place))
    stream = subjects.queue_of(place)[0]
    client = farm.links["client"]

    async def fill() -> None:
        for n in range(4):
            subject = subjects.job(place, "client", "s", str(n))
            await client.store(subject, client.seal.seal(subject, {"payload": {"x": bytes(4 << 20)}, "needs": []}))

    async def kept() -> int:
        found = await farm.keeper.queues._found("stream_info", stream)
        return int(found.state.messages) if found else -1

    farm.call(fill())
    assert farm.call(kept()) == 4
    monkeypatch.setattr(farm.keeper.queues, "storage", 16 << 20)
    farm.wait_for(lambda: farm.call(kept()) == 0)
    (said,) = [x for x in farm.said if "is made again" in x]
    assert re.match(
        r"the queue of cpu-idle is made again: 16,\d+,\d+ bytes of jobs, of them 4 jobs of client client,", said
    )
    assert said.endswith("leave no room for results and artifacts (QUEUED in tilewright/farm/budgets.py)")
    assert farm.ask("reader", {"what": "status"})["trouble"] == ""


def test_an_idle_queue_goes_and_comes_back_with_a_worker(farm: Peers) -> None:
    farm.ask("builder", beat("b0", compilers(2)))
    farm.ask("second-builder", beat("c0", compilers(1)))
    farm.leave("builder", "b0")
    farm.forget_queues()
    assert set(farm.keeper.queues.known) == set(compilers(1))
    assert {n for n in farm.streams() if n.startswith("JOBS-")} == {subjects.queue_of(compilers(1)[0])[0]}
    farm.ask("builder", beat("b0", compilers(2)))
    assert {n for n in farm.streams() if n.startswith("JOBS-")} == {subjects.queue_of(p)[0] for p in compilers(2)}


@pytest.mark.parametrize("field", ["quarantine", "note", "instance", "version", "compiler"])
def test_texts_that_peers_choose_are_limited(farm: Peers, field: str) -> None:
    for size, fits in ((budgets.TEXT.most, True), (budgets.TEXT.most + 1, False)):
        text = "é" * (size // 2) + "x" * (size % 2)
        offers = {"version": {"x": text}, "compiler": {text: "1"}}.get(field, {})
        body = beat(f"b{size}", compilers(1), offers=offers, **({} if offers else {field: text}))
        if fits:
            farm.ask("builder", body)
        else:
            with pytest.raises(Refused, match=r"501 bytes of a reason, .* over the limit of 500 \(TEXT in"):
                farm.ask("builder", body)
    assert set(farm.keeper.members) == {"b500"}


def test_what_a_worker_says_beside_its_fields_is_not_kept(farm: Peers) -> None:
    farm.ask("builder", beat("b0", compilers(1), more="x" * 50_000))
    assert "more" not in farm.keeper.members["b0"].said


def test_the_status_fits_its_message_whatever_workers_and_clients_say(
    farm: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With budgets of a thousandth."""
    for name in ("STATUS_EACH", "STATUS"):
        budget: budgets.Budget = getattr(budgets, name)
        monkeypatch.setattr(
            f"tilewright.farm.roster.{name}", budgets.Budget(name, budget.most // 1000, budget.of, budget.then)
        )

    def fill(name: str, place: str) -> tuple[int, str]:
        """Workers until one is refused: how many there were, and why."""
        for n in range(100):
            try:
                farm.ask(name, beat(f"{name}-{n}", [place], note="x" * 359))
            except Refused as e:
                return n, e.message
        raise AssertionError

    taken = [fill("builder", compilers(1)[0])]
    farm.ask("builder", beat("builder-0", compilers(1), note="x" * 259))  # of those that are there
    taken += [fill("second-builder", compilers(1)[0]), fill("runner", "cpu-simulated-1c")]
    assert [n for n, _ in taken] == [6, 4, 0]
    assert "of one certificate take of the status are over the limit of 4,194 (STATUS_EACH in" in taken[0][1]
    assert all("take of the status are over the limit of 7,340 (STATUS in" in said for _, said in taken[1:])
    with pytest.raises(Refused, match=r"the status are over the limit of 7,340 \(STATUS in"):
        farm.ask("client", {
            "what": "shares", "session": "s", "name": "x" * 80, "weight": 1.0, "places": {p: [0, 0, 0, 0.0] for p in compilers(20)},
        })  # fmt: skip
    status = farm.ask("reader", {"what": "status"})
    assert len(pack({"workers": status["workers"], "clients": status["clients"], "places": status["places"]})) < 7340
    farm.leave("builder", "builder-0")
    farm.ask("second-builder", beat("b0", compilers(1)))  # there is room again


def test_clients_of_a_certificate_are_limited(farm: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = budgets.Budget("SESSIONS_EACH", 2, "clients with one certificate", "")
    monkeypatch.setattr("tilewright.farm.roster.SESSIONS_EACH", limit)

    def share(name: str, session: str) -> None:
        farm.ask(name, {"what": "shares", "session": session, "name": "x", "weight": 1.0, "places": {}})

    for session in "aba":
        share("client", session)
    with pytest.raises(Refused, match=r"3 clients with one certificate are over the limit of 2 \(SESSIONS_EACH in"):
        share("client", "c")
    share("second-client", "d")
    farm.call(farm.keeper._drop("a", "client"))
    share("client", "c")
    farm.call(farm.keeper._drop("d", "second-client"))


def test_a_sessions_places_are_forgotten_with_it(farm: Peers) -> None:
    def share(places: Sequence[str]) -> Any:
        counts = {p: [1, 1, 0, 0.0] for p in places}
        return farm.ask("client", {"what": "shares", "session": "s", "name": "x", "weight": 1.0, "places": counts})

    for n in range(4):
        share(compilers(50, 50 * n))
    assert set(farm.keeper._shares) == set(compilers(50, 150))
    farm.call(farm.keeper._drop("s", "client"))
    farm.call(farm.keeper._sweep())
    assert not farm.keeper._shares
    assert not farm.keeper._empty


def test_a_session_is_its_clients_own(farm: Peers) -> None:
    body = {"what": "shares", "session": "own", "name": "x", "weight": 1.0, "places": {}}
    farm.ask("client", body)
    with pytest.raises(Refused, match="another client's"):
        farm.ask("second-client", body)
    assert farm.keeper.sessions["own"].certificate == "client"


def test_workers_that_left_in_quarantine_are_remembered_so_far(farm: Peers) -> None:
    roster, most = farm.keeper.roster, budgets.QUARANTINED.most
    farm.ask("second-builder", beat("honest", compilers(1), quarantine="it rattles"))
    farm.leave("second-builder", "honest")
    for n in range(most + 5):
        roster.quarantined[f"w{n}"] = "why", "builder builder"
    farm.ask("builder", beat("last", compilers(1), quarantine="x"))
    while len(roster.quarantined) > most - 1:
        del roster.quarantined["w" + str(min(int(n[1:]) for n in roster.quarantined if n[0] == "w"))]
    farm.leave("builder", "last")
    farm.ask("builder", beat("more", compilers(1), quarantine="x"))
    farm.leave("builder", "more")
    assert len(roster.quarantined) == most
    assert roster.quarantined["honest"] == ("it rattles", "builder second-builder")
    assert "more" in roster.quarantined
    roster.quarantined.clear()


def test_a_cancellation_names_so_many_jobs_and_has_so_many_bytes(farm: Peers) -> None:
    link, subject = farm.links["client"], subjects.cancel("client", "s")
    refused = farm.keeper.refused

    async def send() -> None:
        await link.publish(subject, link.seal.seal(subject, {"ids": list(map(str, range(257))), "place": "nowhere"}))
        await link.publish(subject, link.seal.seal(subject, {"ids": list(map(str, range(256))), "place": "nowhere"}))
        long = {"ids": ["x" * 70_000], "place": "nowhere"}
        for _ in range(3):
            await link.publish(subject, link.seal.seal(subject, long, budgets.MESSAGE))
        await link.settle()

    farm.call(send())
    farm.wait_for(lambda: farm.keeper.refused == refused + 4)
    assert [line for line in farm.said if "refused" in line] == [
        "refused client.client: 257 jobs in a cancellation are over the limit of 256 (CANCELLED in tilewright/farm/budgets.py)",
        "refused client.client: 70,025 bytes of a cancellation are over the limit of 65,536 (CANCEL in tilewright/farm/budgets.py)",
    ]  # fmt: skip


def test_beside_a_flood_of_every_role_the_status_is_answered(farm: Peers) -> None:
    """Of noise, forgeries, and well-formed messages with as much in them as there may be."""
    rng = random.Random(1)

    def junk(role: str, subject: str) -> bytes:
        link = farm.links[role]
        places = compilers(rng.randrange(1, 70), rng.randrange(500))
        bodies = [
            {"protocol": PROTOCOL, **beat(secrets.token_hex(8), places, note="x" * rng.randrange(600))},
            {"protocol": PROTOCOL, "what": "shares", "session": secrets.token_hex(16), "name": "x" * 90, "weight": 1.0,
             "places": {p: [1, 1, 0, 0.0] for p in places}},
            {"protocol": PROTOCOL, "what": "status"},
            {"ids": [secrets.token_hex(8)] * rng.randrange(300), "place": places[0]},
            {"protocol": PROTOCOL, "what": "x" * rng.randrange(60_000)},
        ]  # fmt: skip
        sealed = link.seal.seal(subject, rng.choice(bodies), budgets.MESSAGE)
        return rng.choice([sealed, sealed, sealed[: rng.randrange(len(sealed))], rng.randbytes(rng.randrange(3000))])

    async def flood() -> None:
        for _ in range(40):
            for role in ("client", *WORKERS, "reader"):
                link = farm.links[role]
                subject = subjects.ask(role, role)
                await link.nats.publish(subject, junk(role, subject), f"{subjects.inbox(role, role)}.x")
                if role == "client":
                    subject = subjects.cancel("client", secrets.token_hex(4))
                    await link.nats.publish(subject, junk(role, subject))
            await asyncio.sleep(0)
        for role in ("client", *WORKERS, "reader"):
            await farm.links[role].settle()

    farm.call(flood())
    status = farm.ask("administrator", {"what": "status"})
    assert status["protocol"] == PROTOCOL
    for role in WORKERS:
        farm.leave(role, "nobody")  # heard after all else that this certificate sent
    farm.ask("client", {"what": "status"})
    farm.wait_for(lambda: not farm.keeper.queues._making)
    assert len(farm.keeper.queues.known) <= 2 * budgets.QUEUES_EACH.most
    assert max(map(len, farm.said)) <= budgets.LINE.most


# --------------------------------------------------------------------------- nats-server's own limits


def test_nats_server_has_the_limits_of_the_table(farm: Peers) -> None:
    text = (farm.folder / "server" / "nats.conf").read_text()
    for option, budget in {
        "max_payload": budgets.PAYLOAD, "max_pending": budgets.PENDING, "max_connections": budgets.CONNECTIONS,
        "max_subscriptions": budgets.SUBSCRIPTIONS, "max_streams": budgets.STREAMS, "max_consumers": budgets.CONSUMERS,
        "max_mem": budgets.MEMORY,
    }.items():  # fmt: skip
        assert re.findall(rf"\b{option}: (\d+)\b", text) == [str(budget.most)]
    assert re.findall(r"\bmax_file: (\d+)\b", text) == [str(256 << 20)]
    streams = [farm.call(farm.keeper._link.manage("stream_info", n)) for n in ("RESULTS", "BEGUN")]
    assert [s.config.max_msg_size for s in streams] == [budgets.RESULT.most + (20 << 10), budgets.MARK.most]


def test_a_connection_has_so_many_subscriptions(farm: Peers) -> None:
    """And who tries again and again is in the log once."""

    async def subscribe() -> None:
        link = await Endpoint(farm.address, farm.certs, "reader").connect()
        for n in range(budgets.SUBSCRIPTIONS.most + 1):
            await link.nats.subscribe(f"{subjects.inbox('reader', 'reader')}.{n}")
        await asyncio.wait_for(link.closed.wait(), 30.0)
        await link.close()

    assert farm.hub is not None
    farm.hub.server._say._peers.clear()
    for _ in range(2):
        farm.call(subscribe())
    farm.wait_for(lambda: any("maximum subscriptions exceeded" in line for line in farm.said))
    assert sum("maximum subscriptions exceeded" in line for line in farm.said) == 1


# --------------------------------------------------------------------------- stale streams


def stale_farm(state: Path, count: int) -> None:
    """A farm's state with queues for ``count`` places and a job in the last one, as a server without limits left it."""
    port, store = free_port("127.0.0.1"), state / "messages"
    state.mkdir()
    (state / "stale.conf").write_text(
        f'host: "127.0.0.1", port: {port}, jetstream {{ store_dir: "{store}" }}\nno_auth_user: local\n'
        "accounts { FARM { jetstream: enabled, users: [ { user: local } ] } }\n"
    )

    async def fill() -> None:
        import nats
        from nats.js.api import RetentionPolicy, StreamConfig

        for _ in range(500):
            with contextlib.suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            await asyncio.sleep(0.02)
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        streams = client.jetstream()
        for start in range(0, count, 50):
            await asyncio.gather(*(
                streams.add_stream(StreamConfig(
                    name=f"JOBS-stale-{n}", subjects=[f"jobs.stale-{n}.*.*.*"], retention=RetentionPolicy.WORK_QUEUE,
                    allow_direct=True,
                ))
                for n in range(start, min(count, start + 50))
            ))  # fmt: skip
        await asyncio.sleep(0.02)
        await streams.publish(f"jobs.stale-{count - 1}.local.s.1", b"x")
        await client.close()

    process = subprocess.Popen([find_server()[0], "-c", str(state / "stale.conf")], stderr=subprocess.DEVNULL)
    try:
        asyncio.run(asyncio.wait_for(fill(), 300.0))
    finally:
        process.terminate()
        process.wait(60.0)


@pytest.mark.parametrize("count", [260, pytest.param(2000, marks=pytest.mark.nightly)])
def test_a_farm_with_stale_streams_starts_and_keeps_those_written_to_last(tmp_path: Path, count: int) -> None:
    state, said = tmp_path / "state", []
    stale_farm(state, count)

    async def start() -> tuple[int, Any]:
        hub = Hub(None, "127.0.0.1", 0, state, storage=256 << 20, say=said.append)
        await hub.start()
        try:
            known = dict(hub.keeper.queues.known)
            link = hub.keeper._link
            job = await link.stored(f"JOBS-stale-{count - 1}", f"jobs.stale-{count - 1}.local.s.1")
            assert hub.keeper.queues.claim(["fresh"], "runner new") is False
            await hub.keeper.queues.wait_made(["fresh"])
            return len(known), job
        finally:
            await hub.stop()

    assert asyncio.run(start()) == (budgets.QUEUES.most, b"x")
    for thread in threading.enumerate():
        if thread.name.startswith("dropped-"):
            thread.join(60.0)
    assert not list(state.glob("dropped-*"))
    assert said[0] == f"dropping {count - 256:,} stale queues: 256 are kept (QUEUES in tilewright/farm/budgets.py)"


# --------------------------------------------------------------------------- workers


def test_a_worker_takes_no_more_jobs_than_it_has_hands_for(tmp_path: Path) -> None:
    """Whoever asks for them in its name; the others stay in the queue."""
    done = threading.Event()

    def answer(_payload: Any) -> Reply:
        done.wait(60.0)
        return Reply({})

    with SimulatedFarm(tmp_path, []) as farm:
        puppet = farm.call(started(farm, answer))
        most, place = puppet._most, farm.device_class
        stream, consumer = subjects.queue_of(place)

        async def steer() -> None:
            client = await Endpoint(farm.address, None, "client").connect()
            for n in range(2 * most):
                subject = subjects.job(place, "local", "s", str(n))
                await client.store(subject, client.seal.seal(subject, {"payload": {}, "needs": []}))
            thief = await Endpoint(farm.address, None, "runner").connect()
            body = json.dumps({"batch": 2 * most, "expires": 10**9}).encode()
            await thief.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, f"{puppet._inbox}.{place}")
            await thief.close()
            await client.close()

        farm.call(steer())
        farm.wait_for(lambda: len(puppet._held) == most)
        assert farm.hub is not None
        assert farm.call(farm.hub.keeper.queues._count(place))[0] == 2 * most
        done.set()
        farm.wait_for(lambda: puppet._done == 2 * most)
        assert len(puppet._held) <= most


def test_a_job_of_too_many_artifacts_is_refused(tmp_path: Path) -> None:
    with SimulatedFarm(tmp_path, [SleepingMeasurer()]) as farm, Farm(farm.address) as client:
        future = client.submit(farm.device_class, {}, ["0" * 64] * (budgets.NEEDS.most + 1))
        farm.wait_for(lambda: farm.runners[0].refused > 0)
        assert any("4,097 artifacts of a job are over the limit of 4,096 (NEEDS in" in line for line in farm.said)
        future.cancel()


def test_a_result_that_is_too_long_becomes_an_error(tmp_path: Path) -> None:
    with SimulatedFarm(tmp_path, []) as farm, Farm(farm.address) as client:
        puppet = farm.call(started(farm, lambda _payload: Reply({"x": bytes(budgets.RESULT.most)})))
        assert puppet.connected.is_set()
        error = client.submit(farm.device_class, {}).result(30.0)["error"]
    assert error["kind"] == "refused"
    assert "over the limit of 1,048,576 (RESULT in" in error["message"]


async def started(farm: SimulatedFarm, answer: Callable[..., Any]) -> Any:
    puppet = farm.start_puppet("puppet", answer)
    await puppet.connected.wait()
    return puppet


def test_a_failures_message_is_cut_before_it_travels() -> None:
    said = outcome_json(Failure(FailureKind.WRONG_RESULT, "x" * 10_000))
    assert said["message"] == "x" * LONGEST
    assert outcome_of(said) == Failure(FailureKind.WRONG_RESULT, "x" * LONGEST)


def test_a_job_that_is_too_long_is_not_sent(tmp_path: Path) -> None:
    with SimulatedFarm(tmp_path, []) as farm, Farm(farm.address) as client:
        future = client.submit(farm.device_class, {"source": "x" * budgets.JOB.most})
        with pytest.raises(OverBudget, match=r"over the limit of 5,242,880 \(JOB in"):
            future.result(30.0)
