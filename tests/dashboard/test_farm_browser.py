"""The page of a farm in a real browser. In a module of its own: in the thread of a browser no event loop can be run."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hostile import hostile_farm
from serving import dashboard

from harness.browser import Record, findings, sideways, until
from harness.farm import SleepingMeasurer
from tilewright.dashboard import app, farm_source, live
from tilewright.dashboard.farm_source import FarmSource
from tilewright.database import Database


def test_the_farms_page_is_quiet_accessible_and_live(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, seconds in (
        (farm_source, "FRESH", 0.02), (farm_source, "WAIT", 60.0), (farm_source, "ANSWER", 60.0),
        (live, "PERIOD", 0.05), (live, "SLOW_PERIOD", 0.2), (app, "CHART_SECONDS", 0.0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, seconds)
    db = tmp_path / "some.db"
    Database.open(db).close()
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
