"""Fixtures that tests of pages share."""

from __future__ import annotations

from browser import browser, page, record, watched

__all__ = ["browser", "page", "record", "watched"]
