"""Fixtures that tests of pages share."""

from __future__ import annotations

import pytest
from browser import browser, page, record, watched

__all__ = ["browser", "page", "record", "watched"]


def pytest_itemcollected(item: pytest.Item) -> None:
    if "browser" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.needs("chromium"))
