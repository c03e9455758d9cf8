"""Fixtures that tests of pages share."""

from __future__ import annotations

from harness.browser import browser, page, pytest_itemcollected, record, watched

__all__ = ["browser", "page", "pytest_itemcollected", "record", "watched"]
