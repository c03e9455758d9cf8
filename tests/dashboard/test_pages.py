"""Every page, table and chart over real databases: full, empty and hostile."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from filled import make_filled
from hostile import make_hostile
from serving import asking

from harness.examples import DEVICE, example_record, example_task
from harness.million import fill
from tilewright.dashboard.pages import PAGES
from tilewright.database import Database
from tilewright.database.records import RunFilter


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_filled(tmp_path_factory.mktemp("pages") / "filled.db")


@pytest.fixture(scope="module")
def client(filled: Path) -> Iterator[httpx.Client]:
    with asking(filled) as c:
        yield c


@pytest.fixture(scope="module")
def run(filled: Path) -> str:
    with Database.open(filled, create=False, readonly=True) as db:
        return next(r for r in db.list_runs(RunFilter(state="done"), 30) if r.strategy == "random" and r.seed == 1).id


def links(html: str, at: str) -> list[str]:
    """What a page leads to, of this site: its links and what its charts read."""
    found = [unescape(a) for a in re.findall(r'(?:href|data-src)="([^"]*)"', html)]
    return [urljoin(at, a).split("#")[0] for a in found if a and not a.startswith("#")]


def crawl(client: httpx.Client, most: int) -> dict[str, httpx.Response]:
    """Every page that the first one leads to, ``most`` at most."""
    seen: dict[str, httpx.Response] = {}
    todo = [str(client.base_url)]
    while todo and len(seen) < most:
        address = todo.pop(0)
        if address in seen:
            continue
        seen[address] = client.get(address)
        if seen[address].headers["content-type"].startswith("text/html"):
            todo += [a for a in links(seen[address].text, address) if a.startswith(str(client.base_url))]
    return seen


def test_every_link_of_every_page_leads_somewhere(client: httpx.Client) -> None:
    seen = crawl(client, 80)
    assert len(seen) == 80
    bad = {a: r.status_code for a, r in seen.items() if r.status_code != 200}
    assert not bad
    html = [r.text for r in seen.values() if r.headers["content-type"].startswith("text/html")]
    for page in html:
        assert len(re.findall(r"<h1[ >]", page)) == 1
        assert re.search(r"<title>[^<]+</title>", page)
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(set(ids)) == len(ids)
        assert " style=" not in page
        assert "<script>" not in page


@pytest.fixture(scope="module")
def places(filled: Path, run: str) -> dict[str, str]:
    """An address of every page, by its template."""
    with Database.open(filled, create=False, readonly=True) as db:
        pair = [r.id for r in db.runs() if r.task.key == db.run(run).task.key]
    other = next(r for r in pair if r != run)
    query = {"diff": "?trial=0&trial=3", "compare": f"?run={run}&run={other}"}
    return {p.name: p.path.format(run=run, number=3, op="matmul") + query.get(p.name, "") for p in PAGES}


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "farm"], ids=lambda p: p.name)
def test_a_page_its_tables_and_its_charts(client: httpx.Client, places: dict[str, str], page) -> None:
    address = places[page.name]
    assert client.get(address).status_code == 200
    path, _, query = address.partition("?")
    path = path.rstrip("/")
    for name in page.tables:
        data = client.get(f"{path}/tables/{name}.json?{query}").json()
        assert data["name"] == name
        answer = client.get(f"{path}/tables/{name}.csv?{query}")
        assert answer.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert len(rows) == len(data["rows"])
        assert all(list(a) == list(b) for a, b in zip(rows, data["rows"], strict=True))
    for name in page.charts:
        data = client.get(f"{path}/charts/{name}.json?{query}").json()
        assert data["kind"] in ("xy", "bars", "parallel", "grid")
        assert data["title"]
        assert data["alt"]


def test_a_run_shows_what_is_stored(client: httpx.Client, filled: Path, run: str) -> None:
    with Database.open(filled, create=False, readonly=True) as db:
        stored, trials = db.run(run), db.trials(run)
    rows = client.get(f"/runs/{run}/tables/trials.json").json()["rows"]
    assert [r["trial"] for r in rows] == [t.number for t in trials]
    assert [r["seconds"] for r in rows] == [t.seconds for t in trials]
    best = client.get(f"/runs/{run}/charts/best.json").json()
    steps = next(s for s in best["series"] if s["mode"] == "step")
    assert steps["y"][-1] == stored.search_seconds
    by_time = client.get(f"/runs/{run}/tables/trials.json?order=seconds&descending=1&status=ok").json()["rows"]
    assert [r["seconds"] for r in by_time] == sorted((t.seconds for t in trials if t.seconds), reverse=True)
    kind = next(iter(stored.failed))
    assert len(client.get(f"/runs/{run}/tables/trials.json?status={kind}").json()["rows"]) == stored.failed[kind]
    page = client.get(f"/runs/{run}").text
    for text in (stored.task.workload.label, stored.device_model, f"{stored.trials} of", kind):
        assert text in page


def test_a_long_table_is_paged_and_downloaded_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    fill(path, runs=1, trials=4, long_run=2500)
    with asking(path) as client:
        runs = client.get("/tables/latest.json").json()["rows"]
        long = max(runs, key=lambda r: r["trials"])["run"]
        first, last = client.get(f"/runs/{long}"), client.get(f"/runs/{long}?page=100")
        assert "Page 1 of 100" in first.text
        assert "/trials/2499" in last.text
        rows = client.get(f"/runs/{long}/tables/trials.json").json()["rows"]
        assert [r["trial"] for r in rows] == list(range(2500))
        assert client.get(f"/runs/{long}/tables/trials.csv").text.count("\r\n") == 2501


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/runs/none", 404, "holds no run"),
        ("/runs/none/trials/1", 404, "holds no run"),
        ("/runs/none/live", 404, "holds no run"),
        ("/runs/{run}/trials/999", 404, "999"),
        ("/runs/{run}/trials/x", 400, "not a number"),
        ("/runs/{run}/trials/99999999999999999999", 400, "not a number"),
        ("/runs/{run}?order=size", 400, "Use one of"),
        ("/runs/{run}?page=-1", 400, "not a number"),
        ("/runs/{run}/diff", 400, "0 trials are chosen"),
        ("/runs/{run}/diff?trial=1&trial=2&trial=3", 400, "3 trials are chosen"),
        ("/runs/{run}/diff?trial=one&trial=2", 400, "not a number"),
        ("/runs?order=size", 400, "Use one of"),
        ("/kernels?order=size", 400, "Use one of"),
        ("/compare?run={run}", 400, "1 runs are chosen"),
        ("/compare?run={run}&run=none", 404, "holds no run"),
        ("/runs/{run}/charts/none.json", 404, "no chart"),
        ("/runs/{run}/tables/none.csv", 404, "no table"),
        ("/runs/{run}/tables/trials.xml", 404, "no table"),
        ("/operators/none", 404, "none"),
        ("/farm", 404, "no farm"),
        ("/nowhere", 404, "Not found"),
    ],
)
def test_wrong_addresses_say_what_is_wrong(
    client: httpx.Client, run: str, address: str, status: int, says: str
) -> None:
    answer = client.get(address.format(run=run))
    assert answer.status_code == status
    assert says in unescape(answer.text)


def test_an_empty_database_says_how_to_begin(tmp_path: Path) -> None:
    Database.open(tmp_path / "empty.db").close()
    with asking(tmp_path / "empty.db") as client:
        seen = crawl(client, 50)
        assert all(r.status_code == 200 for r in seen.values())
        assert "tilewright tune matmul" in client.get("/").text
        assert client.get("/tables/latest.json").json()["rows"] == []
        for name in ("failures", "speedups"):
            assert client.get(f"/charts/{name}.json").json()["kind"] == "bars"


def test_a_run_without_a_trial_or_with_failures_alone(tmp_path: Path) -> None:
    path = tmp_path / "young.db"
    with Database.open(path) as db:
        bare, failed = (db.add_run(example_task(), DEVICE, "random", 0, 10, {}) for _ in range(2))
        db.add_trials(failed, [example_record(n) for n in (4, 9)])
    with asking(path) as client:
        for run in (bare, failed):
            assert client.get(f"/runs/{run}").status_code == 200
        for name in ("best", "time", "failures", "calibration", "knob", "parallel", "importance"):
            assert client.get(f"/runs/{failed}/charts/{name}.json").status_code == 200, name
        assert "has no trial yet" in client.get(f"/runs/{bare}/charts/parallel.json").text


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "hostile.db"
    make_hostile(path)
    with asking(path) as client:
        seen = crawl(client, 300)
        assert {r.status_code for r in seen.values()} == {200}
        assert sum("/trials/" in a for a in seen) >= 2
        assert any("/operators/" in a for a in seen)
        for address, answer in seen.items():
            kind = answer.headers["content-type"].partition(";")[0]
            if kind == "text/html":
                assert "<script>alert" not in answer.text, address
                assert "<img" not in answer.text, address
                shown = re.sub(r'="[^"]*"', "", answer.text)  # what a form sends back must be exact
                assert not {"\x1b", "\u202e"} & set(shown), address
            elif kind == "text/csv":
                cells = [c for row in csv.reader(io.StringIO(answer.text)) for c in row]
                assert not [c for c in cells if c.startswith(("=", "+", "-", "@"))], address
            elif kind == "application/json":
                answer.json()
