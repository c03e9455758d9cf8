"""The pages, one file each. To add a page, write a file here and a template, and add it to ``PAGES``."""

from __future__ import annotations

from tilewright.dashboard.page import Page
from tilewright.dashboard.pages import (
    compare,
    diff,
    farm,
    kernels,
    misses,
    operator,
    operators,
    overview,
    run,
    runs,
    trial,
)

PAGES: tuple[Page, ...] = tuple(
    page.PAGE for page in (overview, runs, trial, compare, diff, run, operators, operator, kernels, misses, farm)
)

NAVIGATION = (
    ("Overview", "/"),
    ("Runs", "/runs"),
    ("Operators", "/operators"),
    ("Kernels", "/kernels"),
    ("Misses", "/misses"),
    ("Farm", "/farm"),
)
"""Titles and addresses; the farm's entry is shown only if the dashboard has a farm."""
