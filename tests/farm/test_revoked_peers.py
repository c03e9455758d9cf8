"""Revocations on a running farm: who is revoked is heeded by nobody, whoever carries what he signs, and whatever list
comes again. Real servers, keepers and peers; certificates of the test's own authority."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from harness.farm import CODE, SHA256, SimulatedFarm, SleepingMeasurer
from tilewright.core import Task
from tilewright.farm import link as link_module
from tilewright.farm import subjects
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError, Refused, Stale
from tilewright.farm.jobs import item_json, task_json
from tilewright.farm.link import Endpoint, Link
from tilewright.farm.messages import Seal
from tilewright.farm.pki.certificates import create_authority, issue, revocation_list, revoke
from tilewright.farm.pki.identity import USERS
from tilewright.farm.pki.revocations import Revocations
from tilewright.farm.pki.tls import find_credentials
from tilewright.measure.runner import Item

CLASS = "cpu-simulated-1c"
BUILDS = "build:cpu:x86_64:00000000"  # a place without a worker
LIMIT = 60.0
MakeItems = Callable[[int], list[Item]]
RESULT = {"result": {"sha256": "e" * 64, "flags": []}, "seconds": 0.1, "worker": "b"}
NAMES = (
    ("before", "builder"), ("while", "builder"), ("pushed", "builder"), ("restored", "builder"), ("good", "builder"),
    ("quitter", "client"), ("late", "runner"), ("admin", "administrator"),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("revoked") / "certs"
    create_authority(folder, ["localhost"], 30)
    for name, role in NAMES:
        issue(folder, name, role, 30)
    return folder


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(
        tmp_path_factory.mktemp("farm"), [SleepingMeasurer()], certs=folder, heartbeat=0.5
    ) as f:  # fmt: skip
        yield f


@pytest.fixture
def victim(farm: SimulatedFarm) -> Iterator[Farm]:
    with Farm(farm.address, farm.certs) as client:
        yield client


def newest(folder: Path) -> int:
    found = revocation_list(folder)
    assert found is not None
    return found.number


def known_to(client: Farm) -> Revocations:
    found = client._endpoint.seal.revocations
    assert found is not None
    return found


def keepers(farm: SimulatedFarm) -> Revocations:
    assert farm.hub is not None
    found = farm.hub.keeper.endpoint.seal.revocations
    assert found is not None
    return found


def wanted(client: Farm) -> tuple[str, Future[dict[str, Any]]]:
    """A job that nobody does: the subject of its result, and its future."""
    future = client.submit(BUILDS, {"do": "nothing"})
    return subjects.result(client._endpoint.name, client._session, next(reversed(client._jobs))), future


def carry(farm: SimulatedFarm, subject: str, data: bytes, certs: Path | None = None) -> None:
    """Publish a message by a runner's good certificate."""

    async def work() -> None:
        link = await Endpoint(farm.address, certs or farm.certs, "runner").connect()
        await link.publish(subject, data)
        await link.settle()
        await link.close()

    farm.call(work())


def sealed(folder: Path, name: str, subject: str) -> bytes:
    return Seal(find_credentials(folder / name, "builder")).seal(subject, RESULT)


# --------------------------------------------------------------------------- what a revoked key signs


def test_a_client_refuses_what_a_builder_signs_who_was_revoked_before_it_came(
    farm: SimulatedFarm, folder: Path
) -> None:
    revoke(folder, "before")
    farm.wait_for(lambda: keepers(farm).number == newest(folder))
    said: list[str] = []
    with Farm(farm.address, folder, say=said.append) as client:
        subject, future = wanted(client)
        carry(farm, subject, sealed(folder, "before", subject))
        farm.wait_for(lambda: client.refused == 1)
        assert not future.done()
        assert any("the certificate of builder before (serial " in line for line in said)
        carry(farm, subject, sealed(folder, "good", subject))  # and an honest one is taken
        assert future.result(LIMIT) == RESULT["result"]


