"""Values of peers that are let in and send what is invalid: one line for each, and nothing for anybody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.farm import CODE, PretendedToolchain, Puppet, SimulatedFarm, SleepingMeasurer, simulated_device
from tilewright.backends import parse_target
from tilewright.backends.cache import ArtifactCache
from tilewright.core import Task
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.jobs import item_json, plain, task_json
from tilewright.farm.link import Endpoint, Link
from tilewright.farm.log import Log
from tilewright.farm.pki.certificates import create_authority
from tilewright.farm.remote import FarmToolchain
from tilewright.farm.workers.builder import KEPT, Builder
from tilewright.farm.workers.work import Reply
from tilewright.measure.measuring import Item
from tilewright.measure.runner import KernelLost
from tilewright.measure.timing import PairedComparison

CLASS = "cpu-simulated-1c"
LIMIT = 60.0
INFINITE = float("inf")
SHARE = {"what": "shares", "session": "s", "name": "n", "weight": 1.0, "places": {}}
BEAT = {
    "what": "beat", "name": "evil", "instance": "1", "lanes": 1, "running": 0, "queued": 0, "done": 0, "busy": 0.0,
    "draining": False, "quarantine": "", "strikes": 0, "note": "", "places": ["cpu-evil"],
    "device": simulated_device("evil", "cpu-evil").to_json(), "offers": {},
}  # fmt: skip
LIST = {"what": "revoked", "number": 0, "mark": "m"}


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs") / "farm"
    create_authority(folder, ["localhost"], 30)
    return folder


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory, certs: Path) -> Iterator[SimulatedFarm]:
    with SimulatedFarm(tmp_path_factory.mktemp("farm"), [SleepingMeasurer()], certs=certs) as f:
        yield f


@pytest.fixture
def link(farm: SimulatedFarm) -> Iterator[Callable[[str], Link]]:
    """A connection of a role."""
    links: list[Link] = []

    def connect(role: str) -> Link:
        assert farm.certs is not None
        links.append(farm.call(Endpoint(farm.address, farm.certs, role).connect()))
        return links[-1]

    yield connect
    for one in links:
        farm.call(one.close())


# --------------------------------------------------------------------------- the keeper


@pytest.mark.parametrize(
    ("role", "body"),
    [
        *[("reader", LIST | {"list": x}) for x in (2**63, 10**15, 7, [48, 130], "text", {"a": 1}, b"x", True)],
        *[("reader", LIST | {"number": x}) for x in (INFINITE, float("nan"), "nine", [], None)],
        *[("client", SHARE | {"weight": x}) for x in (INFINITE, float("nan"), 0.0, "heavy", [], 2**63)],
        *[("client", SHARE | {"places": {"cpu-a": x}}) for x in (
            [INFINITE, 0, 0, 0.0], [0, INFINITE, 0, 0.0], [0, 0, 0, INFINITE], [-1, 0, 0, 0.0], [0], 5, None,
        )],
        *[("runner", BEAT | {n: x}) for n in ("running", "queued", "done", "strikes") for x in (-1, INFINITE, "1")],
        *[("runner", BEAT | {"lanes": x}) for x in (0, -1, 257, INFINITE)],
        *[("runner", BEAT | {"busy": x}) for x in (INFINITE, -1.0, float("nan"))],
    ],
    ids=lambda x: str(x)[:60],
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_refused_in_one_line(
    farm: SimulatedFarm, link: Callable[[str], Link], role: str, body: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    peer = link(role)
    with pytest.raises(Refused) as e:
        farm.call(peer.ask(body))
    assert "\n" not in str(e.value)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert farm.call(peer.ask(LIST))["number"] > 0
    assert farm.hub is not None
    assert "evil" not in farm.hub.keeper.members
    assert not farm.hub.keeper.sessions


def test_a_line_of_a_log_is_one_whatever_a_peer_has_put_into_it(
    farm: SimulatedFarm, link: Callable[[str], Link]
) -> None:
    said: list[str] = []
    log = Log(said.append)
    log("x\n2026-01-01 00:00:00 all is well\x1b[2J\u202e" + "y" * 600)
    (line,) = said
    assert line.startswith("x\\x0a2026-01-01 00:00:00 all is well\\x1b[2J\\u202eyyy")
    assert len(line) <= 500
    peer = link("runner")
    farm.call(peer.ask(BEAT | {"quarantine": "x\r\nall is well\x1b[2J"}))
    farm.call(peer.ask({"what": "bye", "name": "evil", "instance": "1", "why": "a\nb"}))
    (line,) = [x for x in farm.said if "evil is in quarantine" in x]
    assert line == "evil is in quarantine: x\\x0d\\x0aall is well\\x1b[2J"
    assert all(x.isprintable() for x in farm.said)


# --------------------------------------------------------------------------- workers


@pytest.mark.parametrize("name", ["a b", "*", ">", "../../etc/passwd", "x" * 10_000, "", "a.b", "A" * 64, "0" * 63])
def test_a_job_of_artifacts_that_are_none_is_refused_and_holds_up_nobody(
    farm: SimulatedFarm, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = farm.runners[0].refused
    with Farm(farm.address, farm.certs) as client:
        wrong = client.submit(CLASS, {"do": "peak"}, [name])
        farm.wait_for(lambda: farm.runners[0].refused > before)
        assert not farm.runners[0]._held
        wrong.cancel()
    assert not caplog.records


def answers(farm: SimulatedFarm, task: Task, items: list[Item], **payload: Any) -> dict[str, Any]:
    with Farm(farm.address, farm.certs) as client:
        sha256 = client.put(CODE)
        job = {"do": "duel", "task": task_json(task), "items": [item_json(i) for i in items], "sessions": 3}
        return client.submit(CLASS, job | payload, [sha256]).result(LIMIT)


def test_numbers_of_a_job_that_are_none_are_no_strike(
    farm: SimulatedFarm, task: Task, make_items: Callable[[int], list[Item]]
) -> None:
    items = make_items(2)
    assert "duel" in answers(farm, task, items)
    for payload in (
        {"sessions": INFINITE}, {"sessions": float("nan")}, {"sessions": "many"},
        {"do": "measure", "incumbent": item_json(items[0]), "anchor": []},
    ):  # fmt: skip
        assert answers(farm, task, items, **payload)["error"]["kind"] == "malformed"
    assert farm.runners[0].record.strikes == 0


class Crashes(SleepingMeasurer):
    """Kernels end its process, and nothing else is wrong with it."""

    def compare(self, task: Task, challenger: Item, champion: Item, sessions: int) -> PairedComparison:
        raise KernelLost("the final could not be timed: SIGSEGV")


def test_a_kernel_that_crashes_in_a_duel_puts_nobody_in_quarantine(
    tmp_path: Path, task: Task, make_items: Callable[[int], list[Item]]
) -> None:
    items = make_items(2)
    with SimulatedFarm(tmp_path, [Crashes()], heartbeat=0.3) as f:
        error = answers(f, task, items)["error"]  # after as many tries as quarantine takes
        assert (error["kind"], error["message"]) == ("kernel_lost", "the final could not be timed: SIGSEGV")
        assert (f.runners[0].record.strikes, f.runners[0].record.quarantine) == (0, "")


def test_a_builder_keeps_so_many_compilers_ready_however_many_targets_are_asked_for(tmp_path: Path) -> None:
    endpoint = Endpoint("tcp://127.0.0.1:1", None, "builder")
    builder = Builder(endpoint, "b", ArtifactCache(tmp_path), toolchain=PretendedToolchain)
    for threads in range(1, KEPT + 10):
        target = plain(parse_target("cpu:portable", threads, allow_foreign=True).to_json())
        job = {"target": target, "emulated": False, "source": "", "symbols": [], "deadline": 1.0}
        assert "sha256" in builder.execute(job, {}).result
    assert builder._toolchain.cache_info().currsize == KEPT


# --------------------------------------------------------------------------- clients


@pytest.mark.parametrize("name", ["../../../../usr/lib/libc", "/etc/passwd", "", "0" * 63, "0" * 63 + "/", None, 7, []])
def test_code_that_a_builder_names_by_no_hash_is_looked_for_nowhere(tmp_path: Path, name: Any) -> None:
    target = parse_target("cpu:portable")
    with SimulatedFarm(tmp_path, []) as f:
        place = f"build:cpu:{target.arch}:00000000"
        said = {"sha256": name, "flags": [], "cached": False, "resources": {}}

        async def start() -> None:
            puppet = Puppet(
                Endpoint(f.address, None, "builder"), "liar", ArtifactCache(tmp_path / "liar"),
                lambda _payload: Reply(said), {"places": [place], "offers": {place: "g++"}},
            )  # fmt: skip
            f._run(puppet)
            await asyncio.wait_for(puppet.connected.wait(), LIMIT)

        f.call(start())
        with Farm(f.address) as client:
            toolchain = FarmToolchain(client, target, ArtifactCache(tmp_path / "own"))
            with pytest.raises(FarmError, match="a worker sent a malformed result"):
                toolchain.compile("int x;", ["f"], 10.0)


def test_a_cache_has_no_path_for_what_is_no_hash(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    assert cache.path("0" * 64).is_relative_to(tmp_path)
    for named in ("../" * 21 + "x", "0" * 65, "G" * 64, ""):
        with pytest.raises(ValueError, match="is not a SHA-256"):
            cache.path(named)
