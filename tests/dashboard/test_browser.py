"""The pages in a real browser: quiet, self-contained, accessible, live, and the same after a reload."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filled import make_filled
from hostile import HOSTILE, make_hostile
from serving import dashboard

from harness.browser import Record, findings, sideways, until
from harness.farm import SimulatedFarm, SleepingMeasurer
from harness.million import fill
from tilewright.dashboard import live
from tilewright.database import Database
from tilewright.database.records import RunFilter
from tilewright.insight.links import run_link

if TYPE_CHECKING:
    from playwright.sync_api import Page

DRAWN = (
    "[...document.querySelectorAll('figure.chart')]"
    ".every(f => f.dataset.kind || f.querySelector('.plot .empty, [role=alert]'))"
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_filled(tmp_path_factory.mktemp("browser") / "filled.db")


@pytest.fixture(scope="module")
def base(filled: Path) -> Iterator[str]:
    with dashboard(filled) as address:
        yield address


@pytest.fixture(scope="module")
def addresses(filled: Path) -> list[str]:
    with Database.open(filled, create=False, readonly=True) as db:
        again = next(r for r in db.runs() if r.strategy == "random" and r.seed == 1)
        other = next(r for r in db.runs() if r.task.key == again.task.key and r.id != again.id)
    run = run_link(again.id)
    op = again.task.workload.op
    return [
        "/", "/runs", run, f"{run}/trials/3", f"{run}/diff?trial=0&trial=3", f"/compare?run={again.id}&run={other.id}", "/operators",
        f"/operators/{op}", "/kernels", "/runs/none",
    ]  # fmt: skip


def test_every_page_is_quiet_and_accessible(record: Record, base: str, addresses: list[str]) -> None:
    page = record.page
    for address in addresses:
        page.goto(base + address)
        until(page, DRAWN)
        page.emulate_media(color_scheme="light")
        assert findings(page) == [], address
        page.emulate_media(color_scheme="dark")
        assert findings(page) == [], address
        problems = [p for p in record.problems if address != "/runs/none" or "404" not in p]
        assert problems == [], address
        record.problems.clear()
    assert record.outside() == []


def test_no_page_is_wider_than_a_phone(page: Page, base: str, addresses: list[str]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for address in addresses:
        page.goto(base + address)
        until(page, DRAWN)
        assert not sideways(page), address


def test_a_deep_link_means_the_same_after_a_reload(record: Record, base: str, addresses: list[str]) -> None:
    page = record.page
    page.goto(f"{base}{addresses[2]}?order=seconds&descending=1&status=ok#trials")
    rows = "[...document.querySelectorAll('#trials tbody tr')].map(r => r.innerText)"
    before = page.evaluate(rows)
    assert len(before) > 5
    page.reload()
    assert page.evaluate(rows) == before
    assert page.locator("#trials th[aria-sort=descending]").inner_text().startswith("Search time")
    record.check()


def test_a_chart_is_saved_as_a_picture(record: Record, base: str, addresses: list[str], tmp_path: Path) -> None:
    page = record.page
    page.goto(base + addresses[2])
    until(page, DRAWN)
    chart = page.locator("figure.chart[data-kind=xy]").first
    with page.expect_download() as download:
        chart.get_by_role("button", name="Save picture").click()
    assert download.value.suggested_filename == "least-search-time-so-far.png"
    download.value.save_as(tmp_path / "chart.png")
    data = (tmp_path / "chart.png").read_bytes()
    width, height = (int.from_bytes(data[k : k + 4], "big") for k in (16, 20))
    size = chart.locator("canvas").bounding_box()
    assert data.startswith(b"\x89PNG")
    assert size is not None
    assert width >= size["width"]
    assert height > size["height"]
    assert len(data) > 5000  # not one colour
    record.check()


def test_an_empty_database(record: Record, tmp_path: Path) -> None:
    Database.open(tmp_path / "empty.db").close()
    with dashboard(tmp_path / "empty.db") as base:
        for address in ("/", "/runs", "/operators", "/kernels"):
            record.page.goto(base + address)
            until(record.page, DRAWN)
            assert findings(record.page) == []
    record.check()


def test_hostile_names_do_nothing(record: Record, tmp_path: Path) -> None:
    make_hostile(tmp_path / "hostile.db")
    page = record.page
    said: list[str] = []
    page.on("dialog", lambda d: (said.append(d.message), d.dismiss()))
    with dashboard(tmp_path / "hostile.db") as base:
        run = run_link(HOSTILE)
        for address in ("/", "/runs", "/operators", "/kernels", run, f"{run}/trials/0", f"{run}/trials/1"):
            page.goto(base + address)
            until(page, DRAWN)
    assert said == []
    record.check()


def test_a_real_run_is_followed_live(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an empty database on, until the run is stopped by hand; the farm that it measures on only pretends."""
    monkeypatch.setattr(live, "PERIOD", 0.1)
    monkeypatch.setattr(live, "SLOW_PERIOD", 0.5)
    path = tmp_path / "real.db"
    Database.open(path).close()
    page = record.page
    command = [sys.executable, "-m", "tilewright", "tune", "matmul", "m=48", "n=48", "k=48", "--trials", "100000"]
    with dashboard(path) as base, SimulatedFarm(tmp_path, [SleepingMeasurer(0.1)]) as farm:
        farm.soon(farm.start_builder)
        page.goto(base)
        command += ["--farm", farm.address, "--cost-model", "random"]
        tuning = subprocess.Popen([*command, "--db", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            until(page, "document.querySelector('[data-live-text=running]')?.textContent === '1'")
            until(page, "document.querySelectorAll('[data-live-part=runs] tbody tr').length > 0")
            with Database.open(path, create=False, readonly=True) as db:
                run = db.list_runs(RunFilter(), 1)[0].id
                wait_for(lambda: db.progress(run).trials >= 25)
            page.goto(base + run_link(run))
            page.evaluate("window.kept = true")
            trials = "document.querySelector('[data-live-text=trials]').textContent"
            for _ in range(2):
                until(page, f"{trials} !== '{page.evaluate(trials)}'")
            tuning.send_signal(signal.SIGINT)
            tuning.wait(120)
            until(page, "document.querySelector('[data-live-text=state]').textContent === 'interrupted'")
            until(page, "document.querySelector('#live-status').textContent === 'ended'")
        except BaseException:
            tuning.kill()
            raise
        finally:
            _, said = tuning.communicate(timeout=60)
        assert tuning.returncode == 130, said.decode()
        with Database.open(path, create=False, readonly=True) as db:
            stored = db.run(run).trials
        until(page, f"{trials} === '{stored:,} of 100,000'")
        until(page, DRAWN)
        assert page.locator("#trials tbody tr").count() == 25
        assert page.evaluate("window.kept")  # it was never loaded again
    record.check()


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("runs", "trials"),
    [(30, 6000), pytest.param(4500, 100_000, marks=pytest.mark.nightly, id="a million trials")],
)
def test_a_large_database(record: Record, tmp_path: Path, runs: int, trials: int) -> None:
    """Every kind of page opens, that of a long run too; how fast is measured by benchmarks/dashboard.py."""
    page, path = record.page, tmp_path / "large.db"
    fill(path, runs=runs, trials=200, long_run=trials)
    with Database.open(path, create=False, readonly=True) as db:
        assert db.totals().trials == 200 * runs + trials
        long = max(db.list_runs(RunFilter(), 5), key=lambda r: r.trials)
    assert long.trials == trials
    with dashboard(path) as base:
        for address in ("/", "/runs", run_link(long.id), "/operators", "/operators/matmul", "/kernels"):
            page.goto(base + address)
            until(page, DRAWN)
        assert page.locator("h1").count() == 1
    record.check()
