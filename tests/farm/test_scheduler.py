"""Who may say what to a scheduler: spoken by hand, over real TLS."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import struct
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tilewright.core import UsageError
from tilewright.farm.connect import Door, Unreachable
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.protocol import Link, LinkClosed, pack, versions
from tilewright.farm.scheduler import Scheduler
from tilewright.farm.tls import find_credentials
from tilewright.testing.farm import simulated_device

CLIENT = {"session": "0" * 32, "name": "test"}


def runner(name: str = "r", instance: str = "1") -> dict[str, Any]:
    device = simulated_device(name)
    return {
        "name": name, "instance": instance, "lanes": 1, "held": [], "places": [device.device_class],
        "device": device.to_json(),
    }  # fmt: skip


@contextlib.asynccontextmanager
async def scheduler(certs: Path, tmp_path: Path, **more: Any) -> AsyncIterator[Scheduler]:
    hub = Scheduler(find_credentials(certs, "scheduler"), "127.0.0.1", 0, tmp_path / "state", **more)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.stop()


async def enter(hub: Scheduler, certs: Path, role: str, hello: dict[str, Any]) -> Link:
    link, _ = await Door(f"tls://localhost:{hub.port}", certs, role).enter(hello)
    return link


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60.0))


async def bye(link: Link) -> str:
    while True:
        message = await link.receive()
        if message["op"] == "bye":
            return str(message["reason"])


def test_a_job_goes_from_a_client_to_a_runner_and_back(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            client = await enter(hub, certs, "client", CLIENT)
            member = await enter(hub, certs, "runner", runner())
            await client.send({"op": "submit", "id": "1", "place": "cpu-simulated-1c", "payload": {"x": 1}})
            job = await member.receive()
            assert (job["op"], job["id"], job["payload"]) == ("job", "1", {"x": 1})
            await member.send({"op": "result", "id": "1", "result": {"y": 2}, "seconds": 0.5})
            assert (await member.receive())["op"] == "ack"
            assert await client.receive() == {"op": "result", "id": "1", "result": {"y": 2}}
            status = hub._status({})
            assert status["workers"][0]["certificate"] == "runner"
            assert status["workers"][0]["done"] == 1

    run(work())


@pytest.mark.parametrize(
    ("role", "hello", "message"),
    [
        ("runner", runner(), {"op": "submit", "id": "1", "place": "x", "payload": {}}),
        ("runner", runner(), {"op": "ask", "n": 1, "what": "status"}),
        ("runner", runner(), {"op": "ask", "n": 1, "what": "put", "sha256": "", "data": b""}),
        ("runner", runner(), {"op": "ask", "n": 1, "what": "release", "name": "r"}),
        ("runner", runner(), {"op": "cancel", "ids": ["1"]}),
        ("client", CLIENT, {"op": "result", "id": "1", "result": {}, "seconds": 0}),
        ("client", CLIENT, {"op": "return", "ids": ["1"]}),
        ("client", CLIENT, {"op": "ask", "n": 1, "what": "__init__"}),
        ("client", CLIENT, {"op": "nonsense"}),
        ("client", CLIENT, {"op": "submit", "id": "1"}),
        ("client", CLIENT, {"op": "submit", "id": "1", "place": "x", "payload": 7}),
    ],
)
def test_a_role_may_do_its_own_part_only(
    certs: Path, tmp_path: Path, role: str, hello: dict[str, Any], message: dict[str, Any]
) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            link = await enter(hub, certs, role, hello)
            await link.send(message)
            said = await bye(link)
            assert "may not ask" in said or "malformed" in said
            assert not hub.queue.jobs

    run(work())


@pytest.mark.parametrize(("certificate", "claims"), [("runner", "client"), ("client", "runner"), ("builder", "runner")])
def test_a_certificate_is_good_for_its_own_role(certs: Path, tmp_path: Path, certificate: str, claims: str) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            door = Door(f"tls://localhost:{hub.port}", certs, certificate)
            with pytest.raises(Refused, match=f"is a {certificate}'s, not a {claims}'s"):
                await door.enter({**runner(), **CLIENT, "role": claims})
            assert not hub.members
            assert not hub.clients

    run(work())


def test_another_version_is_refused_naming_both(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            door = Door(f"tls://localhost:{hub.port}", certs, "client")
            with pytest.raises(Refused) as e:
                await door.enter({**CLIENT, "tilewright": "0.0.9"})
            assert "0.0.9" in e.value.message
            assert str(versions()["tilewright"]) in e.value.message

    run(work())


def test_a_name_is_taken_once(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            first = await enter(hub, certs, "runner", runner("same", "1"))
            with pytest.raises(Refused, match="connected already"):
                await enter(hub, certs, "runner", runner("same", "2"))
            again = await enter(hub, certs, "runner", runner("same", "1"))  # the same process, cut off
            assert hub.members["same"].link is not first
            again.abort()

    run(work())


@pytest.mark.parametrize("name", ["", "a b", "x" * 200, "../up", "[red]"])
def test_a_runners_name_is_plain(certs: Path, tmp_path: Path, name: str) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            with pytest.raises(Refused, match="no name"):
                await enter(hub, certs, "runner", {**runner(), "name": name})

    run(work())


def test_a_runner_offers_a_device_and_a_builder_compilers(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            with pytest.raises(Refused, match="cannot offer"):
                await enter(hub, certs, "runner", {**runner(), "places": ["build:cpu:x86_64:0"]})
            with pytest.raises(Refused, match="cannot offer"):
                await enter(hub, certs, "builder", {**runner(), "places": ["cpu-simulated-1c"]})

    run(work())


def test_artifacts_must_hash_to_their_names(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            client = await enter(hub, certs, "client", CLIENT)
            name = hashlib.sha256(b"right").hexdigest()
            await client.send({"op": "ask", "n": 1, "what": "put", "sha256": name, "data": b"wrong"})
            assert "does not hash" in (await client.receive())["error"]["message"]
            await client.send({"op": "ask", "n": 2, "what": "has", "sha256s": [name, "../../etc/passwd"]})
            assert (await client.receive())["value"] == []
            await client.send({"op": "ask", "n": 3, "what": "put", "sha256": name, "data": b"right"})
            assert (await client.receive())["value"] is True
            await client.send({"op": "ask", "n": 4, "what": "get", "sha256": name})
            assert (await client.receive())["value"] == b"right"

    run(work())


def test_a_first_message_cannot_be_long(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            with pytest.raises((Unreachable, Refused, LinkClosed)):
                await enter(hub, certs, "client", {**CLIENT, "name": "x" * (2 << 20)})
            assert not hub.clients

    run(work())


def test_a_silent_peer_is_dropped_and_its_job_given_to_another(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path, heartbeat=0.1) as hub:

            async def beat(link: Link) -> None:
                while True:
                    link.post({"op": "beat"})
                    await asyncio.sleep(0.05)

            silent = await enter(hub, certs, "runner", runner("silent"))
            client = await enter(hub, certs, "client", CLIENT)
            beats = [asyncio.create_task(beat(client))]
            await client.send({"op": "submit", "id": "1", "place": "cpu-simulated-1c", "payload": {}})
            assert (await silent.receive())["op"] == "job"
            other = await enter(hub, certs, "runner", runner("other"))
            beats.append(asyncio.create_task(beat(other)))
            message = await other.receive()
            while message["op"] == "beat":
                message = await other.receive()
            assert (message["op"], message["id"]) == ("job", "1")
            assert "silent" not in hub.members
            for b in beats:
                b.cancel()

    run(work())


def test_a_scheduler_that_was_stopped_blames_nobody(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path, heartbeat=0.1) as hub:
            member = await enter(hub, certs, "runner", runner())
            time.sleep(0.6)  # nobody in this process runs meanwhile: far longer than silence is borne
            await asyncio.sleep(0.15)
            assert "r" in hub.members
            member.abort()

    run(work())


def test_plain_text_and_http_get_no_answer(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            for words in (b"GET / HTTP/1.0\r\n\r\n", pack({"op": "hello", "role": "client", **versions(), **CLIENT})):
                reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
                writer.write(words)
                with contextlib.suppress(ConnectionError):
                    answer = await asyncio.wait_for(reader.read(4096), 30.0)
                    assert b"HTTP" not in answer
                    assert b"welcome" not in answer
                writer.close()
            assert not hub.clients

    run(work())


def test_without_certificates_it_listens_on_loopback_only(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this machine only"):
        Scheduler(None, "0.0.0.0", 0, tmp_path)
    with pytest.raises(UsageError, match="in the clear"):
        Door("tcp://farm.example.org:8786", None, "client")
    with pytest.raises(UsageError, match="certificates"):
        Door("tls://farm.example.org:8786", None, "client")


def test_without_certificates_a_port_scan_does_no_harm(tmp_path: Path) -> None:
    async def work() -> None:
        hub = Scheduler(None, "127.0.0.1", 0, tmp_path / "state")
        await hub.start()
        for words in (b"GET / HTTP/1.0\r\n\r\n", b"", struct.pack("!I", 10) + b"0123456789", b"\xff" * 100):
            reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
            writer.write(words)
            if words:
                answer = await asyncio.wait_for(reader.read(4096), 30.0)
                assert b"HTTP" not in answer
            writer.close()
        assert not hub.clients
        await hub.stop()

    run(work())


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    async def work() -> None:
        hub = Scheduler(None, "127.0.0.1", 0, tmp_path / "one")
        await hub.start()
        with pytest.raises(FarmError, match="cannot listen"):
            await Scheduler(None, "127.0.0.1", hub.port, tmp_path / "two").start()
        await hub.stop()

    run(work())


def test_quarantines_survive_a_restart(certs: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with scheduler(certs, tmp_path) as hub:
            member = await enter(hub, certs, "runner", runner())
            client = await enter(hub, certs, "client", CLIENT)
            await client.send({"op": "ask", "n": 1, "what": "quarantine", "name": "r", "why": "it rattles"})
            assert (await client.receive())["value"] is True
            assert (await member.receive())["op"] == "recall"
        async with scheduler(certs, tmp_path) as hub:
            assert hub._status({})["quarantined_away"] == {"r": "it rattles"}
            client = await enter(hub, certs, "client", CLIENT)
            await client.send({"op": "ask", "n": 1, "what": "release", "name": "r"})
            assert (await client.receive())["value"] is True
            await client.send({"op": "ask", "n": 2, "what": "release", "name": "r"})
            assert "not in quarantine" in (await client.receive())["error"]["message"]

    run(work())
