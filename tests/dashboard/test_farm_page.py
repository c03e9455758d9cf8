"""The page of a farm: a real scheduler, runners that come, go and are put in quarantine, and names that mean harm."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import Record, findings, sideways, until
from hostile import HOSTILE
from serving import asking, dashboard

from tilewright.dashboard import app, farm_source, live, metrics
from tilewright.dashboard.farm_source import FarmSource
from tilewright.database import Database
from tilewright.farm.client import Farm
from tilewright.testing.farm import SimulatedFarm, SleepingMeasurer

CLASS = "cpu-simulated-1c"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept for long, and nobody waits for long."""
    for module, name, seconds in (
        (farm_source, "FRESH", 0.02), (farm_source, "STALE", 0.2), (farm_source, "ANSWER", 0.3), (live, "PERIOD", 0.05),
        (live, "SLOW_PERIOD", 0.2), (metrics, "FRESH", 0.0), (app, "CHART_SECONDS", 0.0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, seconds)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    Database.open(tmp_path / "some.db").close()
    return tmp_path / "some.db"


@contextmanager
def watching(farm: SimulatedFarm, db: Path) -> Iterator[httpx.Client]:
    source = FarmSource(farm.address)
    try:
        with asking(db, source) as client:
            yield client
    finally:
        source.close()


def rows(client: httpx.Client, table: str) -> list[dict[str, Any]]:
    """A table as JSON; once its CSV has as many rows."""
    found: list[dict[str, Any]] = client.get(f"/farm/tables/{table}.json").raise_for_status().json()["rows"]
    text = client.get(f"/farm/tables/{table}.csv").raise_for_status().text
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(found)
    return found


def events(client: httpx.Client, enough: Callable[[str, dict[str, Any]], bool]) -> list[tuple[str, dict[str, Any]]]:
    """What the live stream says, until it has said enough or ends."""
    told: list[tuple[str, dict[str, Any]]] = []
    with client.stream("GET", "/farm/live", timeout=30.0) as stream:
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
            assert first == ("state", {
                "runners": "2", "builders": "1", "clients": "1", "waiting": "0", "in_hand": "0", "quarantined": "0",
            })  # fmt: skip


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

        gone = farm.runners[1]
        farm.soon(gone.stop)
        farm.wait_for(lambda: len(rows(client, "workers")) == 1)
        assert rows(client, "quarantine") == [{"name": "sim-1", "why": "it rattles", "connected": "no"}]
        assert asker.ask("release", name="sim-1")
        farm.wait_for(lambda: rows(client, "quarantine") == [])


def test_a_farm_that_goes_away_leaves_the_rest_as_it_is(tmp_path: Path, db: Path) -> None:
    with SimulatedFarm(tmp_path, [SleepingMeasurer()]) as farm, watching(farm, db) as client:
        assert farm.scheduler is not None
        port = farm.scheduler.port
        assert 'role="alert"' not in client.get("/farm").text
        farm.call(farm.scheduler.stop())
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
        farm.call(farm.start_scheduler(port))
        farm.wait_for(lambda: "sim-0" in client.get("/farm").text)


def test_without_a_farm_there_is_no_page(db: Path) -> None:
    with asking(db) as client:
        assert client.get("/farm").status_code == 404
        assert client.get("/farm/live").status_code == 404
        assert 'href="/farm"' not in client.get("/").text


# --------------------------------------------------------------------------- texts that mean harm


@contextmanager
def hostile_farm(folder: Path) -> Iterator[SimulatedFarm]:
    """Its quarantine names workers that no scheduler would let in, and the reasons are as bad."""
    (folder / "scheduler").mkdir(parents=True)
    (folder / "scheduler" / "quarantine.json").write_text(
        json.dumps({HOSTILE: HOSTILE, "=1+1": "@SUM(1)", "sim-0": HOSTILE})
    )
    with SimulatedFarm(folder, [SleepingMeasurer()]) as farm:
        yield farm


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


def test_the_page_in_a_browser(record: Record, tmp_path: Path, db: Path) -> None:
    said: list[str] = []
    page = record.page
    page.on("dialog", lambda d: (said.append(d.message), d.dismiss()))
    with hostile_farm(tmp_path / "farm") as farm:
        source = FarmSource(farm.address)
        with contextlib.closing(source), dashboard(db, source) as base:
            page.goto(f"{base}/farm")
            until(page, "document.querySelector('figure.chart').dataset.kind")
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert findings(page) == []
            page.set_viewport_size({"width": 390, "height": 844})
            assert not sideways(page)
            farm.soon(lambda: farm.start_runner("late", SleepingMeasurer()))
            until(page, "document.querySelector('[data-live-text=runners]').textContent === '2'")
            assert page.locator(".state-bad", has_text="quarantined").count() == 1
            until(page, "document.querySelector('figure.chart').textContent.includes('late')")
            record.check()
    assert said == []