def test_a_client_refuses_what_a_builder_signs_who_is_revoked_while_it_is_connected(
    farm: SimulatedFarm, folder: Path, victim: Farm
) -> None:
    subject, future = wanted(victim)
    early = sealed(folder, "while", subject)  # signed when its certificate was still good
    revoke(folder, "while")
    farm.wait_for(lambda: known_to(victim).number == newest(folder))  # it is told: it does not ask so soon
    for data in (early, sealed(folder, "while", subject)):
        refused = victim.refused
        carry(farm, subject, data)
        farm.wait_for(lambda before=refused: victim.refused > before)  # type: ignore[misc]
    assert not future.done()
    future.cancel()


def test_a_stored_result_of_a_builder_who_is_revoked_since_is_refused(
    farm: SimulatedFarm, folder: Path, victim: Farm
) -> None:
    """A client that was away looks for results among those that the server keeps."""
    subject, future = wanted(victim)
    data = sealed(folder, "before", subject)
    carry(farm, subject, data)
    farm.wait_for(lambda: victim.refused > 0)
    refused, link = victim.refused, victim._link
    assert link is not None
    found = victim._call(link.stored(subjects.RESULTS, subject)).result(LIMIT)
    assert found == data
    victim._result(link, subject, found)
    assert victim.refused > refused
    assert not future.done()
    future.cancel()


def test_jobs_of_a_revoked_client_that_wait_in_a_queue_are_not_run(
    farm: SimulatedFarm, folder: Path, task: Task, make_items: MakeItems
) -> None:
    payload = {"do": "measure", "task": task_json(task), "items": [item_json(make_items(1)[0])]}
    subject = subjects.job(CLASS, "quitter", "s", "left")
    data = Seal(find_credentials(folder / "quitter", "client")).seal(subject, {"payload": payload, "needs": [SHA256]})
    with Farm(farm.address, folder) as client:
        client.put(CODE)
    measured = farm.measurers[0].measured
    revoke(folder, "quitter")
    for service in farm.services:
        farm.wait_for(lambda s=service: s.endpoint.seal.revocations.number == newest(folder))  # type: ignore[misc]
    assert farm.hub is not None
    farm.call(farm.hub.keeper._link.store(subject, data))
    farm.wait_for(lambda: any("refused a job: the certificate of client quitter" in line for line in farm.said))
    assert farm.measurers[0].measured == measured


def test_a_keeper_heeds_nobody_who_is_revoked_whoever_carries_it(farm: SimulatedFarm, folder: Path) -> None:
    """Its server cuts the revoked one off; another of his role and name could still pass on what he signed."""
    endpoint = Endpoint(farm.address, folder / "late", "runner")
    question = endpoint.seal.seal(subjects.ask("runner", "late"), {"protocol": link_module.PROTOCOL, "what": "bye"})
    revoke(folder, "late")
    farm.wait_for(lambda: keepers(farm).number == newest(folder))
    assert farm.hub is not None
    refused = farm.hub.keeper.refused
    farm.call(farm.hub.keeper._link.publish(subjects.ask("runner", "late"), question))
    farm.wait_for(lambda: farm.hub is not None and farm.hub.keeper.refused > refused)
    assert any("the certificate of runner late (serial " in line for line in farm.said)


# --------------------------------------------------------------------------- lists that come again


def test_a_list_reaches_everybody_and_an_older_one_nobody(farm: SimulatedFarm, folder: Path, victim: Farm) -> None:
    old = keepers(farm).newest
    assert old is not None
    revoke(folder, "pushed")
    farm.wait_for(lambda: known_to(victim).number == newest(folder) == keepers(farm).number)
    assert farm.hub is not None
    link = farm.hub.keeper._link
    for data in (old.der, old.der[:-1], b"", b"noise"):
        farm.call(link.publish(subjects.REVOKED, data))
    farm.call(link.settle())
    assert victim.status()["trouble"] == ""
    assert known_to(victim).number == newest(folder) == keepers(farm).number


