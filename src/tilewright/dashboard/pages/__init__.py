"""The pages, one file each. To add one: a file here and a template, and a line in ``PAGES``."""

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

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    runs.PAGE,
    trial.PAGE,
    compare.PAGE,
    diff.PAGE,
    run.PAGE,
    operators.PAGE,
    operator.PAGE,
    kernels.PAGE,
    misses.PAGE,
    farm.PAGE,
)

NAVIGATION = (
    ("Overview", "/"),
    ("Runs", "/runs"),
    ("Operators", "/operators"),
    ("Kernels", "/kernels"),
    ("Misses", "/misses"),
    ("Farm", "/farm"),
)
"""Titles and addresses; the farm's is shown where there is one."""
