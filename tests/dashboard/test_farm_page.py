"""The page of a farm: a real server, runners that come, go and are put in quarantine, and names that mean harm."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hostile import HOSTILE, hostile_farm
from serving import asking

from harness.farm import SimulatedFarm, SleepingMeasurer
from harness.farm_status import FACTS, Saying, a_client, a_status, a_worker
from tilewright.dashboard import app, farm_source, live, metrics
from tilewright.dashboard.farm_source import FarmSource
from tilewright.dashboard.text import size
from tilewright.database import Database
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.pki.certificates import create_authority
from tilewright.farm.subjects import LOOKERS

CLASS = "cpu-simulated-1c"
PLENTY = 60.0  # seconds, for what takes a moment on a machine that does nothing else


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept for long, and a farm that is there has all the time it needs."""
    for module, name, seconds in (
        (farm_source, "FRESH", 0.02), (farm_source, "WAIT", PLENTY), (farm_source, "ANSWER", PLENTY),
        (live, "PERIOD", 0.05), (live, "SLOW_PERIOD", 0.2), (metrics, "FRESH", 0.0), (app, "CHART_SECONDS", 0.0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, seconds)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    Database.open(tmp_path / "some.db").close()
    return tmp_path / "some.db"


@contextmanager
def watching(farm: SimulatedFarm, db: Path, certs: Path | None = None) -> Iterator[httpx.Client]:
    source = FarmSource(farm.address, certs)
    try:
        with asking(db, source) as client:
            yield client
    finally:
        source.close()


def rows(client: httpx.Client, table: str) -> list[dict[str, Any]]:
    """A table as JSON, as soon as its CSV has as many rows: the farm may change between the two."""
    until = time.monotonic() + PLENTY
    while True:
        found: list[dict[str, Any]] = client.get(f"/farm/tables/{table}.json").raise_for_status().json()["rows"]
        text = client.get(f"/farm/tables/{table}.csv").raise_for_status().text
        if (csv_rows := len(list(csv.DictReader(io.StringIO(text))))) == len(found):
            return found
        assert time.monotonic() < until, f"{table}: {len(found)} rows as JSON, {csv_rows} as CSV"


def events(client: httpx.Client, enough: Callable[[str, dict[str, Any]], bool]) -> list[tuple[str, dict[str, Any]]]:
    """What the live stream says, until it has said enough or ends."""
    told: list[tuple[str, dict[str, Any]]] = []
    with client.stream("GET", "/farm/live", timeout=PLENTY) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                told.append((name, json.loads(line[6:])))
                if enough(*told[-1]):
                    break
    return told


def test_runners_builders_and_queues(tmp_path: Path, db: Path) -> None:
    with SimulatedFarm(tmp_path, [SleepingMeasurer(), SleepingMeasurer()]) as farm:
        farm.soon(farm.start_builder)
        with watching(farm, db) as client:
            farm.wait_for(lambda: len(rows(client, "workers")) == 3)
            page = client.get("/farm").raise_for_status().text
            assert 'role="alert"' not in page
            assert 'href="/farm" aria-current="page"' in page
            for text in ("sim-0", "sim-1", "builder", CLASS, 'data-src="/farm/charts/busy.json"'):
                assert text in page
            workers = {w["name"]: w for w in rows(client, "workers")}
            assert {n: (w["role"], w["state"]) for n, w in workers.items()} == {
                "sim-0": ("runner", "idle"), "sim-1": ("runner", "idle"), "builder": ("builder", "idle"),
            }  # fmt: skip
            assert workers["sim-0"]["device"] == CLASS
            places = {p["place"]: p for p in rows(client, "places")}
            assert places[CLASS] == {"place": CLASS, "workers": 2, "waiting": 0, "in_hand": 0}
            assert rows(client, "quarantine") == []
            chart = client.get("/farm/charts/busy.json").raise_for_status().json()
            assert chart["kind"] == "bars"
            assert sorted(chart["labels"]) == ["sim-0", "sim-1"]
            assert "Runners: 2." in chart["note"]
            (first,) = events(client, lambda *_: True)
            name, texts = first
            assert name == "state"
            assert texts.pop("engine").startswith("nats-server ")
            assert int(texts.pop("connections")) >= 5  # its keeper, three workers and this dashboard
            assert texts.pop("messages") in ("0", "1")  # the keeper's own, by which it sees that the server stores
            assert texts.pop("stored").endswith(" B of 256 MiB")
            assert texts == {
                "runners": "2", "builders": "1", "clients": "0", "waiting": "0", "in_hand": "0", "quarantined": "0",
                "cluster": "none",
            }  # fmt: skip


def test_a_quarantine_shows_at_once_and_is_over_at_once(tmp_path: Path, db: Path) -> None:
    with (
        SimulatedFarm(tmp_path, [SleepingMeasurer(), SleepingMeasurer()]) as farm,
        watching(farm, db) as client, Farm(farm.address) as asker,
    ):  # fmt: skip
        told: list[str] = []

        def enough(name: str, data: dict[str, Any]) -> bool:
            if name != "state":
                return False
            told.append(data["quarantined"])
            if told == ["0"]:
                assert asker.ask("quarantine", name="sim-1", why="it rattles")
            return data["quarantined"] == "1"

        events(client, enough)
        assert rows(client, "quarantine") == [{"name": "sim-1", "why": "it rattles", "connected": "yes"}]
        assert {w["name"]: w["state"] for w in rows(client, "workers")} == {"sim-0": "idle", "sim-1": "quarantined"}
        page = client.get("/farm").text
        assert '<span class="state state-bad">quarantined</span>' in page
        assert "it rattles" in page
        scraped = client.get("/metrics").text
        assert 'tilewright_farm_workers{role="runner",state="quarantined"} 1.0' in scraped
        assert "tilewright_farm_quarantined 1.0" in scraped

        farm.call(farm.runners[1].drain())
        farm.wait_for(lambda: len(rows(client, "workers")) == 1)
        assert rows(client, "quarantine") == [{"name": "sim-1", "why": "it rattles", "connected": "no"}]
        farm.soon(lambda: farm.start_runner("sim-1", SleepingMeasurer()))
        farm.wait_for(lambda: rows(client, "quarantine")[0]["connected"] == "yes")
        assert asker.ask("release", name="sim-1")
        farm.wait_for(lambda: rows(client, "quarantine") == [])


def test_a_farm_that_goes_away_leaves_the_rest_as_it_is(
    tmp_path: Path, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SimulatedFarm(tmp_path, [SleepingMeasurer()]) as farm, watching(farm, db) as client:
        assert farm.hub is not None
        port = farm.hub.server.port
        assert 'role="alert"' not in client.get("/farm").text
        monkeypatch.setattr(farm_source, "ANSWER", 0.3)
        farm.call(farm.hub.stop())
        farm.wait_for(lambda: 'role="alert"' in client.get("/farm").raise_for_status().text)
        for address in ("/farm/tables/workers.csv", "/farm/charts/busy.json"):
            answer = client.get(address)
            assert (answer.status_code, answer.headers["content-type"]) == (503, "application/json")
            assert answer.json()["error"]["message"]
        assert events(client, lambda *_: False)[-1][0] == "trouble"
        for address in ("/", "/runs", "/operators", "/kernels"):
            assert client.get(address).status_code == 200
        scraped = client.get("/metrics").raise_for_status().text
        assert 'tilewright_up{source="farm"} 0.0' in scraped
        assert 'tilewright_up{source="database"} 1.0' in scraped
        assert "tilewright_farm_workers" not in scraped
        monkeypatch.setattr(farm_source, "ANSWER", PLENTY)
        farm.call(farm.start_server(port))
        farm.wait_for(lambda: "sim-0" in client.get("/farm").text)


def test_clients_and_the_device_time_they_had(tmp_path: Path, db: Path) -> None:
    with SimulatedFarm(tmp_path, [SleepingMeasurer()]) as farm, watching(farm, db) as client:
        with Farm(farm.address) as tuning:
            tuning.submit("cpu-nowhere-1c", {})  # nobody serves it, so it waits until its client leaves
            farm.wait_for(lambda: [r["jobs"] for r in rows(client, "clients")] == [1])
            (row,) = rows(client, "clients")
            assert (row["certificate"], row["connected"], row["jobs"], row["seconds"]) == ("local", "yes", 1, 0)
        farm.wait_for(lambda: rows(client, "clients") == [])


def test_a_reader_may_look(tmp_path: Path, db: Path) -> None:
    certs = tmp_path / "certs"
    create_authority(certs, ["localhost"], 60)
    with SimulatedFarm(tmp_path / "farm", [SleepingMeasurer()], certs=certs) as farm:
        assert farm.address.startswith("tls://")
        for role in LOOKERS:
            with watching(farm, db, certs / role) as client:
                page = client.get("/farm").raise_for_status().text
                assert 'role="alert"' not in page
                assert "sim-0" in page
                (worker,) = rows(client, "workers")
                assert worker["expires"] > time.time()
                assert events(client, lambda *_: True)[0][1]["runners"] == "1"
                assert 'tilewright_up{source="farm"} 1.0' in client.get("/metrics").text
    with pytest.raises(FarmError, match="is for runner"):
        FarmSource(farm.address, certs / "runner")


# --------------------------------------------------------------------------- what the server says


@contextmanager
def said(db: Path, **more: Any) -> Iterator[httpx.Client]:
    with asking(db, Saying(a_status([a_worker("w")], **more))) as client:  # type: ignore[arg-type]
        yield client


def test_a_server_that_stores_nothing_is_an_alert(db: Path) -> None:
    with said(db, trouble="no <b>room</b>") as client:
        page = client.get("/farm").raise_for_status().text
        assert page.count('role="alert"') == 1
        assert "The server stores nothing, so no job gets on: no &lt;b&gt;room" in page
        assert [w["name"] for w in rows(client, "workers")] == ["w"]  # the rest is there all the same
        assert "tilewright_farm_server_storing 0.0" in client.get("/metrics").text.replace('{server=""}', "")


def test_what_is_wrong_comes_before_the_rest(db: Path) -> None:
    workers = [a_worker("good"), a_worker("bad", quarantine="it <b>rattles</b>"), a_worker("mute", silent=12.0)]
    waiting = {"h200-141g-700w": {"workers": 0, "waiting": 4, "in_hand": 0}}
    with asking(db, Saying(a_status(workers, waiting, quarantined_away={}))) as client:  # type: ignore[arg-type]
        page = client.get("/farm").raise_for_status().text
        found = [
            page.index(text)
            for text in (
                "No runner of device class h200-141g-700w takes jobs, and 4 jobs wait.", "that have runners: p.",
                "The runner bad is in quarantine: it &lt;b&gt;rattles&lt;/b&gt;.", "tilewright farm release bad",
                "No sign of life for 12.0 s from mute.", "<dl",
            )
        ]  # fmt: skip
        assert found == sorted(found)
        assert {w["name"]: w["state"] for w in rows(client, "workers")} == {
            "good": "idle", "bad": "quarantined", "mute": "silent",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "texts"),
    [
        (FACTS, {"engine": "nats-server 2.9.10", "connections": "4", "stored": "5 MiB of 4 GiB", "cluster": "none"}),
        ({**FACTS, "cluster": "lab", "peers": 3}, {"cluster": "lab, 3 servers", "messages": "12"}),
        ({}, {"engine": "-", "connections": "-", "stored": "-", "messages": "-", "cluster": "none"}),
        (dict.fromkeys(FACTS), {"engine": "-", "connections": "-", "stored": "-", "cluster": "none"}),
    ],
)
def test_what_the_server_says(db: Path, facts: dict[str, Any], texts: dict[str, str]) -> None:
    with said(db, server=facts) as client:
        page = client.get("/farm").raise_for_status().text
        ((_, told),) = events(client, lambda *_: True)
        assert {n: told[n] for n in texts} == texts
        for name, text in texts.items():
            assert f'data-live-text="{name}">{text}</dd>' in page


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1000, "0.977 KiB"), (5 << 20, "5 MiB"), (1 << 60, "1.049e+06 TiB")],
)
def test_sizes_of_memory_are_shown_in_units(value: int | None, text: str) -> None:
    assert size(value) == text


