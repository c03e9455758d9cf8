"""A real browser for tests of pages: headless Chromium, the record of its console and requests, and axe-core.

A folder's ``conftest.py`` offers the fixtures ``browser``, ``watched``, ``page`` and ``record``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from harness.needed import find

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
SIZE: ViewportSize = {"width": 1280, "height": 900}


@dataclass
class Record:
    """Console messages, exceptions and requests of a page since it was opened."""

    page: Page
    problems: list[str] = field(default_factory=list)
    """Errors and warnings of the page's console (violations of its security policy among them), and exceptions."""
    requests: list[str] = field(default_factory=list)

    def outside(self) -> list[str]:
        """Requests to another host than the page's own."""
        own = urlsplit(self.page.url).netloc
        return [r for r in self.requests if urlsplit(r).scheme not in {"data", "blob"} and urlsplit(r).netloc != own]

    def check(self) -> None:
        """Fails unless the console is empty and every request went to the page's own server."""
        assert self.problems == []
        assert self.outside() == []


def pytest_itemcollected(item: pytest.Item) -> None:
    if "browser" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.needs("chromium"))


# Its scope is the module, not the session: while Playwright runs, its event loop is the thread's running loop. A later
# test of another module that calls asyncio.run would fail. A module whose tests use the browser holds only browser
# tests, because tests run in any order.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def watched(browser: Browser) -> Record:
    """The one page of a module, recorded from its start. Opening a page takes longer than most tests run."""
    page = browser.new_context(viewport=SIZE, reduced_motion="reduce").new_page()
    page.set_default_timeout(60_000)
    record = Record(page)
    page.on("console", lambda m: record.problems.append(m.text) if m.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: record.problems.append(str(error)))
    page.on("request", lambda request: record.requests.append(request.url))
    return record


@pytest.fixture
def record(watched: Record) -> Iterator[Record]:
    """The module's page reset to a new one's state: no cookies, no storage, no permissions, 1280 by 900 pixels."""
    page = watched.page
    yield watched
    page.evaluate("localStorage.clear()")
    page.goto("about:blank")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(SIZE)
    page.mouse.move(0, 0)
    page.context.clear_cookies()
    page.context.clear_permissions()
    watched.problems.clear()
    watched.requests.clear()


@pytest.fixture
def page(record: Record) -> Page:
    return record.page


def until(page: Page, condition: str, argument: Any = None, seconds: float = 60) -> None:
    """Waits until a JavaScript condition (a function of ``argument``, or an expression) is true.

    Playwright's own ``wait_for_function`` evaluates strings in the page, which the pages' security policy forbids.
    """
    from playwright.sync_api import Error

    def holds() -> bool:
        try:
            return bool(page.evaluate(condition, argument))
        except Error as e:
            if "context was destroyed" not in str(e):  # the page was being reloaded
                raise
            return False

    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {condition}"
        page.wait_for_timeout(50)


def findings(page: Page) -> list[str]:
    """Serious and critical violations that axe-core finds in the page now. Skips where axe-core is not installed."""
    if not AXE.exists():
        pytest.skip(f"needs axe-core: npm install axe-core, which makes {AXE.relative_to(AXE.parents[2])}")
    if page.evaluate("!window.axe"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{v['id']} ({v['impact']}): {v['help']}: {node['html'][:200]} {node['failureSummary']}"
        for v in found["violations"]
        if v["impact"] in {"serious", "critical"}
        for node in v["nodes"]
    ]


def sideways(page: Page) -> bool:
    """Whether the page itself scrolls horizontally."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