def test_an_older_users_file_brings_nobody_back(farm: SimulatedFarm, folder: Path, victim: Farm) -> None:
    path = folder / "server" / USERS
    before = path.read_text()
    revoke(folder, "restored")
    farm.wait_for(lambda: keepers(farm).number == newest(folder))
    good = path.read_text()
    try:
        path.write_text(before)
        farm.wait_for(lambda: any("is known here; whoever was let in before still is" in line for line in farm.said))
        assert farm.hub is not None
        assert "restored" not in {u.name for u in farm.hub.server.users}
        with pytest.raises(Refused, match="refuses builder restored"):
            farm.call(Endpoint(farm.address, folder / "restored", "builder").connect())
        farm.wait_for(lambda: known_to(victim).number == newest(folder))
        assert keepers(farm).number == newest(folder)
    finally:
        path.write_text(good)


def test_a_keepers_earlier_answer_does_not_pass_for_one_of_now(farm: SimulatedFarm, folder: Path) -> None:
    async def work() -> None:
        link = await Endpoint(farm.address, folder, "client").connect()
        revocations, raw = link.seal.revocations, link.raw
        assert revocations is not None
        kept: list[Any] = []

        async def replay(subject: str, data: bytes, *more: Any) -> Any:
            kept.append(await raw(subject, data, *more))
            return kept[0]

        link.raw = replay  # type: ignore[method-assign, assignment]
        await link._ask_revocations()
        confirmed = revocations._confirmed
        with pytest.raises(Refused, match="repeated an earlier answer"):
            await link._ask_revocations()
        assert revocations._confirmed == confirmed
        await link.close()

    farm.call(work())


# --------------------------------------------------------------------------- nobody says who is revoked


def test_a_result_that_comes_while_nobody_says_who_is_revoked_is_taken_later(
    farm: SimulatedFarm, folder: Path, victim: Farm
) -> None:
    said: list[str] = []
    victim._say = said.append
    subject, future = wanted(victim)
    known = known_to(victim)
    confirmed, known._confirmed = known._confirmed, float("-inf")
    known.trouble = "it is away"
    carry(farm, subject, sealed(folder, "good", subject))
    farm.wait_for(lambda: bool(said))
    assert said[0].startswith("no keeper has said for over 60 s who is revoked (it is away)")
    assert (victim.refused, future.done()) == (0, False)
    with pytest.raises(Stale, match="Start the farm's server"):
        victim.status()
    known._confirmed = max(confirmed, time.monotonic())
    victim._call(victim._look_after(victim._link, every=True)).result(LIMIT)  # type: ignore[arg-type]
    assert future.result(LIMIT) == RESULT["result"]


def test_a_runner_takes_no_job_while_nobody_says_who_is_revoked_and_loses_none(
    farm: SimulatedFarm, folder: Path, task: Task, make_items: MakeItems
) -> None:
    payload = {"do": "measure", "task": task_json(task), "items": [item_json(make_items(1)[0])]}
    known = farm.runners[0].endpoint.seal.revocations
    assert known is not None
    with Farm(farm.address, folder) as client:
        client.put(CODE)
        measured, stale = farm.measurers[0].measured, asyncio.Event()

        def forget() -> None:
            known._confirmed = float("-inf")
            known.confirm = lambda _when: stale.set()  # type: ignore[method-assign]

        farm.soon(forget)
        future = client.submit(CLASS, payload, [SHA256])
        farm.wait_for(
            lambda: known._confirmed == float("-inf") and stale.is_set()
        )  # it has come again, and hears nothing
        assert farm.measurers[0].measured == measured
        del known.confirm
        assert "outcomes" in future.result(LIMIT)