def test_clients_are_sorted_by_what_they_took(db: Path) -> None:
    clients = [
        a_client("away", connected=False, seconds=99.0), a_client("little", seconds=1.0),
        a_client("much", jobs=3, seconds=300.0),
    ]  # fmt: skip
    with said(db, clients=clients) as client:
        assert [c["name"] for c in rows(client, "clients")] == ["much", "little", "away"]
        assert rows(client, "clients")[0] == {
            "name": "much", "certificate": "client", "connected": "yes", "jobs": 3, "seconds": 300.0,
        }  # fmt: skip
        assert "5 min" in client.get("/farm").text


def test_without_a_farm_there_is_no_page(db: Path) -> None:
    with asking(db) as client:
        assert client.get("/farm").status_code == 404
        assert client.get("/farm/live").status_code == 404
        assert 'href="/farm"' not in client.get("/").text


# --------------------------------------------------------------------------- texts that mean harm


def test_hostile_texts_are_only_shown(tmp_path: Path, db: Path) -> None:
    with hostile_farm(tmp_path / "farm") as farm, watching(farm, db) as client:
        page = client.get("/farm").raise_for_status().text
        assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
        for bad in ("<script>alert", "<img", "\x1b", "\u202e"):
            assert bad not in page
        assert {q["name"] for q in rows(client, "quarantine")} == {HOSTILE, "=1+1", "sim-0"}
        text = client.get("/farm/tables/quarantine.csv").text
        assert [r["name"] for r in csv.DictReader(io.StringIO(text)) if r["why"] == "'@SUM(1)"] == ["'=1+1"]
        assert 'tilewright_up{source="farm"} 1.0' in client.get("/metrics").text
