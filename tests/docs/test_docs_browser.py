"""The documentation's site in a real browser: the height of its pages, pictures that open, and axe-core."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from harness.browser import Record, findings

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

TALLEST = 6_000
WIDE: ViewportSize = {"width": 1440, "height": 900}
SHOWN = """async article => {
  document.querySelector("article").outerHTML = article;
  await Promise.all([...document.images].filter(i => i.offsetParent).map(i => i.decode()));
  return document.documentElement.scrollHeight;
}"""
"""Puts another page's text in place of the present one's: what surrounds it is the same, and takes most of a load."""


def test_no_page_is_taller_than_6000_pixels(page: Page, site: Path) -> None:
    page.set_viewport_size(WIDE)
    page.goto((site / "index.html").as_uri())
    heights = {p.relative_to(site).as_posix(): _height(page, p) for p in sorted(site.rglob("*.html"))}
    assert len(heights) > 60
    assert not {name: height for name, height in heights.items() if height > TALLEST}


def _height(page: Page, path: Path) -> int:
    """Of a page of the site, in pixels."""
    text = path.read_text(encoding="utf-8")
    article = text[text.index("<article") : text.index("</article>")]
    absolute = re.sub(r'src="([^":]+)"', lambda m: f'src="{(path.parent / m[1]).resolve().as_uri()}"', article)
    return int(page.evaluate(SHOWN, absolute))


def test_heights_are_those_of_loaded_pages(page: Page, site: Path) -> None:
    page.set_viewport_size(WIDE)
    for name in ("benchmarks/products.html", "cli/tune.html"):
        page.goto((site / "index.html").as_uri())
        found = _height(page, site / name)
        page.goto((site / name).as_uri())
        assert found == page.evaluate("document.documentElement.scrollHeight")


def test_pictures_of_the_landing_page_open(page: Page, record: Record, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    for name in ("run.svg", "run-page-light.png"):
        page.locator(f"a.reference img[src$='{name}']").click()
        assert page.url.endswith(name)
        assert page.evaluate("(document.images[0] || document.rootElement).getBoundingClientRect().width") > 400
        if name.endswith(".svg"):
            lines = "e => e.filter(t => getComputedStyle(t).visibility == 'visible').length"
            assert page.locator("text").evaluate_all(lines) > 5
        page.go_back()
    record.check()


@pytest.mark.parametrize(
    ("name", "theme"),
    [
        ("index", "light"),
        ("quickstart", "dark"),
        ("cli/tune", "light"),
        ("api/tune", "dark"),
        ("benchmarks/calls", "light"),
    ],
)
def test_axe_finds_nothing_serious(page: Page, site: Path, name: str, theme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto((site / f"{name}.html").as_uri())
    assert findings(page) == []