def test_a_peer_reads_the_list_before_it_hears_anything_else(
    farm: SimulatedFarm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the list cannot be had, nobody connects."""

    async def deaf(link: Link, told: bytes = b"") -> None:
        raise Stale("no list")

    monkeypatch.setattr(Link, "_ask_revocations", deaf)
    with pytest.raises(Stale, match="no list"):
        Farm(farm.address, folder)


# --------------------------------------------------------------------------- servers


@pytest.fixture
def own(tmp_path: Path, folder: Path) -> Iterator[tuple[SimulatedFarm, Path]]:
    """A farm of the test's own, without runners, with an authority of its own."""
    certs = tmp_path / "certs"
    create_authority(certs, ["localhost"], 30)
    issue(certs, "gone", "builder", 30)
    with SimulatedFarm(tmp_path, [], certs=certs, heartbeat=0.5) as f:
        yield f, certs


def revoked(farm: SimulatedFarm, certs: Path) -> tuple[Path, str]:
    """The server's file after a revocation that its keeper has read, and the file's text before it."""
    path = certs / "server" / USERS
    old = path.read_text()
    revoke(certs, "gone")
    farm.wait_for(lambda: keepers(farm).number == newest(certs))
    return path, old


def test_a_server_starts_with_no_older_list_than_it_had(own: tuple[SimulatedFarm, Path]) -> None:
    farm, certs = own
    path, old = revoked(farm, certs)
    good = path.read_text()
    path.write_text(old)
    with pytest.raises(FarmError, match=r"list \d+ of revoked certificates .* was refused: list \d+ .* is known here"):
        farm.call(farm.restart_server())
    path.write_text(good)
    farm.call(farm.start_server())
    assert keepers(farm).number == newest(certs)


def test_a_peer_tells_a_keeper_that_has_lost_its_memory_of_the_newer_list(own: tuple[SimulatedFarm, Path]) -> None:
    farm, certs = own
    path, old = revoked(farm, certs)
    with Farm(farm.address, certs) as client:
        assert known_to(client).number == newest(certs)
    path.write_text(old)  # server and state are restored from before
    farm.call(farm.restart_server(wipe=True))
    assert keepers(farm).number < newest(certs)
    with Farm(farm.address, certs) as client:  # another process on the machine where the first one was
        assert client.status()["trouble"] == ""
        subject, future = wanted(client)
        carry(farm, subject, sealed(certs, "gone", subject))
        farm.wait_for(lambda: client.refused > 0)
        assert not future.done()
    assert keepers(farm).number == newest(certs)


def test_a_server_says_how_to_make_the_list_that_earlier_versions_had_not(own: tuple[SimulatedFarm, Path]) -> None:
    farm, certs = own
    for home in ("ca", "server"):
        data = json.loads((certs / home / USERS).read_text())
        del data["revoked"]
        (certs / home / USERS).write_text(json.dumps(data))
    with pytest.raises(FarmError, match=r"has no list of revoked certificates\. Sign a list: `tilewright farm revoke"):
        farm.call(farm.restart_server(wipe=True))
    revoke(certs)
    farm.call(farm.start_server())
    assert keepers(farm).number == newest(certs)


def test_a_server_whose_certificate_is_revoked_is_refused(own: tuple[SimulatedFarm, Path], tmp_path: Path) -> None:
    """By whoever knows the list: the thief of a server's key has an older one at most."""
    farm, certs = own
    thief = tmp_path / "thief"
    shutil.copytree(certs, thief)
    revoke(certs, "server")
    issue(certs, "server", renew=True)
    farm.certs = certs
    farm.call(farm.restart_server(wipe=True))
    with Farm(farm.address, certs) as client:
        assert client.status()["trouble"] == ""
    farm.certs = thief
    farm.call(farm.restart_server(wipe=True))
    with pytest.raises(Refused, match=r"the certificate of server server \(serial [0-9a-f]+\) is revoked"):
        Farm(farm.address, certs)
